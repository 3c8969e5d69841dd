"""Check requests of statistics against the public columns of a dataset."""

import math
from collections.abc import Sequence

from privmix.artefacts.domain import Attribute, Axis
from privmix.artefacts.statistics import StatisticRequest
from privmix.errors import UserError, suggest

MOST_STATISTICS = 100  # of one dataset
MOST_BINS = 10_000
LEAST_Q = 2.0**-10  # and at most 1 - LEAST_Q: ranks are counted in steps of 2^-20


def check_requests(
    requests: Sequence[StatisticRequest], axes: Sequence[Axis], attributes: Sequence[Attribute], where: str
) -> None:
    """Refuse statistics that the columns of a dataset cannot have."""
    if len(requests) > MOST_STATISTICS:
        raise UserError(
            f"{where}: {len(requests)} statistics are too many; ask for at most {MOST_STATISTICS}, since each gets an "
            "equal part of the budget."
        )
    seen: set[str] = set()
    for request in requests:
        _check(request, axes, attributes, f"{where}: {request.kind}")
        if request.name in seen:
            raise UserError(f"{where}: {request.name} is listed twice; remove one, because each would be paid for.")
        seen.add(request.name)


def _check(
    request: StatisticRequest, axes: Sequence[Axis], attributes: Sequence[Attribute], where: str
) -> None:
    own = {name for name, value in request.model_dump().items() if value is not None} - {"kind"}
    allowed = {
        "count": {"column", "value"},
        "mean": {"column"},
        "quantile": {"column", "q"},
        "histogram": {"column", "bins"},
        "top": {"column", "by"},
    }[request.kind]
    if not own <= allowed:
        raise UserError(f"{where} has no setting {min(own - allowed)!r}; remove it.")
    if request.kind == "count" and request.column is None:
        if request.value is not None:
            raise UserError(f"{where} names a value without its column; write `count: {{column: value}}`.")
        return
    numbers = {axis.name: axis for axis in axes}
    categories = {each.name: each for each in attributes if not each.state_of}
    name = request.column or ""
    if name not in numbers and name not in categories:
        raise UserError(
            f"{where}: the dataset has no coordinate or attribute {name!r}; {suggest(name, [*numbers, *categories])}"
        )
    if request.kind in ("mean", "quantile") and name not in numbers:
        raise UserError(
            f"{where}: {name!r} is a category and has no {request.kind}; ask for `histogram: {name}` instead."
        )
    if request.kind in ("count", "top") and name not in categories:
        raise UserError(
            f"{where}: {name!r} is a number, and its single values are no categories; ask for a histogram with bins."
        )
    if request.kind == "count" and request.value not in categories[name].values:
        raise UserError(
            f"{where}: {name!r} has no value {request.value!r}; its public values are "
            f"{', '.join(categories[name].values[:20])}."
        )
    if request.kind == "quantile" and not (
        request.q is not None and math.isfinite(request.q) and LEAST_Q <= request.q <= 1 - LEAST_Q
    ):
        raise UserError(
            f"{where}: q = {request.q} must lie between {LEAST_Q:.3g} and {1 - LEAST_Q:.3g}; write `q: 0.5` for the "
            "median."
        )
    if request.kind == "top" and request.by is None:
        raise UserError(f"{where}: `by` is missing; write `by: exponential` or `by: noisy_max`.")
    if request.kind == "top" and not len(categories[name].values) > categories[name].blank:
        raise UserError(f"{where}: {name!r} has no value to choose.")
    if request.kind == "histogram":
        _check_bins(request, numbers.get(name), where)


def _check_bins(request: StatisticRequest, axis: Axis | None, where: str) -> None:
    if axis is None:
        if request.bins is not None:
            raise UserError(
                f"{where}: {request.column!r} is a category, and each value has its own count; remove `bins`."
            )
        return
    if request.bins is None:
        raise UserError(
            f"{where}: {request.column!r} is a number, so its histogram needs public bins; write for instance "
            "`bins: 20`, which are equal bins between its public bounds."
        )
    most = MOST_BINS if axis.step is None else min(MOST_BINS, round((axis.upper - axis.lower) / axis.step))
    if not 1 <= request.bins <= most:
        raise UserError(f"{where}: bins = {request.bins} of {request.column!r} must lie between 1 and {most:,}.")
