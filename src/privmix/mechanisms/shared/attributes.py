"""Categorical attributes: each attribute is reported by generalised randomised response.

Every attribute of a report gets the same ε, and the ε of all attributes of a report add up (basic composition). The
shares of the values are estimated without bias, from the reports only. Each share has three intervals: exact, normal
and Chebyshev's.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from privmix.artefacts.domain import Attribute, Domain
from privmix.artefacts.fitted_model import Proportion
from privmix.mechanisms.shared.synopsis import project_to_simplex
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles import GeneralizedResponse, exact_interval, intervals

PREFIX = "a_"


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


def independent_shares(estimates: Sequence[Proportion], components: int) -> dict[str, np.ndarray]:
    """Return the same shares for each component, (K, V): the estimates of an attribute, as a distribution."""
    found: dict[str, list[float]] = {}
    for each in estimates:
        found.setdefault(each.attribute, []).append(each.estimate)
    return {
        name: np.tile(project_to_simplex(np.array(values)), (components, 1)) for name, values in found.items()
    }


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
