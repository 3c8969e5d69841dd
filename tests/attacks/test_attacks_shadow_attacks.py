"""Attacks with shadow models: compared with loops, on models that memorise, and on models that leak nothing."""

import numpy as np
import pytest

from privmix.attacks.membership import learned, lira, rmia, shadow_attacks
from privmix.attacks.membership.shadows import ShadowModels, random_halves
from privmix.privacy.hypothesis_testing import advantage, auc


def _shadows(leak, pairs=16, records=60, seed=0):
    """Draw log densities: a level per record, a level per model, noise, and `leak` if the record was inside."""
    generator = np.random.Generator(np.random.PCG64(seed))
    inside = random_halves(records, pairs, generator)
    level, model = generator.normal(0, 5, records), generator.normal(0, 0.3, (2 * pairs, 1))
    densities = level + model + generator.normal(size=inside.shape) + leak * inside
    return ShadowModels(densities, inside, np.arange(records))


def _reference(shadows, target):
    """Compute means and sums of squares in the models of all other pairs by loops."""
    others = [model for model in range(len(shadows.inside)) if model // 2 != target // 2]
    rows = []
    for record in range(shadows.densities.shape[1]):
        sides = [
            np.array([shadows.densities[m, record] for m in others if shadows.inside[m, record] == wanted])
            for wanted in (True, False)
        ]
        rows.append([(side.mean(), ((side - side.mean()) ** 2).sum(), len(side)) for side in sides])
    return rows


def test_lira_is_the_ratio_of_two_normal_densities():
    shadows = _shadows(0.7, pairs=7)
    found = lira.online_scores(shadows)
    for target in (0, 5, 13):
        rows = _reference(shadows, target)
        freedom = sum(size - 1 for _, _, size in rows[0])
        squares = np.array([a[1] + b[1] for a, b in rows])
        variance = (squares + lira.PRIOR * np.median(squares) / freedom) / (freedom + lira.PRIOR)
        gap = np.array([a[0] - b[0] for a, b in rows]) / np.sqrt(variance)
        error = 1 / rows[0][0][2] + 1 / rows[0][1][2]
        true = max(gap.var() - error, 0)
        gap = gap.mean() + (gap - gap.mean()) * true / (true + error)
        middle = np.array([(a[0] + b[0]) / 2 for a, b in rows])
        inside, outside = middle + gap * np.sqrt(variance) / 2, middle - gap * np.sqrt(variance) / 2
        value = shadows.densities[target]
        ratio = -((value - inside) ** 2 - (value - outside) ** 2) / (2 * variance)
        assert found[target] == pytest.approx(ratio, rel=1e-9, abs=1e-9)


def test_offline_lira_uses_only_models_without_the_record():
    shadows = _shadows(0.7, pairs=7)
    found = lira.offline_scores(shadows)
    for target in (0, 9):
        rows = _reference(shadows, target)
        freedom = rows[0][1][2] - 1
        squares = np.array([b[1] for _, b in rows])
        variance = (squares + lira.PRIOR * np.median(squares) / freedom) / (freedom + lira.PRIOR)
        wanted = (shadows.densities[target] - [b[0] for _, b in rows]) / np.sqrt(variance)
        assert found[target] == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_rmia_is_the_share_of_the_pool_with_a_smaller_ratio():
    shadows = _shadows(0.7, pairs=7)
    found = rmia.rmia_scores(shadows)
    for target in (0, 9):
        rows = _reference(shadows, target)
        ratio = shadows.densities[target] - [(a[0] + b[0]) / 2 for a, b in rows]
        wanted = [((ratio < own).sum() + (ratio == own).sum() / 2) / len(ratio) for own in ratio]
        assert found[target] == pytest.approx(wanted)


def test_the_auc_of_a_record_is_that_of_its_models():
    shadows = _shadows(0.7, pairs=7)
    found = shadow_attacks.record_aucs(shadows)
    for record in (0, 31):
        column, inside = shadows.densities[:, record], shadows.inside[:, record]
        assert found[record] == pytest.approx(auc(column[inside], column[~inside]))


def _measured(shadows, seed=3):
    rates = (0.01,)
    return shadow_attacks.measure_attacks(shadows, rates, np.random.Generator(np.random.PCG64(seed))).metrics


def test_every_attack_detects_a_model_that_memorises_its_records():
    found = _measured(_shadows(20.0))
    for attack in shadow_attacks.ATTACKS:
        assert found[f"mia_{attack}_auc"] > 0.99, attack
        assert found[f"mia_{attack}_advantage"] > 0.95, attack
        assert found[f"mia_{attack}_tpr_at_fpr_0.01"] > 0.9, attack
    assert found["mia_lira_p99_record_auc"] == 1.0


def test_attacks_on_a_model_that_leaks_nothing_are_at_chance():
    """20 simulated runs. Fewer than 15 of 20 intervals at 95 % cover with a probability below 4e-4 (1e-3 over all).

    The power twin: with a leak of half a standard deviation, nearly all runs are above chance.
    """
    blind, leaking = (
        [_measured(_shadows(leak, records=100, seed=seed)) for seed in range(20)] for leak in (0.0, 0.5)
    )
    for attack in shadow_attacks.ATTACKS:
        low, high = f"mia_{attack}_auc_low", f"mia_{attack}_auc_high"
        assert sum(found[low] <= 0.5 <= found[high] for found in blind) >= 15, attack
        assert sum(found[low] > 0.5 for found in leaking) >= 18, attack


def test_the_worst_record_is_the_planted_one_and_rarely_due_to_chance():
    """One record of 60 leaks 4 standard deviations. Without it, about 5 % of 200 runs exceed the level of chance.

    More than 22 of 200 runs do so with a probability below 1e-3. Nearly all runs would exceed half the level.
    """
    shadows = _shadows(0.0)
    shadows.densities[:, 42] += 6 * shadows.inside[:, 42]
    each = shadow_attacks.record_aucs(shadows)
    assert each.argmax() == 42
    level = shadow_attacks.worst_auc_without_leak(16, 60)
    assert each[42] > level > np.delete(each, 42).max()
    worst = [shadow_attacks.record_aucs(_shadows(0.0, seed=seed)).max() for seed in range(200)]
    assert sum(value > level for value in worst) <= 22
    assert sum(value > 0.5 + (level - 0.5) / 2 for value in worst) > 150


def test_the_learned_attack_never_sees_its_target():
    """The memberships of one half of the models do not change the scores of that half."""
    shadows = _shadows(0.7)
    swapped = shadows.inside.copy()
    swapped[:16] = ~swapped[:16]
    scores = [
        learned.learned_scores(
            ShadowModels(shadows.densities, inside, shadows.units), np.random.Generator(np.random.PCG64(1))
        )
        for inside in (shadows.inside, swapped)
    ]
    assert (scores[0][:16] == scores[1][:16]).all()
    assert not (scores[0][16:] == scores[1][16:]).all()


def test_a_target_is_not_among_its_own_shadows():
    shadows = _shadows(0.7)
    flipped = shadows.inside.copy()
    flipped[4:6] = ~flipped[4:6]
    other = ShadowModels(shadows.densities, flipped, shadows.units)
    for attack in (lira.online_scores, lira.offline_scores, rmia.rmia_scores):
        assert attack(shadows)[4:6] == pytest.approx(attack(other)[4:6], abs=1e-9)


def test_the_advantage_is_the_largest_distance_of_the_rates():
    generator = np.random.Generator(np.random.PCG64(0))
    members, others = generator.normal(0.5, 1, 70).round(1), generator.normal(0, 1, 90).round(1)
    wanted = max((members > t).mean() - (others > t).mean() for t in np.arange(-5, 5, 0.05))
    assert advantage(members, others) == pytest.approx(wanted)
    assert advantage(np.zeros(5), np.ones(5)) == 0.0
