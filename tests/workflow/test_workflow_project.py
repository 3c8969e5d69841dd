"""The project's own order: lint, format, layers, dependencies, generated files."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from privmix import provenance, schema
from privmix.mechanisms import registry
from privmix.sweep import plan

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["snakefmt", "--check", "Snakefile", "workflow"],
        ["snakemake", "--lint"],
    ],
    ids=" ".join,
)
def test_the_tree_is_clean(command: list[str]):
    result = subprocess.run(
        [str(SCRIPTS / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_generated_schemas_are_current():
    for name, made in (("schema", schema.configuration()), ("catalog-entry.schema", schema.entry())):
        text = (ROOT / f"config/{name}.json").read_text()
        assert text == schema.text(made), f"config/{name}.json is old; write it anew with `privmix schema`"


def test_both_configurations_are_valid(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    default = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    full = yaml.safe_load((ROOT / "config/full.yaml").read_text())
    assert len(plan(default).jobs()) > 50
    laid_over = {**default, **full, "mechanisms": {**default["mechanisms"]}}
    for name, mechanism in full["mechanisms"].items():
        laid_over["mechanisms"][name] = {**default["mechanisms"].get(name, {}), **mechanism}
    laid_over["components"] = {**default["components"], **full["components"]}
    assert "gowalla" in plan(laid_over).entries


def _declared() -> list[str]:
    """What the package needs, its extras with it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["dependencies"] + [
        line for extra in project["optional-dependencies"].values() for line in extra
    ]


def _requirements(lines: list[str]) -> dict[str, str]:
    split = (re.fullmatch(r"([A-Za-z0-9_.-]+)(.*)", line.strip()) for line in lines)
    return {match[1].lower(): match[2] for match in split}


def test_conda_and_pip_name_the_same_packages_and_versions():
    pip = _requirements(_declared())
    pip["python"] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    inner = next(part["pip"] for part in listed if isinstance(part, dict))
    assert inner[-1] == "-e ."
    conda = _requirements([part for part in listed if isinstance(part, str) and part != "pip"] + inner[:-1])
    assert conda == pip


def test_the_lock_satisfies_every_dependency_with_hashes():
    locked: dict[str, list[str]] = {}
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text())
    for entry in entries:
        match = re.match(r"([A-Za-z0-9_.-]+)==([^\s;]+)", entry)
        if match:
            locked.setdefault(match[1].lower(), []).append(match[2])
            assert "--hash=sha256:" in entry, match[0]
    from packaging.specifiers import SpecifierSet

    for name, wanted in _requirements(_declared()).items():
        assert all(SpecifierSet(wanted).contains(version) for version in locked[name]), name


# Imports point down: a module may import only from groups that stand after its own, or from its own.
LAYERS = ["cli", "stages", "publish", "sweep", "resources", "schema", "report", "evaluate", "mechanisms", "privacy",
          "mixture", "clean", "catalog", "settings", "artefacts", "provenance", "errors"]  # fmt: skip
FORBIDDEN = {("privacy", "mixture"), ("privacy", "artefacts"), ("mixture", "artefacts"), ("privacy", "catalog"),
             ("mixture", "clean"), ("mixture", "catalog"), ("mechanisms", "catalog")}  # fmt: skip
# `privmix catalog check` cleans what it has fetched; the CLI is the top of everything.
EXCEPTIONS = {("catalog.cli", "clean"), ("catalog.cli", "stages"), ("sweep", "mechanisms"), ("cli", "stages")}


def _imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("privmix"):
            names |= {node.module} if node.module != "privmix" else {f"privmix.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.startswith("privmix.")}
    return {name.split(".", 1)[1] for name in names if "." in name}


def test_imports_point_down():
    for path in sorted(provenance.PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(provenance.PACKAGE).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        if module == "__init__":
            continue
        group = module.split(".")[0]
        for name in _imported(path):
            other = name.split(".")[0]
            if other == group or (module, other) in EXCEPTIONS:
                continue
            assert LAYERS.index(other) > LAYERS.index(group), f"{module} imports {name}"
            assert (group, other) not in FORBIDDEN, f"{module} imports {name}"


def test_swept_jobs_import_nothing_heavy():
    heavy = {"pandas", "scipy", "sklearn", "seaborn", "matplotlib", "dp_accounting", "numba"}
    for stage in ("privatise", "fit", "evaluate"):
        modules = ", ".join([f"privmix.stages.{stage}", *map(registry.module_of, registry.METHODS)])
        code = f"import sys, {modules}; print(sorted(set(sys.modules) & {heavy!r}))"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert said.strip() == "[]", f"{stage} imports {said}"


def test_nothing_names_a_machine_or_a_registry():
    words = ["/ro" + "ot/", "/ho" + "me/", "py" + "pi.org", "files.python" + "hosted", "deb.debian" + ".org"]
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = ROOT / name
        if path.is_file() and path.suffix not in (".png",):
            text = path.read_text(encoding="utf-8")
            assert not [word for word in words if word in text], name
