"""Measure the statistics: the exact numbers of the records, and their noise."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.artefacts.statistics import StatisticRequest
from privmix.mechanisms.base import Records, Spec
from privmix.mechanisms.shared.statistics import quantiles
from privmix.mechanisms.shared.statistics.budget import StatisticsPlan, is_record_number
from privmix.mechanisms.shared.statistics.cells import (
    equal_cells,
    find_attribute,
    find_axis,
    has_value,
    number_of_states,
    options,
    quantile_cells,
)
from privmix.privacy import noise, selection, sensitivity
from privmix.privacy.ledger import Event, Gaussian, Ledger, NoisyMaximum, PureEvent
from privmix.privacy.noise import NoiseSource
from privmix.privacy.sensitivity import Neighbours, Sensitivity

Measured = list[float] | list[int]  # noisy numbers, or the options that were chosen


def measure(
    records: Records,
    plan: StatisticsPlan,
    spec: Spec,
    neighbours: Neighbours,
    source: NoiseSource,
    ledger: Ledger,
) -> list[Measured]:
    """Measure each statistic of the spec, in order. A public number has no measurement, and an empty list here."""
    return [
        _measure_one(records, request, events, spec, neighbours, source, ledger) if events else []
        for request, events in zip(spec.statistics, plan.events, strict=True)
    ]


def _measure_one(
    records: Records,
    request: StatisticRequest,
    events: Sequence[Event],
    spec: Spec,
    neighbours: Neighbours,
    source: NoiseSource,
    ledger: Ledger,
) -> Measured:
    common: dict[str, Any] = {"source": source, "ledger": ledger}
    if request.kind == "quantile":
        return _choose_cells(records, request, events, spec, neighbours, common)
    if request.kind == "top":
        assert isinstance(events[0], PureEvent)
        choose = selection.laplace_noisy_max if isinstance(events[0], NoisyMaximum) else selection.exponential
        return [
            choose(
                top_counts(records, request, spec.domain),
                sensitivity=float(neighbours.records),
                epsilon=events[0].epsilon,
                monotonic=neighbours.relation == "add_remove",
                label=events[0].label,
                **common,
            )
        ]
    values = exact_numbers(records, request, spec, neighbours, exact=noise.needs_exact_sums(source))
    both, touched = number_reach(request, neighbours, spec.domain), min(len(values), 2 * neighbours.records)
    common |= {"label": events[0].label, "coordinates": touched}
    if isinstance(events[0], Gaussian):
        reach = noise.with_rounding(both.l2, touched, 2, neighbours=neighbours, source=source)
        noisy = noise.gaussian(
            values, sensitivity=reach, noise_multiplier=events[0].noise_multiplier, **common
        )
    else:
        assert isinstance(events[0], PureEvent)
        reach = noise.with_rounding(both.l1, touched, 1, neighbours=neighbours, source=source)
        noisy = noise.laplace(values, sensitivity=reach, epsilon=events[0].epsilon, **common)
    return [float(each) for each in noisy]


def number_reach(request: StatisticRequest, neighbours: Neighbours, domain: Domain) -> Sensitivity:
    """Return the sensitivity of the numbers of a count, a mean or a histogram."""
    if request.kind == "count":
        return sensitivity.single_count(neighbours)
    if request.kind == "histogram":
        return sensitivity.counts(neighbours)
    if values_are_public(request, neighbours, domain):
        return sensitivity.bounded_sum(neighbours)
    return sensitivity.bounded_sum_and_number(neighbours)


def values_are_public(request: StatisticRequest, neighbours: Neighbours, domain: Domain) -> bool:
    """Return whether the number of records with a value in the column of a mean is public: all records have one."""
    number = find_axis(domain, request.column)
    return neighbours.size_is_public and number not in domain.states


def exact_numbers(
    records: Records, request: StatisticRequest, spec: Spec, neighbours: Neighbours, *, exact: bool
) -> np.ndarray:
    """Return the numbers of a count, a mean or a histogram without noise.

    With `exact`, each contribution is rounded to the lattice before the sum. Counts are whole numbers anyway.
    """
    if request.kind == "count":
        return np.array([float(count_records(records, request, spec.domain))])
    if request.kind == "histogram":
        return histogram(records, request, spec.domain)
    number = find_axis(spec.domain, request.column)
    assert number is not None
    held = has_value(records, number, spec.domain)
    points = np.clip(records.points[held, number], spec.domain.lower[number], spec.domain.upper[number])
    contributions = np.ones((len(points), 2))
    contributions[:, 0] = points / half_width(spec.domain, number)
    if values_are_public(request, neighbours, spec.domain):
        contributions = contributions[:, :1]
    if exact:
        return noise.exact_sum([(contributions, None)], contributions.shape[1])
    return np.asarray(contributions.sum(axis=0))


def half_width(domain: Domain, number: int) -> float:
    """Return the largest size of a normalised coordinate, which divides it, so that |z| ≤ 1."""
    return float(max(abs(domain.lower[number]), abs(domain.upper[number])))


def count_records(records: Records, request: StatisticRequest, domain: Domain) -> int:
    """Return the number of records, or of those with a value."""
    if is_record_number(request):
        return len(records)
    attribute = find_attribute(domain, request.column)
    assert attribute is not None
    assert request.value is not None
    return int(np.count_nonzero(records.codes[attribute.name] == attribute.values.index(request.value)))


def histogram(records: Records, request: StatisticRequest, domain: Domain) -> np.ndarray:
    """Return the counts of all values of an attribute; of a number, those of its bins, its atoms and its blank."""
    number = find_axis(domain, request.column)
    if number is None:
        attribute = find_attribute(domain, request.column)
        assert attribute is not None
        return np.bincount(records.codes[attribute.name], minlength=len(attribute.values)).astype(np.float64)
    assert request.bins is not None
    axis, held = domain.axes[number], has_value(records, number, domain)
    inside = equal_cells(axis, request.bins).place(records.points[held, number])
    counts = [np.bincount(inside, minlength=request.bins)]
    if states := number_of_states(axis):
        own = domain.axis_states(records.codes)[axis.name]
        counts.append(np.bincount(own[~held], minlength=states + 1)[1:])
    return np.concatenate(counts).astype(np.float64)


def number_of_values(request: StatisticRequest, neighbours: Neighbours, domain: Domain) -> int:
    """Return how many numbers are measured of a count, a mean or a histogram."""
    if request.kind == "count":
        return 1
    if request.kind == "mean":
        return 1 if values_are_public(request, neighbours, domain) else 2
    number = find_axis(domain, request.column)
    if number is None:
        attribute = find_attribute(domain, request.column)
        assert attribute is not None
        return len(attribute.values)
    assert request.bins is not None
    return request.bins + number_of_states(domain.axes[number])


def option_ranges(request: StatisticRequest, domain: Domain) -> list[range]:
    """Return the options that each choice of a statistic can have. 0 and C + 1 are the public bounds of a quantile."""
    if request.kind == "top":
        attribute = find_attribute(domain, request.column)
        assert attribute is not None
        return [range(len(options(attribute)))]
    number = find_axis(domain, request.column)
    assert number is not None
    cells = quantile_cells(domain.axes[number]).number
    return [range(1, cells + 1), range(cells + 1), range(1, cells + 2)]


def top_counts(records: Records, request: StatisticRequest, domain: Domain) -> np.ndarray:
    """Return the number of records with each value but the blank."""
    attribute = find_attribute(domain, request.column)
    assert attribute is not None
    counts = np.bincount(records.codes[attribute.name], minlength=len(attribute.values))
    return counts[: len(options(attribute))].astype(np.float64)


def cell_counts(records: Records, request: StatisticRequest, domain: Domain) -> np.ndarray:
    """Return the number of values in each cell of a quantile."""
    number = find_axis(domain, request.column)
    assert number is not None
    cells = quantile_cells(domain.axes[number])
    held = has_value(records, number, domain)
    return np.bincount(cells.place(records.points[held, number]), minlength=cells.number)


def _choose_cells(
    records: Records,
    request: StatisticRequest,
    events: Sequence[Event],
    spec: Spec,
    neighbours: Neighbours,
    common: dict[str, Any],
) -> list[int]:
    """Draw the cell of the quantile and of both ends. Options are numbered from the public lower bound, 0."""
    counts, q = cell_counts(records, request, spec.domain), request.q
    assert q is not None
    found = []
    for event, sign in zip(events, (0, -1, 1), strict=True):
        assert isinstance(event, PureEvent)
        offset = sign * quantiles.bracket_width(neighbours, q, event.epsilon, len(counts)) if sign else 0.0
        found.append(
            selection.exponential(
                quantiles.scores(counts, q, offset),
                sensitivity=quantiles.reach(neighbours, q),
                epsilon=event.epsilon,
                label=event.label,
                **common,
            )
        )
    return found
