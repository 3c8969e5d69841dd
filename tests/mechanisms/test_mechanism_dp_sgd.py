"""DP-SGD: gradients, the influence of one unit on a step, the secret sample, and the claim."""

import numpy as np
import pytest
from making import assert_fresh_noise, assert_same, clusters, make_spec, restored, spied
from pydantic import ValidationError
from scipy import stats

from privmix.errors import UserError
from privmix.mechanisms.base import Randomness, Records, seeded_randomness
from privmix.mechanisms.central import dp_sgd
from privmix.mechanisms.central.dp_sgd import DpSgd, _Units
from privmix.mixture import em, gradient
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import Budget
from privmix.privacy.calibration import noise_multipliers_by_share
from privmix.privacy.ledger import Gaussian, SampledGaussian

BUDGET = Budget(1.0, 1e-6)
QUICK = {"steps": 5, "batch": 200}


def _mixture(dimensions=2, components=3, seed=1):
    generator = np.random.Generator(np.random.PCG64(seed))
    roots = generator.normal(0, 0.1, (components, dimensions, dimensions)) + 0.2 * np.eye(dimensions)
    return Mixture(
        generator.dirichlet(np.full(components, 5.0)),
        generator.uniform(-0.4, 0.4, (components, dimensions)),
        roots @ roots.transpose(0, 2, 1),
    )


@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_gradients_are_those_of_the_log_density(dimensions):
    """By central differences along each coordinate of the chart that the module's docstring states."""
    mixture, k, d = _mixture(dimensions), 3, dimensions
    points = np.random.Generator(np.random.PCG64(2)).uniform(-0.5, 0.5, (7, d))
    rows, columns = np.tril_indices(d)

    def density(coordinates):
        logits, shifts, changes = np.split(coordinates, [k, k + k * d])
        weights = mixture.weights * np.exp(logits)
        factors = np.zeros((k, d, d))
        factors[:, rows, columns] = changes.reshape(k, -1)
        axes = np.arange(d)
        factors[:, axes, axes] = np.exp(factors[:, axes, axes])
        factors = mixture.cholesky @ factors
        means = mixture.means + np.einsum("kij,kj->ki", mixture.cholesky, shifts.reshape(k, d))
        moved = Mixture(weights / weights.sum(), means, factors @ factors.transpose(0, 2, 1))
        return moved.log_density(points)

    step = 1e-5
    numeric = [
        (density(step * unit) - density(-step * unit)) / (2 * step) for unit in np.eye(gradient.size(k, d))
    ]
    assert gradient.gradients(points, mixture) == pytest.approx(np.array(numeric), abs=1e-6)


def test_the_typical_norm_is_that_of_a_record_of_its_own_component():
    for d in (2, 5):
        own = np.random.Generator(np.random.PCG64(3)).normal(size=(40_000, d))
        two = Mixture(
            np.array([1e-9, 1 - 1e-9]), np.stack([np.zeros(d), np.full(d, 1e3)]), np.stack([np.eye(d)] * 2)
        )
        norms = np.square(gradient.gradients(own, two)).sum(axis=0)
        assert np.sqrt(norms.mean()) == pytest.approx(gradient.typical_norm(d), rel=0.2)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("held", [1, 3], ids=["record", "person"])
