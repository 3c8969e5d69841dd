"""Raw file to clean Parquet in two streaming passes, in the order of the source.

The first pass reads, clips and normalises the rows into a temporary file. It keeps three words per row in memory:
pseudonym, draw of the split, and fingerprint if duplicates are dropped. These decide which rows to keep and on which
side of the split. The second pass writes the kept rows. The clean file appears only when it is complete. Dropped and
clipped rows are counted by reason. Counts are checked against the tolerated and expected numbers in the entry.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privmix.artefacts.clean import CleanInfo, RowCounts, clean_schema, stack_columns
from privmix.artefacts.domain import Attribute, Axis, Domain
from privmix.artefacts.io import PARQUET_SEAL, add_metadata, file_sha256, sealed_write
from privmix.catalog.entry import Entry
from privmix.catalog.readers.base import BadRow, Batch, read_batches
from privmix.clean import ENTRY_SECTIONS
from privmix.clean.contribution_bounding import rows_over_limit
from privmix.clean.duplicates import duplicate_rows, row_fingerprints
from privmix.clean.normalisation import build_attributes, build_axes, clip, find_states
from privmix.clean.persons import holdout_rows, holdout_share, person_draws, pseudonymise
from privmix.errors import UserError

DUPLICATE = "duplicate"
OVER_LIMIT = "over the person's limit"

_BAD_ROWS_SHOWN = 5


@dataclass
class RowCounter:
    """Counts that grow while a raw file is read."""

    read: int = 0
    bad: Counter[str] = field(default_factory=Counter)  # by reason
    first_bad: list[BadRow] = field(default_factory=list)
    clipped: Counter[str] = field(default_factory=Counter)  # by column

    def add_bad(self, rows: Iterable[BadRow]) -> None:
        """Count rows that cannot be read, and keep the first few for a message."""
        for row in rows:
            self.bad[row.reason] += 1
            if len(self.first_bad) < _BAD_ROWS_SHOWN:
                self.first_bad.append(row)


def check_bad_share(tally: RowCounter, entry: Entry) -> None:
    """Raise if more rows are bad than the entry tolerates, and name the first of them by line."""
    bad = tally.bad.total()
    tolerated = entry.reader.tolerated_bad_share
    if bad <= tolerated * tally.read:
        return
    shown = "\n".join(f"  line {row.line}: {_bad_row_reason(row)}" for row in tally.first_bad)
    raise UserError(
        f"{entry.name}: {bad:,} of {tally.read:,} rows cannot be read ({format_counts(tally.bad)}), more than the "
        f"share of {tolerated:g} that reader.tolerated_bad_share allows; correct the file or the catalog entry. "
        f"The first are:\n{shown}"
    )


def check_expected_counts(read: int, persons: int, entry: Entry) -> None:
    """Check that the file has the public numbers of rows and persons.

    A number in which neighbouring datasets may differ is private. Its public value is approximate and not checked.
    """
    for what, got, expected, public in (
        ("rows", read, entry.expected.rows, entry.privacy.rows_are_public),
        ("persons", persons, entry.expected.persons, entry.privacy.relation == "replace_one"),
    ):
        if public and expected is not None and got != expected:
            raise UserError(
                f"{entry.name}: the raw file has {got:,} {what}, but expected.{what} in the catalog entry is "
                f"{expected:,}; download it again or correct the entry."
            )


def format_counts(counts: dict[str, int]) -> str:
    """Return counts as text: `missing value 3, not a number 1`."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _bad_row_reason(row: BadRow) -> str:
    return row.reason if row.column is None else f"{row.reason} in {row.column!r}"


@dataclass(frozen=True)
class _Rows:
    """The three words per readable row that stay in memory."""

    person: np.ndarray
    draw: np.ndarray
    fingerprint: np.ndarray | None


def clean(
    entry: Entry, raw: Path, output: Path, *, master_seed: int, key: bytes, overridden: bool = False
) -> CleanInfo:
    """Write the clean Parquet of the raw file. `overridden`: the raw file replaces the source of the entry."""
    axes, attributes = build_axes(entry), build_attributes(entry)
    tally = RowCounter()
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=Path(output).parent) as spool:
        rows = _spool(entry, raw, spool, axes, attributes, tally, master_seed, key)
        check_bad_share(tally, entry)
        persons = len(np.unique(rows.person))
        if not overridden:
            check_expected_counts(tally.read, persons, entry)
        kept, dropped = _select_rows(entry, rows)
        isolated = _isolated_pseudonyms(entry, rows.person[kept], key, overridden)
        holdout = np.zeros(len(kept), dtype=bool)
        holdout[kept] = holdout_rows(
            rows.person[kept], rows.draw[kept], isolated, entry.expected.rows or int(kept.sum()), entry.name
        )
        counts = RowCounts(
            read=tally.read,
            kept=int(kept.sum()),
            dropped=dict(tally.bad) | dropped,
            clipped={name: count for name, count in tally.clipped.items() if count},
            persons=persons,
            train=int(kept.sum() - holdout.sum()),
            holdout=int(holdout.sum()),
        )
        info = CleanInfo(
            domain=_domain(entry, axes, attributes, counts.train),
            entry_digest=entry.digest(*ENTRY_SECTIONS),
            raw_sha256=file_sha256(raw),
            counts=counts,
            isolated=tuple(int(person) for person in isolated),
        )
        spool.seek(0)
        with sealed_write(Path(output)) as temporary:
            _write(spool, temporary, info, rows.person, kept, holdout)
    return info


