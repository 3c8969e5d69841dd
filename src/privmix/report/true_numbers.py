"""True numbers of the training records, which noisy numbers are compared with. They are exact: confidential."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privmix.artefacts.clean import CleanData
from privmix.artefacts.domain import Domain
from privmix.artefacts.statistics import Statistic, StatisticRequest
from privmix.mechanisms.base import Records, training_records
from privmix.mechanisms.shared.statistics.cells import find_attribute, find_axis, has_value, options
from privmix.mechanisms.shared.statistics.measurement import count_records, histogram, top_counts


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


def true_statistics(
    clean: CleanData, requests: Sequence[StatisticRequest]
) -> dict[StatisticRequest, Statistic]:
    """Return the statistics of the training records without noise, in original units. Their accuracy is 0."""
    if not requests:
        return {}
    records, domain = training_records(clean), clean.info.domain
    return {request: _true_statistic(request, records, domain) for request in requests}


def _true_statistic(request: StatisticRequest, records: Records, domain: Domain) -> Statistic:
    if request.kind == "top":
        attribute = find_attribute(domain, request.column)
        assert attribute is not None  # the request was checked against the columns
        chosen = options(attribute)[int(np.argmax(top_counts(records, request, domain)))]
        return Statistic(request=request, chosen=chosen, accuracy=0.0)
    if request.kind == "count":
        values = [float(count_records(records, request, domain))]
    elif request.kind == "histogram":
        values = histogram(records, request, domain).tolist()
    else:
        number = find_axis(domain, request.column)
        assert number is not None
        given = domain.denormalise(records.points)[has_value(records, number, domain), number]
        if not len(given):
            values = [float("nan")]
        elif request.kind == "mean":
            values = [float(given.mean())]
        else:
            assert request.q is not None
            values = [float(np.quantile(given, request.q, method="inverted_cdf"))]
    exact = tuple(values)
    return Statistic(request=request, values=exact, lower=exact, upper=exact, accuracy=0.0)
