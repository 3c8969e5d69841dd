"""The joint density of attacks: shares of 0, blocks, memorised records, and models that leak nothing."""

import numpy as np
import pytest
from making import clean_data, clusters, make_domain, quick_mechanism
from scipy import stats

from privmix.artefacts.domain import Attribute
from privmix.attacks import joint_density
from privmix.attacks.joint_density import attacked_model, log_densities
from privmix.attacks.membership import shadow_attacks, shadows
from privmix.attacks.membership.loss import loss_attack
from privmix.mechanisms import run
from privmix.mechanisms.base import Spec, seeded_randomness
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import BLOCK, Mixture
from privmix.privacy.accounting import Budget

KIND = (("kind", ("a", "b", "c")),)


def _generator(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def _memory(points, codes, width):
    number, d = points.shape
    gaussians = Mixture(np.full(number, 1 / number), points, np.stack([np.eye(d) * width] * number))
    return attacked_model(gaussians, {"kind": np.eye(codes.max() + 1)[codes]})


def test_the_density_is_the_sum_over_components_of_all_factors():
    model = attacked_model(
        Mixture(np.array([0.3, 0.7]), np.array([[0.0], [1.0]]), np.array([[[1.0]], [[4.0]]])),
        {"kind": np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]]), "side": np.array([[0.9, 0.1], [0.4, 0.6]])},
    )
    x, codes = np.array([[0.3], [2.0], [-1.0]]), {"kind": np.array([0, 2, 1]), "side": np.array([1, 1, 0])}
    normal = [np.exp(-((x[:, 0] - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v) for m, v in ((0, 1), (1, 4))]
    small = joint_density.SMALLEST_SHARE / (1 + joint_density.SMALLEST_SHARE)
    kinds, sides = ([[0.5, small, 0.5], [0.1, 0.7, 0.2]], [[0.1, 0.1, 0.9], [0.6, 0.6, 0.4]])
    wanted = sum(
        p * n * k * s for p, n, k, s in zip((0.3, 0.7), normal, np.array(kinds), np.array(sides), strict=True)
    )
    assert np.exp(log_densities(model, x, codes, make_domain(x.shape[1]))[1]) == pytest.approx(
        wanted, rel=2e-6
    )


def test_both_densities_equal_those_of_the_mixtures_over_several_blocks():
    rows = 2 * BLOCK + 17
    points, codes = clusters(rows), {"kind": _generator().integers(3, size=rows)}
    model = _memory(points[:9], np.arange(9) % 3, 0.1)
    coordinates, joint = log_densities(model, points, codes, make_domain(points.shape[1]))
    np.testing.assert_array_equal(coordinates, model.gaussians.log_density(points))
    np.testing.assert_allclose(joint, model.log_density(points, codes), rtol=1e-12)
    far, _ = log_densities(model, np.full((1, 2), 1e200), {"kind": np.array([0])}, make_domain(2))
    assert far[0] == -np.inf


def test_records_with_a_share_of_0_are_still_told_apart_by_their_coordinates():
    model = attacked_model(
        Mixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1))), {"kind": np.array([[1.0, 0.0, 0.0]])}
    )
    _, (near, far) = log_densities(
        model, np.array([[0.0], [2.0]]), {"kind": np.array([1, 1])}, make_domain(1)
    )
    assert near - far == pytest.approx(2.0)


def test_a_model_that_memorises_members_is_attacked_better_with_their_categories():
    """Components are so wide that neighbours cover other records too, but rarely with the same category."""
    rng = _generator()
    points, codes = rng.uniform(-0.7, 0.7, (600, 2)), {"kind": rng.integers(8, size=600)}
    clean = clean_data(points, codes=codes, attributes=(("kind", tuple("abcdefgh")),))
    members = clean.train
    model = _memory(points[members], codes["kind"][members], 0.05**2)
    alone, joint = log_densities(model, points, codes, make_domain(points.shape[1]))
    found, weaker = (loss_attack(d[members], d[~members], clean, (0.1,)) for d in (joint, alone))
    assert found["mia_loss_auc"] > 0.95
    assert found["mia_loss_auc_low"] > weaker["mia_loss_auc_high"]
    assert found["mia_loss_advantage"] > weaker["mia_loss_advantage"] + 0.1