def _spool(
    entry: Entry,
    raw: Path,
    spool: BinaryIO,
    axes: tuple[Axis, ...],
    attributes: tuple[Attribute, ...],
    tally: RowCounter,
    master_seed: int,
    key: bytes,
) -> _Rows:
    """First pass: write normalised coordinates and codes to `spool`, and return what stays in memory."""
    schema = _record_columns(clean_schema(len(axes), tuple(attribute.name for attribute in attributes)))
    lower, upper = np.array([axis.values for axis in axes]).reshape(-1, 2).T
    centre, scale = (np.array([getattr(axis, name) for axis in axes]) for name in ("centre", "scale"))
    person, draw, fingerprint = [], [], []
    with pa.ipc.new_stream(spool, schema) as writer:
        for batch in read_batches(raw, entry):
            tally.read += batch.read
            tally.add_bad(batch.bad)
            values = stack_columns([batch.numbers[axis.name] for axis in axes], len(batch.lines))
            codes = {name: batch.codes[name] for name in entry.attributes}
            codes |= find_states(values, axes, attributes)
            placed, outside = clip(values, lower, upper)
            for number, axis in enumerate(axes):
                # Atoms outside the bounds are placed at a bound, but not clipped.
                atoms = np.isin(
                    values[:, number], [a for a in axis.atoms if not lower[number] <= a <= upper[number]]
                )
                tally.clipped[axis.name] += int(outside[number] - atoms.sum())
            points = np.nan_to_num((placed - centre) * scale)  # a blank has the middle of the box
            columns = [pa.array(np.ascontiguousarray(column)) for column in points.T]
            columns += [pa.array(codes[attribute.name]) for attribute in attributes]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            ids, pseudonym = _person_ids(entry, batch, key)
            person.append(pseudonym)
            draw.append(person_draws(ids, master_seed, entry.name))
            if entry.reader.drop_duplicates:
                fingerprint.append(row_fingerprints(batch))
    return _Rows(
        np.concatenate(person), np.concatenate(draw), np.concatenate(fingerprint) if fingerprint else None
    )


def _person_ids(entry: Entry, batch: Batch, key: bytes) -> tuple[pa.Array, np.ndarray]:
    """Return original id and pseudonym of each row's person. Without a person column, each line is its own person."""
    if entry.privacy.person_column is None:
        return pa.array(batch.lines).cast(pa.string()), batch.lines.astype(np.uint64)
    ids = batch.identifiers[entry.privacy.person_column]
    return ids, pseudonymise(ids, key, entry.name)


def _select_rows(entry: Entry, rows: _Rows) -> tuple[np.ndarray, dict[str, int]]:
    """Return which readable rows to keep, and the number of dropped rows by reason."""
    kept = np.ones(len(rows.person), dtype=bool)
    dropped = {}
    if rows.fingerprint is not None:
        kept &= ~duplicate_rows(rows.fingerprint)
        dropped[DUPLICATE] = int(len(kept) - kept.sum())
    if entry.privacy.unit == "person":
        over = rows_over_limit(rows.person[kept], rows.draw[kept], entry.privacy.max_records_per_person)
        kept[kept] = ~over
        dropped[OVER_LIMIT] = int(over.sum())
    return kept, {reason: count for reason, count in dropped.items() if count}


def _isolated_pseudonyms(entry: Entry, person: np.ndarray, key: bytes, overridden: bool) -> np.ndarray:
    """Return the pseudonyms of the isolated persons, who have one record each.

    A person with another number of records is an error. But they are only left out if the raw file is a replacement, or
    if neighbouring datasets may differ in their number of rows: then an error would reveal who is in the data.
    """
    known = pseudonymise(pa.array(entry.isolated, pa.string()), key, entry.name)
    records = np.array([np.count_nonzero(person == pseudonym) for pseudonym in known], dtype=np.int64)
    if not overridden and entry.privacy.rows_are_public:
        for name, count in zip(entry.isolated, records, strict=True):
            if count != 1:
                raise UserError(
                    f"{entry.name}: the isolated person {name!r} has {count} records in the raw file "
                    "instead of one; correct `isolated` in the catalog entry."
                )
    return known[records == 1]


def _domain(entry: Entry, axes: tuple[Axis, ...], attributes: tuple[Attribute, ...], train: int) -> Domain:
    """Return what is public. If neighbouring datasets differ in their number of records, use the expected number."""
    privacy, rows, persons = entry.privacy, train, None
    if not privacy.rows_are_public:
        kept = entry.expected.rows
        assert kept is not None  # `Entry` requires it
        part = 1 - holdout_share(kept)
        if privacy.unit == "person" and entry.expected.persons is not None:
            kept = min(kept, entry.expected.persons * privacy.max_records_per_person)
            persons = round(entry.expected.persons * part)
        rows = round(kept * part)
    return Domain(
        dataset=entry.name,
        title=entry.title,
        axes=axes,
        attributes=attributes,
        unit=entry.privacy.unit,
        relation=entry.privacy.relation,
        max_records_per_person=privacy.max_records_per_person if privacy.unit == "person" else 1,
        visibility=entry.visibility,
        rows=rows,
        persons=persons,
    )


def _record_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the clean file that come from the record alone: coordinates and codes."""
    return pa.schema([field for field in schema if field.name not in ("person", "split")])


def _write(
    spool: BinaryIO, path: Path, info: CleanInfo, person: np.ndarray, kept: np.ndarray, holdout: np.ndarray
) -> None:
    """Second pass: write the kept rows with person and split."""
    attributes = tuple(attribute.name for attribute in info.domain.attributes)
    schema = add_metadata(clean_schema(len(info.domain.axes), attributes), info)
    parts = pa.array(["train", "holdout"])
    start = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        writer.add_key_value_metadata(PARQUET_SEAL)
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
