"""Prediction of a declared outcome: train a logistic regression on one table and test it on real records."""

import numpy as np
from scipy import optimize
from scipy.special import logsumexp, softmax
from scipy.stats import rankdata

from privmix.evaluate.table import CategoryColumn, Table

PENALTY = 1e-3
MOST_ROWS = 5000  # of the training table


def predict_outcome(train: Table, test: Table, outcome: str) -> dict[str, float]:
    """Return accuracy and, for an outcome of two values, AUC on `test`. All other columns predict the outcome.

    This is train on synthetic, test on real (Esteban, Hyland, Rätsch 2017) if `train` is synthetic. Logistic
    regression minimises mean log loss + PENALTY/2 ‖W‖², on numbers standardised by the training table.
    """
    column = next(column for column in train.columns if column.name == outcome)
    assert isinstance(column, CategoryColumn), "an outcome is a category"
    inputs = _inputs(train, train, outcome)[:MOST_ROWS]
    weights = _fit(inputs, train.values[outcome].astype(np.int64)[:MOST_ROWS], column.values)
    scores = _inputs(test, train, outcome) @ weights
    truth = test.values[outcome].astype(np.int64)
    found = {"outcome_accuracy": float((scores.argmax(axis=1) == truth).mean())}
    if column.values == 2 and 0 < truth.sum() < len(truth):
        found["outcome_auc"] = _auc(scores[:, 1] - scores[:, 0], truth == 1)
    return found


def _inputs(table: Table, train: Table, outcome: str) -> np.ndarray:
    """Return a constant, numbers standardised by `train`, and one indicator per value of other categories."""
    parts = [np.ones((table.rows, 1))]
    for column in train.columns:
        values = table.values[column.name]
        if isinstance(column, CategoryColumn):
            if column.name != outcome:
                parts.append(np.eye(column.values)[values.astype(np.int64)])
        else:
            spread = max(float(train.values[column.name].std()), column.resolution)
            parts.append(((values - train.values[column.name].mean()) / spread)[:, None])
    return np.hstack(parts)


def _fit(inputs: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Fit the weights of a multinomial logistic regression, (columns, classes), by L-BFGS."""
    rows, width = inputs.shape
    truth = np.eye(classes)[labels]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(width, classes)
        scores = inputs @ weights
        value = (logsumexp(scores, axis=1) - (scores * truth).sum(axis=1)).mean()
        slope = inputs.T @ (softmax(scores, axis=1) - truth) / rows + PENALTY * weights
        return float(value + PENALTY / 2 * (weights**2).sum()), slope.ravel()

    found = optimize.minimize(loss, np.zeros(width * classes), jac=True, method="L-BFGS-B")
    return np.asarray(found.x.reshape(width, classes))


def _auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Compute the AUC from ranks (Mann-Whitney); ties count half."""
    ranks, number = rankdata(scores), int(positive.sum())
    above = ranks[positive].sum() - number * (number + 1) / 2
    return float(above / (number * (len(scores) - number)))
