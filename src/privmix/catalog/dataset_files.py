"""The files of each dataset on this machine: the raw file, and the public facts about the clean file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from privmix.artefacts.clean import RowCounts, read_clean_info
from privmix.artefacts.io import GZIP_MAGIC, file_sha256
from privmix.catalog.entry import Entry, find_entries


@dataclass(frozen=True)
class RawFile:
    """A raw file on disk. Size and hash are None for sensitive data, because they depend on the data."""

    path: Path
    packed: bool
    bytes: int | None
    sha256: str | None


@dataclass(frozen=True)
class DatasetFiles:
    """An entry, its path, and the files made from it so far."""

    entry: Entry
    path: Path
    raw: RawFile | None = None
    cleaned: bool = False
    counts: RowCounts | None = None  # of the clean file; None for sensitive data
    rows: int | None = None  # number of training records, if it is public
    content_sha256: str | None = None  # of the unpacked raw content; None for sensitive data


def find_all_files(
    directories: Sequence[str | Path], raw: str, clean: str
) -> tuple[tuple[DatasetFiles, ...], tuple[str, ...]]:
    """Find the files of all valid entries, and a sentence for each invalid one. `raw` and `clean` are path patterns."""
    found, problems = find_entries(directories)
    held = (
        find_files(entry, path, *(Path(pattern.format(dataset=entry.name)) for pattern in (raw, clean)))
        for entry, path in found
    )
    return tuple(held), tuple(problems)


def find_files(entry: Entry, path: Path, raw: Path, clean: Path) -> DatasetFiles:
    """Find the files of a dataset. For sensitive data the result holds only public facts."""
    file = _raw_file(raw, entry.visibility == "sensitive") if raw.is_file() else None
    if not clean.is_file():
        return DatasetFiles(entry, path, file)
    info = read_clean_info(clean)
    info.check_dataset(entry.name, clean)
    if entry.visibility == "sensitive":
        rows = info.domain.rows if entry.privacy.rows_are_public else None
        return DatasetFiles(entry, path, file, cleaned=True, rows=rows)
    return DatasetFiles(
        entry,
        path,
        file,
        cleaned=True,
        counts=info.counts,
        rows=info.domain.rows,
        content_sha256=info.raw_sha256,
    )


def _raw_file(path: Path, sensitive: bool) -> RawFile:
    with path.open("rb") as stream:
        packed = stream.read(2) == GZIP_MAGIC
    if sensitive:
        return RawFile(path, packed, None, None)
    return RawFile(path, packed, path.stat().st_size, file_sha256(path))
