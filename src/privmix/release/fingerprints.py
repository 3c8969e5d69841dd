"""Fingerprints of the records of a release: keyed hashes that tell whether two releases share a person or a record.

A person's fingerprint is a keyed hash of the id. A record's fingerprint is a keyed hash of its numbers as they are in
the raw file, before clipping: once of the coordinates, and once of all number columns that the catalog entry declares.
It ignores the names and the order of columns, categories, the order of rows, the format and encoding of the file, and
the notation of numbers. Numbers count as 32-bit floats, so that a file with single precision matches one with double
precision. All readable rows of the raw file count, also those that cleaning drops, and the coordinates of the clean
file. The raw file has a fingerprint too, so releases of different columns of the same file overlap.

The hash of rows is SipHash-2-4 (Aumasson, Bernstein 2012), a pseudorandom function with 64 bits of output: without the
key, its values tell nothing about a row. Two files of n and m rows, with up to three hashes per row, match by accident
with probability at most 9nm/2^64, 2e-5 for 6 million rows each. An accidental match only charges too much.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa

from privmix.artefacts.io import file_sha256
from privmix.catalog.entry import NUMERIC, Entry
from privmix.catalog.readers.base import Batch, read_batches
from privmix.errors import UserError

WORD = np.dtype("<u8")
BLOCK_ROWS = 1 << 14  # rows that are hashed together; they fit into the processor's cache

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_LONGEST_NUMBER = 1000  # characters


@dataclass(frozen=True)
class Fingerprints:
    """The fingerprints of one release, each kind sorted and without repeats."""

    persons: np.ndarray  # (p,) uint64; empty without person ids
    rows: np.ndarray  # (r,) uint64; one of them is of the raw file
    most: int | None  # largest number of records of one person; None without person ids

    def overlaps(self, other: "Fingerprints") -> bool:
        """Return whether the two share a person or a record."""
        return share_any(self.persons, other.persons) or share_any(self.rows, other.rows)

    def to_bytes(self) -> bytes:
        """Return the content of a fingerprint file: the number of persons, then persons, then rows."""
        header = np.array([len(self.persons)], dtype=WORD)
        return b"".join(part.astype(WORD).tobytes() for part in (header, self.persons, self.rows))

    @classmethod
    def from_bytes(cls, content: bytes) -> "Fingerprints":
        """Return the fingerprints in the content of a file. The account has `most`; an overlap does not need it."""
        words = np.frombuffer(content, dtype=WORD)
        persons = int(words[0])
        return cls(words[1 : 1 + persons], words[1 + persons :], None)


def share_any(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two sorted arrays have a value in common."""
    few, many = sorted((one, other), key=len)
    if not len(few):
        return False
    places = np.searchsorted(many, few)
    places[places == len(many)] = 0
    return bool((many[places] == few).any())


def fingerprint_records(
    raw: Path, sha256: str, entry: Entry, key: bytes, coordinates: np.ndarray
) -> Fingerprints:
    """Return the fingerprints of the rows of the raw file, whose SHA-256 the clean file states.

    `coordinates` are those of the records of the clean file in original units, (n, d). They count too: the noise is
    drawn from them, and a changed clean file could name any raw file.
    """
    if not raw.is_file():
        raise UserError(f"{raw} is missing; the spending account needs it. Clean the dataset again.")
    if file_sha256(raw) != sha256:
        raise UserError(
            f"{raw} is not the file that {entry.name} was cleaned from; delete data/clean/{entry.name}.parquet and "
            "clean the dataset again."
        )
    id_key, row_key = derive_key(key, b"persons", 32), derive_key(key, b"rows", 16)
    person_column = entry.privacy.person_column
    persons, rows = [], [_hash_file(sha256, derive_key(key, b"files", 32)), hash_rows(coordinates, row_key)]
    for batch in read_batches(raw, _without_categories(entry)):
        rows += [hash_rows(values, row_key) for values in _row_values(entry, batch)]
        if person_column is not None:
            persons.append(pa.Table.from_struct_array(batch.identifiers[person_column].value_counts()))
    hashed = np.concatenate(rows)
    hashed.sort()
    distinct = hashed[_run_starts(hashed)]
    if person_column is None:
        return Fingerprints(np.empty(0, dtype=WORD), distinct, None)
    ids, most = _hash_persons(persons, id_key)
    return Fingerprints(ids, distinct, most)


