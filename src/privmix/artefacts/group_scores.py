"""The scores of groups of records in a scores file: sums from which the report computes differences and intervals."""

import base64
from collections.abc import Sequence

import numpy as np
from pydantic import Field

from privmix.artefacts.io import Artefact


class GroupMeasure(Artefact):
    """One number per replicate and group, and its covariance over people (or places) as mean over replicates."""

    groups: tuple[str, ...]  # those with a value in every replicate
    values: tuple[tuple[float, ...], ...]  # replicates x groups
    covariance: tuple[tuple[float, ...], ...]  # groups x groups

    @property
    def mean(self) -> dict[str, float]:
        """The mean over replicates, by group."""
        return dict(zip(self.groups, np.mean(self.values, axis=0).tolist(), strict=True))


class GroupingScores(Artefact):
    """The scores of one grouping; `groups` are those with enough held-out records."""

    name: str
    groups: tuple[str, ...]
    records: tuple[int, ...]  # held-out records of each
    shares: tuple[float, ...]  # of the held-out records, or of their persons
    too_few: tuple[str, ...]  # groups with fewer held-out records
    membership: GroupMeasure | None = None
    model_share: GroupMeasure | None = None  # the model's share of the group minus the held-out share
    parity: dict[str, dict[str, GroupMeasure]] = Field(
        default_factory=dict
    )  # outcome value -> rate -> groups


class GroupScores(Artefact):
    """The scores of all groupings of a model file."""

    groupings: tuple[GroupingScores, ...]
    densities: tuple[str, ...]  # log densities of held-out records: one packed array per replicate

    def log_densities(self) -> np.ndarray:
        """Return the log densities of the held-out records, (replicates, n)."""
        return np.array(
            [np.frombuffer(base64.b64decode(each), "<f4") for each in self.densities], dtype=float
        )


def pack_densities(densities: Sequence[np.ndarray]) -> tuple[str, ...]:
    """Return arrays of log densities as text, with seven digits."""
    return tuple(base64.b64encode(each.astype("<f4").tobytes()).decode() for each in densities)
