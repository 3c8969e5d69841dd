"""The catalog as a Data Package (version 2, https://datapackage.org/standard/data-package/): one resource per dataset.

A resource must have data: the raw file if this machine has it, else a table with a header and no rows, whose
description says so. URLs are listed under `sources` only: to check a resource at a URL, a validator would have to
download it.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privmix.catalog.dataset_files import DatasetFiles
from privmix.catalog.entry import Column, Entry, FileSource, PackageSource, UrlSource
from privmix.catalog.readers.snap_checkins import FIELDS as SNAP_FIELDS

PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
MEDIA_TYPES = {
    "csv": "text/csv",
    "snap_checkins": "text/tab-separated-values",
    "parquet": "application/vnd.apache.parquet",
}


def describe_package(holdings: Sequence[DatasetFiles], folder: Path) -> dict[str, Any]:
    """The descriptor of a package that lies in `folder`."""
    return {
        "$schema": PROFILE,
        "name": "privmix-catalog",
        "title": "Datasets of the Privmix catalog",
        "description": (
            "Bounds, resolutions and lists of values are public knowledge, stated in the catalog with their reasons; "
            "they are not taken from the records. What lies beyond a bound is clipped to it when the data are cleaned."
        ),
        "resources": [_resource(holding, folder) for holding in holdings],
    }


def _resource(holding: DatasetFiles, folder: Path) -> dict[str, Any]:
    entry = holding.entry
    where = _location(holding, folder)
    description = entry.description
    if "data" in where:
        description += f" No rows here yet: `snakemake --cores 1 data/raw/{entry.name}.raw` makes them."
    table = "data" in where or "format" in where
    return {
        "name": entry.name,
        **({"type": "table"} if table else {}),
        **where,
        "title": entry.title,
        "description": description,
        **({"homepage": entry.homepage} if _is_address(entry.homepage) else {}),
        "licenses": [_licence(entry)],
        "sources": _sources(entry),
        **({"schema": _schema(holding, headed="data" in where)} if table else {}),
        "keywords": list(entry.keywords),
        "citation": entry.citation,
        "visibility": entry.visibility,
        "privacy": entry.privacy.model_dump(mode="json", exclude_none=True),
        "expected": entry.expected.model_dump(mode="json", exclude_none=True),
        "caveats": list(entry.caveats),
    }


def _location(holding: DatasetFiles, folder: Path) -> dict[str, Any]:
    """Where the data are, and how they are written."""
    entry, raw = holding.entry, holding.raw
    # Parquet has its own schema and its media type says so; named a format, a validator would need a reader for it.
    text = {"format": "csv", "encoding": "utf-8", "dialect": _dialect(entry)}
    written = {
        "mediatype": MEDIA_TYPES[entry.reader.format],
        **(text if entry.reader.format != "parquet" else {}),
    }
    if raw is not None and not (path := os.path.relpath(raw.path, folder)).startswith(".."):
        return {
            "path": Path(path).as_posix(),
            **written,
            **({"compression": "gz"} if raw.packed else {}),
            **({} if raw.bytes is None else {"bytes": raw.bytes}),
            **({} if raw.sha256 is None else {"hash": f"sha256:{raw.sha256}"}),
        }
    stated = entry.source if isinstance(entry.source, UrlSource) else None
    return {
        "data": [[column.name for column in entry.columns]],
        # Not `bytes` and `hash`: the catalog knows the unpacked content of a file that is not here.
        **({"contentBytes": stated.bytes} if stated and stated.bytes else {}),
        **({"contentHash": f"sha256:{stated.sha256}"} if stated and stated.sha256 else {}),
    }


def _dialect(entry: Entry) -> dict[str, Any]:
    if entry.reader.format == "snap_checkins":
        return {"delimiter": "\t", "header": False}
    return {"delimiter": entry.reader.delimiter}


def _licence(entry: Entry) -> dict[str, str]:
    """A licence has a name of letters, digits, dots and hyphens, or an address."""
    spdx = entry.licence.spdx
    name = re.sub(r"[^-a-zA-Z0-9._]+", "-", spdx).strip("-")
    address = {"path": entry.licence.url} if _is_address(entry.licence.url) else {}
    return {"name": name or "LicenseRef-unnamed", **address, "title": spdx}


def _sources(entry: Entry) -> list[dict[str, str]]:
    source = entry.source
    if isinstance(source, UrlSource):
        return [{"title": address, "path": address} for address in (source.url, *source.mirrors)]
    if isinstance(source, FileSource):
        return [{"title": f"A file of this machine, {Path(source.path).name}"}]
    if isinstance(source, PackageSource):
        return [{"title": f"Python package {source.package}, {source.item}"}]
    return [{"title": f"Generator {source.generator}, seed {source.seed}, {source.rows} rows"}]


def _schema(holding: DatasetFiles, headed: bool) -> dict[str, Any]:
    """The declared columns; a file without a header needs all of its columns in their order."""
    entry = holding.entry
    clipped = holding.counts.clipped if holding.counts else {}
    described = {column.name: _field(column, clipped.get(column.name, 0) > 0) for column in entry.columns}
    if entry.reader.format == "snap_checkins" and not headed:
        fields = [described.get(name, {"name": name, "type": "any"}) for name in SNAP_FIELDS]
        return {"fields": fields, "fieldsMatch": "exact"}
    return {"fields": list(described.values()), "fieldsMatch": "subset"}


def _field(column: Column, clipped: bool) -> dict[str, Any]:
    """A column. Bounds that some values of the file are known to miss are no constraint on the file."""
    field: dict[str, Any] = {
        "name": column.name,
        "type": {"number": "number", "category": "string", "identifier": "any"}[column.type],
        "description": column.description,
    }
    if column.type == "number":
        bounds = {"minimum": column.lower, "maximum": column.upper}
        field["clippedTo" if clipped else "constraints"] = bounds
        field |= {"unit": column.unit, "resolution": column.resolution, "boundReason": column.bound_reason}
    elif column.type == "category":
        field["constraints"] = {"enum": list(column.values)}
        field |= {} if column.missing is None else {"missingCountsAs": column.missing}
    return field


def _is_address(text: str) -> bool:
    return text.startswith(("https://", "http://"))
