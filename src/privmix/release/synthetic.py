"""Synthetic rows: drawn from the released model, in the columns and units of the source.

They are post-processing of the release and cost no privacy. Coordinates are drawn from the mixture and clipped to the
public bounds. An attribute is drawn from its released shares, projected to a distribution, independently of all other
columns, because the release holds no joint distribution. An attribute without released shares is left out, and so
are person identifiers.
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

CHUNK = 1 << 16  # rows per write


def describe(entry: Entry, proportions: Sequence[Proportion], rows: int) -> Synthetic:
    """Return the columns of the synthetic rows, in the order of the source, and the columns that are left out."""
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
    """Draw the rows and return their columns. `mixture` is in original units."""
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
    """Write the same rows as Parquet and as CSV."""
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
