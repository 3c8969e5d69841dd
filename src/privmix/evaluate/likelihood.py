"""Log-likelihood of training and held-out records, in nats per record."""

import numpy as np

from privmix.artefacts.clean import CleanData, number_persons


def mean_log_likelihood(log_densities: np.ndarray, person: np.ndarray | None = None) -> float:
    """Compute the mean log density per record or, with `person`, the mean over persons of the mean of their records."""
    if person is None:
        return float(log_densities.mean())
    owner = number_persons(person)
    return float((np.bincount(owner, log_densities) / np.bincount(owner)).mean())


def likelihoods(members: np.ndarray, others: np.ndarray, clean: CleanData, unit: str) -> dict[str, float]:
    """Compute the mean log density of held-out and training records, by metric: per person if that is the unit."""
    train, by_person = clean.train, unit == "person"
    return {
        "holdout_loglik": mean_log_likelihood(others, clean.person[~train] if by_person else None),
        "train_loglik": mean_log_likelihood(members, clean.person[train] if by_person else None),
    }
