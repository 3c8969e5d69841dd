"""The files between stages: what they hold, and how they are written whole or not at all."""

import contextlib
import itertools
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from privmix.errors import UserError

METADATA_KEY = b"privmix"
# Who must be trusted: a curator; nobody; or nobody, with a guarantee that hides a place among nearby ones alone.
Trust = Literal["central", "local", "distance"]
RESULT_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("dataset", "mechanism", "method", "trust")]
    + [(name, pa.float64()) for name in ("epsilon", "delta")]
    + [(name, pa.string()) for name in ("unit", "relation")]
    + [("replicate", pa.int64()), ("metric", pa.string()), ("value", pa.float64())]
)
RESULT_COLUMNS = tuple(RESULT_SCHEMA.names)


class Part(BaseModel):
    """Base of what is stored as JSON: frozen, no unknown keys, infinities kept."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Axis(Part):
    """One coordinate of the mixture: normalised = (value - centre) * scale."""

    name: str
    description: str
    unit: str
    geographic: Literal["latitude", "longitude"] | None
    lower: float
    upper: float
    resolution: float
    centre: float
    scale: float


class Attribute(Part):
    """A categorical attribute with its public list of values; a record stores the index."""

    name: str
    description: str
    values: tuple[str, ...]


class Domain(Part):
    """What is public about a dataset, and all that a local mechanism's fit may know of it."""

    dataset: str
    title: str
    axes: tuple[Axis, ...]
    attributes: tuple[Attribute, ...]
    unit: Literal["record", "person"]
    relation: Literal["replace_one", "add_remove"]
    max_records_per_person: int
    visibility: Literal["public", "synthetic", "sensitive"]
    rows: int  # a public number of training records: exact where the relation keeps it, else as expected
    persons: int | None = (
        None  # a public number of people behind them, where people are the unit and it is known
    )

    @property
    def lower(self) -> np.ndarray:
        """Lower corner of the public box in normalised units."""
        return np.array([(axis.lower - axis.centre) * axis.scale for axis in self.axes])

    @property
    def upper(self) -> np.ndarray:
        """Upper corner of the public box in normalised units."""
        return np.array([(axis.upper - axis.centre) * axis.scale for axis in self.axes])

    @property
    def resolution(self) -> np.ndarray:
        """Public smallest scale of interest per axis in normalised units."""
        return np.array([axis.resolution * axis.scale for axis in self.axes])

    def normalise(self, values: np.ndarray) -> np.ndarray:
        """Original units to normalised coordinates."""
        return (values - [axis.centre for axis in self.axes]) * [axis.scale for axis in self.axes]

    def restore(self, points: np.ndarray) -> np.ndarray:
        """Normalised coordinates back to original units."""
        return points / [axis.scale for axis in self.axes] + [axis.centre for axis in self.axes]


class RowCounts(Part):
    """What became of the raw rows."""

    read: int
    kept: int
    dropped: dict[str, int]
    clipped: dict[str, int]
    persons: int
    train: int
    holdout: int


class CleanInfo(Part):
    """Schema metadata of the clean Parquet."""

    domain: Domain
    entry_digest: str
    raw_sha256: str
    counts: RowCounts
    isolated: tuple[int, ...]  # pseudonyms of the people to follow, in the catalog's order


@dataclass(frozen=True)
class CleanData:
    """The clean Parquet in memory."""

    info: CleanInfo
    points: np.ndarray  # (n, d) float64, inside the unit ball
    codes: dict[str, np.ndarray]  # attribute -> (n,) integer codes
    person: np.ndarray  # (n,) uint64
    train: np.ndarray  # (n,) bool

    @property
    def isolated_rows(self) -> np.ndarray:
        """Row numbers of the isolated people, in the catalog's order."""
        rows = [np.flatnonzero(self.person == np.uint64(person))[:1] for person in self.info.isolated]
        return np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)


