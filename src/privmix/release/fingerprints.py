"""Fingerprints of the records of a release: keyed hashes that tell whether two releases share a person or a record.

A person's fingerprint is a keyed hash of the id. Without `person_column`, every declared identifier counts as the id of
a person, because it may be the one that another release names. A record's fingerprint is a keyed hash of its values as
they are in the raw file, before clipping: once of the coordinates, once of all number columns that the catalog entry
declares, and once of all declared columns except identifiers. It ignores the names, roles and order of columns, the
order of rows, the format and encoding of the file, and the notation of values. All rows with readable numbers count,
also those that cleaning drops, and the coordinates of the clean file. The raw file has a fingerprint too, so releases
of different columns of the same file overlap.

With person ids, all pairs of person and record, with repeats, have one more hash together. It is equal for two files
with the same records of the same persons, whatever their bytes; `charges` counts such files once. Here a record is its
values in all declared columns, and other identifiers count too.

Every value is one number, which depends on its text alone and not on the type of its column: a rating is the same as a
number, a category or an ordinal. Numbers count as 32-bit floats, so that a file with single precision matches one with
double precision. A date counts as days since 1970, true and yes as 1, false and no as 0, and a blank as NaN. Any other
text counts as a keyed hash, a number beyond 2^64.

The hash of rows is SipHash-2-4 (Aumasson, Bernstein 2012), a pseudorandom function with 64 bits of output: without the
key, its values tell nothing about a row. Two files of n and m rows, with up to four hashes per row, match by accident
with probability at most 16nm/2^64, 4e-5 for 6 million rows each. Two texts match by accident with probability 2^-29,
and their rows only if all other values are equal too. An accidental match only charges too much.
"""

import datetime
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa

from privmix.artefacts.io import file_sha256
from privmix.catalog.entry import CATEGORICAL, NUMERIC, Column, Entry, to_number
from privmix.catalog.readers.base import BOOLEAN_SPELLINGS, DECIMAL, Batch, read_batches
from privmix.errors import UserError

WORD = np.dtype("<u8")
BLOCK_ROWS = 1 << 14  # rows that are hashed together; they fit into the processor's cache

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_LONGEST_NUMBER = 1000  # characters
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)([ t].*)?", re.ASCII)  # a time of day is ignored, as in a date column
_BOOLEANS = {text: float(code) for code, texts in enumerate(BOOLEAN_SPELLINGS) for text in texts}


@dataclass(frozen=True)
class Fingerprints:
    """The fingerprints of one release, each kind sorted and without repeats."""

    persons: np.ndarray  # (p,) uint64; without `person_column`, of all identifiers
    rows: np.ndarray  # (r,) uint64; one of them is of the raw file
    most: int | None  # largest number of records of one person; None without person ids
    pairs: str | None = None  # hash of all pairs of person and record, with repeats; None without person ids

    def overlaps(self, other: "Fingerprints") -> bool:
        """Return whether the two share a person or a record."""
        return share_any(self.persons, other.persons) or share_any(self.rows, other.rows)

    def to_bytes(self) -> bytes:
        """Return the content of a fingerprint file: the number of persons, then persons, then rows."""
        header = np.array([len(self.persons)], dtype=WORD)
        return b"".join(part.astype(WORD).tobytes() for part in (header, self.persons, self.rows))

    @classmethod
    def from_bytes(cls, content: bytes) -> "Fingerprints":
        """Return the fingerprints in the content of a file, which overlaps need. The account has the others."""
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
    drawn from them, and a changed clean file could name any raw file. Without coordinates, all rows would be equal.
    """
    if not raw.is_file():
        raise UserError(f"{raw} is missing; the spending account needs it. Clean the dataset again.")
    if file_sha256(raw) != sha256:
        raise UserError(
            f"{raw} is not the file that {entry.name} was cleaned from; delete data/clean/{entry.name}.parquet and "
            "clean the dataset again."
        )
    id_key, row_key = derive_key(key, b"persons", 32), derive_key(key, b"rows", 16)
    text_key = derive_key(key, b"texts", 32)
    rows = [_hash_file(sha256, derive_key(key, b"files", 32))]
    if entry.coordinates:
        rows.append(hash_rows(_ordinals_as_text(entry, coordinates, text_key), row_key))
    columns: dict[str, list[pa.Array]] = {name: [] for name in _id_columns(entry)}
    widest = []
    for batch in read_batches(raw, _with_texts(entry)):
        hashed = [hash_rows(values, row_key) for values in _row_values(entry, batch, text_key)]
        rows += hashed
        widest.append(hashed[-1])
        for name, encoded in columns.items():
            encoded.append(batch.identifiers[name].dictionary_encode())
    ids = {name: _hash_column(encoded, id_key) for name, encoded in columns.items()}
    persons = _sorted_runs(np.concatenate([np.empty(0, dtype=WORD), *ids.values()]))[0]
    persons = persons[persons != hash_ids(pa.array([""]), id_key)[0]]  # a blank is no id
    distinct = _sorted_runs(np.concatenate(rows))[0]
    if entry.privacy.person_column is None:
        return Fingerprints(persons, distinct, None)
    owner = ids.pop(entry.privacy.person_column)
    most = _sorted_runs(owner.copy())[1].max(initial=1)
    others = np.sort(np.column_stack([np.concatenate(widest), *ids.values()]), axis=1)
    pairs = _hash_blocks(np.column_stack([owner, others]), derive_key(key, b"pairs", 16))
    return Fingerprints(persons, distinct, int(most), _hash_multiset(pairs, derive_key(key, b"sources", 32)))


def _id_columns(entry: Entry) -> list[str]:
    """Return all identifiers: the column of person ids may be another one in another release."""
    return [column.name for column in entry.columns if column.type == "identifier"]


def _hash_column(encoded: list[pa.Array], key: bytes) -> np.ndarray:
    """Return a keyed hash of the id in each row, (n,) uint64. Each distinct id is hashed once."""
    whole = pa.chunked_array(encoded).unify_dictionaries().combine_chunks()
    return hash_ids(whole.dictionary, key)[whole.indices.to_numpy()]


def _sorted_runs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the values in place. Return the distinct ones in order, and how often each occurs.

    `np.unique` takes ten times as long for millions of values.
    """
    values.sort()
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]][: len(values)])
    return values[starts], np.diff(np.r_[starts, len(values)])


