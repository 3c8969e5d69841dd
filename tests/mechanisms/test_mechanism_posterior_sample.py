"""Posterior samples: noise, claim, the influence of one unit, and intervals that account for the noise."""

import copy
import dataclasses

import numpy as np
import pytest
from making import assert_fresh_noise, assert_same, clusters, make_spec, restored, spied
from pydantic import ValidationError
from scipy import stats

from privmix.errors import UserError
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.central import posterior_sample
from privmix.mechanisms.central.posterior_sample import NoisyPosterior, PosteriorSample
from privmix.mechanisms.shared import joint_moments
from privmix.mechanisms.shared.joint_moments import MomentMeasurement, m_step, scheme
from privmix.mechanisms.shared.reference import fit_reference
from privmix.mixture.model import Mixture
from privmix.mixture.moments import observe
from privmix.mixture.standardised_moments import standardised_pass
from privmix.privacy.accounting import Budget
from privmix.privacy.calibration import noise_multipliers_by_share
from privmix.privacy.ledger import Gaussian, Ledger

BUDGET = Budget(1.0, 1e-6)
RICH = Budget(20.0, 1e-6)
TRUTH = Mixture(
    np.array([0.3, 0.7]),
    np.array([[-0.4, 0.0], [0.4, 0.2]]),
    np.stack([np.eye(2) * 0.004, np.eye(2) * 0.002]),
)


@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_noise_has_the_scale_of_the_theorem(unit, relation, recording):
    spec = make_spec(relation=relation, unit=unit, max_records=4)
    mechanism = PosteriorSample(iterations=3, reference_share=0.4)
    release = mechanism.fit(Records(clusters()), spec, BUDGET, recording)
    multipliers = noise_multipliers_by_share([0.4, 0.2, 0.2, 0.2], BUDGET)
    reaches = [spec.neighbours.difference(1.0, opposed=False)] + [scheme(2).sensitivity(spec.neighbours)] * 3
    asked = [scale for _, scale, _ in recording.noise.asked]
    assert asked == pytest.approx(np.multiply(multipliers, reaches), rel=1e-9)
    assert [event.noise_multiplier for event in release.events] == pytest.approx(multipliers)
    assert all(isinstance(event, Gaussian) for event in release.events)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("held", [1, 3], ids=["record", "person"])
def test_no_unit_moves_the_statistics_further_than_their_sensitivity(relation, held):
    """Everything that is measured as one vector, over corners and random holdings; reached within a tenth."""
    generator = np.random.Generator(np.random.PCG64(3))
    unit = "record" if held == 1 else "person"
    neighbours = make_spec(relation=relation, unit=unit, max_records=held).neighbours
    bound, shape = scheme(2).sensitivity(neighbours), scheme(2)
    common = generator.uniform(-0.5, 0.5, (5, 2))
    spots = generator.uniform(-0.7, 0.7, (30, 2))
    holdings = [np.tile(spot, (held, 1)) for spot in spots]
    holdings += [generator.uniform(-0.7, 0.7, (generator.integers(1, held + 1), 2)) for _ in range(10)]

    def vector(records):
        moments = standardised_pass(observe(np.vstack([common, records])), TRUTH, shape.radius)
        return joint_moments.weighted_vector(moments, shape)

    vectors = [vector(records) for records in holdings]
    pairs = [(one, vector(np.empty((0, 2)))) for one in vectors]
    if relation == "replace_one":
        pairs += [(one, other) for number, one in enumerate(vectors) for other in vectors[:number]]
    worst = max(np.linalg.norm(one - other) for one, other in pairs)
    assert 0.9 * bound <= worst <= bound * (1 + 1e-9)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_claim_is_the_budget_for_any_number_of_draws(relation, epsilon):
    for samples in (0, 50):
        release = PosteriorSample(samples=samples).fit(
            Records(clusters()),
            make_spec(relation=relation),
            Budget(epsilon, 1e-6),
            seeded_randomness(1, epsilon),
        )
        assert release.claim.epsilon == pytest.approx(epsilon, rel=1e-6)
        assert sum("draw" in each for each in release.transcript) == samples


def test_halving_the_noise_is_caught_by_the_residuals():
    """Counts measured about a known mixture minus the exact ones (chi square, false alarm 1e-6)."""
    spec, points = make_spec(n_components=2), TRUTH.sample(1000, np.random.Generator(np.random.PCG64(1)))
    exact = standardised_pass(observe(points), TRUTH, scheme(2).radius).counts
    deviation = 4.0 * scheme(2).sensitivity(spec.neighbours) / scheme(2).count
    residuals = [
        joint_moments.measure_moments(
            observe(points), TRUTH, noise_multiplier=4.0, neighbours=spec.neighbours,
            source=seeded_randomness(1, "halved", run).noise, ledger=Ledger(), label="joint moments",
        ).counts
        - exact
        for run in range(60)
    ]  # fmt: skip
    square = np.square(np.array(residuals) / deviation).sum()
    assert 1e-6 < stats.chi2.sf(square, 120) < 1 - 1e-6
    assert stats.chi2.cdf(square / 4, 120) < 1e-6


