"""The learned attack (Shokri et al. 2017): a small neural network that learns from shadow models.

It learns from the log densities that shadow models give to records inside and outside their training data, and then
attacks a model that it has not seen. The pairs of models are split into two halves, and the network of one half attacks
the models of the other half. Its features compare the log density of a record with two groups of models of the half,
those fitted to the record and those not. The other features are the distance between these groups, their spread, and
the rank of the density among all records of the target.
"""

import warnings

import numpy as np

from privmix.attacks.membership.lira import shadow_statistics
from privmix.attacks.membership.shadows import ShadowModels
from privmix.privacy.hypothesis_testing import placements

MOST_EXAMPLES = 20_000
HIDDEN, EPOCHS = 16, 40
FAR = 8.0  # standard deviations; larger differences count as this one


def learned_scores(shadows: ShadowModels, rng: np.random.Generator) -> np.ndarray:
    """Compute the log odds of the network that a record was inside, (models, n)."""
    half = shadows.pairs // 2
    found = np.empty_like(shadows.densities)
    for first, last in ((0, half), (half, shadows.pairs)):
        mine = np.zeros(len(found), dtype=bool)
        mine[2 * first : 2 * last] = True
        found[mine] = _attack_targets(_select_models(shadows, ~mine), shadows.densities[mine], rng)
    return found


def _select_models(shadows: ShadowModels, models: np.ndarray) -> ShadowModels:
    return ShadowModels(shadows.densities[models], shadows.inside[models], shadows.units)


def _attack_targets(teachers: ShadowModels, targets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Compute log odds for models that are not among the teachers."""
    # These imports take a second, and only this attack needs them.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    own = shadow_statistics(teachers)
    examples = _features(
        teachers.densities, *(np.repeat(each, 2, axis=0) for each in (own.inside, own.outside, own.variance))
    )
    answers = teachers.inside.ravel()
    chosen = rng.permutation(len(answers))[:MOST_EXAMPLES]
    network = MLPClassifier((HIDDEN,), max_iter=EPOCHS, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is fixed on purpose
        network.fit(examples[chosen], answers[chosen])
    typical = (teachers.known.mean(axis=0), teachers.unknown.mean(axis=0), own.variance.mean(axis=0))
    likely = np.clip(network.predict_proba(_features(targets, *typical))[:, 1], 1e-15, 1 - 1e-15)
    return np.log(likely / (1 - likely)).reshape(targets.shape)


def _features(
    densities: np.ndarray, inside: np.ndarray, outside: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Compute the features of each record in each model, (models n, 5), all of moderate size."""
    width = np.sqrt(variance)
    standing = np.array([placements(row, row) for row in densities])
    columns = [
        np.clip((densities - inside) / width, -FAR, FAR) / FAR * 4,
        np.clip((densities - outside) / width, -FAR, FAR) / FAR * 4,
        np.clip((inside - outside) / width, -FAR, FAR) / FAR * 4,
        np.log(width) / 4,
        2 * standing - 1,
    ]
    return np.column_stack([np.broadcast_to(column, densities.shape).ravel() for column in columns])
