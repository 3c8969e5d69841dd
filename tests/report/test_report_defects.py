"""The page shows which planted mistakes the audit detects, and warns if the code has changed since."""

import json
import re
from dataclasses import replace

import made_up_run
import pytest
from made_up_run import MadeUpData

from privmix.report import defects

PLAIN = MadeUpData("plain", rows=400)
CHANGED = "has changed since this was measured"


def section(html: str) -> str:
    """Return the text about planted mistakes."""
    part = html[html.index('id="defects"') : html.index('<section id="ledger"')]
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", part)).replace("\u00a0", " ")


def test_every_planted_mistake_is_on_the_page_with_its_detections(rendered):
    words = section(rendered.html)
    matrix = json.loads(defects.FILE.read_text())
    assert len(matrix["rows"]) == 12
    for row in matrix["rows"]:
        trials = row["trials"]
        replayed, alarmed = (sum(map(bool, (t[key] for t in trials))) for key in ("finding", "alarm"))
        least = float(f"{min(trial['proven'] for trial in trials):.3g}")
        assert f"{row['name']} {replayed} of {len(trials)} {alarmed} of {len(trials)} {least:g}" in words
    assert "11 typical mistakes were planted" in words
    assert "neither reported a mistake in the unchanged code" in words
    assert CHANGED not in words


@pytest.mark.parametrize(("python", "told"), [(defects.this_python(), True), ("2.7", False)])
def test_an_outdated_matrix_gets_a_warning_unless_another_python_measured_it(
    tmp_path, monkeypatch, python, told
):
    old = replace(defects.load_matrix(), code="0" * 16, python=python)
    monkeypatch.setattr(defects, "load_matrix", lambda: old)
    html = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(PLAIN,), failing=()))
    assert (CHANGED in section(html)) is told


def test_a_missed_mistake_is_not_green(tmp_path, monkeypatch):
    known = defects.load_matrix()
    blind = defects.Trial(finding="", proven=0.1, alarm=False)
    first, *others = known.planted
    missed = replace(first, trials=(blind,) * len(first.trials))
    monkeypatch.setattr(
        defects, "load_matrix", lambda: replace(known, rows=(known.as_it_is, missed, *others))
    )
    html = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(PLAIN,), failing=()))
    part = html[html.index('id="defects"') : html.index('<section id="ledger"')]
    assert "The replay detected 10, the game 10" in section(html)
    assert part.count('<span class="pill poor">0 of') == 2


@pytest.mark.parametrize(("longer", "told"), [(1, True), (-1, False)])
def test_games_shorter_than_those_of_the_matrix_get_a_warning(tmp_path, monkeypatch, longer, told):
    configuration = made_up_run.write_run(tmp_path, datasets=(PLAIN,), failing=())
    run, _ = made_up_run.load(tmp_path, configuration)
    known = replace(defects.load_matrix(), games=run.settings.audit.runs + longer)
    monkeypatch.setattr(defects, "load_matrix", lambda: known)
    assert (
        "can miss mistakes that longer games detect" in section(made_up_run.render(tmp_path, configuration))
    ) is told
