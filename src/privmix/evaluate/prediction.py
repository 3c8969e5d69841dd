"""Prediction of a declared outcome: train a logistic regression on one table and test it on real records."""

import numpy as np

from privmix.evaluate.table import CategoryColumn, Table
from privmix.privacy.hypothesis_testing import auc

PENALTY = 1e-3
STEPS = 50
MOST_ROWS = 5000  # of the training table


def predict_outcome(train: Table, test: Table, outcome: str) -> dict[str, float]:
    """Return accuracy and, for an outcome of two values, AUC on `test`. All other columns predict the outcome.

    This is train on synthetic, test on real (Esteban, Hyland, Rätsch 2017) if `train` is synthetic. Logistic
    regression minimises mean log loss + PENALTY/2 ‖w‖², on numbers standardised by the training table; an outcome of
    more than two values has one regression per value.
    """
    column = next(column for column in train.columns if column.name == outcome)
    assert isinstance(column, CategoryColumn), "an outcome is a category"
    inputs, labels = _inputs(train, train, outcome)[:MOST_ROWS], train.values[outcome][:MOST_ROWS]
    values = (1,) if column.values == 2 else range(column.values)
    weights = np.column_stack([fit_logistic(inputs, labels == value) for value in values])
    scores, truth = _inputs(test, train, outcome) @ weights, test.values[outcome]
    if column.values > 2:
        return {"outcome_accuracy": float((scores.argmax(axis=1) == truth).mean())}
    found = {"outcome_accuracy": float(((scores[:, 0] > 0) == truth).mean())}
    if 0 < truth.sum() < len(truth):
        found["outcome_auc"] = auc(scores[truth == 1, 0], scores[truth == 0, 0])
    return found


def _inputs(table: Table, train: Table, outcome: str) -> np.ndarray:
    """Return a constant, numbers standardised by `train`, and one indicator per value of other categories.

    A missing number counts as the mean; the state of the number is another column.
    """
    parts = [np.ones((table.rows, 1))]
    for column in train.columns:
        values = table.values[column.name]
        if isinstance(column, CategoryColumn):
            if column.name != outcome:
                parts.append(np.eye(column.values)[values.astype(np.int64)])
        else:
            known = train.values[column.name][train.given(column.name)]
            middle, deviation = (known.mean(), known.std()) if len(known) else (0.0, 0.0)
            spread = max(float(deviation), column.resolution)
            parts.append(np.nan_to_num((values - middle) / spread)[:, None])
    return np.hstack(parts)


def fit_logistic(inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Fit the weights of a logistic regression by Newton's method, with halved steps where the loss would rise."""
    signs = np.where(labels, 1.0, -1.0)

    def loss(weights: np.ndarray) -> float:
        return float(np.logaddexp(0, -signs * (inputs @ weights)).mean() + PENALTY / 2 * (weights @ weights))

    weights, now = np.zeros(inputs.shape[1]), float(np.log(2))
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(np.clip(-(inputs @ weights), -700, 700)))
        slope = inputs.T @ (chances - labels) / len(inputs) + PENALTY * weights
        curvature = (inputs.T * (chances * (1 - chances))) @ inputs / len(inputs) + PENALTY * np.eye(
            inputs.shape[1]
        )
        step = np.linalg.solve(curvature, slope)
        while loss(weights - step) > now and np.abs(step).max() > 1e-9:
            step = step / 2
        weights = weights - step
        before, now = now, loss(weights)
        if before - now < 1e-10:
            break
    return weights
