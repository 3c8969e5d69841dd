"""Where a result comes from: versions of code, packages and machine."""

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import privmix

PACKAGE = Path(privmix.__file__).parent
DATA = ("templates", "vendor", "evidence")  # folders of a package that are no code but make results
SHOWN_PACKAGES = (
    "privmix", "snakemake", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "seaborn",
    "pydantic", "dp-accounting",
)  # fmt: skip


@dataclass(frozen=True)
class Module:
    """One module of the package, as far as results depend on it."""

    imports: frozenset[str]
    digest: str


@functools.cache
def _module_path(module: str) -> Path | None:
    base = PACKAGE.joinpath(*module.split(".")[1:])
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@functools.cache
def _module(module: str) -> Module:
    """A module, parsed once a process: every job of a cluster does it again, and a sweep asks thousands of times."""
    path = _module_path(module)
    tree = ast.parse(path.read_bytes())
    imports = _imports(module, tree)
    return Module(imports, _digest(path, tree))


def _imports(module: str, tree: ast.Module) -> frozenset[str]:
    """The privmix modules that a module names in its import statements, wherever they stand."""
    found = {module.rsplit(".", 1)[0]} if "." in module else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(name for name in found if name.split(".")[0] == "privmix" and _module_path(name))


def _digest(path: Path, tree: ast.Module) -> str:
    """Hash of a module's syntax tree: comments, layout and docstrings do not count."""
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    digest = hashlib.sha256(ast.dump(tree).encode())
    if path.name == "__init__.py":
        for part in sorted(part for folder in DATA for part in path.parent.glob(f"{folder}/**/*")):
            if part.is_file():
                digest.update(part.relative_to(path.parent).as_posix().encode() + part.read_bytes())
    return digest.hexdigest()


def closure(*modules: str) -> frozenset[str]:
    """The modules and all privmix modules that they import, directly or not."""
    reached: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting.extend(_module(module).imports)
    return frozenset(reached)


@functools.cache
def code_version(*modules: str) -> str:
    """Hash over the code that running these modules may execute: what a rule's results depend on."""
    digest = hashlib.sha256()
    for module in sorted(closure(*modules)):
        digest.update(f"{module} {_module(module).digest}\n".encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Provenance:
    """What a report says of its own making."""

    commit: str
    modified: bool
    python: str
    machine: str
    processor: str  # "" where the system does not say
    cores: int
    packages: tuple[tuple[str, str], ...]


def _git(*arguments: str) -> str:
    try:
        result = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=PACKAGE, check=False)
    except FileNotFoundError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def _processor() -> str:
    """The processor's own name: seconds mean little without it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor()


def here() -> Provenance:
    """The provenance of this process."""
    return Provenance(
        commit=_git("rev-parse", "HEAD") or "unknown",
        modified=bool(_git("status", "--porcelain", "--untracked-files=no")),
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count() or 1,
        packages=tuple((name, importlib.metadata.version(name)) for name in SHOWN_PACKAGES),
    )
