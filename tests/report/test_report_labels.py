"""The labels section: what the configuration wants, what labels tell, and which mechanisms have none."""

from dataclasses import replace

import made_up_run
import pandas as pd
from made_up_run import CHECKINS

from privmix.artefacts.fitted_model import CensoredLabels, LabelLimit
from privmix.report.sections import labels

MADE = CensoredLabels(kept=0.25, limits=(LabelLimit(attribute="at_night", at_most=0.01, limit=0.0099),))


def labelled_run(folder):
    """Return a run in which one mechanism at ε = 1 has labels, and its results."""
    run, results = made_up_run.load(folder, made_up_run.write_run(folder, datasets=(CHECKINS,)))
    outcomes = []
    for outcome in run.outcomes:
        if (outcome.mechanism, outcome.epsilon) == ("dp_em_exact", 1.0):
            models = tuple(each.model_copy(update={"labels": MADE}) for each in outcome.model.models)
            outcome = replace(outcome, model=outcome.model.model_copy(update={"models": models}))
        outcomes.append(outcome)
    wanted = {"checkins": {"at_night": 0.01}}
    settings = run.settings.model_copy(update={"censored_labels": wanted})
    frame = results.frame
    one = frame[(frame.mechanism == "dp_em_exact") & (frame.epsilon == 1.0)].drop_duplicates("replicate")
    values = {"limit[at_night]": 0.0099, "kept": 0.25, "guess[at_night]": 0.5, "probe[at_night]": 0.56}
    rows = [one.assign(metric=f"labels_{name}", value=value) for name, value in values.items()]
    more = replace(results, frame=pd.concat([frame, *rows]))
    return replace(run, outcomes=tuple(outcomes), settings=settings), more


def test_no_section_without_a_wish(tmp_path):
    run, results = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    assert labels.build(run, results) is None


def test_the_section_shows_limit_share_and_probe(tmp_path):
    section = labels.build(*labelled_run(tmp_path))
    (dataset,) = section.datasets
    assert dataset.wanted == "at most 0.01 nats about at night (recall of a guess without a label: 50\u00a0%)"
    (row,) = dataset.rows
    assert (row.mechanism, row.epsilon, row.attribute) == ("dp_em_exact", 1.0, "at night")
    assert row.limit.startswith("0.0099")
    assert row.kept.startswith("25")
    assert row.probe.startswith("56")
    assert "dp_em_linear" in dataset.missing
    assert "dp_em_exact" not in dataset.missing
