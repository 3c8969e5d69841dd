"""The statistics section: errors in the data's own units, pictures with noise of their own, no sensitive value."""

import re
from dataclasses import replace

import made_up_run
import numpy as np
import pytest
from made_up_run import CHECKINS, SURVEY
from test_report_pictures import clean_data

from privmix.artefacts.domain import Attribute
from privmix.artefacts.statistics import Statistic, StatisticRequest
from privmix.mechanisms.shared.statistics import measurement
from privmix.privacy.noisy_numbers import Count, CountTable
from privmix.report.run import sample_material
from privmix.report.sections import statistics
from privmix.report.true_numbers import NumberKey, true_numbers, true_statistics

SECRET = replace(CHECKINS, name="secret", visibility="sensitive", unit="person", relation="add_remove")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("statistics")
    datasets = (CHECKINS, SURVEY, SECRET)
    return made_up_run.load(root, made_up_run.write_run(root, datasets=datasets))[0]


def number(text: str) -> float:
    return float(text.removeprefix("±\u00a0").replace(",", ""))


def test_a_mean_of_a_public_number_of_records_costs_its_range_times_the_tail(run):
    row = statistics.dataset_statistics(run, "survey").shown[0]
    domain = run.materials["survey"].domain
    axis = domain.axes[0]
    assert row.name == "mean of item 0"
    for text, epsilon in zip(row.distances, run.epsilons, strict=True):
        exactly = (axis.upper - axis.lower) / domain.rows * np.log(20) / epsilon
        assert exactly <= number(text) < 1.1 * exactly


def test_the_distance_of_a_place_is_in_metres_or_kilometres(run):
    latitude, longitude = statistics.dataset_statistics(run, "checkins").shown[:2]
    domain = run.materials["checkins"].domain
    degrees = [statistics.mean_of(domain, axis).within(1.0, 0.95) for axis in domain.axes[:2]]
    along = np.cos(np.radians(domain.axes[0].centre))
    for row, length in ((latitude, 111.2 * degrees[0]), (longitude, 111.2 * degrees[1] * along)):
        assert row.unit == "as a distance"
        assert number(row.distances[1].removesuffix("\u00a0km")) == pytest.approx(length, rel=0.1)
    assert statistics._metres(domain, domain.axes[0], 1e-6) == "±\u00a00.12\u00a0m"


def test_counts_and_shares_follow_from_the_unit_and_the_relation(run):
    rows = {name: statistics.dataset_statistics(run, name).shown for name in ("checkins", "secret")}
    count, share = rows["checkins"][-1], rows["checkins"][-2]
    assert count.name == "number of records with any property"
    assert [number(text) for text in count.distances] == [30, 3, 0.3]
    total = run.materials["checkins"].domain.rows
    assert number(share.distances[1]) == pytest.approx(100 * 2 * np.log(20) / total, rel=0.1)
    assert number(rows["secret"][-1].distances[1]) == pytest.approx(
        run.materials["secret"].domain.max_records_per_person * np.log(20), rel=0.1
    )


def test_a_distance_as_wide_as_the_range_is_said_to_be_the_bounds_alone(run):
    material = run.materials["survey"]
    domain = material.domain.model_copy(update={"rows": 20})
    few = replace(material, info=material.info.model_copy(update={"domain": domain}))
    found = statistics.dataset_statistics(replace(run, materials={"survey": few}), "survey")
    assert found.shown[0].distances[0] == statistics.ALONE
    assert found.shown[-1].distances[0] == statistics.ALONE


@pytest.mark.parametrize(
    ("distance", "text"),
    [(0.371, "± 0.38"), (0.38, "± 0.38"), (2.9957, "± 3"), (1234.0, "± 1,300"), (0.000013, "± 1.3·10⁻⁵")],
)
def test_a_distance_is_rounded_up(distance, text):
    assert statistics.plus_minus(distance) == text.replace("± ", "±\u00a0")


def test_the_noise_of_every_epsilon_and_number_is_its_own(run):
    keys = [NumberKey("mean", "a"), NumberKey("mean", "b"), NumberKey("above", "a")]
    draws = [
        statistics._noise(run, dataset, key, epsilon).add_laplace(np.zeros(100), 1.0)
        for dataset in ("checkins", "survey")
        for key in keys
        for epsilon in (0.1, 1.0, 10.0)
    ]
    for first in range(len(draws)):
        for second in range(first):
            assert abs(np.corrcoef(np.sign(draws[first]), np.sign(draws[second]))[0, 1]) < 0.6


def test_a_picture_has_all_draws_and_labels_and_names_the_true_value(run):
    mean, share = statistics.dataset_statistics(run, "checkins").pictures
    truth = run.materials["checkins"].numbers[NumberKey("mean", "latitude")]
    assert "100 noisy values at each ε; the dashed line is the true value, " in mean.caption
    shown = re.search(r"true value, ([−\d.]+)", mean.caption)[1].replace("−", "-")
    assert float(shown) == pytest.approx(truth, abs=0.01)
    assert share.caption.startswith("Share of “at night: yes”")
    assert mean.drawn.count("L ") >= 3 * 100
    for epsilon in ("0.1", "1", "10"):
        assert f"ε = {epsilon}" in mean.drawn


def test_nothing_of_a_sensitive_dataset_is_shown(run):
    assert run.materials["secret"].numbers == {}
    found = statistics.dataset_statistics(run, "secret")
    assert found.sensitive
    for picture in found.pictures:
        assert picture.caption.endswith("the dashed line is the true value.")


