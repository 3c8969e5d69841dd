"""Crafted records: so few that a mechanism runs in milliseconds, and so placed that a canary is alone in its part.

What a release shows of one unit, in units of its noise, does not depend on how many others there are: sensitivities
are computed for any records. So a claim is tested as well on these as on millions.
"""

import numpy as np

from privmix.artefacts.domain import Attribute, Axis, Domain
from privmix.evaluate.audit.canaries import planted
from privmix.evaluate.audit.pair import Pair
from privmix.mechanisms.base import Mechanism, Records, Spec
from privmix.privacy.relation import Relation, Unit

UNITS = 300  # beside the canary: enough that noise leaves the clusters narrower than the canary is far
RECORDS_EACH = 3  # where a person is the unit
COMPONENTS = 2
ANSWERS = ("no", "yes")


def pairs(mechanism: Mechanism, unit: Unit, relation: Relation) -> list[Pair]:
    """The worlds in which that mechanism is audited, where such a unit and relation are asked for."""
    spec = _spec(unit, relation)
    return planted(_others(spec), spec, mechanism.relation(spec))


def _spec(unit: Unit, relation: Relation) -> Spec:
    """A square map of half-diagonal one degree, so that mechanisms for places can be audited too."""
    half = np.sqrt(0.5)
    axes = tuple(
        Axis(
            name=name,
            description="",
            unit="degree",
            geographic=name,
            lower=-half,
            upper=half,
            resolution=1e-3,
            centre=0.0,
            scale=1.0,
        )
        for name in ("latitude", "longitude")
    )
    each = RECORDS_EACH if unit == "person" else 1
    domain = Domain(
        dataset="crafted",
        title="Crafted records",
        axes=axes,
        attributes=(Attribute(name="answer", description="", values=ANSWERS),),
        unit=unit,
        relation=relation,
        max_records_per_person=each,
        visibility="synthetic",
        rows=(UNITS + 1) * each,
        persons=UNITS + 1 if unit == "person" else None,
    )
    return Spec(domain, COMPONENTS)


def _others(spec: Spec) -> Records:
    """Two clusters on either side of the centre, the same in every audit."""
    each = spec.domain.max_records_per_person
    generator = np.random.Generator(np.random.PCG64(1))
    side = np.where(np.arange(UNITS * each) % 2, 1.0, -1.0)[:, None]
    points = side * [0.3, 0.1] + generator.normal(0.0, 0.02, (UNITS * each, 2))
    codes = {"answer": generator.integers(len(ANSWERS), size=len(points))}
    return Records(points, codes, np.repeat(np.arange(UNITS), each))
