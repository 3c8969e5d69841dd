"""The catalog as a Data Package (version 2, https://datapackage.org/standard/data-package/): one resource per dataset.

A resource must have data. This is the raw file if the machine has it. Otherwise it is a table with a header and no
rows, and the description says so. URLs are listed under `sources` only: a validator would download the file behind a
resource's URL to check it.
"""

import datetime
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privmix.catalog.dataset_files import DatasetFiles
from privmix.catalog.entry import Column, Entry, FileSource, PackageSource, UrlSource, hide_password
from privmix.catalog.readers.snap_checkins import FIELDS as SNAP_FIELDS

PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
FIELD_TYPES = {"category": "string", "ordinal": "string", "identifier": "any"}  # others have the same name
MEDIA_TYPES = {
    "csv": "text/csv",
    "snap_checkins": "text/tab-separated-values",
    "parquet": "application/vnd.apache.parquet",
}


def describe_package(holdings: Sequence[DatasetFiles], folder: Path) -> dict[str, Any]:
    """Return the descriptor of a package in `folder`."""
    return {
        "$schema": PROFILE,
        "name": "privmix-catalog",
        "title": "Datasets of the Privmix catalog",
        "description": (
            "Bounds, resolutions and lists of values are public knowledge. The catalog states them with reasons; "
            "they do not come from the records. Cleaning clips values outside the bounds to the bounds."
        ),
        "resources": [_resource(holding, folder) for holding in holdings],
    }


def _resource(holding: DatasetFiles, folder: Path) -> dict[str, Any]:
    entry = holding.entry
    where = _location(holding, folder)
    description = entry.description
    if "data" in where:
        description += (
            f" This copy has no rows yet; run `snakemake --cores 1 data/raw/{entry.name}.raw` to get them."
        )
    table = "data" in where or "format" in where
    return {
        "name": entry.name,
        **({"type": "table"} if table else {}),
        **where,
        "title": entry.title,
        "description": description,
        **({"homepage": hide_password(entry.homepage)} if _is_url(entry.homepage) else {}),
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
    """Return where the data are and how they are encoded."""
    entry, raw = holding.entry, holding.raw
    # Parquet has its own schema. If `format` named it, a validator would need a Parquet reader.
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
        # Not `bytes` and `hash`: the catalog states the size and hash of the unpacked content, not of the file.
        **({"contentBytes": stated.bytes} if stated and stated.bytes else {}),
        **({"contentHash": f"sha256:{stated.sha256}"} if stated and stated.sha256 else {}),
    }


def _dialect(entry: Entry) -> dict[str, Any]:
    if entry.reader.format == "snap_checkins":
        return {"delimiter": "\t", "header": False}
    return {"delimiter": entry.reader.delimiter}


def _licence(entry: Entry) -> dict[str, str]:
    """Return the licence. Its name may contain only letters, digits, dots and hyphens."""
    spdx = entry.licence.spdx
    name = re.sub(r"[^-a-zA-Z0-9._]+", "-", spdx).strip("-")
    url = {"path": hide_password(entry.licence.url)} if _is_url(entry.licence.url) else {}
    return {"name": name or "LicenseRef-unnamed", **url, "title": spdx}


def _sources(entry: Entry) -> list[dict[str, str]]:
    source = entry.source
    if isinstance(source, UrlSource):
        return [{"title": url, "path": url} for url in map(hide_password, (source.url, *source.mirrors))]
    if isinstance(source, FileSource):
        return [{"title": f"Local file {Path(source.path).name}"}]
    if isinstance(source, PackageSource):
        return [{"title": f"Python package {source.package}, {source.item}"}]
    return [{"title": f"Generator {source.generator}, seed {source.seed}, {source.rows} rows"}]


def _schema(holding: DatasetFiles, headed: bool) -> dict[str, Any]:
    """Return the declared columns. A file without a header needs all of its columns in order."""
    entry = holding.entry
    clipped = holding.counts.clipped if holding.counts else {}
    described = {column.name: _field(column, clipped.get(column.name, 0) > 0) for column in entry.columns}
    if entry.reader.format == "snap_checkins" and not headed:
        fields = [described.get(name, {"name": name, "type": "any"}) for name in SNAP_FIELDS]
        return {"fields": fields, "fieldsMatch": "exact"}
    return {"fields": list(described.values()), "fieldsMatch": "subset"}


def _field(column: Column, clipped: bool) -> dict[str, Any]:
    """Describe a column. Bounds are not a constraint on the file if some values are known to lie outside them."""
    field: dict[str, Any] = {
        "name": column.name,
        "type": FIELD_TYPES.get(column.type, column.type),
        "description": column.description,
    }
    if column.lower is not None and column.upper is not None:
        bounds = {"minimum": _plain(column.lower), "maximum": _plain(column.upper)}
        field["clippedTo" if clipped else "constraints"] = bounds
        field |= {"unit": column.unit, "resolution": column.resolution, "boundReason": column.bound_reason}
        field |= {"atoms": [_plain(atom) for atom in column.atoms]} if column.atoms else {}
    elif column.values:
        field["constraints"] = {"enum": list(column.values)}
        field |= {"categoriesOrdered": True} if column.type == "ordinal" else {}
        field |= {} if column.blank_means is None else {"missingCountsAs": column.blank_means}
    return field


def _plain(bound: float | datetime.date) -> float | str:
    """Return a bound as JSON holds it."""
    return str(bound) if isinstance(bound, datetime.date) else bound


def _is_url(text: str) -> bool:
    return text.startswith(("https://", "http://"))
