"""Privmix: which private mechanism, at which ε, at what cost, and what an attacker still learns.

The packages, from top to bottom: `cli` and `pipeline` (the command and the workflow), `report` and `release` (what
people read and what they may publish), `evaluate`, `attacks` and `audit` (how good a model is, what leaks, whether the
claim is true), `mechanisms`, `privacy` and `mixture` (the mathematics), `catalog` and `clean` (the data), `artefacts`
(files).

A package is imported when it is first used, as in `privmix.catalog`.
"""

import importlib
from types import ModuleType

__all__ = ["attacks", "audit", "catalog", "evaluate", "mechanisms", "mixture", "privacy", "release"]


def __getattr__(name: str) -> ModuleType:
    """Import a package of `privmix` on first use (PEP 562)."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
