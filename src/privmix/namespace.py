"""Public names of a package that load on first use (PEP 562)."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_names(
    package: str, names: Mapping[str, str], public: Sequence[str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names come from the given modules.

    `names` maps each name to its module, relative to the package; a name that maps to itself is the module. `public`
    are the names to list, by default all.
    """

    def load(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{names[name]}")
        return module if names[name] == name else getattr(module, name)

    return load, lambda: sorted(names if public is None else public)
