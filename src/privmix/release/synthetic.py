"""Synthetic rows: a function of the released model and of a published seed, in the columns and units of the source.

A row draws its component first. Its coordinates are drawn from the Gaussian of the component, rounded to their lattice
if they have one, and clipped to the public bounds, and each attribute is drawn from the released shares of the
component. So columns depend on each other through the component. Rounding adds the variance of a cell, step²/12, so it
is subtracted from that of the Gaussian first (Sheppard 1898). A drawn state that is not "given" replaces the coordinate
by an atom or a blank. An attribute without released shares is left out, and so are person identifiers.

The seed is safe to publish. Let M be the released model and S the seed: 128 bits that the operating system draws after
M, independently of the records, of M and of all noise. The pair (M, S) is then a randomised function of M alone, and
the rows f(M, S) are a function of the pair. So (M, S, f(M, S)) is post-processing of M: it has the (ε, δ) of M. The
seed draws nothing else; noise and searches have their own randomness.

Anyone can compute the rows again, with the same bytes on every machine. All numbers come from the 64-bit words of
Philox4x64-10 (Salmon et al. 2011) with the seed as its key, by sums, products, quotients and square roots in a fixed
order, which IEEE 754 rounds in one way. Library functions whose last digit differs between machines are not used.
"""

import csv
import math
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privmix.artefacts.domain import Attribute, Axis, Domain
from privmix.artefacts.io import to_arrow
from privmix.catalog.entry import Entry
from privmix.release.folder import Gaussians, ReleasedModel, Synthetic

CHUNK = 1 << 16  # rows per write
GROUP = 1 << 20  # rows in a group of the Parquet file

Columns = dict[str, np.ndarray | pa.Array]
Shares = Mapping[str, Sequence[Sequence[float]]]  # attribute -> shares of its values in each component


def describe(entry: Entry, shares: Collection[str], rows: int) -> Synthetic:
    """Return a fresh seed, the columns of the synthetic rows in the order of the source, and the columns left out."""
    known = {*entry.coordinates, *shares}  # states are no columns of the source
    return Synthetic(
        seed=secrets.token_hex(16),
        rows=rows,
        columns=tuple(column.name for column in entry.columns if column.name in known),
        left_out=tuple(column.name for column in entry.columns if column.name not in known),
    )


def sample_parts(model: ReleasedModel, size: int = CHUNK) -> Iterator[Columns]:
    """Yield the synthetic rows of a release, `size` rows at a time. The rows do not depend on `size`."""
    made = model.synthetic
    yield from _sample(model.original, model.domain, model.shares, made.columns, made.rows, made.seed, size)


def sample_rows(
    mixture: Gaussians,
    domain: Domain,
    shares: Shares,
    columns: Sequence[str],
    rows: int,
    seed: str,
) -> Columns:
    """Return all rows at once. `mixture` is in original units."""
    [made] = _sample(mixture, domain, shares, columns, rows, seed, rows)
    return made


def sample_coordinates(model: ReleasedModel, rows: int) -> np.ndarray:
    """Return the coordinates of the first rows, (n, d), as if all were given; dates as days since 1970."""
    made = model.synthetic
    values, _ = next(_draw(model.original, model.domain, model.shares, min(rows, made.rows), made.seed, rows))
    return values


def _sample(
    mixture: Gaussians,
    domain: Domain,
    shares: Shares,
    columns: Sequence[str],
    rows: int,
    seed: str,
    size: int,
) -> Iterator[Columns]:
    for values, codes in _draw(mixture, domain, shares, rows, seed, size):
        made: Columns = {
            each.name: _texts(each, codes[each.name]) for each in domain.attributes if each.name in codes
        }
        states = domain.axis_states(codes)
        for row, axis in enumerate(domain.axes):
            made[axis.name] = _cells(axis, values[:, row], states.get(axis.name))
        yield {name: made[name] for name in columns}


