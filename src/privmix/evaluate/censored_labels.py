"""How much censored labels tell about an attribute: their mutual information, and what a probe predicts from them.

Labels Z are random, so everything here is an expectation over them: P(z, s) is the mean of the probabilities of label z
over records with value s. No label is drawn.
"""

import numpy as np


def joint_shares(probabilities: np.ndarray, codes: np.ndarray, values: int) -> np.ndarray:
    """Return P(z, s), (K, V), from the probability of each label of each record, (n, K), and its value."""
    joint = np.zeros((probabilities.shape[1], values))
    for label, column in enumerate(probabilities.T):
        joint[label] = np.bincount(codes, column, values)
    return joint / len(codes)


def information(joint: np.ndarray) -> float:
    """Return the mutual information I(Z; S) of a joint distribution, in nats."""
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    there = joint > 0
    return max(float((joint[there] * np.log(joint[there] / apart[there])).sum()), 0.0)


def probe_recall(train: np.ndarray, test: np.ndarray) -> float:
    """Return the balanced accuracy of the best probe of the training labels, on other records: the mean recall.

    For each label the probe guesses the value under which the label is most probable. Values that occur in both parts
    count. A probe of labels that tell nothing reaches one divided by the number of these values (`guess_recall`).
    """
    known = _known(train, test)
    if not known.any():
        return float("nan")
    chances = train[:, known] / train[:, known].sum(axis=0)
    guessed = chances.argmax(axis=1)
    recall = test[:, known] / test[:, known].sum(axis=0)
    return float(recall[np.arange(len(recall)), guessed].sum() / known.sum())


def guess_recall(train: np.ndarray, test: np.ndarray) -> float:
    """Return the balanced accuracy of a guess without the label."""
    return 1 / max(int(_known(train, test).sum()), 1)


def _known(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return np.asarray((train.sum(axis=0) > 0) & (test.sum(axis=0) > 0))
