"""The memory and time that a job requests from a cluster, from public sizes only. Each retry requests twice as much.

The figures are generous: too little costs an attempt, too much only a longer wait in the queue. They come from the
logs, where every stage reports its usage. A million records of two coordinates took at most 552 MB in any stage,
and 45 seconds for a fit of ten components.
"""

from collections.abc import Iterable

from privmix.catalog.entry import Entry

# Inside a SLURM job Snakemake runs twice (270 MB in total), and the job pays for both.
RUNNER_MB = 600
STAGE_MB = 500
MB_PER_MILLION_VALUES = 250
STAGE_MINUTES = 20
MINUTES_PER_MILLION_VALUES = 1
MINUTES_PER_FIT = 0.15  # for a million records and one component, searches included
# Used if the catalog states the bytes of a file but no rows, or neither.
BYTES_PER_VALUE = 16
UNKNOWN_ROWS = 1_000_000


def rows(entry: Entry) -> int:
    """Return the public number of records, or a generous estimate."""
    if entry.expected.rows is not None:
        return entry.expected.rows
    known = getattr(entry.source, "rows", None)
    if known is not None:
        return known
    size = getattr(entry.source, "bytes", None)
    return UNKNOWN_ROWS if size is None else size // (BYTES_PER_VALUE * len(entry.columns))


def _million_values(entry: Entry) -> float:
    return rows(entry) * (len(entry.coordinates) + len(entry.attributes)) / 1e6


def _grown(value: float, attempt: int) -> int:
    return round(value * 2 ** (attempt - 1))


def memory_mb(entries: Iterable[Entry], attempt: int = 1) -> int:
    """Return the memory (MB) of a job that reads these datasets, Snakemake included."""
    values = sum(map(_million_values, entries))
    return RUNNER_MB + _grown(STAGE_MB + MB_PER_MILLION_VALUES * values, attempt)


def minutes(entries: Iterable[Entry], gaussians: int = 0, attempt: int = 1) -> int:
    """Return the time of a job that reads these datasets. `gaussians` counts the components of all its fits."""
    read = [(_million_values(entry), rows(entry) / 1e6) for entry in entries]
    work = sum(
        MINUTES_PER_MILLION_VALUES * values + MINUTES_PER_FIT * gaussians * size for values, size in read
    )
    return _grown(STAGE_MINUTES + work, attempt)
