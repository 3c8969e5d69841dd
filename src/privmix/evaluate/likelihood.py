"""Log-likelihood of training and held-out records: how well a model describes records that it has not seen, in nats."""

import numpy as np

from privmix.artefacts.clean import CleanData, number_persons


def mean_log_likelihood(log_densities: np.ndarray, person: np.ndarray | None = None) -> float:
    """Mean log density per record; with `person`, the mean over people of their records' mean."""
    if person is None:
        return float(log_densities.mean())
    owner = number_persons(person)
    return float((np.bincount(owner, log_densities) / np.bincount(owner)).mean())


def likelihoods(members: np.ndarray, others: np.ndarray, clean: CleanData, unit: str) -> dict[str, float]:
    """The mean log density of held-out and of training records, by metric; over people where they are the unit."""
    train, by_person = clean.train, unit == "person"
    return {
        "holdout_loglik": mean_log_likelihood(others, clean.person[~train] if by_person else None),
        "train_loglik": mean_log_likelihood(members, clean.person[train] if by_person else None),
    }
