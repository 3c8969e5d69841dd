"""A planted defect: edits of the sources, and the tests of which at least one must fail."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Replacement of `before` by `after` in a file of the package."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Change:
    """A named defect, and the tests of which at least one must fail."""

    name: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]


def change(name: str, tests: str | tuple[str, ...], *edits: tuple[str, str, str]) -> Change:
    """Make a change from edits (path, before, after) and the test or tests that should catch it."""
    named = (tests,) if isinstance(tests, str) else tests
    return Change(name, named, tuple(Edit(*edit) for edit in edits))
