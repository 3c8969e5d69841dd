"""The attacker's view: its corner, its limits and its share of right alarms follow from ε and from the results."""

import html
import math
import re
from dataclasses import replace

import made_up_run
import pytest
from made_up_run import CHECKINS, HOMES
from test_report_page import check

from privmix.report.format import compact, percent
from privmix.report.results import Results
from privmix.report.sections import attack


@pytest.fixture(scope="module", params=["replace_one", "add_remove"])
def homes(request, tmp_path_factory):
    """A run in which each person has one record, so the guarantee limits the average attack."""
    root = tmp_path_factory.mktemp("view")
    configuration = made_up_run.write_run(
        root, datasets=(replace(HOMES, relation=request.param),), failing=()
    )
    run, results = made_up_run.load(root, configuration)
    return run, results, request.param, made_up_run.render(root, configuration)


def view_of(run, results):
    [dataset] = attack.build(run, results).datasets
    return dataset.view


def test_the_corner_and_the_limits_are_those_of_a_swap(homes):
    run, results, relation, page = homes
    view = view_of(run, results)
    steps = 1 if relation == "replace_one" else 2
    assert view.doubled == (steps == 2)
    assert view.corner == percent(1 / (1 + math.exp(steps)))  # the reference ε is 1
    words = check(page)
    assert f"each is at least {view.corner}".replace("\u00a0", " ") in words
    assert ("ε counts twice" in words) == (steps == 2)
    for row in view.rows:
        factor = math.exp(steps * row.epsilon) if math.isfinite(row.epsilon) else None
        wanted = [
            compact(percent(p * factor / (p * factor + 1 - p))) if factor else None for p in (0.01, 0.1, 0.5)
        ]
        assert [allowed for _, allowed in row.cells] == wanted
    assert [row.epsilon for row in view.rows] == [math.inf, 0.1, 1.0, 10.0]


def test_right_alarms_are_those_of_the_most_exposed_mechanism(homes):
    run, results, _, _ = homes
    frame = results.frame.copy()
    metric = frame["metric"] == "mia_loss_tpr_at_fpr_0.01"
    frame.loc[metric & (frame["mechanism"] == "dp_em_linear") & (frame["epsilon"] == 1.0), "value"] = 0.09
    view = view_of(run, Results(frame))
    [row] = [each for each in view.rows if each.epsilon == 1.0]
    assert (view.fpr, row.mechanism, row.tpr) == (0.01, "dp_em_linear", pytest.approx(0.09))
    assert row.cells[2][0] == percent(0.9)
    assert row.cells[1][0] == percent(0.5)


def test_without_measured_rates_there_is_a_dash(homes):
    run, results, _, _ = homes
    bare = Results(results.frame[~results.frame["metric"].str.contains("tpr_at_fpr")])
    view = view_of(run, bare)
    assert view.fpr is None
    assert not view.measured
    assert {cell[0] for row in view.rows for cell in row.cells} == {"–"}


def test_the_page_works_without_scripts_and_marks_what_needs_them(homes):
    part = homes[3][homes[3].index("The attacker's view") :]
    assert part.count('class="n pair static"') == 4 * 3
    assert part.count('class="n pair chosen"') == 4
    assert re.search(r'<div class="live prior">\s*<form', part)
    assert '<input type="range" id="prior-homes" min="1" max="99"' in part
    words = re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]+>", " ", part))).replace("\u00a0", " ")
    for prior in ("1 %", "10 %", "50 %"):
        assert f"if {prior} sure before" in words


def test_the_picture_has_the_measured_curves_on_linear_axes(homes):
    run, results, _, page = homes
    picture = view_of(run, results).picture
    assert "var(--forbidden)" in picture
    assert "missed detection" in picture
    assert "planar" not in picture
    assert 'id="errors-homes-' in page


def test_if_people_hold_several_records_only_attacks_on_single_records_stand_beside_the_limit(tmp_path):
    run, results = made_up_run.load(
        tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,), failing=())
    )
    assert view_of(run, results).attack == "LiRA"
    assert "laplace_naive" not in view_of(run, results).picture, "LiRA did not run on it"
    words = check(
        made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,), failing=()))
    )
    assert "the most that ε allows for one record (for δ = 0)" in words
    assert "the share of right alarms of LiRA on the most exposed mechanism" in words
    rows = {row.epsilon: row for row in view_of(run, results).rows}
    assert rows[1.0].tpr == pytest.approx(0.012), "of LiRA, not of the loss attack"
    assert rows[10.0].tpr is None
    bare = Results(results.frame[~results.frame["metric"].str.startswith("mia_lira")])
    assert not view_of(run, bare).measured


def test_a_run_without_private_models_has_no_view(tmp_path):
    configuration = made_up_run.write_run(
        tmp_path, datasets=(HOMES,), mechanisms=("non_private",), failing=()
    )
    assert view_of(*made_up_run.load(tmp_path, configuration)) is None
    assert 'id="prior-' not in made_up_run.render(tmp_path, configuration)