class Privacy(Part):
    """The claim of one model or one private file, with the ledger that carries it."""

    budget_epsilon: float
    budget_delta: float
    epsilon: float  # what the ledger adds up to; infinite where nothing is private
    delta: float
    unit: Literal["record", "person"]
    relation: Literal["replace_one", "add_remove"]
    trust: Trust
    within_m: float | None = (
        None  # where trust is "distance": epsilon is for places no farther apart than this,
    )
    epsilon_anywhere: float | None = None  # and this one for any two records
    mode: Literal["benchmark", "release"]
    accountant: str
    ledger: tuple[dict[str, Any], ...]


class Proportion(Part):
    """Estimated share of one value of an attribute, with 95 % intervals."""

    attribute: str
    value: str
    estimate: float
    standard_error: float
    exact: tuple[float, float]
    normal: tuple[float, float]
    chebyshev: tuple[float, float]


class Fitted(Part):
    """One replicate's mixture in normalised coordinates, and what was released to get it."""

    replicate: int
    weights: list[float]
    means: list[list[float]]
    covariances: list[list[list[float]]]
    seconds: float
    transcript: list[dict[str, Any]] = []
    proportions: list[Proportion] = []
    notes: list[str] = []


class Verdict(Part):
    """What replaying the runs of a mechanism has shown. It fails if there is any finding."""

    runs: int
    releases: int  # all that were looked at
    # The largest share of the claimed ε that any pair of worlds was seen to use, exactly computed; not of a release.
    used: float | None
    findings: list[str] = []  # a sentence each: what does not hold, where, and what is meant to hold
    noise: list[float] = []  # the first numbers of the noise over its scale; none of a release

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


class ModelFile(Part):
    """`data/models/<dataset>/<mechanism>/eps-<epsilon>.json`."""

    notice: str
    domain: Domain
    mechanism: str
    method: str
    parameters: dict[str, Any]
    privacy: Privacy
    models: tuple[Fitted, ...]
    replay: Verdict | None = None  # of the runs that made these models; none where nothing is private
    failure: str | None = None  # a sentence, when the mechanism cannot work on this data


class PrivateInfo(Part):
    """Schema metadata of a private Parquet."""

    notice: str
    domain: Domain
    mechanism: str
    method: str
    parameters: dict[str, Any]
    privacy: Privacy
    reports: list[int]  # how many rows each replicate has, one replicate after another
    asked: list[dict[str, Any]]  # what each replicate was asked, where that depends on earlier answers
    seconds: list[float]  # per replicate; not in a release
    notes: list[str] = []  # what a reader should know
    replay: Verdict | None = None
    failure: str | None = None


class Bound(Part):
    """A lower bound on ε that one score on one pair of worlds proves."""

    pair: str
    score: Literal["likelihood ratio", "difference", "learned"]
    theorem: Literal["Clopper-Pearson", "Gaussian AUC", "pure AUC"]
    auc: float
    lower: float  # at 95 %, corrected for all bounds of the audit together
    alarm: float  # at 99 %, corrected likewise: above the claim it is an alarm


class Audit(Part):
    """`data/audits/<mechanism>/eps-<epsilon>.json`: the game and the replay on crafted records."""

    notice: str
    mechanism: str
    method: str
    parameters: dict[str, Any]
    epsilon: float  # claimed
    delta: float
    runs: int  # of each world, of each pair
    bounds: list[Bound]
    replay: Verdict | None
    notes: list[str] = []  # what could not be measured, in sentences
    failure: str | None = None
    seconds: float

    @property
    def lower(self) -> float:
        """The best lower bound at 95 %."""
        return max((bound.lower for bound in self.bounds), default=0.0)

    @property
    def alarmed(self) -> bool:
        """Whether a bound at 99 % is above the claim."""
        return any(bound.alarm > self.epsilon for bound in self.bounds)


class ScoresInfo(Part):
    """Schema metadata of a scores Parquet: what the report needs beside the numbers."""

    dataset: str
    mechanism: str
    method: str
    trust: Trust
    epsilon: float
    roc: list[tuple[float, float]]  # (false-positive rate, true-positive rate), loss attack, first replicate
    worst_person: str | None = None
    notes: list[str] = []
    failure: str | None = None


