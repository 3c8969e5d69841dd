"""Categorical attributes: each attribute is reported by generalised randomised response.

Every attribute of a report gets the same ε, and the ε of all attributes of a report add up (basic composition). The
shares of the values are estimated without bias, from the reports only. Each share has three intervals: exact, normal
and Chebyshev's.

Shares in each component (`joint_shares`). A mixture fitted to the coordinates of the same reports gives P(component |
coordinates of the report), the responsibilities R. Given the component, attributes and coordinates are independent. So
the probability that a person with this report has value v is Σ_k R_k θ_kv, which is linear in the shares θ_kv of the
value in each component. The debiased answers have this expectation, and a regression of the answers on R estimates θ.
It sees only reports and public values: post-processing, no noise and no event in the ledger.

The regression replaces EM on the likelihood of both answers. It needs one pass over the reports. EM hardly moves if the
answers are noisy: on simulated data at ε = 4 it took about 2,000 passes. R is computed without the answers to other
attributes. They would tell more about the component only if attributes are independent of each other within a
component. In simulations at ε = 8 they reduced the error by 3 % if that is true, and increased it by 27 % if not.
Relations within a component are not found: a mixture of one component has the same shares everywhere.

Shrinkage. Reports tell little about the component, and θ would fit the noise. So its prior has the marginal shares m_v
as the mean and ρ m_v (1 - m_v) as the variance. ρ is the part of the variance of an attribute that lies between
components. It is unknown: with probability 1/2 it is 0 (the attribute does not depend on the component), otherwise
log ρ is uniform on a grid. The result is the average over ρ, weighted by the evidence of the reports (marginal
likelihood). This rule had the lowest mean error of nine rules on simulated data, by a small margin: 20,000 records, six
components, four local mechanisms, ε from 1 to 8, attributes of 2 to 30 values, ρ from 0 to 1/2. Where nothing depends
on the component, its mean error in total variation was at most 0.006 above that of independent shares.

Finally the shares are made non-negative, and Σ_k π_k θ_kv is made equal to the marginal share of the value
(`marginal_shares`). Proportions and their intervals stay unbiased.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from privmix.artefacts.domain import Attribute, Domain
from privmix.artefacts.fitted_model import Proportion
from privmix.mechanisms.shared.synopsis import project_to_simplex
from privmix.mixture.kernel import one_blas_thread
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles import GeneralizedResponse, exact_interval, intervals

PREFIX = "a_"

# Variance between components, as a part of the variance of an attribute: possible values and their prior probabilities.
BETWEEN = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 16)])
PRIOR = np.concatenate([[0.5], np.full(16, 0.5 / 16)])
LEAST_SHARE = 1e-6  # of the marginal shares in each component, so that every marginal can be matched
MARGINAL_ERROR, MOST_ROUNDS = 1e-12, 1000  # of the match
SMALLEST = 1e-100  # keeps divisors away from zero


def answer(
    codes: Mapping[str, np.ndarray], domain: Domain, epsilon: float, source: NoiseSource, ledger: Ledger
) -> dict[str, np.ndarray]:
    """Return a column of answers for each attribute; no columns if ε is 0."""
    return {
        PREFIX + attribute.name: _oracle(attribute, epsilon).perturb(
            codes[attribute.name], source=source, ledger=ledger, label=PREFIX + attribute.name
        )
        for attribute in domain.attributes
        if epsilon
    }


def proportions(
    columns: Mapping[str, np.ndarray], domain: Domain, epsilon: float, per_person: int
) -> list[Proportion]:
    """Estimate the share of each value of each reported attribute, without bias, with 95 % intervals.

    Several reports of one person may be about the same record. In the worst case they are worth one report, so
    intervals assume one report per person.
    """
    return [
        estimate
        for attribute in domain.attributes
        if epsilon
        for estimate in _proportions(
            attribute, _oracle(attribute, epsilon), columns[PREFIX + attribute.name], per_person
        )
    ]


def joint_shares(
    columns: Mapping[str, np.ndarray],
    domain: Domain,
    epsilon: float,
    per_person: int,
    weights: np.ndarray,
    responsibilities: Iterable[np.ndarray],
) -> dict[str, np.ndarray]:
    """Estimate P(value | component) of each reported attribute, (K, V), from the reports only.

    `weights` are those of the mixture, and `responsibilities` are P(component | coordinates) of the reports in their
    order, (rows, K), block by block. Several reports of one person are worth one report, as for `proportions`.
    """
    if not epsilon:
        return {}
    answers = {each.name: np.asarray(columns[PREFIX + each.name]) for each in domain.attributes}
    oracles = {each.name: _oracle(each, epsilon) for each in domain.attributes}
    support = {name: oracles[name].support(given) for name, given in answers.items()}
    marginals = {name: marginal_shares(oracles[name], counts, per_person) for name, counts in support.items()}
    if len(weights) == 1:
        return {name: marginal[None] for name, marginal in marginals.items()}
    with one_blas_thread():
        sums = _sum_responsibilities(answers, support, weights, responsibilities)
    return {
        name: _match_marginal(
            _component_shares(sums, name, marginal, oracles[name], per_person), weights, marginal
        )
        for name, marginal in marginals.items()
    }


def marginal_shares(oracle: GeneralizedResponse, support: np.ndarray, per_person: int) -> np.ndarray:
    """Return the share of each value: the estimates, moved towards equal shares by as much as their noise demands.

    The factor is that of James and Stein 1961, positive part. Without it, the nearest distribution to estimates that
    are noise gives nearly all records one value. On simulated records (Dirichlet shares of 2 to 30 values,
    N = 3,000 and 50,000, ε from 0.05 to 4), the total variation distance to the truth fell from 0.74 to 0.49 for 8
    values at ε = 0.05 and N = 3,000, and rose by at most 0.005.
    """
    estimates = oracle.estimate(support, support.sum())
    variance = np.square(oracle.standard_error(support, support.sum())).sum() * per_person
    apart = estimates - 1 / len(estimates)
    kept = max(1 - variance / max(apart @ apart, SMALLEST), 0.0)
    return project_to_simplex(1 / len(estimates) + kept * apart)


@dataclass(frozen=True, eq=False)
class _Sums:
    """What the regression needs of all reports. Both products are about the mean responsibilities."""

    reports: int
    mean: np.ndarray  # (K,) of the responsibilities
    squares: np.ndarray  # (K, K) their products with each other
    by_answer: dict[str, np.ndarray]  # attribute -> (K, V) their sums over the reports with each answer


def _sum_responsibilities(
    answers: Mapping[str, np.ndarray],
    support: Mapping[str, np.ndarray],
    weights: np.ndarray,
    responsibilities: Iterable[np.ndarray],
) -> _Sums:
    number, total = 0, np.zeros(len(weights))
    squares = np.zeros((len(weights), len(weights)))
    by_answer = {name: np.zeros((len(weights), len(counts))) for name, counts in support.items()}
    for block in responsibilities:
        # Near the mean already: under strong noise all rows are close to the weights, and sums lose no digits.
        centred = block - weights
        total += centred.sum(axis=0)
        squares += centred.T @ centred
        for name, sums in by_answer.items():
            given = answers[name][number : number + len(block)]
            sums += [np.bincount(given, column, minlength=sums.shape[1]) for column in centred.T]
        number += len(block)
    mean = total / number
    return _Sums(
        number,
        weights + mean,
        squares - number * np.outer(mean, mean),
        {name: sums - np.outer(mean, support[name]) for name, sums in by_answer.items()},
    )


def _component_shares(
    sums: _Sums, name: str, marginal: np.ndarray, oracle: GeneralizedResponse, per_person: int
) -> np.ndarray:
    """Return the posterior mean of the shares in each component, (K, V), which may be negative.

    In the axes of the eigenvectors of the squares λ, the sums z over debiased answers have the mean λδ and the variance
    λσ², where δ is the deviation of the shares from the marginal and σ² the variance of one debiased answer. With the
    prior N(0, τ²) of δ, its posterior mean is z τ² / (σ² + λτ²).
    """
    slope = oracle.truth - oracle.other
    said = oracle.other + slope * marginal
    noise = np.maximum(said * (1 - said), 1 / sums.reports) / slope**2 * per_person
    squares, axes = np.linalg.eigh(sums.squares)
    squares = np.maximum(squares, 0.0)[:, None]
    z = axes.T @ sums.by_answer[name] / slope
    prior = BETWEEN[:, None, None] * marginal * (1 - marginal)
    total = noise + squares * prior
    evidence = np.square(z) * prior / (noise * total) - np.log(total / noise)
    # The answers of a report sum to one, so V values are worth V - 1.
    log_weights = np.log(PRIOR) + evidence.sum(axis=(1, 2)) / 2 * (1 - 1 / len(marginal))
    chances = np.exp(log_weights - log_weights.max())
    deviation = axes @ np.tensordot(chances / chances.sum(), z * prior / total, axes=1)
    return marginal + deviation - sums.mean @ deviation


def _match_marginal(shares: np.ndarray, weights: np.ndarray, marginal: np.ndarray) -> np.ndarray:
    """Return the nearest shares, by proportional fitting, that are non-negative and have this marginal.

    Rows and columns are scaled in turn (Deming and Stephan 1940), which keeps the relation between them.
    """
    shares = np.array([project_to_simplex(row) for row in shares])
    shares = (1 - LEAST_SHARE) * shares + LEAST_SHARE * marginal
    for _ in range(MOST_ROUNDS):
        found = weights @ shares
        if np.abs(found - marginal).max() <= MARGINAL_ERROR:
            break
        shares = shares * np.divide(marginal, found, out=np.zeros_like(found), where=found > 0)
        shares /= shares.sum(axis=1, keepdims=True)
    return shares


def _oracle(attribute: Attribute, epsilon: float) -> GeneralizedResponse:
    return GeneralizedResponse(len(attribute.values), epsilon)


def _proportions(
    attribute: Attribute, channel: GeneralizedResponse, answers: np.ndarray, per_person: int
) -> list[Proportion]:
    support, n = channel.support(answers) / per_person, len(answers) / per_person
    estimates, errors = channel.estimate(support, n), channel.standard_error(support, n)
    result = []
    for value, supported, estimate, error in zip(attribute.values, support, estimates, errors, strict=True):
        normal, chebyshev = intervals(float(estimate), float(error))
        result.append(
            Proportion(
                attribute=attribute.name,
                value=value,
                estimate=float(estimate),
                standard_error=float(error),
                exact=exact_interval(channel, float(supported), n),
                normal=normal,
                chebyshev=chebyshev,
            )
        )
    return result