def test_no_unit_moves_the_sum_further_than_its_clip(relation, held):
    """Random and far records; C for a unit added or removed, 2C for one replaced, for any records. Both reached."""
    generator = np.random.Generator(np.random.PCG64(4))
    mixture, norm, worst = _mixture(), 1.5, 0.0
    bound = norm if relation == "add_remove" else 2 * norm
    common = generator.uniform(-0.5, 0.5, (6, 2))
    corners = [np.tile(corner, (held, 1)) for corner in ([0.7, 0.7], [-0.7, 0.7], [-0.7, -0.7], [0.7, -0.7])]
    corners += [np.tile(mean, (held, 1)) for mean in mixture.means]
    holdings = [
        *corners,
        *(generator.uniform(-0.7, 0.7, (generator.integers(1, held + 1), 2)) for _ in range(25)),
    ]

    def total(records):
        units = np.concatenate([np.arange(6), np.full(len(records), 6)])
        return _Units(np.vstack([common, records]), units).total(
            mixture, norm, np.arange(7)[: 6 + bool(len(records))]
        )

    for number, one in enumerate(holdings):
        others = [np.empty((0, 2))] if relation == "add_remove" else holdings[:number]
        for other in others:
            worst = max(worst, np.linalg.norm(total(one) - total(other)))
    assert worst <= bound * (1 + 1e-9)
    assert worst >= 0.95 * bound * (1.0 if relation == "add_remove" else 0.75)


def test_the_sum_is_over_the_chosen_units_with_all_their_records():
    generator = np.random.Generator(np.random.PCG64(5))
    mixture, points, owners = _mixture(), generator.uniform(-0.5, 0.5, (40, 2)), generator.integers(0, 9, 40)
    owners = np.unique(owners, return_inverse=True)[1]
    chosen = np.array([0, 3, 4, 7])
    wanted = np.zeros(gradient.size(3, 2))
    for unit in chosen:
        alone = gradient.gradients(points[owners == unit], mixture).sum(axis=1)
        wanted += alone * min(1.0, 2.0 / np.linalg.norm(alone))
    assert _Units(points, owners).total(mixture, 2.0, chosen) == pytest.approx(wanted)


@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_noise_has_the_scale_of_the_theorem(unit, relation, recording):
    """σC on samples under add_remove, 2σC on all units under replace_one, and no factor for a person's records."""
    spec = make_spec(relation=relation, unit=unit, max_records=4)
    persons = np.arange(1000) // 4 if unit == "person" else None
    mechanism = DpSgd(**QUICK, clip=1.5, reference_share=0.0)
    release = mechanism.fit(Records(clusters(), persons=persons), spec, BUDGET, recording)
    reference, noise_multiplier = mechanism.noise_multipliers(spec, BUDGET)
    factor = 1.5 if relation == "add_remove" else 3.0
    assert reference is None
    assert [scale for _, scale, _ in recording.noise.asked] == pytest.approx([noise_multiplier * factor] * 5)
    if relation == "add_remove":
        assert release.events == [SampledGaussian("gradient", noise_multiplier, 0.2)] * 5
    else:
        assert release.events == [Gaussian("gradient", noise_multiplier)] * 5
        assert noise_multiplier == pytest.approx(noise_multipliers_by_share([1.0] * 5, BUDGET)[0])


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_claim_is_the_budget(relation, epsilon, share):
    mechanism = DpSgd(**QUICK, reference_share=share)
    release = mechanism.fit(
        Records(clusters()),
        make_spec(relation=relation),
        Budget(epsilon, 1e-6),
        seeded_randomness(1, epsilon),
    )
    assert release.claim.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert release.claim.epsilon <= epsilon * (1 + 1e-9)
    assert len(release.events) == 5 + (share > 0)


def test_samples_are_fresh_secret_and_at_the_public_rate(monkeypatch):
    seen, original = [], _Units.total
    monkeypatch.setattr(
        _Units,
        "total",
        lambda self, mixture, norm, chosen: (seen.append(chosen), original(self, mixture, norm, chosen))[1],
    )
    spec = make_spec(relation="add_remove")
    release = DpSgd(steps=20, batch=100).fit(
        Records(clusters()), spec, BUDGET, seeded_randomness(1, "sample")
    )
    assert DpSgd(steps=20, batch=100).rate(spec) == 0.1
    sizes = [len(chosen) for chosen in seen]
    assert 1e-6 < stats.binom.cdf(sum(sizes), 20_000, 0.1) < 1 - 1e-6
    assert len({tuple(chosen) for chosen in seen}) == 20
    assert {key for step in release.transcript for key in step} == {"start", "step", "gradient"}


