"""`privmix schema`: the JSON Schemas of the configuration, with each method's parameters, and of catalog entries."""

import json
from typing import Any

from pydantic import TypeAdapter

from privmix.catalog.entry import Entry
from privmix.mechanisms import registry
from privmix.settings import Settings


def _method(name: str) -> dict[str, Any]:
    """The schema of a mechanism that uses this method."""
    described = TypeAdapter(registry.method_class(name)).json_schema()
    return {
        "title": name,
        "type": "object",
        "properties": {"method": {"const": name}, **described.get("properties", {})},
        "required": ["method", *described.get("required", [])],
        "additionalProperties": False,
    }


def configuration() -> dict[str, Any]:
    """The schema of a configuration file."""
    described = Settings.model_json_schema()
    described["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    described["$defs"]["MechanismSettings"] = {"oneOf": [*map(_method, registry.METHODS), {"type": "null"}]}
    # A file may be laid over config.yaml, so that no key is required in it.
    described.pop("required")
    return described


def entry() -> dict[str, Any]:
    """The schema of a catalog entry."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Entry.model_json_schema()}


def text(schema: dict[str, Any]) -> str:
    """A schema as it is written to a file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