def _run_starts(ordered: np.ndarray) -> np.ndarray:
    """Return where each run of equal values starts. `np.unique` takes ten times as long for millions of values."""
    starts = np.ones(len(ordered), dtype=bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(starts)


def _hash_persons(counted: list[pa.Table], key: bytes) -> tuple[np.ndarray, int]:
    """Return the fingerprints of persons, and the largest number of records of one person."""
    table = pa.concat_tables(counted).group_by("values").aggregate([("counts", "sum")])
    hashed, counts = hash_ids(table["values"].combine_chunks(), key), table["counts_sum"].to_numpy()
    order = np.argsort(hashed)
    starts = _run_starts(hashed[order])
    most = np.add.reduceat(counts[order], starts).max(initial=1) if len(starts) else 1
    return hashed[order][starts], int(most)


def derive_key(key: bytes, purpose: bytes, size: int) -> bytes:
    """Return a key for one purpose."""
    return hashlib.blake2b(key=key, person=purpose, digest_size=size).digest()


def _without_categories(entry: Entry) -> Entry:
    """Return the entry with only the columns that fingerprints use: numbers, and the ids of persons."""
    used = tuple(
        column
        for column in entry.columns
        if column.type in NUMERIC or column.name == entry.privacy.person_column
    )
    return entry.model_copy(update={"columns": used, "attributes": ()})


def _row_values(entry: Entry, batch: Batch) -> Iterator[np.ndarray]:
    """Yield the numbers of each row, (n, d): the coordinates, and all number columns if there are more."""
    yield np.column_stack([batch.numbers[name] for name in entry.coordinates])
    if len(batch.numbers) > len(entry.coordinates):
        yield np.column_stack(list(batch.numbers.values()))


def hash_rows(values: np.ndarray, key: bytes) -> np.ndarray:
    """Return a keyed hash of the numbers of each row, (n,) uint64, whatever their order in the row."""
    with np.errstate(over="ignore"):
        single = values.astype("<f4")
    single += np.float32(0)  # -0.0 becomes 0.0
    single.sort(axis=1)
    hashed = [
        siphash(single[start : start + BLOCK_ROWS].view(np.uint8), key)
        for start in range(0, len(single), BLOCK_ROWS)
    ]
    return np.concatenate(hashed) if hashed else np.empty(0, dtype=WORD)


def _hash_file(sha256: str, key: bytes) -> np.ndarray:
    return np.frombuffer(hashlib.blake2b(sha256.encode(), key=key, digest_size=8).digest(), dtype=WORD)


def hash_ids(ids: pa.Array, key: bytes) -> np.ndarray:
    """Return a keyed hash of each person id, (n,) uint64."""
    state = hashlib.blake2b(key=key, digest_size=8)
    digests = []
    for text in ids.to_pylist():
        hashed = state.copy()
        hashed.update(canonical_id(text).encode())
        digests.append(hashed.digest())
    return np.frombuffer(b"".join(digests), dtype=WORD)


def canonical_id(text: str) -> str:
    """Return the id in one notation: 7, 7.0, 7e0 and 007 are one person, and so are A and a."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).casefold()
        text = "".join(map(_plain_letter, text))
    text = text.strip()
    if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text):
        value = Decimal(text)
        if value == value.to_integral_value():
            return str(int(value))
    return text.lower()


def _plain_letter(letter: str) -> str:
    """Return a digit of any script as an ASCII digit, and nothing for a letter without width."""
    digit = unicodedata.decimal(letter, None)
    if digit is not None:
        return str(digit)
    return "" if unicodedata.category(letter) == "Cf" else letter


def siphash(rows: np.ndarray, key: bytes) -> np.ndarray:
    """Return SipHash-2-4 of each row of bytes, (n, length) uint8, with a key of 16 bytes."""
    number, length = rows.shape
    padded = np.zeros((number, 8 * (length // 8 + 1)), dtype=np.uint8)
    padded[:, :length] = rows
    padded[:, -1] = length % 256
    words = np.ascontiguousarray(padded.view(WORD).T)
    half = np.frombuffer(key, dtype=WORD)
    start = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [np.full(number, np.uint64(word) ^ half[i % 2], dtype=WORD) for i, word in enumerate(start)]
    for word in words:
        v[3] ^= word
        _sip_rounds(v, 2)
        v[0] ^= word
    v[2] ^= np.uint64(0xFF)
    _sip_rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _sip_rounds(v: list[np.ndarray], rounds: int) -> None:
    for _ in range(rounds):
        for a, b, left in ((0, 1, 13), (2, 3, 16)):
            _half_round(v, a, b, left)
        v[0] = _rotate(v[0], 32)
        for a, b, left in ((2, 1, 17), (0, 3, 21)):
            _half_round(v, a, b, left)
        v[2] = _rotate(v[2], 32)


def _half_round(v: list[np.ndarray], a: int, b: int, left: int) -> None:
    v[a] += v[b]
    v[b] = _rotate(v[b], left)
    v[b] ^= v[a]


def _rotate(words: np.ndarray, left: int) -> np.ndarray:
    turned: np.ndarray = words << np.uint64(left)
    turned |= words >> np.uint64(64 - left)
    return turned
