"""Write docs/packages.md: the packages of privmix, their modules, and which package imports which.

    python docs/package_map.py            writes the map
    python docs/package_map.py --check    fails if the map is not current, or if an import points up

Imports point down. A package may import packages of lower layers; packages of one layer do not import each other.
`privacy` and `mixture` are libraries of their own: they import `errors` and nothing else of privmix.
"""

import argparse
import ast
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/privmix"
MAP = ROOT / "docs/packages.md"
LAYERS = (
    ("cli", "estimator"),
    ("pipeline", "estimator_input"),
    ("release",),
    ("report",),
    ("evaluate", "attacks", "audit", "naive"),
    ("mechanisms",),
    ("privacy", "mixture"),
    ("clean",),
    ("catalog",),
    ("artefacts",),
    ("settings",),
    ("errors",),
)
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
MAY_IMPORT = {
    "privacy": {"errors"},
    "mixture": {"errors"},
    "mechanisms": {"privacy", "mixture", "artefacts", "errors"},
}


def modules() -> dict[str, ast.Module]:
    """Every module of the package under its dotted name without `privmix`, parsed."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = ast.parse(path.read_text("utf-8"))
    return found


def imports(tree: ast.Module) -> set[str]:
    """The privmix packages that a module imports, wherever the statement stands."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "privmix":
            names |= {alias.name for alias in node.names} - {"lazy_names"}  # a function of the package itself
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("privmix."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("privmix.")}
    return names


def edges(found: dict[str, ast.Module]) -> dict[tuple[str, str], list[str]]:
    """The modules behind each import of one package by another."""
    between: dict[tuple[str, str], list[str]] = {}
    for module, tree in found.items():
        package = module.split(".")[0]
        for other in sorted(imports(tree) - {package}):
            between.setdefault((package, other), []).append(module)
    return between


def violations(between: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The edges that do not point down, or that a package may not have."""
    return [
        (package, other)
        for package, other in between
        if package  # `privmix/__init__.py` is the public namespace and loads its parts when they are used
        and (
            package not in LAYER
            or other not in LAYER
            or LAYER[package] >= LAYER[other]
            or other not in MAY_IMPORT.get(package, LAYER)
        )
    ]


def _summary(tree: ast.Module) -> str:
    return (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def render(found: dict[str, ast.Module]) -> str:
    """The map as Markdown."""
    between = edges(found)
    wrong = violations(between)
    lines = [
        "# The packages of privmix",
        "",
        "Written by `python docs/package_map.py`; do not edit. Imports point down: a package imports only packages "
        f"of rows below its own. Imports that point up: {', '.join(map(' → '.join, wrong)) or 'none'}.",
        "",
        "| package | what it holds | imports |",
        "|---|---|---|",
    ]
    for name in LAYER:
        if name in found:
            used = sorted((other for package, other in between if package == name), key=LAYER.get)
            lines.append(f"| `{name}` | {_summary(found[name])} | {', '.join(used) or '–'} |")
    for name in LAYER:
        inside = [module for module in found if module.startswith(f"{name}.")]
        if inside:
            lines += ["", f"## {name}", "", "| module | what it holds |", "|---|---|"]
            lines += [f"| `{module}` | {_summary(found[module])} |" for module in inside]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the map, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is wrong")
    check = parser.parse_args().check
    found = modules()
    between = edges(found)
    for package, other in violations(between):
        print(f"{', '.join(between[package, other])}: {package} must not import {other}", file=sys.stderr)
    text = render(found)
    if not check:
        MAP.write_text(text, encoding="utf-8")
    elif not MAP.exists() or MAP.read_text("utf-8") != text:
        print("docs/packages.md is not current; run: python docs/package_map.py", file=sys.stderr)
        return 1
    return bool(violations(between))


if __name__ == "__main__":
    sys.exit(main())
