"""How templates become pages: everything is escaped, and a name that is not there is an error."""

import math

from jinja2 import Environment, PackageLoader, StrictUndefined

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
    return made
