"""The tidy results of a run, the gap to the best non-private model, and means with intervals."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import stdtrit

from privmix.artefacts.domain import Domain
from privmix.artefacts.scores import RESULT_COLUMNS, RESULT_SCHEMA

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over replicates with its interval. One replicate has no interval."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def estimate(values: Iterable[float]) -> Estimate:
    """Compute mean and Student's 95 % interval over replicates: mean ± t(n-1) s/√n."""
    sample = np.asarray(list(values), dtype=float)
    mean = float(sample.mean())
    if len(sample) < 2 or not np.isfinite(sample).all():
        return Estimate(mean, None, None, len(sample))
    quantile = float(stdtrit(len(sample) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * float(sample.std(ddof=1)) / math.sqrt(len(sample))
    return Estimate(mean, mean - half, mean + half, len(sample))


@dataclass(frozen=True)
class Baseline:
    """The non-private model from which the gaps of a dataset are measured."""

    mechanism: str
    replicate: int
    holdout_loglik: float


def best_non_private(results: pd.DataFrame, dataset: str) -> Baseline | None:
    """Return the non-private model with the best training likelihood; the choice does not use held-out records."""
    rows = results[(results["dataset"] == dataset) & np.isinf(results["epsilon"])]
    wide = rows.pivot(index=["mechanism", "replicate"], columns="metric", values="value")
    if not {"train_loglik", "holdout_loglik"} <= set(wide.columns):
        return None
    wide = wide.dropna(subset=["train_loglik", "holdout_loglik"])
    if wide.empty:
        return None
    mechanism, replicate = wide["train_loglik"].idxmax()
    return Baseline(mechanism, int(replicate), float(wide.loc[(mechanism, replicate), "holdout_loglik"]))


def uniform_loglik(domain: Domain) -> float:
    """Return the log-density of the uniform distribution on the public box, in normalised coordinates.

    Without coordinates, it is that of equally likely combinations of values.
    """
    if not domain.axes:
        return -sum(math.log(len(attribute.values)) for attribute in domain.attributes)
    return float(-np.log(domain.upper - domain.lower).sum())


def collect(tables: Iterable[pa.Table]) -> pd.DataFrame:
    """Collect all scores and the `holdout_gap` of every model, in the columns and the order of `results.csv`."""
    parts = [table.select(RESULT_COLUMNS).cast(RESULT_SCHEMA) for table in tables]
    scores = pa.concat_tables([RESULT_SCHEMA.empty_table(), *parts]).to_pandas()
    gaps = [scores]
    for dataset in scores["dataset"].unique():
        baseline = best_non_private(scores, dataset)
        if baseline is not None:
            of_dataset = (scores["dataset"] == dataset) & (scores["metric"] == "holdout_loglik")
            gap = scores[of_dataset].assign(metric="holdout_gap")
            gaps.append(gap.assign(value=gap["value"] - baseline.holdout_loglik))
    order = ["dataset", "mechanism", "epsilon", "replicate", "metric"]
    return pd.concat(gaps).sort_values(order, kind="stable", ignore_index=True)[list(RESULT_COLUMNS)]


def to_table(results: pd.DataFrame) -> pa.Table:
    """Return the results as an Arrow table without pandas metadata."""
    return pa.Table.from_pandas(results, schema=RESULT_SCHEMA, preserve_index=False).replace_schema_metadata(
        None
    )


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """Return the results as the bytes of a CSV file."""
    return frame.to_csv(index=False, lineterminator="\n").encode()


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """Return the results as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(to_table(frame), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


@dataclass(frozen=True)
class Results:
    """The results, looked up by name."""

    frame: pd.DataFrame

    @cached_property
    def _values(self) -> dict[tuple[str, str, float, str], list[float]]:
        groups = self.frame.groupby(["dataset", "mechanism", "epsilon", "metric"], sort=False)["value"]
        return {cast("tuple[str, str, float, str]", key): list(values) for key, values in groups}

    @cached_property
    def _relations(self) -> dict[tuple[str, str, float], str]:
        first = self.frame.groupby(["dataset", "mechanism", "epsilon"])["relation"].first()
        return cast("dict[tuple[str, str, float], str]", first.to_dict())

    def estimate(self, dataset: str, mechanism: str, epsilon: float, metric: str) -> Estimate | None:
        """Return the estimate of a metric over the replicates; None if it was not measured."""
        values = self._values.get((dataset, mechanism, epsilon, metric))
        return estimate(values) if values else None

    def values(self, dataset: str, mechanism: str, epsilon: float, metric: str) -> list[float]:
        """Return the values of a metric, one per replicate."""
        return self._values.get((dataset, mechanism, epsilon, metric), [])

    def relation(self, dataset: str, mechanism: str, epsilon: float) -> str:
        """Return the neighbouring relation of the models."""
        return self._relations[dataset, mechanism, epsilon]

    def metrics(self, dataset: str) -> set[str]:
        """Return the metrics measured on a dataset."""
        return set(self.frame.loc[self.frame["dataset"] == dataset, "metric"])

    @cached_property
    def _baselines(self) -> dict[str, Baseline | None]:
        return {name: best_non_private(self.frame, name) for name in self.frame["dataset"].unique()}

    def baseline(self, dataset: str) -> Baseline | None:
        """Return the best non-private model of a dataset."""
        return self._baselines.get(dataset)
