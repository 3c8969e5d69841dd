"""Shares of attributes under randomised response: unbiased, with intervals that cover at their rate.

Coverage is exact where it can be enumerated: of n given persons m have the value, and the number of reports that name
it is Binomial(m, p) + Binomial(n - m, q).
"""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from making import make_domain
from scipy import stats

from privmix.artefacts.clean import read_clean
from privmix.catalog.entry import load_entry
from privmix.catalog.sources import acquire
from privmix.clean.pipeline import clean
from privmix.mechanisms.base import Spec, seeded_randomness, training_records
from privmix.mechanisms.local.randomized_response import RandomizedResponse
from privmix.mechanisms.shared import attributes
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import SeededNoise, stream
from privmix.privacy.oracles import GeneralizedResponse, exact_interval, intervals

CATALOG = Path(__file__).parents[2] / "data/catalog"
COLOURS = ("red", "green", "blue", "none")
DOMAIN = make_domain(attributes=(("night", ("no", "yes")), ("colour", COLOURS)))


def answered(codes, epsilon, seed=1, domain=DOMAIN):
    """Return the columns of answers and the events of the ledger."""
    ledger = Ledger()
    source = SeededNoise(stream(seed, "attributes"))
    return attributes.answer(codes, domain, epsilon, source, ledger), ledger.events


def law(channel, n, having):
    """Return P(number of reports that name the value), for n persons, `having` of which have it."""
    own = stats.binom.pmf(np.arange(having + 1), having, channel.truth)
    others = stats.binom.pmf(np.arange(n - having + 1), n - having, channel.other)
    return np.convolve(own, others)


# What is asked, and what it costs.


def test_each_attribute_is_one_response_at_its_epsilon():
    codes = {"night": np.zeros(50, int), "colour": np.arange(50) % 4}
    columns, events = answered(codes, 0.3)
    assert [(event.kind, event.label, event.epsilon) for event in events] == [
        ("randomized_response", "a_night", 0.3),
        ("randomized_response", "a_colour", 0.3),
    ]
    assert {name: (values.dtype, values.shape) for name, values in columns.items()} == {
        "a_night": (np.uint8, (50,)),
        "a_colour": (np.uint8, (50,)),
    }


def test_without_epsilon_no_attribute_is_asked():
    assert answered({}, 0.0) == ({}, [])
    assert attributes.proportions({}, DOMAIN, 0.0, 1) == []


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_answers_have_the_law_of_that_epsilon_and_of_no_other(epsilon):
    """Persons with the same true answer: chi square at 1e-6, and 2/3 or 3/2 of the budget is detected."""
    columns, _ = answered({"night": np.ones(200_000, int), "colour": np.full(200_000, 2)}, epsilon)
    for name, truth, k in (("a_night", 1, 2), ("a_colour", 2, 4)):
        seen = np.bincount(columns[name], minlength=k)

        def fits(e, seen=seen, truth=truth, k=k):
            return (
                stats.chisquare(seen, 200_000 * GeneralizedResponse(k, e).probability_table()[truth]).pvalue
                > 1e-6
            )

        assert fits(epsilon)
        assert not fits(epsilon * 2 / 3)
        assert not fits(epsilon * 3 / 2)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_shares_are_unbiased_with_the_stated_error(epsilon):
    """The mean of 400 surveys within 5 standard errors; the spread is that of people who are given."""
    codes = np.repeat(np.arange(4), [400, 100, 0, 100])
    runs = np.array(
        [
            [
                (each.estimate, each.standard_error)
                for each in attributes.proportions(
                    answered({"night": codes % 2, "colour": codes}, epsilon, seed)[0], DOMAIN, epsilon, 1
                )
            ]
            for seed in range(400)
        ]
    )
    shares = [*np.bincount(codes % 2) / 600, *np.bincount(codes, minlength=4) / 600]
    for share, k, found in zip(shares, [2, 2, 4, 4, 4, 4], np.moveaxis(runs, 1, 0), strict=True):
        channel = GeneralizedResponse(k, epsilon)
        deviation = math.sqrt(channel.variance(600, share))
        assert abs(found[:, 0].mean() - share) < 5 * deviation / 20
        low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 399) / 399
        assert low < np.var(found[:, 0], ddof=1) / deviation**2 < high
        # The stated error also counts the drawing of people, so it is never too small on average.
        assert np.sqrt(np.mean(found[:, 1] ** 2)) == pytest.approx(
            math.sqrt(channel.variance(600, share) + share * (1 - share) / 600), rel=0.05
        )


