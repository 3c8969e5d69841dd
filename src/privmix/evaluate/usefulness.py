"""Usefulness of a synthetic table: distances to held-out records per column, per pair, and overall."""

import numpy as np

from privmix.artefacts.usefulness import ColumnComparison, JointShares, PairComparison, TableComparison
from privmix.evaluate.table import CategoryColumn, NumberColumn, TableSummary


def compare(real: TableSummary, synthetic: TableSummary) -> TableComparison:
    """Compare a synthetic table with real records in the same columns."""
    columns = tuple(_compare_column(column, real, synthetic) for column in real.table.columns)
    pairs = tuple(
        PairComparison(
            columns=pair,
            distance=total_variation(real.joint[pair], synthetic.joint[pair]),
            measure=measure,
            real=value,
            synthetic=synthetic.association[pair][1],
        )
        for pair, (measure, value) in real.association.items()
    )
    compared = TableComparison(
        columns=columns,
        pairs=pairs,
        sliced_wasserstein=sliced_wasserstein(real.projections, synthetic.projections),
    )
    worst = compared.worst_pair
    if worst is None:
        return compared
    joint = JointShares(
        columns=worst.columns,
        real=real.joint[worst.columns].tolist(),
        synthetic=synthetic.joint[worst.columns].tolist(),
    )
    return compared.model_copy(update={"worst_joint": joint})


def table_metrics(
    compared: TableComparison, columns: tuple[NumberColumn | CategoryColumn, ...]
) -> dict[str, float]:
    """Return the overall metrics of a comparison, by name.

    Errors of means and standard deviations are in units of the real standard deviation, or of the resolution if that
    is larger.
    """
    found = {
        "table_worst_column_distance": compared.worst_column.distance,
        "table_mean_column_distance": float(np.mean([column.distance for column in compared.columns])),
        "table_sliced_wasserstein": compared.sliced_wasserstein,
    }
    if compared.pairs:
        distances = [pair.distance for pair in compared.pairs]
        errors = [abs(pair.synthetic - pair.real) for pair in compared.pairs]
        found |= {"table_worst_pair_tv": max(distances), "table_mean_pair_tv": float(np.mean(distances))}
        found["table_worst_association_error"] = max(errors)
    errors_of_mean, errors_of_deviation = [], []
    for column in columns:
        if isinstance(column, NumberColumn):
            its = compared.column(column.name)
            if its.real_numbers is None or its.synthetic_numbers is None:
                continue  # no row has this number
            size = max(its.real_numbers.standard_deviation, column.resolution)
            errors_of_mean.append(abs(its.synthetic_numbers.mean - its.real_numbers.mean) / size)
            change = its.synthetic_numbers.standard_deviation - its.real_numbers.standard_deviation
            errors_of_deviation.append(abs(change) / size)
    if errors_of_mean:
        found["table_worst_mean_error"] = max(errors_of_mean)
        found["table_worst_sd_error"] = max(errors_of_deviation)
    return found


def worst_excess(compared: TableComparison, real_sample: TableComparison) -> float:
    """Return how far a column or pair is at most from the held-out records, beyond the distance of a real sample."""
    columns = zip(compared.columns, real_sample.columns, strict=True)
    pairs = zip(compared.pairs, real_sample.pairs, strict=True)
    return max(
        *(mine.distance - sample.distance for mine, sample in columns),
        *(mine.distance - sample.distance for mine, sample in pairs),
        -1.0,
    )


def kolmogorov_smirnov(first: np.ndarray, second: np.ndarray) -> float:
    """Compute the largest difference of two empirical distribution functions, max |F(x) - G(x)|, of sorted values."""
    if not len(first) or not len(second):
        return float(len(first) != len(second))
    found = 0.0
    for values in (first, second):
        below = np.searchsorted(first, values, "right") / len(first)
        found = max(
            found, float(np.abs(below - np.searchsorted(second, values, "right") / len(second)).max())
        )
    return found


def total_variation(first: np.ndarray, second: np.ndarray) -> float:
    """Compute the total variation distance of two distributions: half the sum of |p - q|."""
    return float(np.abs(first - second).sum() / 2)


def sliced_wasserstein(first: np.ndarray, second: np.ndarray) -> float:
    """Compute the mean over directions of W₁ = ∫ |F⁻¹(u) - G⁻¹(u)| du between sorted projections, (m, n) each.

    (Rabin, Peyré, Delon, Bernot 2011; W₁ in one dimension: Vallender 1974.)
    """
    if not len(first):
        return 0.0
    sizes = first.shape[1], second.shape[1]
    levels = np.union1d(*(np.arange(1, size + 1) / size for size in sizes))
    widths = np.diff(levels, prepend=0.0)
    middle = levels - widths / 2
    at = [np.minimum((middle * size).astype(np.int64), size - 1) for size in sizes]
    return float((np.abs(first[:, at[0]] - second[:, at[1]]) @ widths).mean())


def _compare_column(
    column: NumberColumn | CategoryColumn, real: TableSummary, synthetic: TableSummary
) -> ColumnComparison:
    name = column.name
    shares = [tuple(float(share) for share in each.shares[name]) for each in (real, synthetic)]
    if isinstance(column, CategoryColumn):
        distance = total_variation(real.shares[name], synthetic.shares[name])
        return ColumnComparison(name=name, distance=distance, real=shares[0], synthetic=shares[1])
    return ColumnComparison(
        name=name,
        distance=kolmogorov_smirnov(real.ordered[name], synthetic.ordered[name]),
        edges=tuple(float(edge) for edge in column.edges),
        real=shares[0],
        synthetic=shares[1],
        real_numbers=real.numbers.get(name),
        synthetic_numbers=synthetic.numbers.get(name),
    )