def test_halving_the_noise_is_caught_by_the_residuals():
    """With no record in the batch the gradient is noise alone, of the theorem's size (chi square, false alarm 1e-6)."""
    spec = make_spec(rows=10**9, relation="add_remove")
    mechanism = DpSgd(steps=20, batch=1, clip=2.0, reference_share=0.0)
    release = mechanism.fit(Records(np.zeros((1, 2))), spec, BUDGET, seeded_randomness(1, "halved"))
    noise_multiplier = mechanism.noise_multipliers(spec, BUDGET)[1]
    assert mechanism.rate(spec) == dp_sgd.LEAST_RATE
    residuals = np.array([step["gradient"] for step in release.transcript[1:]]) / (noise_multiplier * 2.0)
    square = np.square(residuals).sum()
    assert 1e-6 < stats.chi2.sf(square, residuals.size) < 1 - 1e-6
    assert stats.chi2.cdf(square / 4, residuals.size) < 1e-6


@pytest.fixture(
    params=[(relation, unit) for relation in ("replace_one", "add_remove") for unit in ("record", "person")]
)
def played(request):
    """Function of `reference_share`: spec, mechanism, release, units, references given, and (mixture, chosen) of steps.

    There are 1000 records of 400 units at person level, and the public number of rows is another.
    """
    relation, unit = request.param
    spec = make_spec(relation=relation, unit=unit, max_records=20, rows=1500)
    owners = np.unique(np.random.Generator(np.random.PCG64(6)).integers(0, 400, 1000), return_inverse=True)[1]

    def run(share):
        references, totals, mechanism = [], [], DpSgd(steps=8, batch=300, reference_share=share)
        with pytest.MonkeyPatch.context() as monkeypatch:
            spied(monkeypatch, dp_sgd, "fit_reference", references)
            spied(monkeypatch, _Units, "total", totals)
            records = Records(clusters(), persons=owners + 7)
            release = mechanism.fit(records, spec, BUDGET, seeded_randomness(1, "replay"))
        units = owners if unit == "person" else np.arange(1000)
        return spec, mechanism, release, units, references, [(args[1], args[3]) for args, _ in totals]

    return run


def _scales(spec, mechanism):
    """The clipping norm, the noise of a sum, and the public divisor."""
    norm = dp_sgd.CLIP * gradient.typical_norm(2)
    sensitivity = norm if spec.domain.relation == "add_remove" else 2 * norm
    rate = 0.2 if spec.domain.relation == "add_remove" else 1.0
    return norm, mechanism.noise_multipliers(spec, BUDGET)[1] * sensitivity, rate * 1500


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_each_step_uses_only_earlier_measurements(played, share):
    """All mixtures, from the start to the result, follow from the transcript and public values, for either start."""
    spec, mechanism, release, _, references, steps = played(share)
    told, *gradients = release.transcript
    mixture = restored(told["start"])
    if share:
        ((_, start),) = references
    else:
        start = em.public_start(
            spec.domain.lower, spec.domain.upper, 3, seeded_randomness(1, "replay").search
        )
        assert not references
    assert_same(mixture, start)
    _, sigma, size = _scales(spec, mechanism)
    for step, (seen, _) in zip(gradients, steps, strict=True):
        assert_same(seen, mixture)
        length = dp_sgd.FIRST_STEP * (dp_sgd.LAST_STEP / dp_sgd.FIRST_STEP) ** (step["step"] / 7)
        moved = gradient.take_step(
            mixture, np.array(step["gradient"]) / size, rate=length, noise=sigma / size
        )
        mixture = dp_sgd.project_to_box(*moved, spec)
    assert_same(release.mixture, mixture)


