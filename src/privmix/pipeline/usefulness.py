"""The usefulness of the models of one file: synthetic rows against held-out records, with a real sample beside them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privmix.artefacts.clean import CleanData, number_persons
from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import FittedModel
from privmix.artefacts.model import ModelFile
from privmix.artefacts.usefulness import TableComparison, Usefulness
from privmix.evaluate.clusters import cluster_cost
from privmix.evaluate.prediction import predict_outcome
from privmix.evaluate.table import CategoryColumn, Column, NumberColumn, Table, TableSummary, summarize
from privmix.evaluate.usefulness import compare, table_metrics, worst_excess
from privmix.mixture.mixed import Codes, MixedMixture
from privmix.mixture.model import Mixture

MOST_ROWS = 20_000
FEWEST_ROWS = 10
TOO_FEW = (
    f"fewer than {FEWEST_ROWS} held-out or training records are too few to measure the usefulness of a table"
)


@dataclass(frozen=True)
class Panel:
    """What comparisons of one dataset share: the clusters of k-means, and the outcome to predict, if any."""

    clusters: int
    outcome: str | None = None


@dataclass(frozen=True)
class UsefulnessScores:
    """The metrics of each replicate, by its number, and details for the report."""

    metrics: dict[int, dict[str, float]]
    info: Usefulness


def score_usefulness(
    model: ModelFile,
    clean: CleanData,
    panel: Panel,
    rows: np.random.Generator,
    streams: Callable[[int], np.random.Generator],
) -> UsefulnessScores | None:
    """Compare synthetic rows of each replicate, and training records, with held-out records; None if these are few.

    There are as many synthetic rows and training records as held-out records. `rows` draws records and must be the same
    for all models of a dataset; `streams` gives the stream of a replicate. If the unit is a person, each person counts
    once, with one record.
    """
    held_out, members = (draw_rows(clean, side, rows) for side in (~clean.train, clean.train))
    if not model.models or min(len(held_out), len(members)) < FEWEST_ROWS:
        return None
    domain = clean.info.domain
    described = {attribute for fitted in model.models for attribute in fitted.shares}
    columns = table_columns(domain, described)
    real = summarize(record_table(clean, held_out, columns))
    sample = summarize(record_table(clean, members[: len(held_out)], columns))
    reference, real_metrics = _measure(sample, real, panel, rows)
    metrics: dict[int, dict[str, float]] = {}
    first = reference
    for fitted in model.models:
        rng = streams(fitted.replicate)
        drawn = summarize(synthetic_table(domain, fitted, len(held_out), columns, rng))
        compared, found = _measure(drawn, real, panel, rng)
        first = compared if not metrics else first
        found["table_worst_excess"] = worst_excess(compared, reference)
        metrics[fitted.replicate] = found
    left_out = tuple(each.name for each in domain.attributes if each.name not in described)
    return UsefulnessScores(
        metrics,
        Usefulness(synthetic=first, real_sample=reference, real_metrics=real_metrics, left_out=left_out),
    )


def draw_rows(clean: CleanData, side: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw at most MOST_ROWS records of a side of the split, in random order: one per person if that is the unit."""
    drawn = rng.permutation(np.flatnonzero(side))
    if clean.info.domain.unit == "person" and len(drawn):
        # `number_persons` does not depend on the order of pseudonyms, which differs between machines.
        _, first = np.unique(number_persons(clean.person[drawn]), return_index=True)
        drawn = drawn[first]
    return drawn[:MOST_ROWS]


def table_columns(domain: Domain, attributes: set[str]) -> tuple[Column, ...]:
    """Return the public columns of a comparison: all coordinates, and these attributes."""
    numbers = [NumberColumn(axis.name, *axis.values, axis.resolution, axis.scale) for axis in domain.axes]
    named = [each for each in domain.attributes if each.name in attributes]
    return (*numbers, *(CategoryColumn(each.name, len(each.values), each.state_of) for each in named))


def record_table(clean: CleanData, rows: np.ndarray, columns: Sequence[Column]) -> Table:
    """Return the table of these records in original units."""
    codes = {name: values[rows] for name, values in clean.codes.items()}
    return points_table(clean.info.domain, clean.points[rows], codes, columns)


def synthetic_table(
    domain: Domain, fitted: FittedModel, rows: int, columns: Sequence[Column], rng: np.random.Generator
) -> Table:
    """Draw rows from a model, in original units, on their lattice and within the public bounds, as a release does."""
    weights, means, covariances = (
        np.array(part) for part in (fitted.weights, fitted.means, fitted.covariances)
    )
    shares = {name: np.array(values) for name, values in fitted.shares.items()}
    if domain.axes:
        covariances = covariances - np.diag(domain.rounding)
    smooth = Mixture(weights, means, covariances)
    points, codes = MixedMixture(smooth, shares).sample(rows, rng)
    return points_table(domain, points, codes, columns)


def points_table(domain: Domain, points: np.ndarray, codes: Codes, columns: Sequence[Column]) -> Table:
    """Return the table of these points and codes. Coordinates that a state replaces are missing."""
    values = domain.denormalise(points)
    settled = {axis.name: axis.settle(values[:, number]) for number, axis in enumerate(domain.axes)}
    for name, state in domain.axis_states(codes).items():
        settled[name][state != 0] = np.nan
    return Table(tuple(columns), {**settled, **codes})


def _measure(
    table: TableSummary, real: TableSummary, panel: Panel, rng: np.random.Generator
) -> tuple[TableComparison, dict[str, float]]:
    compared = compare(real, table)
    found = table_metrics(compared, real.table.columns)
    if real.table.coordinates.shape[1]:
        found["table_nicv"] = cluster_cost(
            real.table.coordinates, table.table.coordinates, panel.clusters, rng
        )
    if panel.outcome in {column.name for column in real.table.columns}:
        assert panel.outcome is not None
        scores = predict_outcome(table.table, real.table, panel.outcome)
        found |= {f"table_{name}": value for name, value in scores.items()}
    return compared, found
