"""Getting an entry's raw file, whatever the kind of its source: whole and checked, or not at all."""

import shutil
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from privmix.artefacts.writing import replacing
from privmix.catalog import synthetic
from privmix.catalog.content import CorruptError, measure, mismatch
from privmix.catalog.entry import Entry, FileSource, PackageSource, UrlSource
from privmix.catalog.fetch import download
from privmix.catalog.packages import table
from privmix.errors import UserError


def acquire(entry: Entry, target: Path, override: Path | None = None) -> None:
    """Put the raw file of `entry` at `target`. `override` is a local file to take instead, unchecked."""
    source = entry.source
    if override is not None:
        _copy(Path(override), target, f"the file given for {entry.name} instead of its source")
    elif isinstance(source, UrlSource):
        download(source, target, name=entry.name)
    elif isinstance(source, FileSource):
        _copy(Path(source.path), target, f"the source of {entry.name}", source)
    elif isinstance(source, PackageSource):
        _write(table(source), target)
    else:
        _write(synthetic.checkins(source.seed, source.rows), target)


def _copy(path: Path, target: Path, role: str, expected: FileSource | None = None) -> None:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UserError(
            f"{role} {what}: looked for {path.absolute()}; correct the path or put the file there."
        )
    with replacing(target) as temporary:
        shutil.copyfile(path, temporary)
        if expected is not None:
            _check(path, temporary, role, expected)


def _check(path: Path, copy: Path, role: str, expected: FileSource) -> None:
    try:
        fault = mismatch(measure(copy), expected.bytes, expected.sha256)
    except CorruptError as problem:
        fault = str(problem)
    if fault:
        raise UserError(
            f"{role}, {path}, is not the file expected: {fault}; "
            "get the right file, or correct bytes and sha256 in the entry."
        )


def _write(content: pa.Table, target: Path) -> None:
    with replacing(target) as temporary:
        csv.write_csv(content, temporary, csv.WriteOptions(quoting_style="needed"))
