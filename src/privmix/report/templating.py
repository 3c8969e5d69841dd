"""Templates: their environment, data for scripts as JSON, and the chart libraries.

Templates escape everything, and an undefined name is an error.
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

LIBRARIES = ("d3.min.js", "plot.umd.min.js")  # in loading order


def environment() -> Environment:
    """Return the environment of all pages."""
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
    """Mark text between backticks as code."""
    parts = line.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def embed(parts: Mapping[str, object]) -> Markup:
    """Return dataclasses as JSON that is safe inside a script element; a non-finite number is an error."""
    text = json.dumps(parts, default=asdict, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def libraries() -> list[Markup]:
    """Return the unmodified chart libraries (see `vendor/fetch`) for script elements."""
    folder = resources.files("privmix.report") / "vendor"
    return [Markup((folder / name).read_text(encoding="utf-8")) for name in LIBRARIES]
