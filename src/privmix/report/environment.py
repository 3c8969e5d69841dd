"""How templates become pages: everything is escaped, and a name that is not there is an error."""

import math

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from privmix.report import phrases


def environment() -> Environment:
    """The environment of every page."""
    made = Environment(
        loader=PackageLoader("privmix.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(p=phrases, inf=math.inf)
    made.filters["coded"] = _coded
    return made


def _coded(line: str) -> Markup:
    """Text between backticks as code."""
    parts = line.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )
