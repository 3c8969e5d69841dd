"""Private selection of one option by its score: the exponential mechanism, drawn as a noisy maximum.

Guarantee. Option i is chosen with probability proportional to exp(ε u_i / 2Δ), where no score changes by more than
Δ between neighbours: ε-DP (McSherry and Talwar 2007, Theorem 6; Dwork and Roth 2014, Theorem 3.10). The weight
of one option changes by at most e^(ε/2), and so does the sum of all weights. If the scores are `monotonic`, that
is if one of two neighbours has no score above the other's, weight and sum move the same way and
exp(ε u_i / Δ) is enough (Dwork and Roth 2014, §3.4). Counts are monotonic under add-or-remove; under replace-one
they are not, since one grows while another shrinks.

A noisy maximum is the same mechanism: with E_i independent Exp(1) and G_i = -ln E_i (Gumbel), the largest
a_i + G_i is the smallest E_i exp(-a_i), an exponential time of rate exp(a_i), and of independent exponential times
the one of rate r_i comes first with probability r_i / Σ r_j (Durfee and Rogers 2019).

An option with score -inf is never chosen. Which options are impossible must be public: a score that is -inf on one
dataset and finite on its neighbour has no sensitivity.

In floating point a very unlikely option could become impossible, which no ε allows. Log weights are therefore kept
within 70 of the largest: the larger of a score and (the largest score - constant) changes by no more than a
score does, and the Gumbel noise drawn here reaches 74. What remains is a relative error of about 2^-47 in the
probabilities.
"""

import numpy as np

from privmix.errors import UserError
from privmix.privacy.ledger import Ledger, Selection, check_positive
from privmix.privacy.noise import NoiseSource, measure
from privmix.privacy.noise_distributions import ExponentialMechanism

RESOLUTION = 2.0**-53  # of one uniform number
LEAST = 2.0**-107  # stands for a uniform number that came out as 0
LOWEST = -70.0  # log weight, relative to the largest, below which no possible option falls


def _exponents(
    scores: np.ndarray, *, sensitivity: float, epsilon: float, monotonic: bool, label: str
) -> np.ndarray:
    """Log weights, shifted so that the largest is 0: neither huge nor tiny scores overflow."""
    check_positive(sensitivity, f"selection {label!r}: sensitivity")
    check_positive(epsilon, f"selection {label!r}: epsilon")
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 1 or not len(scores):
        raise UserError(
            f"selection {label!r}: scores have shape {scores.shape}; give one number for each option."
        )
    wrong = np.isnan(scores) | (scores == np.inf)
    if wrong.any():
        raise UserError(
            f"selection {label!r}: {int(wrong.sum())} of {len(scores)} scores are NaN or infinite; "
            "a score is a finite number, or -inf for an option that is impossible."
        )
    if np.isneginf(scores).all():
        raise UserError(f"selection {label!r}: all {len(scores)} options are impossible (score -inf).")
    with np.errstate(over="ignore"):  # a difference beyond the largest float is below LOWEST too
        exponents = (scores - scores.max()) / sensitivity * (epsilon if monotonic else epsilon / 2)
    return np.where(np.isneginf(scores), -np.inf, np.maximum(exponents, LOWEST))


def probabilities(
    scores: np.ndarray, *, sensitivity: float, epsilon: float, monotonic: bool = False
) -> np.ndarray:
    """The probability of each option: what both functions below draw from. It is private, as the scores are."""
    exponents = _exponents(
        scores, sensitivity=sensitivity, epsilon=epsilon, monotonic=monotonic, label="probabilities"
    )
    weights = np.exp(exponents)
    return weights / weights.sum()


def exponential(
    scores: np.ndarray,
    *,
    sensitivity: float,
    epsilon: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
    monotonic: bool = False,
) -> int:
    """An option drawn by the exponential mechanism: ε-DP. It is drawn as the noisy maximum that it equals.

    `sensitivity` is the largest change of any one score between neighbours.
    """
    return report_noisy_max(
        scores,
        sensitivity=sensitivity,
        epsilon=epsilon,
        source=source,
        ledger=ledger,
        label=label,
        monotonic=monotonic,
    )


def report_noisy_max(
    scores: np.ndarray,
    *,
    sensitivity: float,
    epsilon: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
    monotonic: bool = False,
) -> int:
    """The option whose score with Gumbel noise of scale 2Δ/ε (Δ/ε if monotonic) is the largest: ε-DP, see above.

    Only the option is released; the noisy score is not, and would cost extra.
    """
    exponents = _exponents(scores, sensitivity=sensitivity, epsilon=epsilon, monotonic=monotonic, label=label)
    return measure(
        Selection(label, epsilon),
        ExponentialMechanism(),
        exponents,
        lambda: _draw(exponents, source),
        source=source,
        ledger=ledger,
    )


def _draw(exponents: np.ndarray, source: NoiseSource) -> int:
    coarse, fine = source.uniform((2, len(exponents)))
    uniform = np.maximum(coarse + RESOLUTION * fine, LEAST)
    # The upper tail of the Gumbel law, which decides for unlikely options, is where u is small and finely resolved.
    arrivals = -np.log1p(-np.minimum(uniform, 1 - RESOLUTION))
    return int(np.argmax(exponents - np.log(arrivals)))
