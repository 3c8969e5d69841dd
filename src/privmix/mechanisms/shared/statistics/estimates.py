"""From the measurements of statistics to values with intervals: post-processing of measured and public numbers only.

Counts: n lies within t of n + noise, where P(|noise| ≤ t) = 0.95. Whole numbers of this interval are as probable. The
value is the nearest whole number. If t is below 1/2, it can lie outside the interval, which is widened to hold it and
then covers more often. All counts of a histogram lie within the joint t + 1/2 of their values, because rounding to
whole numbers, and to 0, moves each value by at most 1/2 away from the data's own count.

Means, by Fieller's construction (1954). For a candidate μ, S̃ - μ Ñ has the mean S - μN, which is 0 for the data's own
μ = S/N, and its noise X - μY has a known law: Gaussian with σ√(1 + μ²), or a sum of two Laplace numbers of the scales b
and |μ|b (`accuracy.laplace_pair_beyond`). The interval has all μ in the public box with |S̃ - μÑ| ≤ t(μ),
P(|X - μY| ≤ t(μ)) = 0.95, so it covers the data's own mean with probability 0.95, also if Ñ is mostly noise. t is
convex, so the μ that are refused at one sign form an interval. The published interval spans all that are not refused.
If N is public, Y = 0. Rounding to the lattice moves the mean by at most 2^-21 half widths, which is added.

Quantiles: see `quantiles`. Most frequent value: its noise (Gumbel, or Laplace on each count) keeps the chosen count
within the stated distance of the largest (McSherry and Talwar 2007, Theorem 6; union bound over V Laplace numbers).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.artefacts.statistics import Statistic, StatisticRequest
from privmix.mechanisms.base import Spec
from privmix.mechanisms.shared.statistics import rounding
from privmix.mechanisms.shared.statistics.budget import StatisticsPlan
from privmix.mechanisms.shared.statistics.cells import find_attribute, find_axis, options, quantile_cells
from privmix.mechanisms.shared.statistics.measurement import (
    Measured,
    half_width,
    number_reach,
    values_are_public,
)
from privmix.privacy.accuracy import gaussian_within, laplace_pair_beyond, laplace_within
from privmix.privacy.exact import STEP
from privmix.privacy.ledger import Event, Gaussian, PureEvent, Selection
from privmix.privacy.sensitivity import Neighbours

PROBABILITY = 0.95


def publish(
    measured: Sequence[Measured], plan: StatisticsPlan, spec: Spec, neighbours: Neighbours
) -> list[Statistic]:
    """Return what is published of each statistic of the spec."""
    return [
        _publish_one(request, own, events, spec.domain, neighbours)
        for request, own, events in zip(spec.statistics, measured, plan.events, strict=True)
    ]


def _publish_one(
    request: StatisticRequest,
    measured: Measured,
    events: Sequence[Event],
    domain: Domain,
    neighbours: Neighbours,
) -> Statistic:
    if not events:
        number = (float(domain.rows),)
        return Statistic(
            request=request, values=number, lower=number, upper=number, accuracy=0.0, public=True
        )
    if request.kind == "top":
        return _top(request, int(measured[0]), events[0], domain, neighbours)
    if request.kind == "quantile":
        cells = [int(option) - 1 for option in measured]
        return _quantile(request, cells, domain)
    scale = noise_scale(request, events[0], domain, neighbours)
    gaussian = isinstance(events[0], Gaussian)
    if request.kind == "mean":
        rows = float(domain.rows) if values_are_public(request, neighbours, domain) else None
        return _mean(request, [float(each) for each in measured], scale, gaussian, rows, domain)
    return _counts(request, np.array(measured, dtype=np.float64), scale, gaussian)


def noise_scale(request: StatisticRequest, event: Event, domain: Domain, neighbours: Neighbours) -> float:
    """Return the scale of Laplace noise, or the standard deviation of Gaussian noise, without rounding."""
    both = number_reach(request, neighbours, domain)
    if isinstance(event, Gaussian):
        return both.l2 * event.noise_multiplier
    assert isinstance(event, PureEvent)
    return both.l1 / event.epsilon


def _within(scale: float, gaussian: bool, numbers: int = 1) -> float:
    """Return the distance within which all of these noisy numbers are with probability 0.95."""
    each = PROBABILITY ** (1 / numbers)
    return gaussian_within(scale, each) if gaussian else laplace_within(scale, each)


def _counts(request: StatisticRequest, noisy: np.ndarray, scale: float, gaussian: bool) -> Statistic:
    reach = _within(scale, gaussian)
    values = np.maximum(np.rint(noisy), 0.0)
    lower = np.clip(np.ceil(noisy - reach), 0.0, values)
    upper = np.maximum(np.floor(noisy + reach), values)
    if len(noisy) == 1:
        accuracy = float(max(values[0] - lower[0], upper[0] - values[0]))
    else:
        accuracy = rounding.rounded(_within(scale, gaussian, len(noisy)) + 0.5, rounding.OF_COUNTS, "up")
    published, least, most = (tuple(map(float, each + 0.0)) for each in (values, lower, upper))
    return Statistic(request=request, values=published, lower=least, upper=most, accuracy=accuracy)


def _mean(
    request: StatisticRequest,
    measured: Sequence[float],
    scale: float,
    gaussian: bool,
    rows: float | None,
    domain: Domain,
) -> Statistic:
    number = find_axis(domain, request.column)
    assert number is not None
    axis = domain.axes[number]
    total, size = (measured[0], rows) if rows is not None else (measured[0], measured[1])
    of_number = 0.0 if rows is not None else scale

    def is_beyond(distance: float, mu: float) -> bool:
        """Return whether P(|X - μY| ≥ distance) is below 0.05."""
        if gaussian:
            return distance > gaussian_within(math.hypot(scale, mu * of_number), PROBABILITY)
        return laplace_pair_beyond(scale, abs(mu) * of_number, distance) < 1 - PROBABILITY

    lower, upper = fieller(total, size, is_beyond)
    middle = min(max(total / size, -1.0), 1.0) if size > 0 else 0.0
    ends = np.array([max(lower - STEP / 2, -1.0), middle, min(upper + STEP / 2, 1.0)])
    box = axis.centre + ends * half_width(domain, number) / axis.scale
    least, value, most = np.clip(box, axis.lower, axis.upper)
    return _number(request, value, least, most, domain)


def fieller(total: float, size: float, is_beyond: Callable[[float, float], bool]) -> tuple[float, float]:
    """Return the smallest and the largest μ in [-1, 1] whose distance |total - μ size| is not beyond its noise.

    If there is none, return the end of [-1, 1] that is nearest to the ratio, twice.
    """

    def refuses(mu: float, sign: float) -> bool:
        return is_beyond(sign * (total - mu * size), mu)

    ends = []
    for start in (-1.0, 1.0):
        sign = 1.0 if total - start * size >= 0 else -1.0
        refused, kept = start, -start
        if not refuses(start, sign):
            ends.append(start)
            continue
        if refuses(kept, sign):  # the refused μ are an interval: all of the box
            nearest = -1.0 if abs(total + size) <= abs(total - size) else 1.0
            return nearest, nearest
        while (middle := (refused + kept) / 2) not in (refused, kept) and abs(kept - refused) > 1e-12:
            refused, kept = (middle, kept) if refuses(middle, sign) else (refused, middle)
        ends.append(kept)
    return ends[0], ends[1]


def _quantile(request: StatisticRequest, chosen: Sequence[int], domain: Domain) -> Statistic:
    """Return the value of the drawn cells. -1 and C stand for the public bounds."""
    number = find_axis(domain, request.column)
    assert number is not None
    cells = quantile_cells(domain.axes[number])
    inside = [min(max(cell, 0), cells.number - 1) for cell in chosen]
    value = cells.middle(inside[0])
    least = min(cells.ends(inside[1])[0], value)
    most = max(cells.ends(inside[2])[1], value)
    return _number(request, value, least, most, domain)


def _top(
    request: StatisticRequest, option: int, event: Event, domain: Domain, neighbours: Neighbours
) -> Statistic:
    attribute = find_attribute(domain, request.column)
    assert attribute is not None
    assert isinstance(event, PureEvent)
    listed = options(attribute)
    factor = 1 if neighbours.relation == "add_remove" else 2
    scale = factor * neighbours.records / event.epsilon
    apart = scale * math.log(len(listed) / (1 - PROBABILITY)) * (1 if isinstance(event, Selection) else 2)
    return Statistic(request=request, chosen=listed[option], accuracy=float(math.ceil(apart)))


def _number(request: StatisticRequest, value: float, least: float, most: float, domain: Domain) -> Statistic:
    """Return a mean or a quantile with its interval, which holds it."""
    unit = rounding.last_digit(request, domain)
    lower, upper = rounding.rounded(least, unit, "down"), rounding.rounded(most, unit, "up")
    published = rounding.rounded(min(max(value, least), most), unit)
    return Statistic(
        request=request,
        values=(published,),
        lower=(lower,),
        upper=(upper,),
        accuracy=rounding.reach(published, lower, upper, unit),
    )