def _draw(
    mixture: Gaussians, domain: Domain, shares: Shares, rows: int, seed: str, size: int
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Yield coordinates, (n, d), on their lattice and within their bounds, and the codes of each attribute."""
    asked = [attribute for attribute in domain.attributes if attribute.name in shares]
    bounds = {name: np.cumsum(np.array(rows), axis=1) for name, rows in shares.items()}
    weights = np.cumsum(mixture.weights)
    means, factors = (
        np.array(mixture.means),
        np.array([cholesky(_before_rounding(each, domain)) for each in mixture.covariances]),
    )
    dimensions = len(domain.axes)
    words = np.random.Philox(key=int(seed, 16))
    for first in range(0, rows, size):
        count = min(size, rows - first)
        drawn = words.random_raw(count * (1 + dimensions + len(asked))).reshape(count, -1)
        uniform = ((drawn >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        component = _choose(weights, uniform[:, 0])
        normal = normal_quantile(uniform[:, 1 : 1 + dimensions])
        codes = {}
        for number, attribute in enumerate(asked, start=1 + dimensions):
            own = bounds[attribute.name][component]
            above = (uniform[:, number, None] * own[:, -1:] >= own).sum(axis=1)
            codes[attribute.name] = np.minimum(above, len(attribute.values) - 1)
        settled = np.empty((count, dimensions))
        for row, axis in enumerate(domain.axes):
            values = means[component, row]
            for column in range(row + 1):
                values = values + factors[component, row, column] * normal[:, column]
            settled[:, row] = axis.settle(values)
        yield settled, codes


def _before_rounding(covariance: Sequence[Sequence[float]], domain: Domain) -> list[list[float]]:
    """Return the covariance without the variance that rounding to the lattice adds."""
    step = [axis.step or 0.0 for axis in domain.axes]
    return [
        [value - step[row] ** 2 / 12 * (row == column) for column, value in enumerate(values)]
        for row, values in enumerate(covariance)
    ]


def _texts(attribute: Attribute, codes: np.ndarray) -> np.ndarray | pa.Array:
    """Return the values of an attribute in the type of the source."""
    if attribute.boolean:
        return pa.array(codes == attribute.values.index("true"), mask=_is_blank(attribute, codes))
    texts = np.array(attribute.values, dtype=object)
    if not attribute.blank:
        return texts[codes]
    return pa.array(texts[codes].tolist(), pa.string(), mask=_is_blank(attribute, codes))


def _is_blank(attribute: Attribute, codes: np.ndarray) -> np.ndarray:
    return (codes == len(attribute.values) - 1) & attribute.blank


def _cells(axis: Axis, values: np.ndarray, states: np.ndarray | None) -> np.ndarray | pa.Array:
    """Return the values of a coordinate in the type of the source, with atoms and blanks."""
    blank = np.zeros(len(values), dtype=bool)
    if states is not None:
        blank = states > len(axis.atoms)
        others = np.array([0.0, *axis.atoms, 0.0])
        values = np.where(states > 0, others[states], values)
    if axis.kind == "number":
        return pa.array(values, mask=blank) if blank.any() or states is not None else values
    whole = pa.array(values.astype(np.int64), mask=blank)
    if axis.kind == "date":
        return whole.cast(pa.int32()).cast(pa.date32())
    return whole if axis.kind == "integer" else pa.array(axis.labels, pa.string()).take(whole)


def _choose(cumulative: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Return the option of each uniform number, given the cumulative shares of the options."""
    chosen = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    return np.minimum(chosen, len(cumulative) - 1)


def cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the lower factor L of a positive definite matrix, L Lᵀ, by additions in a fixed order."""
    size = len(matrix)
    factor = [[0.0] * size for _ in range(size)]
    for row in range(size):
        for column in range(row + 1):
            rest = matrix[row][column]
            for inner in range(column):
                rest -= factor[row][inner] * factor[column][inner]
            diagonal = factor[column][column]
            factor[row][column] = math.sqrt(max(rest, 0.0)) if row == column else _ratio(rest, diagonal)
    return factor


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else 0.0


# Wichura 1988, algorithm AS 241, PPND16: the normal quantile as three ratios of polynomials, relative error 1e-16.
CENTRE = (
    (
        2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
        13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608,
    ),
    (
        5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
        5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0,
    ),
)  # fmt: skip
SHOULDER = (
    (
        7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
        3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
        0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0,
    ),
)  # fmt: skip
TAIL = (
    (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
        0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
        0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0,
    ),
)  # fmt: skip
LN2 = 0.6931471805599453


def normal_quantile(share: np.ndarray) -> np.ndarray:
    """Return the standard normal quantile of shares in (0, 1), with the same bits on every machine."""
    apart = share - 0.5
    middle = 0.180625 - apart * apart
    result = apart * _quotient(CENTRE, middle)
    outer = middle < 0
    if outer.any():
        side = np.where(apart[outer] < 0, share[outer], 1.0 - share[outer])
        root = np.sqrt(-natural_log(side))
        size = np.where(root <= 5.0, _quotient(SHOULDER, root - 1.6), _quotient(TAIL, root - 5.0))
        result[outer] = np.where(apart[outer] < 0, -size, size)
    return result


def _quotient(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: np.ndarray) -> np.ndarray:
    above, below = (_polynomial(part, x) for part in coefficients)
    return above / below


def _polynomial(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """Return the polynomial at x by Horner's rule, highest power first."""
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def natural_log(x: np.ndarray) -> np.ndarray:
    """Return ln x for x > 0: the exponent of two, and 2 artanh((m - 1)/(m + 1)) by its series for √½ ≤ m < √2."""
    fraction, exponent = np.frexp(x)
    small = fraction < math.sqrt(0.5)
    fraction = np.where(small, 2 * fraction, fraction)
    exponent = np.where(small, exponent - 1, exponent).astype(np.float64)
    ratio = (fraction - 1.0) / (fraction + 1.0)
    series = _polynomial(tuple(1.0 / odd for odd in range(25, 0, -2)), ratio * ratio)
    return exponent * LN2 + 2.0 * ratio * series


def write_rows(model: ReleasedModel, parquet: Path, text: Path) -> None:
    """Write the same rows as Parquet and as CSV."""
    write_parquet(model, parquet)
    with text.open("w", encoding="utf-8", newline="") as stream:
        write_csv(model, stream)


def write_parquet(model: ReleasedModel, path: Path) -> None:
    """Write the rows as Parquet, uncompressed: random numbers hardly shrink, and the bytes stay comparable."""
    writer: pq.ParquetWriter | None = None
    try:
        for columns in sample_parts(model, GROUP):
            table = to_table(columns)
            writer = writer or pq.ParquetWriter(path, table.schema, compression="none")
            writer.write_table(table, row_group_size=GROUP)
    finally:
        if writer is not None:
            writer.close()


def to_table(columns: Columns) -> pa.Table:
    """Return the rows as an Arrow table."""
    return pa.table({name: _arrow(values) for name, values in columns.items()})


def _arrow(values: np.ndarray | pa.Array) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    return to_arrow(values.tolist() if values.dtype == object else values)


class TextStream(Protocol):
    """Anything that text can be written to."""

    def write(self, text: str, /) -> object: ...


def write_csv(model: ReleasedModel, stream: TextStream) -> None:
    """Write the rows as CSV, with a header."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(model.synthetic.columns)
    for columns in sample_parts(model):
        writer.writerows(zip(*map(_fields, columns.values()), strict=True))


def _fields(values: np.ndarray | pa.Array) -> list[Any]:
    """Return the fields of a column of a CSV file; a blank is an empty field."""
    if isinstance(values, pa.Array) and pa.types.is_boolean(values.type):
        values = pc.if_else(values, "true", "false")
    return list(values.tolist())