def test_each_step_measures_the_clipped_sum_over_units_with_fresh_noise(played):
    """The sum over the chosen units (records or persons), recomputed from the records."""
    spec, mechanism, release, units, _, steps = played(0.3)
    norm, sigma, _ = _scales(spec, mechanism)
    again, residuals = _Units(clusters(), units), []
    for step, (mixture, chosen) in zip(release.transcript[1:], steps, strict=True):
        if spec.domain.relation == "replace_one":
            assert np.array_equal(chosen, np.arange(len(again)))
        assert chosen.max() < len(again)
        exact = again.total(mixture, norm, chosen)
        residuals.append((np.array(step["gradient"]) - exact) / sigma)
    assert_fresh_noise(residuals)


def test_a_unit_is_what_the_relation_says(monkeypatch):
    seen, persons = [], np.arange(1000) % 300
    spied(monkeypatch, dp_sgd, "_Units", seen)
    for unit in ("record", "person"):
        spec = make_spec(unit=unit, max_records=4, relation="add_remove")
        DpSgd(**QUICK).fit(Records(clusters(), persons=persons), spec, BUDGET, seeded_randomness(1, unit))
    of_records, of_persons = (args[1] for args, _ in seen)
    assert np.array_equal(of_records, np.arange(1000))
    assert np.array_equal(of_persons, persons)


def test_without_noise_it_climbs(recording):
    points = clusters(4000)
    spec = make_spec(rows=4000)
    start = em.public_start(spec.domain.lower, spec.domain.upper, 3, np.random.Generator(np.random.PCG64(5)))
    release = DpSgd(steps=60, reference_share=0.0).fit(Records(points), spec, Budget(1e4, 1e-6), recording)
    assert release.mixture.log_density(points).mean() > start.log_density(points).mean() + 1.0


@pytest.mark.parametrize("points", [np.zeros((1, 2)), np.zeros((50, 2)), clusters(200)])
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 50.0])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_any_budget_and_any_data_give_a_valid_mixture_inside_the_box(points, epsilon, relation):
    spec = make_spec(rows=len(points), relation=relation)
    mixture = (
        DpSgd(steps=10)
        .fit(Records(points), spec, Budget(epsilon, 1e-6), seeded_randomness(1, epsilon))
        .mixture
    )
    assert np.isfinite(mixture.log_density(points)).all()
    assert (np.abs(mixture.means) <= spec.domain.upper + 1e-12).all()
    assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()


def test_a_note_says_if_the_mixture_is_mostly_noise():
    release = DpSgd(**QUICK).fit(
        Records(clusters()), make_spec(), Budget(0.001, 1e-6), seeded_randomness(1, "small")
    )
    assert "mostly its start" in release.notes[0]


def test_it_beats_a_single_gaussian():
    points, fresh = clusters(20_000), clusters(2000)
    one = Mixture(np.ones(1), points.mean(axis=0)[None], np.cov(points.T)[None])
    spec = make_spec(rows=20_000, relation="add_remove")
    release = DpSgd(steps=40, batch=2000).fit(Records(points), spec, BUDGET, seeded_randomness(1, "use"))
    assert release.mixture.log_density(fresh).mean() > one.log_density(fresh).mean() + 0.5


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"batch": 0}, {"clip": 0}, {"reference_share": 1}, {"rate": 0.1}]
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValidationError):
        DpSgd(**wrong)


def test_no_delta_is_refused():
    with pytest.raises(UserError, match="delta"):
        DpSgd().fit(Records(clusters()), make_spec(), Budget(1.0, 0.0), seeded_randomness(1))


def test_the_start_is_public_or_private_and_never_the_data():
    """With only noise to see, two datasets without a common record give the same public start."""
    spec = make_spec(relation="add_remove", rows=10**9)
    found = [
        DpSgd(steps=20, batch=1, clip=2.0, reference_share=0.0).fit(
            Records(points),
            spec,
            BUDGET,
            Randomness(seeded_randomness(9, "n").noise, seeded_randomness(9, "s").search),
        )
        for points in (clusters(5, seed=1), np.zeros((5, 2)))
    ]
    assert np.array_equal(found[0].mixture.means, found[1].mixture.means)
