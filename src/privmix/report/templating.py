"""How templates become pages: the environment, data for scripts as JSON, and the chart libraries.

Everything is escaped, and a name that is not there is an error.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from privmix.catalog.entry import hide_password
from privmix.report import format

LIBRARIES = ("d3.min.js", "plot.umd.min.js")  # in the order in which they need each other


def environment() -> Environment:
    """The environment of every page."""
    made = Environment(
        loader=PackageLoader("privmix.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(f=format, inf=math.inf, exp=lambda x: math.exp(min(x, 700.0)))
    made.filters["code"] = _mark_code
    made.filters["plain"] = format.plain
    made.filters["hide_password"] = hide_password
    return made


def _mark_code(line: str) -> Markup:
    """Text between backticks as code."""
    parts = line.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def embed(parts: Mapping[str, object]) -> Markup:
    """Dataclasses as JSON that may stand inside a script element; a number that is not finite is an error."""
    text = json.dumps(parts, default=asdict, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def libraries() -> list[Markup]:
    """The chart libraries as they came from their makers (`vendor/fetch`), to stand inside script elements."""
    folder = resources.files("privmix.report") / "vendor"
    return [Markup((folder / name).read_text(encoding="utf-8")) for name in LIBRARIES]
