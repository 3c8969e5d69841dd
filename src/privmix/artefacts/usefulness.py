"""Comparisons of a synthetic table with held-out records, column by column and pair by pair."""

from typing import Literal

from pydantic import Field

from privmix.artefacts.io import Artefact

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class NumberSummary(Artefact):
    """Mean, standard deviation and quantiles (`QUANTILES`) of a number column, in its unit."""

    mean: float
    standard_deviation: float
    quantiles: tuple[float, ...]


class ColumnComparison(Artefact):
    """One column of both tables."""

    name: str
    distance: float  # Kolmogorov-Smirnov for a number, total variation for a category
    edges: tuple[float, ...] = ()  # of the public bins of a number; a category has none
    real: tuple[float, ...]  # share of each bin or value
    synthetic: tuple[float, ...]
    real_numbers: NumberSummary | None = None  # None for a category, or if no row has the number
    synthetic_numbers: NumberSummary | None = None


class PairComparison(Artefact):
    """One pair of columns of both tables."""

    columns: tuple[str, str]
    distance: float  # total variation of the two-way marginals on the public bins
    measure: Literal["Pearson", "Cramér's V", "correlation ratio"]
    real: float  # the measure of association
    synthetic: float


class JointShares(Artefact):
    """The two-way marginals of one pair: the share of each pair of bins."""

    columns: tuple[str, str]
    real: tuple[tuple[float, ...], ...]
    synthetic: tuple[tuple[float, ...], ...]


class TableComparison(Artefact):
    """A synthetic table against held-out records."""

    columns: tuple[ColumnComparison, ...]
    pairs: tuple[PairComparison, ...] = ()
    worst_joint: JointShares | None = None  # of `worst_pair`
    sliced_wasserstein: float

    @property
    def worst_column(self) -> ColumnComparison:
        """The column with the largest distance."""
        return max(self.columns, key=lambda column: column.distance)

    @property
    def worst_pair(self) -> PairComparison | None:
        """The pair with the largest distance; None if there is one column."""
        return max(self.pairs, key=lambda pair: pair.distance, default=None)

    @property
    def worst_association(self) -> PairComparison | None:
        """The pair whose measure of association differs most; None if there is one column."""
        return max(self.pairs, key=lambda pair: abs(pair.synthetic - pair.real), default=None)

    def column(self, name: str) -> ColumnComparison:
        """Return the column of this name."""
        return next(column for column in self.columns if column.name == name)


class Usefulness(Artefact):
    """What a scores file holds besides the numbers: comparisons with the same held-out records and columns."""

    synthetic: TableComparison  # rows of the first replicate's model
    real_sample: TableComparison  # as many training records
    real_metrics: dict[str, float]  # of the real sample, by the names of the model's metrics
    left_out: tuple[str, ...] = Field(default=())  # attributes that the model does not describe
