"""Entries live in YAML files, one per dataset, in folders of which a later one overrides an earlier one."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails

from privmix.catalog.entry import (
    Column,
    Entry,
    Expected,
    FileSource,
    Licence,
    PackageSource,
    Privacy,
    Reader,
    SyntheticSource,
    UrlSource,
)
from privmix.errors import UserError, from_validation, nearest

QUOTES = "YAML reads yes, no, on, off, dates and bare numbers as something else than text: quote the value."


def load(path: Path) -> Entry:
    """The entry in that file, or one sentence that says where it is wrong."""
    path = Path(path)
    content = parse(path, "catalog entry")
    if not isinstance(content, dict):
        raise UserError(
            f"{path}: a catalog entry is a mapping of keys to values, such as `name: {path.stem}`."
        )
    try:
        entry = Entry.model_validate(content)
    except ValidationError as error:
        raise _sentence(path, error) from error
    if entry.name != path.stem:
        raise UserError(
            f"{path}: the entry's name is {entry.name!r}; name the file {entry.name}.yaml "
            f"or write `name: {path.stem}`."
        )
    return entry


def names(directories: Sequence[str | Path]) -> tuple[str, ...]:
    """Names of all entries, in alphabetical order."""
    return tuple(sorted(_files(directories)))


def paths(directories: Sequence[str | Path]) -> tuple[Path, ...]:
    """The files of all entries, by name."""
    return tuple(path for _, path in sorted(_files(directories).items()))


def digest(directories: Sequence[str | Path]) -> str:
    """Hash of all that the catalog says; of a broken entry, of what is wrong with it."""
    total = hashlib.sha256()
    for path in paths(directories):
        try:
            total.update(load(path).digest().encode())
        except UserError as problem:
            total.update(str(problem).encode())
    return total.hexdigest()[:16]


def find(name: str, directories: Sequence[str | Path]) -> tuple[Entry, Path]:
    """The entry of that name and its file; the last folder that has it wins."""
    files = _files(directories)
    if name not in files:
        where = ", ".join(str(directory) for directory in directories)
        hint = nearest(name, files) if files else "there is no .yaml file in it."
        raise UserError(f"dataset {name!r} is not in the catalog ({where}); {hint}")
    return load(files[name]), files[name]


def find_all(directories: Sequence[str | Path]) -> tuple[list[tuple[Entry, Path]], list[str]]:
    """Every good entry with its file, by name, and a sentence for each broken one."""
    found, problems = [], []
    for path in paths(directories):
        try:
            found.append((load(path), path))
        except UserError as problem:
            problems.append(str(problem))
    if not found and not problems:
        raise UserError(f"there is no .yaml file in {', '.join(map(str, directories))}; add an entry.")
    return found, problems


def _files(directories: Sequence[str | Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for directory in map(Path, directories):
        if not directory.is_dir():
            raise UserError(
                f"catalog folder {directory} does not exist (looked for {directory.absolute()}); "
                "run this in the project's folder, or correct the path."
            )
        found.update({path.stem: path for path in directory.glob("*.yaml")})
    return found


def parse(path: Path, what: str) -> Any:
    """What a YAML file holds, or one sentence that says where it is wrong."""
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


def _sentence(path: Path, error: ValidationError) -> UserError:
    problems = error.errors(include_url=False)
    # A misspelt key is two problems, one unknown and one missing; the unknown one says what to mend.
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    location = first["loc"]
    if location[:1] == ("source",):  # pydantic puts the union's tag into the path; the file has no such key
        location = location[:1] + location[2:]
    plain: InitErrorDetails = {
        "type": first["type"],
        "loc": location,
        "input": first["input"],
        "ctx": first.get("ctx", {}),
    }
    sentence = from_validation(
        ValidationError.from_exception_data(error.title, [plain]), str(path), _known_keys(first["loc"])
    )
    if first["type"] == "string_type":
        return UserError(f"{sentence} {QUOTES}")
    return sentence


def _known_keys(location: tuple[str | int, ...]) -> list[str]:
    """Keys that exist where the failing one stands."""
    sources = {get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in SOURCES}
    if location[:1] == ("source",) and len(location) > 1:
        return list(sources[str(location[1])].model_fields)
    return list((SECTIONS.get(str(location[0]), Entry) if len(location) > 1 else Entry).model_fields)


SOURCES: tuple[type[BaseModel], ...] = (
    UrlSource,
    FileSource,
    PackageSource,
    SyntheticSource,
)
SECTIONS: dict[str, type[BaseModel]] = {
    "licence": Licence,
    "reader": Reader,
    "columns": Column,
    "privacy": Privacy,
    "expected": Expected,
}
