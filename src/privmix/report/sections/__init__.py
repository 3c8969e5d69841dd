"""The sections of the report: one module and one template of the same name for each.

`<name>.build` returns the variable `section` of `templates/sections/<name>.html`. To add a section, add the two files
and a line in `page.build`. The navigation is made from the names of the sections.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PageSection:
    """The content of a section, for its template."""

    @property
    def script_data(self) -> Mapping[str, object]:
        """Data of the section for the page's scripts, by name."""
        return {}
