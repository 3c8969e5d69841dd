"""Shares on the page: true shares, the shown table, and the coverage of the intervals."""

from dataclasses import replace

import made_up_run
import numpy as np
from made_up_run import CHECKINS
from test_report_pictures import clean_data

from privmix.artefacts.domain import Attribute
from privmix.report.run import sample_material
from privmix.report.sections.proportions import dataset_proportions


def with_attribute(unit):
    """Return four records: three of one person at night, one of another person by day."""
    clean = clean_data(rows=4)
    night = Attribute(name="night", description="", values=("no", "yes"))
    domain = clean.info.domain.model_copy(update={"unit": unit, "attributes": (night,)})
    info = clean.info.model_copy(update={"domain": domain})
    return replace(
        clean, info=info, codes={"night": np.array([1, 1, 1, 0])}, person=np.array([5, 5, 5, 9], np.uint64)
    )


def test_true_shares_weigh_records_or_people_equally_by_unit():
    shares = {
        unit: sample_material(with_attribute(unit), np.random.default_rng(0)).shares
        for unit in ("record", "person")
    }
    assert shares["record"] == {("night", "no"): 0.25, ("night", "yes"): 0.75}
    assert shares["person"] == {("night", "no"): 0.5, ("night", "yes"): 0.5}


def test_the_first_mechanism_with_attributes_is_shown_at_the_reference_epsilon(tmp_path):
    run, _ = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,), copies=2))
    found = dataset_proportions(run, "checkins")
    assert found.mechanism.startswith("responses")
    assert found.epsilon == 1.0
    assert found.split == "Of ε = 1, 0.5 is for the place and 0.5 for “at night”."
    assert [(row.attribute, row.value) for row in found.shown] == [("at night", "no"), ("at night", "yes")]
    assert len(found.others) == 2 * (3 * 2 - 1)
    (outcome,) = [o for o in run.of("checkins") if (o.mechanism, o.epsilon) == (found.mechanism, 1.0)]
    truth = run.materials["checkins"].shares["at_night", "no"]
    held = [
        sum(
            low <= truth <= high
            for low, high in (getattr(m.proportions[0], kind) for m in outcome.model.models)
        )
        for kind in ("exact", "normal", "chebyshev")
    ]
    assert found.shown[0].covered == ", ".join(map(str, held))
    assert found.replicates == 3


def test_narrow_intervals_have_a_decimal(tmp_path):
    run, _ = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    wide, *_, narrow = [row for row in dataset_proportions(run, "checkins").others if row.value == "no"]
    assert (wide.epsilon, narrow.epsilon) == (0.1, 10.0)
    assert "." not in wide.normal
    assert narrow.normal.count(".") == 2


def test_there_is_no_section_without_questions_about_attributes(tmp_path):
    configuration = made_up_run.write_run(tmp_path, datasets=(CHECKINS,), mechanisms=("dp_em_exact",))
    run, _ = made_up_run.load(tmp_path, configuration)
    assert dataset_proportions(run, "checkins") is None