def test_a_model_that_knows_no_record_gives_no_advantage():
    """A 95 % interval with a fixed seed; the test above is the power twin."""
    model = MixedMixture(
        Mixture(np.array([0.4, 0.6]), np.array([[-0.3, 0.0], [0.3, 0.1]]), np.stack([np.eye(2) * 0.01] * 2)),
        {"kind": np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])},
    )
    points, codes = model.sample(1000, _generator(3))
    clean = clean_data(points, codes=codes, attributes=KIND)
    _, density = log_densities(model, points, codes, make_domain(points.shape[1]))
    found = loss_attack(density[clean.train], density[~clean.train], clean, (0.1,))
    assert found["mia_loss_auc_low"] <= 0.5 <= found["mia_loss_auc_high"]


@pytest.mark.parametrize("method", ["noisy_grid", "randomized_response"])
def test_shadow_models_score_coordinates_and_attributes_together(method):
    codes, budget = {"kind": _generator(1).integers(3, size=120)}, Budget(1.0, 1e-6)
    clean = clean_data(clusters(120), codes=codes, attributes=KIND)
    pool = shadows.draw_pool(clean, 1000, _generator())
    mechanism, spec = quick_mechanism(method), Spec(clean.info.domain, 2)
    found = shadows.fit_shadows(
        mechanism, pool, spec, budget, 4, lambda i: seeded_randomness(5, i), _generator()
    )
    public = Spec(spec.domain.model_copy(update={"rows": 60}), 2)
    half = pool.records.select(np.flatnonzero(found.inside[2]))
    release = run.run(mechanism, half, public, budget, seeded_randomness(5, 2))
    model = attacked_model(release.mixture, release.shares)
    records = pool.records
    assert found.densities[2] == pytest.approx(
        log_densities(model, records.points, records.codes, make_domain())[1]
    )
    assert found.coordinates[2] == pytest.approx(release.mixture.log_density(records.points))
    chosen = found.of(np.array([3, 5]))
    assert (chosen.coordinates == found.coordinates[:, [3, 5]]).all()
    assert (found.of_coordinates().densities == found.coordinates).all()


def test_shadow_models_attack_a_leak_through_the_attributes():
    """With 12 values and five components for 60 records, shares depend on single records, and LiRA finds them."""
    codes = {"kind": _generator(1).integers(12, size=120)}
    clean = clean_data(clusters(120), codes=codes, attributes=(("kind", tuple("abcdefghijkl")),))
    found = shadow_attacks.attack_with_shadows(
        quick_mechanism("non_private"), clean, Spec(clean.info.domain, 5), Budget(np.inf, 0.0), 16, 1000, (0.1,),
        lambda *purpose: seeded_randomness(4, *purpose),
    ).metrics  # fmt: skip
    assert found["mia_lira_auc_low"] > found["mia_lira_coordinates_auc_high"]
    without = shadow_attacks.attack_with_shadows(
        quick_mechanism("non_private"), clean_data(clusters(120)), Spec(clean_data(clusters(120)).info.domain, 5),
        Budget(np.inf, 0.0), 16, 1000, (0.1,), lambda *purpose: seeded_randomness(4, *purpose),
    ).metrics  # fmt: skip
    assert "mia_lira_coordinates_auc" not in without
    assert found["mia_lira_coordinates_auc"] == pytest.approx(without["mia_lira_auc"])


def test_a_coordinate_that_a_record_lacks_counts_as_uniform():
    """The placeholder has no influence, and the density is that of the other coordinate over the width of the box."""
    domain = make_domain(2)
    state = Attribute(name="v1 is", description="", values=("given", "blank"), state_of=("v1",))
    domain = domain.model_copy(update={"attributes": (state,)})
    gaussians = Mixture(
        np.array([0.3, 0.7]), np.array([[0.1, 0.2], [-0.2, 0.0]]), np.array([np.eye(2) * 0.01] * 2)
    )
    model = attacked_model(gaussians, {"v1 is": np.array([[0.5, 0.5], [0.9, 0.1]])})
    codes = {"v1 is": np.array([1, 1, 0])}
    alone, joint = log_densities(model, np.array([[0.1, 0.0], [0.1, 0.6], [0.1, 0.2]]), codes, domain)
    assert alone[0] == alone[1] != alone[2]
    own = [stats.norm(mean, 0.1).pdf(0.1) for mean in (0.1, -0.2)]
    width = domain.upper[1] - domain.lower[1]
    assert np.exp(alone[0]) == pytest.approx((0.3 * own[0] + 0.7 * own[1]) / width)
    assert np.exp(joint[0]) == pytest.approx((0.3 * 0.5 * own[0] + 0.7 * 0.1 * own[1]) / width, rel=1e-5)
