"""The error of published statistics against the records behind them. It is confidential: for benchmarks only."""

from collections.abc import Sequence

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.artefacts.statistics import Statistic, StatisticRequest
from privmix.mechanisms.base import Records
from privmix.mechanisms.shared.statistics.cells import find_attribute, find_axis, has_value, options
from privmix.mechanisms.shared.statistics.measurement import count_records, histogram, top_counts
from privmix.mechanisms.shared.statistics.rounding import last_digit


def true_numbers(request: StatisticRequest, records: Records, domain: Domain) -> np.ndarray:
    """Return the data's own numbers of a statistic; NaN for a mean or a quantile of no values.

    A quantile is the smallest value that at least the share q of the values does not exceed.
    """
    if request.kind == "count":
        return np.array([float(count_records(records, request, domain))])
    if request.kind == "histogram":
        return histogram(records, request, domain)
    if request.kind == "top":
        return top_counts(records, request, domain)
    number = find_axis(domain, request.column)
    assert number is not None
    axis = domain.axes[number]
    values = records.points[has_value(records, number, domain), number] / axis.scale + axis.centre
    if not len(values):
        return np.array([np.nan])
    if request.kind == "mean":
        return np.array([values.mean()])
    assert request.q is not None
    return np.array([np.quantile(values, request.q, method="inverted_cdf")])


def statistic_errors(statistics: Sequence[Statistic], records: Records, domain: Domain) -> dict[str, float]:
    """Return two metrics of each statistic: its largest error, and the share of intervals that cover the truth.

    For a most frequent value, the error is how many records its count is below the largest count.
    """
    found = {}
    for each in statistics:
        truth = true_numbers(each.request, records, domain)
        if each.request.kind == "top":
            attribute = find_attribute(domain, each.request.column)
            assert attribute is not None
            assert each.chosen is not None
            gap = truth.max() - truth[options(attribute).index(each.chosen)]
            found[f"statistic_error:{each.name}"] = float(gap)
            continue
        slack = float(last_digit(each.request, domain))  # the true numbers have rounding errors themselves
        inside = (np.array(each.lower) - slack <= truth) & (truth <= np.array(each.upper) + slack)
        found[f"statistic_error:{each.name}"] = float(np.abs(np.array(each.values) - truth).max())
        found[f"statistic_covered:{each.name}"] = float(inside.mean())
    return found
