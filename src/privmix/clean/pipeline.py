"""Raw file to clean Parquet in two passes over streams, in the order of the source.

The first pass reads, clips and normalises into a nameless temporary file, and keeps three words a row in memory
(pseudonym, draw of the split, fingerprint where repeats are dropped). From these alone it is decided which rows
stay and where they go; the second pass writes them. Only the clean file is ever seen under its name.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privmix.artefacts.clean import CleanInfo, RowCounts, clean_schema
from privmix.artefacts.domain import Attribute, Axis, Domain
from privmix.artefacts.parquet import with_info
from privmix.artefacts.writing import file_sha256, replacing
from privmix.catalog.entry import Entry
from privmix.catalog.readers import batches
from privmix.catalog.readers.batch import Batch
from privmix.clean import ENTRY_SECTIONS
from privmix.clean.accounting import DUPLICATE, OVER_LIMIT, Tally, check_expected, check_tolerated
from privmix.clean.pseudonyms import pseudonyms
from privmix.clean.selection import fingerprints, over_limit, repeats
from privmix.clean.split import draws, held_out, share
from privmix.clean.transform import axes as public_axes
from privmix.clean.transform import clip
from privmix.errors import UserError


@dataclass(frozen=True)
class _Rows:
    """What is remembered of every readable row."""

    person: np.ndarray
    draw: np.ndarray
    fingerprint: np.ndarray | None


def clean(
    entry: Entry, raw: Path, output: Path, *, master_seed: int, key: bytes, overridden: bool = False
) -> CleanInfo:
    """Write the clean Parquet of the raw file; `overridden` says that it stands in for the entry's own source."""
    axes = public_axes(entry)
    tally = Tally()
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=Path(output).parent) as spool:
        rows = _spool(entry, raw, spool, axes, tally, master_seed, key)
        check_tolerated(tally, entry)
        persons = len(np.unique(rows.person))
        if not overridden:
            check_expected(tally.read, persons, entry)
        kept, dropped = _kept(entry, rows)
        isolated = _isolated(entry, rows.person[kept], key, overridden)
        holdout = np.zeros(len(kept), dtype=bool)
        holdout[kept] = held_out(
            rows.person[kept], rows.draw[kept], isolated, entry.expected.rows or int(kept.sum()), entry.name
        )
        counts = RowCounts(
            read=tally.read,
            kept=int(kept.sum()),
            dropped=dict(tally.bad) | dropped,
            clipped=dict(tally.clipped),
            persons=persons,
            train=int(kept.sum() - holdout.sum()),
            holdout=int(holdout.sum()),
        )
        info = CleanInfo(
            domain=_domain(entry, axes, counts.train),
            entry_digest=entry.digest(*ENTRY_SECTIONS),
            raw_sha256=file_sha256(raw),
            counts=counts,
            isolated=tuple(int(person) for person in isolated),
        )
        spool.seek(0)
        with replacing(Path(output)) as temporary:
            _write(spool, temporary, info, rows.person, kept, holdout)
    return info


def _spool(
    entry: Entry,
    raw: Path,
    spool: BinaryIO,
    axes: tuple[Axis, ...],
    tally: Tally,
    master_seed: int,
    key: bytes,
) -> _Rows:
    """First pass: normalised coordinates and codes into `spool`, the rest is remembered."""
    schema = _measured(clean_schema(len(axes), entry.attributes))
    lower, upper, centre, scale = (
        np.array([getattr(axis, name) for axis in axes]) for name in ("lower", "upper", "centre", "scale")
    )
    person, draw, fingerprint = [], [], []
    with pa.ipc.new_stream(spool, schema) as writer:
        for batch in batches(raw, entry):
            tally.read += batch.read
            tally.add_bad(batch.bad)
            values = np.column_stack([batch.numbers[axis.name] for axis in axes])
            values, outside = clip(values, lower, upper)
            tally.clipped.update({axis.name: int(n) for axis, n in zip(axes, outside, strict=True) if n})
            points = (values - centre) * scale
            columns = [pa.array(np.ascontiguousarray(column)) for column in points.T]
            columns += [pa.array(batch.codes[name]) for name in entry.attributes]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            ids, pseudonym = _people(entry, batch, key)
            person.append(pseudonym)
            draw.append(draws(ids, master_seed, entry.name))
            if entry.reader.drop_duplicates:
                fingerprint.append(fingerprints(batch))
    return _Rows(
        np.concatenate(person), np.concatenate(draw), np.concatenate(fingerprint) if fingerprint else None
    )


