"""The sections of the report: one module and one template of the same name for each.

`<name>.build` makes what `templates/sections/<name>.html` renders, in which it is called `section`. To add
one: the two files, and a line in `page.build`. The navigation is made from the names of the sections.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PageSection:
    """What a section's template renders."""

    @property
    def script_data(self) -> Mapping[str, object]:
        """What the page's scripts need of the section, by the name under which they find it."""
        return {}