def test_the_survey_with_two_coins():
    """Heads, tell the truth; tails, let a second coin answer: p̂ = 2 (ȳ - 1/4), ε = ln 3, an error of at most √(1/n)."""
    survey = GeneralizedResponse.two_coins()
    assert survey.epsilon == pytest.approx(math.log(3))
    assert (survey.truth, survey.other) == (pytest.approx(3 / 4), pytest.approx(1 / 4))
    for yes in (0, 250, 400, 1000):
        said = survey.estimate(np.array([1000 - yes, yes]))
        assert said[1] == pytest.approx(2 * (yes / 1000 - 1 / 4))
        assert said.sum() == pytest.approx(1.0)
        error = survey.standard_error(np.array([1000 - yes, yes]))[1]
        assert error <= math.sqrt(1 / 1000) * (1 + 1e-12)
    domain = make_domain(attributes=(("yes", ("no", "yes")),))
    answers = {"a_yes": np.repeat([0, 1], [600, 400]).astype(np.uint8)}
    estimated = attributes.proportions(answers, domain, math.log(3), 1)[1]
    assert estimated.estimate == pytest.approx(0.3)
    assert estimated.standard_error == pytest.approx(2 * math.sqrt(0.4 * 0.6 / 1000))
    assert estimated.normal[1] - estimated.normal[0] == pytest.approx(
        2 * 1.96 * estimated.standard_error, rel=1e-4
    )


# Intervals.


@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_the_exact_interval_covers_every_share_of_given_people_at_its_rate(k, epsilon):
    """Enumerated for all shares of few persons: at least 95 %, and not always 100 % if much is known."""
    channel = GeneralizedResponse(k, epsilon)
    least = 1.0
    for n in (1, 2, 3, 5, 10, 40, 100):
        spans = np.array([exact_interval(channel, support, n) for support in range(n + 1)])
        for having in range(n + 1):
            inside = (spans[:, 0] <= having / n + 1e-12) & (having / n - 1e-12 <= spans[:, 1])
            least = min(least, law(channel, n, having)[inside].sum())
    assert least >= 0.95


def test_the_exact_interval_covers_at_its_rate_among_people_who_are_drawn():
    """The support is then binomial: for every share of the population, and hardly ever by far too much."""
    channel, n = GeneralizedResponse(3, 1.0), 60
    spans = np.array([exact_interval(channel, support, n) for support in range(n + 1)])
    rates = []
    for share in np.linspace(0, 1, 101):
        chance = share * channel.truth + (1 - share) * channel.other
        inside = (spans[:, 0] <= share + 1e-12) & (share - 1e-12 <= spans[:, 1])
        rates.append(stats.binom.pmf(np.arange(n + 1), n, chance)[inside].sum())
    assert min(rates) >= 0.95
    assert np.mean(rates) < 0.98


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 1.0])
def test_the_normal_interval_covers_many_people_at_its_rate(share):
    channel, n = GeneralizedResponse(8, 0.2), 5000
    chances = law(channel, n, round(share * n))
    rate = 0.0
    for support in np.flatnonzero(chances > 1e-12):
        reports = np.array([support, *([0] * 7)])
        estimate, error = channel.estimate(reports, n)[0], channel.standard_error(reports, n)[0]
        low, high = intervals(float(estimate), float(error))[0]
        rate += chances[support] * (low - 1e-12 <= share <= high + 1e-12)
    assert rate >= 0.948


def test_chebyshev_holds_the_normal_interval():
    for estimate, error in itertools.product((-0.1, 0.0, 0.3, 1.0, 1.2), (1e-4, 0.02, 0.5)):
        normal, chebyshev = intervals(estimate, error)
        assert chebyshev[0] <= normal[0] <= normal[1] <= chebyshev[1]
        assert 0 <= chebyshev[0] <= chebyshev[1] <= 1
    normal, chebyshev = intervals(0.5, 0.01)
    assert normal == (pytest.approx(0.5 - 0.0196, abs=1e-5), pytest.approx(0.5 + 0.0196, abs=1e-5))
    assert chebyshev == (pytest.approx(0.5 - 0.01 * math.sqrt(20)), pytest.approx(0.5 + 0.01 * math.sqrt(20)))


