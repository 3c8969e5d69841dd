"""Float audit: what is released with continuous noise must not tell its exact value by its low bits.

A double that is a value plus floating-point noise lies on a set that depends on the value (Mironov 2012): one look at
the bits takes the noise off. So a number that may be published lies on the public lattice of `privacy.exact`, whatever
the value was. Numbers of a seeded run do not, which is one reason why those may not be published.
"""

import numpy as np

from privmix.privacy.exact import STEP
from privmix.privacy.laws import DoubleExponential, Normal, PlanarExponential, SampledNormal
from privmix.privacy.witness import Tape

CONTINUOUS = (DoubleExponential, Normal, PlanarExponential, SampledNormal)


def low_bits(tape: Tape) -> list[str]:
    """A sentence for each kind of release whose numbers are not whole steps of the lattice."""
    found: dict[str, int] = {}
    for entry in tape.entries:
        if isinstance(entry.law, CONTINUOUS):
            steps = np.asarray(entry.released) / STEP
            off = np.count_nonzero(steps != np.rint(steps))
            if off:
                found[entry.event.label] = found.get(entry.event.label, 0) + off
    return [
        f"{label}: {off} released numbers are not whole steps of 2^-20, so that their low bits tell the exact value; "
        "draw a release from exact noise."
        for label, off in found.items()
    ]