def _hash_multiset(values: np.ndarray, key: bytes) -> str:
    """Return a keyed hash of all values, whatever their order."""
    return hashlib.blake2b(np.sort(values).astype(WORD).tobytes(), key=key, digest_size=32).hexdigest()


def derive_key(key: bytes, purpose: bytes, size: int) -> bytes:
    """Return a key for one purpose."""
    return hashlib.blake2b(key=key, person=purpose, digest_size=size).digest()


def _with_texts(entry: Entry) -> Entry:
    """Return the entry with the columns that fingerprints use. Categorical ones become texts, so no row is dropped."""
    used = tuple(
        column.model_copy(update={"type": "identifier"}) if column.type in CATEGORICAL else column
        for column in entry.columns
    )
    return entry.model_copy(update={"columns": used, "attributes": ()})


def _row_values(entry: Entry, batch: Batch, key: bytes) -> Iterator[np.ndarray]:
    """Yield the values of each row, (n, d): coordinates, and number columns and all columns if there are more.

    Without coordinates, only all columns together: a few values alone tell no two tables apart.
    """
    values = dict(batch.numbers)
    for column in entry.columns:
        if column.type in CATEGORICAL:
            values[column.name] = text_values(batch.identifiers[column.name], key)
    numeric = [column.name for column in entry.columns if column.type in NUMERIC]
    if entry.coordinates:
        yield np.column_stack([values[name] for name in entry.coordinates])
    if entry.coordinates and len(numeric) > len(entry.coordinates):
        yield np.column_stack([values[name] for name in numeric])
    if len(values) > len(numeric):
        yield np.column_stack(list(values.values()))


def _ordinals_as_text(entry: Entry, coordinates: np.ndarray, key: bytes) -> np.ndarray:
    """Return the coordinates of the clean file with the texts of ordinals instead of their positions."""
    changed = coordinates.copy()
    for place, column in enumerate(map(entry.column, entry.coordinates)):
        if column.type == "ordinal":
            changed[:, place] = _values_at(column, coordinates[:, place], key)
    return changed


def _values_at(column: Column, positions: np.ndarray, key: bytes) -> np.ndarray:
    known = np.append(_values_of(column.values, key), np.nan)
    last = len(known) - 1
    places = np.clip(np.rint(np.nan_to_num(positions, nan=last)), 0, last).astype(np.int64)
    return known[places]


def text_values(texts: pa.Array, key: bytes) -> np.ndarray:
    """Return the value of each text of a column, (n,) float64."""
    distinct = texts.dictionary_encode()
    return _values_of(distinct.dictionary.to_pylist(), key)[distinct.indices.to_numpy()]


def _values_of(texts: Iterable[str], key: bytes) -> np.ndarray:
    return np.array([_text_value(_plain_text(text), key) for text in texts], dtype=np.float64)


def _text_value(text: str, key: bytes) -> float:
    if text in ("", "nan"):
        return np.nan
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if DECIMAL.fullmatch(text):
        return float(text)
    if date := _DATE.fullmatch(text):
        try:
            return to_number(datetime.date.fromisoformat(date[1]))
        except ValueError:
            pass  # such as 2017-02-30: any other text
    word = int.from_bytes(hashlib.blake2b(text.encode(), key=key, digest_size=4).digest())
    bits = np.uint32(
        word & 0x8FFFFFFF | 0x60000000
    )  # ±2^65 to 2^97 as a 32-bit float: no usual number, never NaN
    return float(bits.view(np.float32))


def hash_rows(values: np.ndarray, key: bytes) -> np.ndarray:
    """Return a keyed hash of the numbers of each row, (n,) uint64, whatever their order in the row."""
    with np.errstate(over="ignore"):
        single = values.astype("<f4")
    single += np.float32(0)  # -0.0 becomes 0.0
    single.sort(axis=1)
    return _hash_blocks(single, key)


def _hash_blocks(rows: np.ndarray, key: bytes) -> np.ndarray:
    hashed = [
        siphash(rows[start : start + BLOCK_ROWS].view(np.uint8), key)
        for start in range(0, len(rows), BLOCK_ROWS)
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
    text = _plain_text(text)
    if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text):
        value = Decimal(text)
        if value == value.to_integral_value():
            return str(int(value))
    return text


def _plain_text(text: str) -> str:
    """Return the text without case, space around it and variants of letters."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).casefold()
        text = "".join(map(_plain_letter, text))
    return text.strip().lower()


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
