"""Crafted worlds: so few records that a mechanism runs in milliseconds, placed so that a canary is alone in its part.

The information of a measurement about one unit, in units of its noise, does not depend on the number of other units:
sensitivities hold for any records. So these records test a claim as well as millions do.
"""

import numpy as np

from privmix.artefacts.domain import Attribute, Axis, Domain
from privmix.audit.canaries import canary_pairs
from privmix.audit.recording import WorldPair
from privmix.mechanisms.base import Mechanism, Records, Spec
from privmix.privacy.sensitivity import Relation, Unit

UNITS = 300  # without the canary; enough that, despite the noise, the clusters stay away from the canary
RECORDS_EACH = 3  # if the unit is a person
COMPONENTS = 2
ATTRIBUTE = "answer"  # unless the mechanism needs one of another name
ANSWERS = ("no", "yes")
STATES = ("there", "blank")


def crafted_pairs(
    mechanism: Mechanism, unit: Unit, relation: Relation, *, blanks: bool = False
) -> list[WorldPair]:
    """Return the worlds for an audit of this mechanism, for this unit and relation.

    `blanks`: whether records may lack a coordinate.
    """
    spec = _crafted_spec(unit, relation, blanks, mechanism.needed_attribute or ATTRIBUTE)
    return canary_pairs(_crafted_records(spec), spec, mechanism.relation(spec))


def _crafted_spec(unit: Unit, relation: Relation, blanks: bool, attribute: str) -> Spec:
    """Return a square map of half-diagonal one degree, so that mechanisms for places can be audited too."""
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
        attributes=(
            Attribute(name=attribute, description="", values=ANSWERS),
            *([Attribute(name="state", description="", values=STATES, state_of=("longitude",))] * blanks),
        ),
        unit=unit,
        relation=relation,
        max_records_per_person=each,
        visibility="synthetic",
        rows=(UNITS + 1) * each,
        persons=UNITS + 1 if unit == "person" else None,
    )
    return Spec(domain, COMPONENTS)


def _crafted_records(spec: Spec) -> Records:
    """Return two clusters on either side of the centre, the same in every audit."""
    each = spec.domain.max_records_per_person
    generator = np.random.Generator(np.random.PCG64(1))
    side = np.where(np.arange(UNITS * each) % 2, 1.0, -1.0)[:, None]
    points = side * [0.3, 0.1] + generator.normal(0.0, 0.02, (UNITS * each, 2))
    codes = {
        each.name: generator.integers(len(each.values), size=len(points)) for each in spec.domain.attributes
    }
    return Records(points, codes, np.repeat(np.arange(UNITS), each))
