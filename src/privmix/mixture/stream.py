"""Records that every pass reads again, so that memory does not grow with their number."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.mixture.moments import Observations, observe

Batches = Callable[[], Iterable[np.ndarray]]


@dataclass(frozen=True, eq=False)
class Stream:
    """A stream of records x = (v - centre) * scale, where v are the rows of the batches."""

    batches: Batches  # each call returns a new iterator over arrays (n, d)
    rows: int
    mean: np.ndarray  # (d,) mean of v
    second: np.ndarray  # (d, d) covariance of v
    centre: np.ndarray  # (d,)
    scale: np.ndarray  # (d,)

    def __len__(self) -> int:
        return self.rows

    @property
    def dimensions(self) -> int:
        """Number of coordinates, d."""
        return len(self.mean)

    @property
    def total_weight(self) -> float:
        """Number of records, because each has weight 1."""
        return float(self.rows)

    def covariance(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute the mean (d,) and covariance (d, d) of all records."""
        return (self.mean - self.centre) * self.scale, self.second * np.outer(self.scale, self.scale)

    def blocks(self) -> Iterator[Observations]:
        """Iterate over the records, one batch at a time."""
        seen = 0
        for batch in self.batches():
            if len(batch):
                seen += len(batch)
                places = batch - self.centre
                places *= self.scale
                yield observe(places)
        if seen != self.rows:
            raise UserError(
                f"the stream had {self.rows} records at first and {seen} now; "
                "it must return the same records each time it is read."
            )

    def normalise(self, centre: np.ndarray, scale: np.ndarray) -> "Stream":
        """Convert records of x to records of y = (x - centre) * scale."""
        return Stream(
            self.batches,
            self.rows,
            self.mean,
            self.second,
            self.centre + np.asarray(centre) / self.scale,
            self.scale * scale,
        )


def stream_batches(batches: Batches) -> Stream:
    """Make a stream over `batches()`. Every pass calls it, and it must yield the same arrays (n, d) each time.

    This function reads the stream once for its size, mean and covariance. For each batch, it adds the deviations from
    the mean of the batch and the deviation of that mean (Chan, Golub & LeVeque 1983). This keeps the digits that
    Σx² - (Σx)²/n would lose.
    """
    if not callable(batches):
        raise UserError(
            "a stream is read many times: pass a function that returns the batches, not the batches."
        )
    rows, mean, scatter = 0, None, None
    for batch in batches():
        if not len(batch):
            continue
        centre, covariance = observe(batch).covariance()
        if mean is None or scatter is None:
            rows, mean, scatter = len(batch), centre, covariance * len(batch)
            continue
        if centre.shape != mean.shape:
            raise UserError(
                f"the batches of the stream have {len(mean)} columns at first and {len(centre)} later; "
                "all batches must have the same columns."
            )
        away, total = centre - mean, rows + len(batch)
        scatter += covariance * len(batch) + np.outer(away, away) * (rows * len(batch) / total)
        mean, rows = mean + away * (len(batch) / total), total
    if mean is None or scatter is None:
        raise UserError("there is nothing to fit: the stream holds no records.")
    return Stream(batches, rows, mean, scatter / rows, np.zeros_like(mean), np.ones_like(mean))
