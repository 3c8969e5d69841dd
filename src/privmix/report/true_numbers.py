"""True numbers of the training records: the means and shares that noisy numbers are compared with. They are exact."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from privmix.artefacts.clean import CleanData


@dataclass(frozen=True)
class NumberKey:
    """What a number is about: the mean of a coordinate, the share of a value, or the share above the middle."""

    kind: Literal["mean", "share", "above"]
    column: str
    value: str = ""


def true_numbers(clean: CleanData) -> dict[NumberKey, float]:
    """Return the numbers of training records, in original units. Each record counts once, if it has a value."""
    domain = clean.info.domain
    points = clean.points[clean.train]
    codes = {name: each[clean.train] for name, each in clean.codes.items()}
    absent = domain.absent(codes, len(points))
    values = domain.denormalise(points)
    found = {}
    for number, axis in enumerate(domain.axes):
        given = values[~absent[:, number], number]
        if len(given):
            found[NumberKey("mean", axis.name)] = float(given.mean())
            found[NumberKey("above", axis.name)] = float((given > (axis.lower + axis.upper) / 2).mean())
    for attribute in domain.attributes:
        for code, value in enumerate(attribute.values):
            found[NumberKey("share", attribute.name, value)] = float(np.mean(codes[attribute.name] == code))
    return found
