"""Records that are read again in every pass and never held: memory does not grow with their number."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.mixture.moments import Observations, observe

Batches = Callable[[], Iterable[np.ndarray]]


@dataclass(frozen=True, eq=False)
class Stream:
    """Records of x = (v - centre) * scale where the batches hold v."""

    batches: Batches  # a new iterator over arrays (n, d) at each call
    rows: int
    mean: np.ndarray  # (d,) of v
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
        """Every record has weight 1."""
        return float(self.rows)

    def covariance(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (d,) and covariance (d, d) of all records together."""
        return (self.mean - self.centre) * self.scale, self.second * np.outer(self.scale, self.scale)

    def blocks(self) -> Iterator[Observations]:
        """The records, a batch at a time."""
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
                "it must give the same each time it is read."
            )

    def normalise(self, centre: np.ndarray, scale: np.ndarray) -> "Stream":
        """The records of y = (x - centre) * scale where these are of x."""
        return Stream(
            self.batches,
            self.rows,
            self.mean,
            self.second,
            self.centre + np.asarray(centre) / self.scale,
            self.scale * scale,
        )


def stream_batches(batches: Batches) -> Stream:
    """A stream over `batches()`, which is called for every pass and gives arrays (n, d) in the same order each time.

    Read once here for its size, mean and covariance: batch by batch, the deviations of each about its own mean
    and those of the means (Chan, Golub & LeVeque 1983), which keeps the digits that Σx² - (Σx)²/n would lose.
    """
    if not callable(batches):
        raise UserError("a stream is read many times: give a function that begins anew, not the batches.")
    rows, mean, scatter = 0, None, None
    for batch in batches():
        if not len(batch):
            continue
        centre, covariance = observe(batch).covariance()
        if mean is None:
            rows, mean, scatter = len(batch), centre, covariance * len(batch)
            continue
        if centre.shape != mean.shape:
            raise UserError(
                f"the stream's batches have {len(mean)} columns at first and {len(centre)} later."
            )
        away, total = centre - mean, rows + len(batch)
        scatter += covariance * len(batch) + np.outer(away, away) * (rows * len(batch) / total)
        mean, rows = mean + away * (len(batch) / total), total
    if mean is None:
        raise UserError("there is nothing to fit: the stream holds no record.")
    return Stream(batches, rows, mean, scatter / rows, np.zeros_like(mean), np.ones_like(mean))