BENCHMARK_NOTICE = (
    "Benchmark file: its noise comes from a known seed and several replicates share one dataset. "
    "It must not be published."
)
RELEASE_NOTICE = (
    "Release: its noise comes from the operating system's entropy. "
    "Each further release of the same records costs its own ε, and the costs add up."
)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` only if the block succeeds."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Part) -> None:
    """Write a stored part as JSON."""
    with replacing(path) as temporary:
        temporary.write_text(content.model_dump_json(indent=1), encoding="utf-8")


def read_model(path: Path) -> ModelFile:
    """Read a model JSON."""
    return ModelFile.model_validate_json(Path(path).read_text(encoding="utf-8"))


def read_audit(path: Path) -> Audit:
    """Read the JSON of an audit."""
    return Audit.model_validate_json(Path(path).read_text(encoding="utf-8"))


def with_info(schema: pa.Schema, info: Part) -> pa.Schema:
    """The schema carrying `info` in its metadata."""
    return schema.with_metadata({METADATA_KEY: info.model_dump_json().encode()})


def results_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of results in the schema of all results."""
    columns = []
    for field in RESULT_SCHEMA:
        values = [row[field.name] for row in rows]
        numeric = not pa.types.is_string(field.type)
        columns.append(arrow(np.array(values, dtype=field.type.to_pandas_dtype()) if numeric else values))
    return pa.Table.from_arrays(columns, schema=RESULT_SCHEMA)


def write_table(path: Path, table: pa.Table, info: Part) -> None:
    """Write a Parquet file that carries `info` in its metadata."""
    table = table.replace_schema_metadata(with_info(table.schema, info).metadata)
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file of this project, or say what is wrong with it."""
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet ({error}); delete it and run again.") from error
    if METADATA_KEY not in (table.schema.metadata or {}):
        raise UserError(f"{path} was not written by privmix; delete it and run again.")
    return table


def read_schema(path: Path) -> pa.Schema:
    """The schema of a Parquet file of this project, with what it says of itself, without its rows."""
    with pq.ParquetFile(path) as file:
        return file.schema_arrow.with_metadata(file.metadata.metadata)


def info_of(table: pa.Table | pa.Schema, kind: type[Part]) -> Any:
    """The `kind` stored in a table's metadata."""
    schema = table if isinstance(table, pa.Schema) else table.schema
    return kind.model_validate_json(schema.metadata[METADATA_KEY])


def clean_schema(dimensions: int, attributes: tuple[str, ...]) -> pa.Schema:
    """Columns of the clean Parquet."""
    return pa.schema(
        [("person", pa.uint64())]
        + [(f"x{axis}", pa.float64()) for axis in range(dimensions)]
        + [(f"c_{name}", pa.int16()) for name in attributes]
        + [("split", pa.dictionary(pa.int8(), pa.string()))]
    )


# Arrow's own conversions from and to Python import pandas, half a second in each of hundreds of jobs;
# these two, over the same memory, do not.
def arrow(values: np.ndarray | list[str]) -> pa.Array:
    """Numbers or texts as an Arrow array; rows of several numbers as bytes of fixed length."""
    if isinstance(values, np.ndarray):
        numbers = np.ascontiguousarray(values)
        if numbers.ndim > 1 or numbers.dtype.names:
            width = numbers.nbytes // len(numbers) if len(numbers) else numbers[:0].dtype.itemsize
            return pa.Array.from_buffers(pa.binary(width), len(numbers), [None, pa.py_buffer(numbers)])
        return pa.Array.from_buffers(
            pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)]
        )
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *(len(text) for text in encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def column(table: pa.Table, name: str) -> np.ndarray:
    """A column without missing values, read-only; bytes of fixed length as rows of uint8."""
    values = table[name].combine_chunks()
    if isinstance(values, pa.DictionaryArray):
        values = values.indices
    if isinstance(values, pa.FixedSizeBinaryArray):
        width = values.type.byte_width
        content = np.frombuffer(values.buffers()[1], dtype=np.uint8)
        return content[values.offset * width :][: len(values) * width].reshape(len(values), width)
    return np.from_dlpack(values)


def read_clean(path: Path) -> CleanData:
    """Read a clean Parquet into memory."""
    table = read_table(path)
    info = info_of(table, CleanInfo)
    domain = info.domain
    splits = table["split"].combine_chunks().dictionary.to_pylist()
    return CleanData(
        info=info,
        points=np.column_stack([column(table, f"x{axis}") for axis in range(len(domain.axes))]),
        codes={a.name: column(table, f"c_{a.name}") for a in domain.attributes},
        person=column(table, "person"),
        train=column(table, "split") == splits.index("train"),
    )


def clean_info(path: Path) -> CleanInfo:
    """What a clean Parquet says of itself."""
    return info_of(read_schema(path), CleanInfo)


def train_batches(path: Path, rows: int = 2**17) -> Iterator[np.ndarray]:
    """The training points of a clean Parquet, so many rows at a time, (n, d): for `mixture.stream`."""
    for points, _, _ in train_parts(path, rows):
        yield points


def train_parts(
    path: Path, rows: int = 2**17, *, with_persons: bool = False
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray], np.ndarray | None]]:
    """The training points, the codes of their attributes, and if wanted whose they are; so many rows at a time."""
    # Without these two Arrow holds the whole of the wanted columns, or of a row group of them, while it reads.
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
        axes = [name for name in file.schema_arrow.names if name.startswith("x")]
        codes = [name for name in file.schema_arrow.names if name.startswith("c_")]
        wanted = [*axes, *codes, *(["person"] if with_persons else [])]
        for batch in file.iter_batches(rows, columns=[*wanted, "split"], use_threads=False):
            split = batch.column("split")
            train = np.from_dlpack(split.indices) == split.dictionary.to_pylist().index("train")
            read = {name: np.from_dlpack(batch.column(name))[train] for name in wanted}
            points = np.column_stack([read[name] for name in axes])
            yield points, {name.removeprefix("c_"): read[name] for name in codes}, read.get("person")


@contextlib.contextmanager
def private_writer(path: Path) -> Iterator["PrivateWriter"]:
    """A private Parquet that is written part by part, and is there only if the block succeeds."""
    with replacing(path) as temporary:
        writer = PrivateWriter(temporary)
        yield writer
        writer.close()


class PrivateWriter:
    """Writes rows of reports, and at the end what the file says of itself."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.folder = path.parent
        self._writer: pq.ParquetWriter | None = None
        self.info: PrivateInfo | None = None  # to be set before the end

    def write(self, columns: Mapping[str, np.ndarray]) -> None:
        """Add rows."""
        table = pa.table({name: arrow(values) for name, values in columns.items()})
        if self._writer is None:
            # Bytes as bits of a dictionary's number, larger numbers byte by byte, rows of several as they are.
            numbers = {n: v.itemsize for n, v in columns.items() if v.ndim == 1 and v.dtype.names is None}
            split = {name: "BYTE_STREAM_SPLIT" for name, size in numbers.items() if size > 1}
            self._writer = pq.ParquetWriter(
                self._path,
                table.schema,
                compression="zstd",
                use_dictionary=[name for name, size in numbers.items() if size == 1] or False,
                column_encoding=split or None,
            )
        self._writer.write_table(table)

    def close(self) -> None:
        """Write the end of the file."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, pa.schema([]))
        self._writer.add_key_value_metadata({METADATA_KEY: self.info.model_dump_json().encode()})
        self._writer.close()


def read_private(path: Path) -> tuple[PrivateInfo, list[dict[str, np.ndarray]]]:
    """What a private Parquet says of itself, and the columns of each replicate's reports."""
    table = read_table(path)
    info = info_of(table, PrivateInfo)
    columns = {name: column(table, name) for name in table.column_names}
    ends = np.cumsum([0, *info.reports])
    return info, [
        {name: values[start:end] for name, values in columns.items()}
        for start, end in itertools.pairwise(ends)
    ]


def dumps(value: Any) -> str:
    """Compact JSON with sorted keys, for command lines and digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
