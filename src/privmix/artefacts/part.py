"""What is stored as JSON, as a file or in the metadata of one; and the compact JSON of what is not stored."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from privmix.artefacts.writing import replacing


class Part(BaseModel):
    """Base of what is stored as JSON: frozen, no unknown keys, infinities kept."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


Kind = TypeVar("Kind", bound=Part)


def write_json(path: Path, content: Part) -> None:
    """Write a stored part as JSON."""
    with replacing(path) as temporary:
        temporary.write_text(content.model_dump_json(indent=1), encoding="utf-8")


def read_json(path: Path, kind: type[Kind]) -> Kind:
    """Read a stored part of that kind."""
    return kind.model_validate_json(Path(path).read_text(encoding="utf-8"))


def dumps(value: Any) -> str:
    """Compact JSON with sorted keys, for command lines and digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