@pytest.mark.parametrize("each", [1, 2, 5])
def test_several_reports_of_a_person_keep_the_estimate_and_count_as_one(each):
    """Reports of one person may be about one record: the intervals assume one report per person."""
    answers = {"a_night": np.repeat([0, 1], [70, 30]).astype(np.uint8)}
    domain = make_domain(attributes=(("night", ("no", "yes")),))
    single = attributes.proportions(answers, domain, 1.0, 1)
    repeated = {"a_night": np.tile(answers["a_night"], each)}
    assert attributes.proportions(repeated, domain, 1.0, each) == single
    many = attributes.proportions(repeated, domain, 1.0, 1)
    assert [share.estimate for share in many] == pytest.approx([share.estimate for share in single])
    assert each == 1 or many[0].standard_error < single[0].standard_error


@pytest.mark.parametrize("same", [True, False], ids=["one record again and again", "records of their own"])
def test_intervals_cover_people_who_answer_several_times(same):
    """Twice at ε/2: at the stated rate if both answers are about one record, and more often if not."""
    domain, n, generator = make_domain(attributes=(("night", ("no", "yes")),)), 400, np.random.default_rng(3)
    hits = np.zeros(2)
    for seed in range(500):
        first = (generator.random(n) < 0.3).astype(int)
        second = first if same else (generator.random(n) < 0.3).astype(int)
        pairs = np.column_stack([first, second]).ravel()
        estimated = attributes.proportions(answered({"night": pairs}, 1.0, seed, domain)[0], domain, 1.0, 2)[
            1
        ]
        hits += [low <= pairs.mean() <= high for low, high in (estimated.exact, estimated.normal)]
    assert (hits >= stats.binom.ppf(1e-6, 500, 0.95)).all()


# On data.


@pytest.fixture(scope="module")
def stops(tmp_path_factory):
    """The stops in Minneapolis, cleaned."""
    folder = tmp_path_factory.mktemp("mpls_stops")
    entry = load_entry(CATALOG / "mpls_stops.yaml")
    acquire(entry, folder / "raw")
    clean(entry, folder / "raw", folder / "clean.parquet", master_seed=1, key=bytes(32))
    return read_clean(folder / "clean.parquet")


@pytest.mark.slow
def test_intervals_cover_race_and_gender_in_minneapolis_at_the_stated_rate(stops):
    """200 replicates at ε = 1, with the split that randomized_response makes of it.

    No value's rate is below what 200 intervals at 95 % have but once in 10,000 times. The rate of all values together
    is 95 % within 5 standard errors over replicates, since values of one attribute share their reports; the stated
    errors also count the drawing of people, which adds less than a point.
    """
    replicates, domain, records = 200, stops.info.domain, training_records(stops)
    plan = RandomizedResponse().plan(Spec(domain, 10), Budget(1.0, 0.0))
    assert plan.attribute_epsilon == pytest.approx(0.2 / 3)
    truth = {
        (attribute.name, value): np.mean(records.codes[attribute.name] == code)
        for attribute in domain.attributes
        for code, value in enumerate(attribute.values)
    }
    hits: dict[tuple[str, str], np.ndarray] = {key: np.zeros(3) for key in truth}
    together = []
    for replicate in range(replicates):
        source = seeded_randomness(replicate, "coverage").noise
        columns = attributes.answer(records.codes, domain, plan.attribute_epsilon, source, Ledger())
        covered = []
        for share in attributes.proportions(columns, domain, plan.attribute_epsilon, plan.per_person):
            key = (share.attribute, share.value)
            inside = [low <= truth[key] <= high for low, high in (share.exact, share.normal, share.chebyshev)]
            hits[key] += inside
            covered.append(inside)
        together.append(np.mean(covered, axis=0))
    rates = np.array(list(hits.values())) / replicates
    assert (rates[:, 0] >= stats.binom.ppf(1e-4, replicates, 0.95) / replicates).all()
    assert (rates[:, 1] >= stats.binom.ppf(1e-4, replicates, 0.95) / replicates).all()
    assert (rates[:, 2] >= 0.95).all()
    mean = np.mean(together, axis=0)
    error = np.std(together, axis=0, ddof=1) / math.sqrt(replicates)
    assert (mean[:2] > 0.95 - 5 * error[:2]).all()
    assert (mean[:2] < 0.95 + 5 * error[:2] + 0.01).all()
