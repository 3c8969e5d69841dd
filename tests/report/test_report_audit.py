"""Audits on the page: the lower bound of each claim, and a warning for a broken claim."""

import json
import re

import made_up_run
import numpy as np
import pytest
from made_up_run import CHECKINS

from privmix.artefacts.io import seal
from privmix.report.audit_findings import describe_audit, failing_mechanisms, findings
from privmix.report.sections.answer import answers
from privmix.report.sections.audit import audit_rows

FOUND = "counts: moves by 2 where noise was made for 1."


@pytest.fixture
def made(tmp_path):
    return tmp_path, made_up_run.write_run(
        tmp_path, [CHECKINS], ["non_private", "dp_em_exact", "planar_5km"], failing=()
    )


def _changed(path, change):
    held = json.loads(path.read_text())
    change(held)
    path.write_text(json.dumps(held, indent=1))
    seal(path)


def _words(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_a_passed_audit_shows_its_lower_bounds(made):
    root, configuration = made
    run, _ = made_up_run.load(root, configuration)
    assert failing_mechanisms(run) == []
    rows = {(row.mechanism, row.epsilon): row for row in audit_rows(run)}
    assert set(rows) == {
        (name, epsilon) for name in ("dp_em_exact", "planar_5km") for epsilon in (0.1, 1.0, 10.0)
    }
    row = rows["dp_em_exact", 1.0]
    assert (row.proven, row.share, row.used) == ("ε ≥ 0.86", "86\u00a0%", "99\u00a0%")
    assert row.replayed == "6\u00a0runs, 693\u00a0measurements"
    page = _words(made_up_run.render(root, configuration))
    assert (
        "proves ε ≥ 0.86 with 95 % confidence; the claim is ε = 1; a replay of 3 runs found no measurement"
        in page
    )
    assert row.runs == "500"
    assert "passes" in page
    assert "fails the audit" not in page


def test_a_finding_of_the_replay_is_a_warning_in_every_section(made):
    root, configuration = made
    _changed(
        root / "data/models/checkins/dp_em_exact/eps-1.json",
        lambda held: held["replay"].update(findings=[FOUND]),
    )
    run, scores = made_up_run.load(root, configuration)
    assert failing_mechanisms(run) == ["dp_em_exact"]
    (answer,) = answers(run, scores)
    assert answer.warnings[0] == f"dp_em_exact fails its replay: {FOUND}"
    html = made_up_run.render(root, configuration)
    assert "dp_em_exact fails the audit." in _words(html)
    assert html.count(FOUND) == 2
    assert "seems to break its claim" in html
    assert html.count('<span class="pill poor">fails</span>') == 2, "in the short table and in the full one"


def test_a_bound_above_the_claim_is_an_alarm_only_at_99_percent(made):
    root, configuration = made
    path = root / "data/audits/dp_em_exact/eps-1.json"
    _changed(path, lambda held: held["bounds"][0].update(lower=1.1, alarm=0.99))
    run, _ = made_up_run.load(root, configuration)
    assert failing_mechanisms(run) == []
    _changed(path, lambda held: held["bounds"][0].update(lower=1.6, alarm=1.4))
    run, _ = made_up_run.load(root, configuration)
    (outcome,) = [o for o in run.outcomes if o.mechanism == "dp_em_exact" and o.epsilon == 1]
    (finding,) = findings(outcome)
    assert "far corner" in finding
    assert "at least ε = 1.4" in finding


def test_a_finding_on_crafted_records_is_a_failure(made):
    root, configuration = made
    _changed(
        root / "data/audits/planar_5km/eps-10.json", lambda held: held["replay"].update(findings=[FOUND])
    )
    run, _ = made_up_run.load(root, configuration)
    assert failing_mechanisms(run) == ["planar_5km"]
    assert f"planar_5km fails its replay on crafted records: {FOUND}" in made_up_run.render(
        root, configuration
    )


def test_without_audits_there_is_no_audit_section(tmp_path):
    configuration = made_up_run.write_run(tmp_path, [CHECKINS], ["non_private", "dp_em_exact"], failing=())
    for path in (tmp_path / "data/audits").rglob("*.json"):
        path.unlink()
    for path in (tmp_path / "data/models").rglob("*.json"):
        _changed(path, lambda held: held.update(replay=None))
    run, _ = made_up_run.load(tmp_path, configuration)
    assert audit_rows(run) == []
    assert all(describe_audit(outcome) is None for outcome in run.outcomes)
    assert 'id="audit"' not in made_up_run.render(tmp_path, configuration)


def test_an_audit_that_proves_nothing_says_why(made):
    root, configuration = made
    note = "2 runs of each world are too few for a bound"
    _changed(root / "data/audits/dp_em_exact/eps-1.json", lambda held: held.update(bounds=[], notes=[note]))
    run, _ = made_up_run.load(root, configuration)
    (row,) = [row for row in audit_rows(run) if (row.mechanism, row.epsilon) == ("dp_em_exact", 1.0)]
    assert (row.proven, row.share, row.by) == ("–", "", note)
    assert note in made_up_run.render(root, configuration)


def test_models_that_share_noise_both_fail(made):
    root, configuration = made
    noise = np.random.Generator(np.random.PCG64(1)).normal(size=32).tolist()
    for epsilon in ("1", "10"):
        _changed(
            root / f"data/models/checkins/dp_em_exact/eps-{epsilon}.json",
            lambda held: held["replay"].update(noise=noise),
        )
    run, _ = made_up_run.load(root, configuration)
    marked = {outcome.epsilon: findings(outcome) for outcome in run.outcomes if findings(outcome)}
    assert set(marked) == {1.0, 10.0}
    assert "it shares its noise with dp_em_exact at ε = 10 on checkins" in marked[1.0][0]
    assert "dp_em_exact fails the audit." in _words(made_up_run.render(root, configuration))


def test_a_replay_without_a_used_share_shows_a_dash(made):
    root, configuration = made
    for path in (root / "data").rglob("*planar_5km/eps-1.json"):
        _changed(path, lambda held: held["replay"].update(used=None))
    run, _ = made_up_run.load(root, configuration)
    (row,) = [row for row in audit_rows(run) if (row.mechanism, row.epsilon) == ("planar_5km", 1.0)]
    assert row.used == "–"
