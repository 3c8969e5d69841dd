"""Requests of statistics: read them from a configuration, and check them against the public columns of a dataset."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from privmix.artefacts.domain import Attribute, Axis
from privmix.artefacts.statistics import StatisticRequest
from privmix.errors import UserError, suggest

MOST_STATISTICS = 100  # of one dataset
MOST_BINS = 10_000
LEAST_Q = 2.0**-10  # and at most 1 - LEAST_Q: ranks are counted in steps of 2^-20


def read_requests(
    asked: Sequence[Mapping[str, Any]], axes: Sequence[Axis], attributes: Sequence[Attribute], where: str
) -> tuple[StatisticRequest, ...]:
    """Return statistics in the form of the configuration as requests, checked. Each has the key of its kind."""
    requests = tuple(_read(each, attributes) for each in asked)
    check_requests(requests, axes, attributes, where)
    return requests


def _read(asked: Mapping[str, Any], attributes: Sequence[Attribute]) -> StatisticRequest:
    others = {key: asked[key] for key in ("q", "bins", "by") if asked.get(key) is not None}
    if asked.get("count") is not None:
        if asked["count"] == "all":
            return StatisticRequest(kind="count", **others)
        ((column, value),) = asked["count"].items()
        return StatisticRequest(kind="count", column=column, value=_text(value, column, attributes), **others)
    kind: Any = next(key for key in ("mean", "quantile", "histogram", "top") if asked.get(key) is not None)
    return StatisticRequest(kind=kind, column=asked[kind], **others)


def _text(value: Any, column: str, attributes: Sequence[Attribute]) -> str:
    """Return a value as the catalog lists it. YAML reads `yes`, `true` and `1` as other types."""
    if isinstance(value, bool):
        of = next((each for each in attributes if each.name == column), None)
        if of is not None and of.boolean:
            return of.values[int(value)]
        spellings = ("yes", "true", "on") if value else ("no", "false", "off")
        listed = () if of is None else of.values
        return next((each for each in listed if each.lower() in spellings), str(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


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
            raise UserError(
                f"{where}: {request.name} is listed twice; remove one, because each would be paid for."
            )
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
        raise UserError(
            f"{where}: bins = {request.bins} of {request.column!r} must lie between 1 and {most:,}."
        )