@pytest.fixture(scope="module", params=["mean", "draw"])
def played(request):
    """What is given out, spec, release, the search as the reference left it, the reference and all mixtures used."""
    spec, references, releases, searches = make_spec(relation="add_remove", rows=1300), [], [], []

    def watched(*args, rng, **given):
        found = fit_reference(*args, rng=rng, **given)
        searches.append(copy.deepcopy(rng.search))
        references.append(found)
        return found

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(posterior_sample, "fit_reference", watched)
        spied(monkeypatch, joint_moments, "measure_moments", releases)
        mechanism = PosteriorSample(samples=5, released=request.param)
        release = mechanism.fit(Records(clusters()), spec, RICH, seeded_randomness(3, "replay"))
    used = [args[1] for args, _ in releases]
    return request.param, spec, release, searches[0], [references[0], *used]


def _steps(release):
    return [step for step in release.transcript if "iteration" in step]


def _sigma(spec):
    return PosteriorSample().noise_multipliers(RICH)[-1] * scheme(2).sensitivity(spec.neighbours)


def _released(spec, step):
    numbers = (np.array(step[part]) for part in ("counts", "sums", "squares"))
    shape, sigma = scheme(2), _sigma(spec)
    return MomentMeasurement(*numbers, sigma / shape.count, sigma / shape.total, sigma / shape.square)


def test_everything_follows_from_the_measurements(played):
    """Every mixture that sees records, the release, the intervals and the draws follow from the transcript."""
    given_out, spec, release, search, (given, *used) = played
    assert list(release.transcript[0]) == ["reference"]
    mixture = restored(release.transcript[0]["reference"])
    assert_same(mixture, given)
    for step, seen in zip(_steps(release), used, strict=True):
        assert_same(seen, mixture)
        about, released = mixture, _released(spec, step)
        mixture = m_step(about, released, spec, spec.neighbours)
    belief = NoisyPosterior(about, released, spec)
    (intervals,) = [each["intervals"] for each in release.transcript if "intervals" in each]
    for told, again in zip(intervals, belief.intervals(search), strict=True):
        assert told["lower"] == pytest.approx(again["lower"])
        assert told["upper"] == pytest.approx(again["upper"])
    draws = [restored(each["draw"]) for each in release.transcript if "draw" in each]
    for told, again in zip(draws, belief.draws(5, search), strict=True):
        assert_same(told, again)
    assert_same(release.mixture, belief.mean if given_out == "mean" else belief.draws(1, search)[0])


def test_every_iteration_has_fresh_noise_of_the_theorems_size(played):
    _, spec, release, _, (_, *used) = played
    shape, residuals = scheme(2), []
    for step, about in zip(_steps(release), used, strict=True):
        exact = joint_moments.weighted_vector(
            standardised_pass(observe(clusters()), about, shape.radius), shape
        )
        told = joint_moments.weighted_vector(_released(spec, step), shape)
        residuals.append((told - exact) / _sigma(spec))
    assert_fresh_noise(residuals)


def _covered(aware=True, away=0.0, runs=60):
    """Return how often the intervals of well separated means cover the truth.

    Moments are taken about a mixture whose means are wrong by this many of their standard deviations.
    """
    spec, hits, count = make_spec(n_components=2, rows=4000), 0, 0
    step = TRUTH.cholesky @ np.full(2, away / np.sqrt(2))
    about = Mixture(TRUTH.weights, TRUTH.means + step, TRUTH.covariances)
    for run in range(runs):
        randomness = seeded_randomness(5, "cover", run)
        points = spec.inside(TRUTH.sample(4000, np.random.Generator(np.random.PCG64(1000 + run))))
        released = joint_moments.measure_moments(
            observe(points), about, noise_multiplier=20.0, neighbours=spec.neighbours,
            source=randomness.noise, ledger=Ledger(), label="joint moments",
        )  # fmt: skip
        if not aware:
            silent = {"count_deviation": 1e-9, "sum_deviation": 1e-9, "square_deviation": 1e-9}
            released = dataclasses.replace(released, **silent)
        for k, interval in enumerate(NoisyPosterior(about, released, spec).intervals(randomness.search)):
            inside = (interval["lower"] <= TRUTH.means[k]) & (TRUTH.means[k] <= interval["upper"])
            hits, count = hits + inside.sum(), count + 2
    return hits / count


def test_intervals_cover_the_truth_at_their_rate():
    """95 % of 240 (binomial, false alarm 1e-4); intervals that ignore the noise cover far less often."""
    assert _covered(aware=True) > stats.binom.ppf(1e-4, 240, 0.95) / 240
    assert _covered(aware=False) < 0.7


@pytest.mark.parametrize("away", [0.5, 1.0])
def test_intervals_cover_the_truth_if_the_previous_iteration_was_wrong(away):
    """The prior about the previous mixture does not pull the intervals to it (binomial, false alarm 1e-4)."""
    assert _covered(away=away) > stats.binom.ppf(1e-4, 240, 0.95) / 240


