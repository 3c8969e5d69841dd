"""What a job asks a cluster for, from public sizes alone; a later attempt asks for twice as much.

The figures are generous: asking for too little costs an attempt, for too much only a longer wait in the queue. They
were read off the logs, where every stage says what it has used. A million records of two coordinates took at most
552 MB in any stage, and 45 seconds for a fit of ten Gaussians.
"""

from collections.abc import Iterable

from privmix.catalog.entry import Entry

# Snakemake runs twice inside a SLURM job (270 MB together), and both count.
RUNNER_MB = 600
STAGE_MB = 500
MB_PER_MILLION_VALUES = 250
STAGE_MINUTES = 20
MINUTES_PER_MILLION_VALUES = 1
MINUTES_PER_FIT = 0.15  # of a million records to one Gaussian, searches included
# Where the catalog has a file's bytes but no rows, and where it has neither.
BYTES_PER_VALUE = 16
UNKNOWN_ROWS = 1_000_000


def rows(entry: Entry) -> int:
    """The public number of records, or a guess that is rather too large."""
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
    """The memory of a job that reads these datasets, with what runs around it."""
    values = sum(map(_million_values, entries))
    return RUNNER_MB + _grown(STAGE_MB + MB_PER_MILLION_VALUES * values, attempt)


def minutes(entries: Iterable[Entry], gaussians: int = 0, attempt: int = 1) -> int:
    """The time of a job that reads these datasets and fits so many Gaussians to each, over all its fits."""
    read = [(_million_values(entry), rows(entry) / 1e6) for entry in entries]
    work = sum(
        MINUTES_PER_MILLION_VALUES * values + MINUTES_PER_FIT * gaussians * size for values, size in read
    )
    return _grown(STAGE_MINUTES + work, attempt)
