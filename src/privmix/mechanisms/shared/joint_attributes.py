"""Attributes that take part in the clustering of a central mechanism, or are measured after it.

With `attributes: together`, components have shares of the values of each attribute from the start. The shares decide
about responsibilities, and the measurements of the mechanism include them. With `after`, the mixture sees the
coordinates alone, and one table is measured given its result (`shared.attribute_counts`). Only public values decide.
"""

from typing import Literal

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.errors import MechanismFailure
from privmix.mechanisms.base import CentralMechanism, Records, Spec, mechanism_dataclass
from privmix.mixture.coded import nothing_coded, observe_codes
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Observations


@mechanism_dataclass
class JointAttributes(CentralMechanism):
    """`attributes`: whether attributes take part in the clustering (together), or are measured given it (after).

    If it is not set, `takes_part` decides from public values.
    """

    attributes: Literal["together", "after"] | None = None

    def takes_part(self, spec: Spec) -> bool:
        """Return whether the attributes take part in the clustering.

        They cannot if records may lack coordinates. The mixture would see the complete records only, but the states of
        the coordinates are attributes of all records.
        """
        if self.attributes == "after" or not self.attribute_share or not spec.domain.attributes:
            return False
        if spec.domain.states and self.attributes == "together":
            raise MechanismFailure(
                f"attributes: together needs all coordinates of every record, but records of {spec.domain.dataset} "
                "may lack some; set attributes: after, or remove it."
            )
        return self.attributes == "together" or (not spec.domain.states and has_few_values(spec.domain))

    def table_share(self, spec: Spec) -> float:
        """Return the part of the budget for a table of attributes after the mixture."""
        return 0.0 if self.takes_part(spec) else self.attribute_share

    def value_share(self, spec: Spec) -> float:
        """Return the part of each measurement for attributes that take part in it."""
        return self.attribute_share if self.takes_part(spec) else 0.0

    def observations(self, points: np.ndarray, view: Records, spec: Spec) -> Observations:
        """Return the records that the measurements see, with equal records merged; `points` lie inside the box."""
        if not self.takes_part(spec):
            return spec.observations(points)
        sizes = {each.name: len(each.values) for each in spec.domain.attributes}
        if not len(view):
            return nothing_coded(spec.domain.lower, len(sizes))
        return observe_codes(points, view.codes, sizes)

    def with_shares(self, mixture: Mixture, spec: Spec) -> Mixture | MixedMixture:
        """Return the mixture with equal shares of all values, if attributes take part in the clustering."""
        return with_equal_shares(mixture, spec) if self.takes_part(spec) else mixture


def has_few_values(domain: Domain) -> bool:
    """Return whether the attributes of a component have no more free numbers than its Gaussian.

    With more, the components would separate the attributes at the expense of the coordinates. States do not count.
    """
    d = len(domain.axes)
    free = sum(len(each.values) - 1 for each in domain.attributes if not each.state_of)
    return free <= d + d * (d + 1) // 2


def with_equal_shares(mixture: Mixture, spec: Spec) -> MixedMixture:
    """Return the mixture with equal shares of all values of each attribute: a public start."""
    return MixedMixture(
        mixture,
        {
            each.name: np.full((mixture.n_components, len(each.values)), 1 / len(each.values))
            for each in spec.domain.attributes
        },
    )
