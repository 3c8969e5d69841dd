"""Planar Laplace noise (geo-indistinguishability): each place moves at random and hides among the places nearby.

Privacy. A report is the place plus noise of density ∝ exp(-ε ‖e‖ / within_m), where ‖·‖ is distance on the map. By the
triangle inequality the densities of a report for two places at distance r differ by a factor of at most exp(ε r /
within_m) (Andrés, Bordenabe, Chatzikokolakis, Palamidessi 2013, §4.1). So the budget's ε is for two places that are at
most `within_m` apart, and it grows in proportion beyond. The public box has a diameter D. Between any two records the
report is (ε D / within_m)-LDP and no better, because that ratio is reached. The event in the ledger holds this worst
case, and every total counts it. The claim is for two records whose places are within `within_m` metres
(`accounting.nearby_events`), with any attributes; each attribute has its own share of ε. If a person is the unit, the
claim is for two persons all of whose places are within this distance. The fit sees only the reports.

Metres. Distance on the map is in the normalised coordinates, where a degree of longitude counts as at the middle
latitude φ₀ of the public box. Two places d metres apart are at most d / 110,574 degrees of latitude apart (no degree of
the ellipsoid is shorter), and on one parallel φ at most cos φ₀ / cos φ times as far on the map as at φ₀. The noise is
scaled for the worst such φ of the box, so the claim holds in true metres. There are two exceptions: latitudes beyond
70°, where near places may count as far apart without limit, and places on the two sides of the antimeridian. If the box
reaches there, `map_note` says so in the model and in the file of reports. A release first rounds places to its lattice.
The noise pays for this at `within_m` and beyond; the loss of closer places falls a little less than their distance.

When to use it: if places must stay roughly right, such as counts by district, and if the recipient may know the town
but not the street. It is not local differential privacy at ε: a report tells far places apart.

Approximations. The fit sees the noise through a scale mixture. In a release, the acceptance step of the sampler is
approximate (`privacy.exact`). Everything else is exact.
"""

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from privmix.artefacts.domain import Axis, Domain
from privmix.artefacts.privacy_statement import Trust
from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Spec, mechanism_dataclass
from privmix.mechanisms.local.base import Plan
from privmix.mechanisms.local.input_noise import InputNoise, diameter
from privmix.mixture.deconvolution import ScaleMixture, planar_laplace_scales
from privmix.privacy import noise
from privmix.privacy.ledger import Event, Ledger, PlanarLaplace
from privmix.privacy.noise import NoiseSource

SHORTEST_DEGREE = 110_574.0  # metres of a degree of latitude at the equator (WGS 84)
LONGEST_DEGREE = 111_694.0  # metres of a degree of latitude at a pole
POLAR = 70.0  # degrees of latitude up to which the claim holds in metres


@mechanism_dataclass
class PlanarLaplaceInput(InputNoise):
    """`within_m`: ε is for two places this many metres apart; `fit`, `searches`: as for `laplace_input`."""

    trust: ClassVar[Trust] = "distance"

    within_m: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    def perturb(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> np.ndarray:
        """Add planar Laplace noise to the places."""
        return noise.planar_laplace(
            points,
            epsilon=plan.budget.epsilon,
            within=self.within(spec.domain),
            within_m=self.within_m,
            metre=map_axes(spec.domain)[0].scale / LONGEST_DEGREE,
            diameter=diameter(spec.domain),
            source=source,
            ledger=ledger,
            label="place",
        )

    def noise_scales(self, spec: Spec, plan: Plan) -> ScaleMixture:
        """Return planar Laplace noise for places that are `within_m` apart."""
        return planar_laplace_scales(self.within(spec.domain) / plan.budget.epsilon)

    def remarks(self, events: Sequence[Event], spec: Spec, plan: Plan) -> list[str]:
        """Return notes on the guarantee, near and far, and on errors of the map."""
        place = next(event for event in events if isinstance(event, PlanarLaplace))
        return [promise(place), *map_note(spec.domain), *super().remarks(events, spec, plan)]

    def within(self, domain: Domain) -> float:
        """Return the largest distance on the map of places that are `within_m` apart, in normalised units."""
        latitude, longitude = map_axes(domain)
        farthest = min(max(abs(latitude.lower), abs(latitude.upper)), POLAR)
        stretch = max(1.0, longitude.scale / latitude.scale / math.cos(math.radians(farthest)))
        within = self.within_m / SHORTEST_DEGREE * latitude.scale * stretch
        if within >= diameter(domain):
            widest = diameter(domain) / latitude.scale / stretch * SHORTEST_DEGREE
            raise MechanismFailure(
                f"within_m = {self.within_m:g} is not smaller than the public box of {domain.dataset}, which measures "
                f"{widest:,.0f} m from corner to corner; set a smaller distance, or use laplace_input, "
                "which hides a record in the whole box."
            )
        return within


def map_axes(domain: Domain) -> tuple[Axis, Axis]:
    """Return the latitude and the longitude; raise MechanismFailure if the coordinates are not exactly these two."""
    axes = {axis.geographic: axis for axis in domain.axes}
    if len(domain.axes) != 2 or set(axes) != {"latitude", "longitude"}:
        raise MechanismFailure(
            f"planar_laplace needs a latitude and a longitude and no other coordinate, but {domain.dataset} has "
            f"{', '.join(axis.name for axis in domain.axes)}; choose the coordinates in its catalog entry, "
            "or use laplace_input."
        )
    return axes["latitude"], axes["longitude"]


def promise(event: PlanarLaplace) -> str:
    """Return the guarantee of a report, near and far, as a note."""
    return (
        f"A reported place hides among the places within {event.within_m:,.0f} m (ε = {event.epsilon_within:.4g}). "
        f"It lies within {event.radius_m:,.0f} m of the true one in 95 % of reports. Between any two places in the "
        f"public box, ε is up to {event.epsilon:,.4g}; this is the guarantee as local differential privacy."
    )


def map_note(domain: Domain) -> list[str]:
    """Return a note if the public box reaches where the map overstates distances."""
    latitude, longitude = map_axes(domain)
    where = []
    if max(abs(latitude.lower), abs(latitude.upper)) > POLAR:
        where.append(f"beyond {POLAR:g}° of latitude")
    if longitude.upper - longitude.lower > 359:
        where.append("across the antimeridian")
    if not where:
        return []
    return [f"The map overstates distances {' and '.join(where)}: nearby places there are protected less."]
