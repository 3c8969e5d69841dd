"""What each stage of a run has used, from the benchmark files that Snakemake writes beside the logs.

A file has one line of a job's last run: its seconds (`s`) and the largest memory that Snakemake met when it looked
(`max_rss`, in MB of 2^20 bytes). Snakemake looks every half second at first and every half minute later, and at a
short job perhaps never: then it writes no number, and none is shown.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class JobUsage:
    """What one job has used; None where nobody looked in time."""

    seconds: float
    memory_mb: float | None


@dataclass(frozen=True)
class StageUsage:
    """What the jobs of one stage have used, as far as it was measured."""

    stage: str
    planned: int
    measured: int
    total_seconds: float | None
    largest_seconds: float | None
    largest_mb: float | None

    @property
    def unmeasured(self) -> int:
        """How many of its jobs ran without being measured, or did not run."""
        return self.planned - self.measured


def read(text: str) -> JobUsage | None:
    """The last line of a benchmark file; None where it holds no time, as after a crash."""
    lines = list(csv.DictReader(text.splitlines(), delimiter="\t"))
    seconds = _number(lines[-1].get("s")) if lines else None
    return None if seconds is None else JobUsage(seconds, _number(lines[-1].get("max_rss")))


def of_stage(stage: str, planned: int, jobs: Sequence[JobUsage]) -> StageUsage:
    """The sum and the largest of what was measured."""
    seconds = [job.seconds for job in jobs]
    memory = [job.memory_mb for job in jobs if job.memory_mb is not None]
    return StageUsage(
        stage=stage,
        planned=planned,
        measured=len(jobs),
        total_seconds=math.fsum(seconds) if seconds else None,
        largest_seconds=max(seconds, default=None),
        largest_mb=max(memory, default=None),
    )


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
