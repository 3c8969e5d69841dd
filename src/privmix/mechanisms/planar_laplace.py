"""Planar Laplace noise (geo-indistinguishability): each place moves at random, and hides among the places nearby.

Privacy. A report is the place plus noise of density ∝ exp(-ε ‖e‖ / within_m), where ‖·‖ is distance on the map. By
the triangle inequality the densities of a report for two places at distance r differ by a factor of at most
exp(ε r / within_m) (Andrés, Bordenabe, Chatzikokolakis, Palamidessi 2013, §4.1): the budget's ε is for two places
that are no farther apart than `within_m`, and grows in proportion beyond. The public box has a diameter D, so between
any two records the report is (ε D / within_m)-LDP and no better, since that ratio is reached. That worst case is what
the ledger's event holds and every total counts; the claim is for two records whose places are within `within_m` metres
(`accounting.nearby`), whatever their attributes, each of which has its own share of ε. Where a person is the unit, it
is for two people all of whose places are. The fit sees the reports alone.

Distance on the map is in the normalised coordinates, where a degree of latitude is 111,195 m and a degree of longitude
what it is at the middle latitude of the public box. Nearer to a pole places on one parallel are closer to each other
than that: for two that are truly d metres apart at latitude φ the loss is ε d cos φ₀ / (within_m cos φ), φ₀ the middle
latitude. Nor does the map know that both its sides meet at the antimeridian.

Use it where places must stay roughly right, such as counts by district, and where whoever receives them may know the
town but not the street. It is not local differential privacy at ε: a report tells far places apart. Exact but for the
scale mixture through which the fit sees the noise, and, in a release, the acceptance step of its sampler
(`privacy.exact`).
"""

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from privmix.artefacts import Axis, Domain, Trust
from privmix.errors import MechanismFailure
from privmix.mechanisms import input_noise
from privmix.mechanisms.base import Spec, parameters
from privmix.mechanisms.local import Answers, LocalMechanism, Plan
from privmix.mixture import em
from privmix.mixture.scale_mixture import planar_laplace_scales
from privmix.privacy import noise
from privmix.privacy.ledger import Ledger, PlanarLaplace
from privmix.privacy.noise import NoiseSource

METRES_PER_DEGREE = 111_195.0  # of a great circle on a sphere of radius 6371 km
SLIGHT = 1.005  # a stretch of the map below this is not worth a factor


@parameters
class PlanarLaplaceInput(LocalMechanism):
    """`within_m`: ε is for two places so many metres apart; `fit`: naive, or aware (likelihood through the noise)."""

    trust: ClassVar[Trust] = "distance"

    within_m: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    reading: Annotated[input_noise.Reading, Field(validation_alias="fit")] = "aware"

    def answer(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> Answers:
        """Places plus planar Laplace noise."""
        rows = noise.planar_laplace(
            points,
            epsilon=plan.budget.epsilon,
            within=self.within(spec.domain),
            within_m=self.within_m,
            diameter=diameter(spec.domain),
            source=source,
            ledger=ledger,
            label="place",
        )
        return input_noise.noisy_rows(rows)

    def model(self, answers: Answers, spec: Spec, plan: Plan, rng: np.random.Generator) -> em.Fit:
        """A mixture of the rows, or of what is behind them."""
        epsilon, within = plan.budget.epsilon, self.within(spec.domain)
        event = PlanarLaplace("place", epsilon * diameter(spec.domain) / within, self.within_m, epsilon)
        scales = planar_laplace_scales(within / epsilon)
        return input_noise.fit_rows(
            answers, spec, scales, self.reading, rng, notes=(promise(event), map_note(spec.domain))
        )

    def within(self, domain: Domain) -> float:
        """`within_m` in normalised units."""
        latitude, _ = map_axes(domain)
        within = self.within_m / METRES_PER_DEGREE * latitude.scale
        if within >= diameter(domain):
            widest = diameter(domain) / latitude.scale * METRES_PER_DEGREE
            raise MechanismFailure(
                f"within_m = {self.within_m:g} is no less than the whole public box of {domain.dataset}, "
                f"{widest:,.0f} m from corner to corner; give a smaller distance, or use laplace_input, "
                "which hides a record in all of it."
            )
        return within


def map_axes(domain: Domain) -> tuple[Axis, Axis]:
    """The latitude and the longitude, or MechanismFailure where the records are not places and nothing else."""
    axes = {axis.geographic: axis for axis in domain.axes}
    if len(domain.axes) != 2 or set(axes) != {"latitude", "longitude"}:
        raise MechanismFailure(
            f"planar_laplace needs a latitude and a longitude and no other coordinate, and {domain.dataset} has "
            f"{', '.join(axis.name for axis in domain.axes)}; choose the coordinates in its catalog entry, "
            "or use laplace_input."
        )
    return axes["latitude"], axes["longitude"]


def diameter(domain: Domain) -> float:
    """L2 diameter of the public box."""
    return float(np.linalg.norm(domain.upper - domain.lower))


def promise(event: PlanarLaplace) -> str:
    """What a report promises, near and far."""
    return (
        f"a reported place hides among the places within {event.within_m:,.0f} m (ε = {event.epsilon_within:.4g}) and "
        f"lies within {event.radius_m:,.0f} m of the true one in 95 % of reports; between any two places of the public "
        f"box ε is up to {event.epsilon:,.4g}, which is its worth as local privacy"
    )


def map_note(domain: Domain) -> str:
    """How much farther apart than they are places on one parallel can count."""
    latitude, longitude = map_axes(domain)
    ratio = longitude.scale / latitude.scale
    worst = max(abs(latitude.lower), abs(latitude.upper))
    if worst >= 90:
        return (
            "distances are those of the map: an east-west distance at latitude φ counts "
            f"{'' if math.isclose(ratio, 1) else f'{ratio:.3g} '}1/cos φ times, twice as much at 60° as at the equator "
            "and without limit towards the poles, and the two sides of the antimeridian count as far apart"
        )
    stretch = ratio / math.cos(math.radians(worst))
    if stretch < SLIGHT:
        return "distances are those of the map, which are right to within 0.5 % in the public box"
    return f"distances are those of the map: an east-west distance at latitude {worst:.3g}° counts {stretch:.3g} times"
