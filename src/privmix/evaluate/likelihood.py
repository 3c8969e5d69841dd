"""Held-out log-likelihood: how well a model describes records that it has not seen, in nats."""

import numpy as np

from privmix.evaluate.people import numbered


def mean_log_likelihood(log_densities: np.ndarray, person: np.ndarray | None = None) -> float:
    """Mean log density per record; with `person`, the mean over people of their records' mean."""
    if person is None:
        return float(log_densities.mean())
    owner = numbered(person)
    return float((np.bincount(owner, log_densities) / np.bincount(owner)).mean())
