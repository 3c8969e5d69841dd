"""Synthetic data: rows drawn from the released model, in the columns and units of the source.

It is post-processing of the release and costs nothing. Coordinates are drawn from the mixture and drawn in to the
public bounds. An attribute is drawn by its released shares, brought to a distribution, and independently of
everything else, because the release knows no more of it; without released shares it is left out. Who a row belongs
to is never made up.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import Proportion
from privmix.artefacts.io import to_arrow
from privmix.catalog.entry import Entry
from privmix.mechanisms.shared.synopsis import project_to_simplex
from privmix.mixture.model import Mixture
from privmix.release.folder import Synthetic

CHUNK = 1 << 16  # rows written at a time


def describe(entry: Entry, proportions: Sequence[Proportion], rows: int) -> Synthetic:
    """Which columns there will be, in the order of the source, and which of those it has not."""
    known = {*entry.coordinates, *(share.attribute for share in proportions)}
    return Synthetic(
        rows=rows,
        columns=tuple(column.name for column in entry.columns if column.name in known),
        left_out=tuple(column.name for column in entry.columns if column.name not in known),
    )


def sample_rows(
    mixture: Mixture,
    domain: Domain,
    proportions: Sequence[Proportion],
    columns: Sequence[str],
    rows: int,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """The columns of so many rows; `mixture` is in original units."""
    lower = [axis.lower for axis in domain.axes]
    upper = [axis.upper for axis in domain.axes]
    points = np.clip(mixture.sample(rows, rng), lower, upper)
    made = {axis.name: points[:, number] for number, axis in enumerate(domain.axes)}
    for attribute in domain.attributes:
        shares = [share.estimate for share in proportions if share.attribute == attribute.name]
        if shares:
            values = np.array(attribute.values, dtype=object)
            made[attribute.name] = values[
                rng.choice(len(values), size=rows, p=project_to_simplex(np.array(shares)))
            ]
    return {name: made[name] for name in columns}


def write_rows(columns: Mapping[str, np.ndarray], parquet: Path, text: Path) -> None:
    """The same rows as Parquet and as CSV."""
    table = pa.table(
        {
            name: to_arrow(values.tolist() if values.dtype == object else values)
            for name, values in columns.items()
        }
    )
    pq.write_table(table, parquet, compression="zstd")
    with text.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        for first in range(0, table.num_rows, CHUNK):
            part = [values[first : first + CHUNK].tolist() for values in columns.values()]
            writer.writerows(zip(*part, strict=True))