@pytest.mark.parametrize("deviation", [1.0, 300.0], ids=["little noise", "mostly noise"])
def test_intervals_are_the_quantiles_of_draws(monkeypatch, deviation):
    monkeypatch.setattr(posterior_sample, "INTERVAL_DRAWS", 300)
    spec = make_spec(n_components=2)
    released = MomentMeasurement(
        np.array([300.0, 700.0]), np.full((2, 2), 40.0), np.tile(400 * np.eye(2), (2, 1, 1)), *[deviation] * 3
    )
    belief = NoisyPosterior(TRUTH, released, spec)
    means = [each.means for each in belief.draws(300, np.random.Generator(np.random.PCG64(1)))]
    lower, upper = np.quantile(means, posterior_sample.TAILS, axis=0)
    for k, told in enumerate(belief.intervals(np.random.Generator(np.random.PCG64(1)))):
        assert told["lower"] == pytest.approx(lower[k])
        assert told["upper"] == pytest.approx(upper[k])


def test_draws_differ_scatter_about_the_mean_and_may_be_published():
    spec = make_spec(relation="add_remove", n_components=2, rows=4000)
    records = Records(spec.inside(TRUTH.sample(4000, np.random.Generator(np.random.PCG64(2)))))
    release = PosteriorSample(samples=200).fit(
        records, spec, Budget(5.0, 1e-6), seeded_randomness(1, "draws")
    )
    draws = np.array([each["draw"]["means"] for each in release.transcript if "draw" in each])
    assert len(np.unique(draws[:, 0, 0])) == 200
    assert draws.mean(axis=0) == pytest.approx(release.mixture.means, abs=0.01)
    (interval,) = [each["intervals"] for each in release.transcript if "intervals" in each]
    assert np.mean(draws[:, 0, 0] < interval[0]["lower"][0]) < 0.1
    drawn = PosteriorSample(released="draw").fit(
        records, spec, Budget(5.0, 1e-6), seeded_randomness(1, "draws")
    )
    assert not np.array_equal(drawn.mixture.means, release.mixture.means)


def test_simulated_noise_has_the_distribution_of_the_measurement():
    spec = make_spec(n_components=2)
    released = joint_moments.MomentMeasurement(np.ones(2), np.ones((2, 2)), np.ones((2, 2, 2)), 1.0, 2.0, 3.0)
    counts, sums, squares = NoisyPosterior(TRUTH, released, spec)._noise_draws(
        20_000, np.random.Generator(np.random.PCG64(7))
    )
    assert counts.std() == pytest.approx(1.0, rel=0.03)
    assert sums.std() == pytest.approx(2.0, rel=0.03)
    assert squares[:, :, 0, 0].std() == pytest.approx(3.0, rel=0.03)
    assert squares[:, :, 0, 1].std() == pytest.approx(3.0 / np.sqrt(2), rel=0.03)
    assert np.array_equal(squares, squares.transpose(0, 1, 3, 2))


@pytest.mark.parametrize("points", [np.zeros((1, 2)), np.zeros((50, 2)), clusters(200)])
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 50.0])
@pytest.mark.parametrize("released", ["mean", "draw"])
def test_any_budget_and_any_data_give_a_valid_mixture_inside_the_box(points, epsilon, released):
    spec = make_spec(rows=len(points))
    mechanism = PosteriorSample(released=released)
    mixture = mechanism.fit(
        Records(points), spec, Budget(epsilon, 1e-6), seeded_randomness(1, epsilon)
    ).mixture
    assert np.isfinite(mixture.log_density(points)).all()
    assert (np.abs(mixture.means) <= spec.domain.upper + 1e-12).all()
    assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()


def test_a_note_says_if_the_mixture_is_mostly_noise():
    release = PosteriorSample().fit(
        Records(clusters()), make_spec(), Budget(0.01, 1e-6), seeded_randomness(1, "small")
    )
    assert "private reference" in release.notes[0]


def test_it_beats_a_single_gaussian_and_more_dimensions_work():
    points, fresh = clusters(20_000), clusters(2000)
    one = Mixture(np.ones(1), points.mean(axis=0)[None], np.cov(points.T)[None])
    spec = make_spec(rows=20_000, relation="add_remove")
    release = PosteriorSample().fit(Records(points), spec, BUDGET, seeded_randomness(1, "use"))
    assert release.mixture.log_density(fresh).mean() > one.log_density(fresh).mean() + 0.5
    wide = make_spec(dimensions=5, rows=500)
    release = PosteriorSample().fit(
        Records(clusters(500, dimensions=5)), wide, BUDGET, seeded_randomness(1, "wide")
    )
    assert release.claim.epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    "wrong", [{"samples": -1}, {"iterations": 0}, {"released": "mode"}, {"reference_share": 0}]
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValidationError):
        PosteriorSample(**wrong)


def test_no_delta_is_refused():
    with pytest.raises(UserError, match="delta"):
        PosteriorSample().fit(Records(clusters()), make_spec(), Budget(1.0, 0.0), seeded_randomness(1))
