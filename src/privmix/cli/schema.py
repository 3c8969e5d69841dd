"""`privmix schema`: the JSON Schemas of the configuration, with the parameters of all methods, and of entries."""

import argparse
import json
from typing import Any

from pydantic import TypeAdapter

from privmix.catalog.entry import Entry
from privmix.mechanisms import registry
from privmix.settings import Settings


def print_schema(arguments: argparse.Namespace) -> None:
    """Print the schema of the kind of file that was asked for."""
    made = configuration() if arguments.file == "configuration" else entry()
    print(text(made), end="")


def _method(name: str) -> dict[str, Any]:
    """Return the schema of a mechanism that uses this method."""
    described = TypeAdapter(registry.method_class(name)).json_schema()
    return {
        "title": name,
        "type": "object",
        "properties": {"method": {"const": name}, **described.get("properties", {})},
        "required": ["method", *described.get("required", [])],
        "additionalProperties": False,
    }


def configuration() -> dict[str, Any]:
    """Return the schema of a configuration file."""
    described = Settings.model_json_schema()
    described["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    described["$defs"]["MechanismSettings"] = {"oneOf": [*map(_method, registry.METHODS), {"type": "null"}]}
    # No key is required: a file may override only a part of config.yaml.
    described.pop("required")
    return described


def entry() -> dict[str, Any]:
    """Return the schema of a catalog entry."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Entry.model_json_schema()}


def text(schema: dict[str, Any]) -> str:
    """Return a schema as the text of a JSON file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
