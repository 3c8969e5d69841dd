"""The version of the code behind a result: a hash over the syntax trees of all modules that a stage imports.

Comments, layout and docstrings do not count, so only a change of behaviour reruns a stage.
"""

import ast
import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

import privmix
from privmix.mechanisms.registry import module_of

PACKAGE = Path(privmix.__file__).parent
DATA = ("templates", "vendor", "evidence")  # folders of a package without code that results depend on

AUDIT = ("privmix.audit.crafted_worlds", "privmix.audit.game", "privmix.audit.replay")


@dataclass(frozen=True)
class Module:
    """The parts of a module that results depend on."""

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
    """Parse a module. The cache matters: a sweep asks for the same modules thousands of times."""
    path = _module_path(module)
    if path is None:
        raise ModuleNotFoundError(f"{module} is not a module of privmix")
    tree = ast.parse(path.read_bytes())
    imports = _imports(module, tree)
    return Module(imports, _digest(path, tree))


def _imports(module: str, tree: ast.Module) -> frozenset[str]:
    """Return the privmix modules that a module imports, wherever, except imports for type checkers."""
    found = {module.rsplit(".", 1)[0]} if "." in module else set()
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(name for name in found if name.split(".")[0] == "privmix" and _module_path(name))


def _digest(path: Path, tree: ast.Module) -> str:
    """Hash the syntax tree of a module without its docstrings, and the data files of a package."""
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
    """Return the modules and all privmix modules that they import, directly or indirectly."""
    reached: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting.extend(_module(module).imports)
    return frozenset(reached)


def audit_code_version(method: str) -> str:
    """Return the version of all code that an audit of the method runs."""
    return code_version(*AUDIT, module_of(method))


@functools.cache
def code_version(*modules: str) -> str:
    """Return a hash of all code that these modules may execute. The results of a rule depend on it."""
    digest = hashlib.sha256()
    for module in sorted(closure(*modules)):
        digest.update(f"{module} {_module(module).digest}\n".encode())
    return digest.hexdigest()[:16]
