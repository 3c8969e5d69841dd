"""Statistics beside the model: which one is asked for, and what was published of it."""

from typing import Literal

from privmix.artefacts.io import Artefact

StatisticKind = Literal["count", "mean", "quantile", "histogram", "top"]


class StatisticRequest(Artefact):
    """One statistic. Only public values decide what it means: columns, values and bounds of the catalog entry."""

    kind: StatisticKind
    column: str | None = None  # None for the number of all records
    value: str | None = None  # of a count: the value whose records are counted
    q: float | None = None  # of a quantile
    bins: int | None = None  # of the histogram of a number
    by: Literal["exponential", "noisy_max"] | None = None  # of the most frequent value

    @property
    def name(self) -> str:
        """The statistic in words. It names the measurement in the ledger too."""
        if self.kind == "count":
            return (
                "number of records" if self.column is None else f"records with {self.column} = {self.value}"
            )
        if self.kind == "quantile":
            return f"{self.q:g}-quantile of {self.column}"
        if self.kind == "top":
            how = "exponential mechanism" if self.by == "exponential" else "noisy maximum"
            return f"most frequent {self.column} ({how})"
        return f"{self.kind} of {self.column}"


class Statistic(Artefact):
    """What is published of one statistic, in the units of the source.

    With 95 % probability over the noise, the number of the data lies between `lower` and `upper`, and within `accuracy`
    of `values`. For a histogram, each interval has 95 %, and `accuracy` holds for all counts together. For the most
    frequent value, the count of the chosen value is within `accuracy` of the largest count; no count is published.
    """

    request: StatisticRequest
    chosen: str | None = None  # the value that was chosen as the most frequent
    values: tuple[float, ...] = ()
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    accuracy: float
    public: bool = False  # whether the number is public, and no budget was spent on it

    @property
    def name(self) -> str:
        """The statistic in words."""
        return self.request.name
