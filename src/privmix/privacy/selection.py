"""Private selection of one option by its score: the exponential mechanism, and the maximum after Laplace noise.

Guarantee. Option i is selected with probability proportional to exp(ε u_i / 2Δ), where no score changes by more than
Δ between neighbours: ε-DP (McSherry and Talwar 2007, Theorem 6; Dwork and Roth 2014, Theorem 3.10). The weight
of one option changes by a factor of at most e^(ε/2), and so does the sum of all weights. The scores are `monotonic` if
one of two neighbours has no score above the other's. Then weight and sum move the same way, and exp(ε u_i / Δ) is
enough (Dwork and Roth 2014, §3.4). Counts are monotonic under add-or-remove. Under replace-one they are not, since one
count grows while another shrinks.

A noisy maximum is the same mechanism. With E_i independent Exp(1) and G_i = -ln E_i (Gumbel), the largest a_i + G_i is
the smallest E_i exp(-a_i), an exponential time of rate exp(a_i). Of independent exponential times, the one of rate r_i
comes first with probability r_i / Σ r_j (Durfee and Rogers 2019).

An option with score -inf is never selected. The set of impossible options must be public: a score that is -inf on one
dataset and finite on its neighbour has no sensitivity.

In floating point a very unlikely option could become impossible, which no ε allows. Log weights are therefore kept
within 70 of the largest. The larger of a score and (the largest score - constant) changes by no more than a score does.

A release draws by `privacy.exact.choose`, without floating point: scores are whole steps of 2^-20, rounding adds one
step to Δ, and the probabilities are exact, so the ratio of two neighbours is at most e^ε and no factor more. A
reproducible source (benchmarks) draws in floating point. Its uniform numbers are multiples of 2^-106, with 2^-107 in
place of 0, so its Gumbel noise reaches 74. This raises the probability of an option of log weight -a by about
e^a 2^-107 of itself, beside the usual rounding errors: by 1.5 % for a = 70, and by less than 2^-47 for a up to 41.

The maximum after Laplace noise of scale 2Δ/ε (`laplace_noisy_max`) is another mechanism with the same guarantee. Fix
the noise of all other options. Option i wins if its own noise r_i exceeds a threshold, max_{j≠i} (u_j + r_j) - u_i. For
a neighbour with scores u + d the threshold differs by at most max_{j≠i} d_j - d_i ≤ max d - min d, so the probability
of i differs by a factor of at most exp((max d - min d)/b) for Laplace noise of scale b; then average over the fixed
noise. The range of d is at most 2Δ, and at most Δ if the scores are monotonic (Dwork and Roth 2014, Claim 3.9). The
argument holds for discrete Laplace noise on a lattice with ties won by the first option: r_i exceeds the threshold, or
reaches it, and a shift by k steps changes either probability by a factor of at most exp(k/s).
"""

import numpy as np

from privmix.errors import UserError
from privmix.privacy.exact import choose
from privmix.privacy.ledger import Ledger, NoisyMaximum, Selection, check_positive
from privmix.privacy.noise import NoiseSource, measure, needs_exact_sums
from privmix.privacy.noise_distributions import ExponentialMechanism, LaplaceMaximum

RESOLUTION = 2.0**-53  # of one uniform number
LEAST = 2.0**-107  # replaces a uniform number of 0
LOWEST = -70.0  # smallest log weight of a possible option, relative to the largest


def _exponents(
    scores: np.ndarray, *, sensitivity: float, epsilon: float, monotonic: bool, label: str
) -> np.ndarray:
    """Return log weights, shifted so that the largest is 0: huge and tiny scores do not overflow."""
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
            "give a finite number for each option, or -inf if the option is impossible."
        )
    if np.isneginf(scores).all():
        raise UserError(
            f"selection {label!r}: all {len(scores)} options are impossible (score -inf); "
            "give at least one finite score."
        )
    with np.errstate(over="ignore"):  # a difference that overflows is below LOWEST anyway
        exponents = (scores - scores.max()) / sensitivity * (epsilon if monotonic else epsilon / 2)
    return np.where(np.isneginf(scores), -np.inf, np.maximum(exponents, LOWEST))


def probabilities(
    scores: np.ndarray, *, sensitivity: float, epsilon: float, monotonic: bool = False
) -> np.ndarray:
    """Return the probability of each option without a lattice. It is as private as the scores."""
    exponents = _exponents(
        scores, sensitivity=sensitivity, epsilon=epsilon, monotonic=monotonic, label="probabilities"
    )
    weights: np.ndarray = np.exp(exponents)
    shares: np.ndarray = weights / weights.sum()
    return shares


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
    """Draw an option by the exponential mechanism: ε-DP. The draw is the equivalent noisy maximum.

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
    """Return the option with the largest score after Gumbel noise of scale 2Δ/ε (Δ/ε if monotonic): ε-DP, see above.

    The measurement is the option alone. Its noisy score would cost extra.
    """
    reach = check_positive(sensitivity, f"selection {label!r}: sensitivity") + source.rounding(1, 1)
    exponents = _exponents(scores, sensitivity=reach, epsilon=epsilon, monotonic=monotonic, label=label)
    scale = reach * (1 if monotonic else 2) / epsilon
    exact = needs_exact_sums(source)
    return measure(
        Selection(label, epsilon),
        ExponentialMechanism(),
        exponents,
        lambda: choose(np.asarray(scores, dtype=float), scale, LOWEST) if exact else _draw(exponents, source),
        source=source,
        ledger=ledger,
    )


def laplace_noisy_max(
    scores: np.ndarray,
    *,
    sensitivity: float,
    epsilon: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
    monotonic: bool = False,
) -> int:
    """Return the option with the largest score after Laplace noise of scale 2Δ/ε (Δ/ε if monotonic): ε-DP, see above.

    The noise comes from the source as for any Laplace measurement, so in a release it is exact.
    """
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 1 or not len(scores) or not np.isfinite(scores).all():
        raise UserError(f"selection {label!r}: give one finite score for each option.")
    reach = check_positive(sensitivity, f"selection {label!r}: sensitivity") + source.rounding(1, 1)
    price = check_positive(epsilon, f"selection {label!r}: epsilon")
    scale = reach * (1 if monotonic else 2) / price
    return measure(
        NoisyMaximum(label, price),
        LaplaceMaximum(scale),
        scores,
        lambda: int(np.argmax(source.add_laplace(scores, scale))),
        source=source,
        ledger=ledger,
    )


def _draw(exponents: np.ndarray, source: NoiseSource) -> int:
    coarse, fine = source.uniform((2, len(exponents)))
    uniform = np.maximum(coarse + RESOLUTION * fine, LEAST)
    # Unlikely options win in the upper tail of the Gumbel law, where u is small and finely resolved.
    arrivals = -np.log1p(-np.minimum(uniform, 1 - RESOLUTION))
    return int(np.argmax(exponents - np.log(arrivals)))