def _people(entry: Entry, batch: Batch, key: bytes) -> tuple[pa.Array, np.ndarray]:
    """Original id and pseudonym of each row's person; without a person column each line is its own person."""
    if entry.privacy.person_column is None:
        return pa.array(batch.lines).cast(pa.string()), batch.lines.astype(np.uint64)
    ids = batch.identifiers[entry.privacy.person_column]
    return ids, pseudonyms(ids, key, entry.name)


def _kept(entry: Entry, rows: _Rows) -> tuple[np.ndarray, dict[str, int]]:
    """Which readable rows stay, and how many were dropped for which reason."""
    kept = np.ones(len(rows.person), dtype=bool)
    dropped = {}
    if rows.fingerprint is not None:
        kept &= ~repeats(rows.fingerprint)
        dropped[DUPLICATE] = int(len(kept) - kept.sum())
    if entry.privacy.unit == "person":
        over = over_limit(rows.person[kept], rows.draw[kept], entry.privacy.max_records_per_person)
        kept[kept] = ~over
        dropped[OVER_LIMIT] = int(over.sum())
    return kept, {reason: count for reason, count in dropped.items() if count}


def _isolated(entry: Entry, person: np.ndarray, key: bytes, overridden: bool) -> np.ndarray:
    """Pseudonyms of the isolated people, who have one record each.

    Others are left out in a stand-in file, and where a person may come and go: a complaint would tell that they did.
    """
    known = pseudonyms(pa.array(entry.isolated, pa.string()), key, entry.name)
    records = np.array([np.count_nonzero(person == pseudonym) for pseudonym in known], dtype=np.int64)
    if not overridden and entry.privacy.rows_are_public:
        for name, count in zip(entry.isolated, records, strict=True):
            if count != 1:
                raise UserError(
                    f"{entry.name}: the isolated person {name!r} has {count} records in the raw file, "
                    "exactly one was expected; mend `isolated` in the catalog entry."
                )
    return known[records == 1]


def _domain(entry: Entry, axes: tuple[Axis, ...], train: int) -> Domain:
    """What is public. Where neighbours differ in their number of records, a public figure stands for it."""
    privacy, rows, persons = entry.privacy, train, None
    if not privacy.rows_are_public:
        kept, part = entry.expected.rows, 1 - share(entry.expected.rows)
        if privacy.unit == "person" and entry.expected.persons is not None:
            kept = min(kept, entry.expected.persons * privacy.max_records_per_person)
            persons = round(entry.expected.persons * part)
        rows = round(kept * part)
    return Domain(
        dataset=entry.name,
        title=entry.title,
        axes=axes,
        attributes=tuple(
            Attribute(name=column.name, description=column.description, values=column.values)
            for column in map(entry.column, entry.attributes)
        ),
        unit=entry.privacy.unit,
        relation=entry.privacy.relation,
        max_records_per_person=entry.privacy.max_records_per_person,
        visibility=entry.visibility,
        rows=rows,
        persons=persons,
    )


def _measured(schema: pa.Schema) -> pa.Schema:
    """The columns of the clean file that come from the record alone: coordinates and codes."""
    return pa.schema([field for field in schema if field.name not in ("person", "split")])


def _write(
    spool: BinaryIO, path: Path, info: CleanInfo, person: np.ndarray, kept: np.ndarray, holdout: np.ndarray
) -> None:
    """Second pass: the rows that stay, with their person and their part."""
    attributes = tuple(attribute.name for attribute in info.domain.attributes)
    schema = with_info(clean_schema(len(info.domain.axes), attributes), info)
    parts = pa.array(["train", "holdout"])
    start = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in pa.ipc.open_stream(spool):
            rows = slice(start, start + len(batch))
            start += len(batch)
            stay = kept[rows]
            if not stay.any():
                continue
            part = pa.DictionaryArray.from_arrays(pa.array(holdout[rows][stay].astype(np.int8)), parts)
            measured = batch.filter(pa.array(stay)).columns
            columns = [pa.array(person[rows][stay]), *measured, part]
            writer.write_batch(pa.record_batch(columns, schema=schema))
