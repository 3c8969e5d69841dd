"""Tests of the project itself: lint, format, layers, dependencies, generated files."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from privmix.cli import schema
from privmix.mechanisms import registry
from privmix.pipeline.plan import make_plan

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
        assert text == schema.text(made), (
            f"config/{name}.json is out of date; write it again with `privmix schema`"
        )


def test_both_configurations_are_valid(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    default = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    full = yaml.safe_load((ROOT / "config/full.yaml").read_text())
    assert len(make_plan(default).jobs()) > 50
    laid_over = {**default, **full, "mechanisms": {**default["mechanisms"]}}
    for name, mechanism in full["mechanisms"].items():
        laid_over["mechanisms"][name] = {**default["mechanisms"].get(name, {}), **mechanism}
    laid_over["components"] = {**default["components"], **full["components"]}
    assert "gowalla" in make_plan(laid_over).entries


def _declared() -> list[str]:
    """Return the dependencies of the package, including its extras."""
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


def _package_map(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "docs/package_map.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_imports_point_down_and_the_map_of_packages_is_current():
    done = _package_map("--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "edge",
    [
        ("privacy", "mixture"),
        ("mixture", "artefacts"),
        ("mechanisms", "catalog"),
        ("audit", "attacks"),
        ("report", "pipeline"),
        ("catalog", "cli"),
        ("errors", "settings"),
        ("unknown", "errors"),
    ],
)
def test_an_import_that_does_not_point_down_is_noticed(
    edge: tuple[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import package_map

    assert package_map.violations([edge]) == [edge]
    assert package_map.violations([("cli", "errors"), ("release", "report"), ("mechanisms", "privacy")]) == []


def test_swept_jobs_import_nothing_heavy():
    heavy = {"pandas", "scipy", "sklearn", "seaborn", "matplotlib", "dp_accounting", "numba"}
    for stage in ("privatise", "fit", "evaluate"):
        modules = ", ".join([f"privmix.pipeline.stages.{stage}", *map(registry.module_of, registry.METHODS)])
        code = f"import sys, {modules}; print(sorted(set(sys.modules) & {heavy!r}))"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert said.strip() == "[]", f"{stage} imports {said}"


def test_importing_privmix_imports_none_of_its_packages():
    code = "import sys, privmix; print([name for name in sys.modules if name.startswith('privmix.')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
    code = "import privmix; print(privmix.catalog.__name__, 'audit' in dir(privmix)); privmix.nothing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "privmix.catalog True\n"
    assert "module 'privmix' has no attribute 'nothing'" in done.stderr


def test_nothing_names_a_machine_or_a_registry():
    words = ["/ro" + "ot/", "/ho" + "me/", "py" + "pi.org", "files.python" + "hosted", "deb.debian" + ".org"]
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = ROOT / name
        if path.is_file() and path.suffix not in (".png",):
            text = path.read_text(encoding="utf-8")
            assert not [word for word in words if word in text], name