def test_true_numbers_are_of_training_records_that_have_a_value():
    clean = clean_data(rows=4)
    night = Attribute(name="night", description="", values=("no", "yes"))
    domain = clean.info.domain.model_copy(update={"attributes": (night,)})
    clean = replace(
        clean, info=clean.info.model_copy(update={"domain": domain}), codes={"night": np.array([1, 1, 1, 0])},
        train=np.array([True, True, False, True]),
    )  # fmt: skip
    found = true_numbers(clean)
    assert found[NumberKey("share", "night", "yes")] == pytest.approx(2 / 3)
    values = domain.denormalise(clean.points[clean.train])
    for column, axis in enumerate(domain.axes):
        assert found[NumberKey("mean", axis.name)] == pytest.approx(values[:, column].mean())
    assert sample_material(clean, np.random.default_rng(0)).numbers == found


def test_the_page_has_the_section(rendered):
    assert "How wrong will my numbers be?" in rendered.html
    assert rendered.html.count('aria-label="checkins: Mean of latitude') == 1


@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_the_page_assumes_the_noise_that_statistics_beside_a_model_get(run, unit, relation):
    """A mean or a table that gets all of ε has the scale of `measurement` for the same request."""
    held = 3 if unit == "person" else 1
    changed = {"unit": unit, "relation": relation, "max_records_per_person": held}
    domain = run.materials["checkins"].domain.model_copy(update=changed)
    own, axis = statistics.neighbours(domain), domain.axes[0]
    mean = statistics.mean_of(domain, axis)
    for request, number in (
        (StatisticRequest(kind="mean", column=axis.name), mean),
        (StatisticRequest(kind="histogram", column="at_night"), CountTable(2, own)),
        (StatisticRequest(kind="count", column="at_night", value="yes"), Count(own)),
    ):
        assert number.sensitivity == measurement.number_reach(request, own, domain).l1
    assert measurement.half_width(domain, 0) / axis.scale == pytest.approx(mean.half_range)


def published(request, **of):
    return Statistic(
        request=request, **{"values": (1.0,), "lower": (0.0,), "upper": (2.0,), "accuracy": 1.0} | of
    )


def with_statistics(run, dataset, found):
    """Return the run with these statistics in the models of one dataset."""
    outcomes = []
    for outcome in run.outcomes:
        model = outcome.model
        if outcome.dataset == dataset and outcome.private and model is not None:
            models = tuple(each.model_copy(update={"statistics": found}) for each in model.models)
            outcome = replace(outcome, model=model.model_copy(update={"models": models}))
        outcomes.append(outcome)
    return replace(run, outcomes=tuple(outcomes))


MEAN = StatisticRequest(kind="mean", column="latitude")
NIGHT = StatisticRequest(kind="histogram", column="at_night")
TOP = StatisticRequest(kind="top", column="at_night", by="noisy_max")


def test_published_statistics_stand_beside_their_true_values(run):
    found = [
        published(MEAN, accuracy=0.25),
        published(NIGHT, values=(5.0, 7.0), lower=(1.0, 2.0), upper=(9.0, 9.0), accuracy=4.0),
        published(TOP, chosen="yes", values=(), lower=(), upper=(), accuracy=4.0),
    ]
    material = run.materials["checkins"]
    codes = {"at_night": np.array([0, 0, 1, 0])}
    clean = clean_data(rows=4)
    night = next(each for each in material.domain.attributes if each.name == "at_night")
    old = clean.info.domain.axes
    axes = (old[0].model_copy(update={"name": "latitude"}), *old[1:])
    domain = clean.info.domain.model_copy(update={"attributes": (night,), "axes": axes})
    clean = replace(
        clean,
        info=clean.info.model_copy(update={"domain": domain}),
        codes=codes,
        train=np.ones(4, dtype=bool),
    )
    exact = true_statistics(clean, [MEAN, NIGHT, TOP])
    assert exact[NIGHT].values == (3.0, 1.0)
    assert exact[TOP].chosen == "no"
    assert exact[MEAN].values[0] == pytest.approx(domain.denormalise(clean.points)[:, 0].mean())
    shown = replace(material, statistics=exact)
    one = with_statistics(replace(run, materials={**run.materials, "checkins": shown}), "checkins", found)
    rows = statistics.dataset_statistics(one, "checkins").published[0].rows
    assert [row.truth for row in rows[1:]] == ["3", "1", "no"]
    assert [row.line.value for row in rows[1:]] == ["5", "7", "yes"]
    assert float(rows[0].truth.split()[0]) == pytest.approx(exact[MEAN].values[0], abs=0.01)


def test_published_statistics_of_sensitive_data_have_no_true_value(run):
    shown = statistics.dataset_statistics(
        with_statistics(run, "secret", [published(MEAN)]), "secret"
    ).published
    assert {row.truth for table in shown for row in table.rows} == {None}


def test_the_reference_budget_is_in_view_and_all_others_follow(run):
    shown = statistics.dataset_statistics(
        with_statistics(run, "checkins", [published(MEAN)]), "checkins"
    ).published
    assert shown[0].epsilon == run.reference_epsilon
    made = [(each.mechanism, each.epsilon) for each in run.of("checkins") if each.private and each.model]
    assert sorted((table.mechanism, table.epsilon) for table in shown) == sorted(made)


def test_without_statistics_no_table_of_them_is_shown(run):
    assert statistics.dataset_statistics(run, "survey").published == ()
