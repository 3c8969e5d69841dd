"""Code versions: which changes rerun which stage."""

import shutil
import tomllib
from pathlib import Path

import pytest

import privmix.report
from privmix.pipeline import code_version
from privmix.report import provenance


def test_a_stage_depends_on_what_it_imports_and_on_nothing_else():
    fit = code_version.closure("privmix.pipeline.stages.fit", "privmix.mechanisms.central.dp_em")
    assert {
        "privmix.privacy.noise",
        "privmix.mixture.kernel",
        "privmix.mechanisms.central.dp_em",
        "privmix.artefacts.model",
    } <= fit
    assert not [
        name for name in fit if name.startswith(("privmix.report", "privmix.catalog", "privmix.clean"))
    ]
    assert "privmix.mechanisms.local.laplace_input" not in fit
    clean = code_version.closure("privmix.pipeline.stages.clean")
    assert not [name for name in clean if name.startswith(("privmix.privacy", "privmix.mechanisms"))]
    assert {"privmix.catalog.readers.snap_checkins", "privmix.clean.persons"} <= clean


@pytest.mark.parametrize(
    ("stage", "file", "reads"),
    [
        ("clean", "clean", True),
        ("clean", "private", False),
        ("clean", "model", False),
        ("clean", "audit", False),
        ("privatise", "model", False),
        ("audit", "model", False),
        ("fit", "audit", False),
        ("fit", "scores", False),
        ("evaluate", "audit", False),
        ("report", "audit", True),
    ],
)
def test_a_stage_depends_on_the_files_that_it_reads_or_writes(stage, file, reads):
    """A new field of the audit file does not rerun the stage clean."""
    assert (f"privmix.artefacts.{file}" in code_version.closure(f"privmix.pipeline.stages.{stage}")) == reads


def test_a_version_is_the_same_for_the_same_code_and_differs_between_modules():
    first = code_version.code_version("privmix.pipeline.stages.fit")
    assert first == code_version.code_version("privmix.pipeline.stages.fit")
    assert first != code_version.code_version("privmix.pipeline.stages.clean")
    assert (
        code_version.code_version("privmix.pipeline.stages.fit", "privmix.mechanisms.central.dp_em") != first
    )


REPORT = Path(privmix.report.__file__).parent
DATA_FILES = sorted(
    path.relative_to(REPORT).as_posix()
    for folder in ("templates", "templates/sections", "templates/catalog", "vendor", "evidence")
    for path in (REPORT / folder).iterdir()
    if path.is_file()
)


@pytest.fixture
def copy(tmp_path, monkeypatch) -> Path:
    """A copy of the report package, with digests computed without the cache."""
    copy = Path(shutil.copytree(REPORT, tmp_path / "report"))
    monkeypatch.setattr(code_version, "PACKAGE", tmp_path)
    monkeypatch.setattr(code_version, "_module_path", lambda module: copy / "__init__.py")
    return copy


def test_every_template_counts_as_code(copy):
    digest = code_version._module.__wrapped__
    before = {digest("privmix.report").digest}
    assert "templates/sections/answer.html" in DATA_FILES
    for name in DATA_FILES:
        (copy / name).write_bytes((copy / name).read_bytes() + b" ")
        before.add(digest("privmix.report").digest)
    assert len(before) == 1 + len(DATA_FILES)


def test_a_template_that_moves_counts_as_changed(copy):
    digest = code_version._module.__wrapped__
    before = digest("privmix.report").digest
    (copy / "templates/sections/answer.html").rename(copy / "templates/answer.html")
    assert digest("privmix.report").digest != before


def test_a_wheel_holds_every_template(tmp_path):
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["privmix"]
    held = {path for pattern in patterns for path in REPORT.parent.glob(pattern) if path.is_file()}
    assert held == {REPORT.parent / "py.typed", *(REPORT / name for name in DATA_FILES)}


def test_provenance_names_versions_and_machine():
    here = provenance.collect_provenance()
    assert dict(here.packages)["privmix"]
    assert here.cores >= 1


def test_imports_for_type_checkers_do_not_count(tmp_path):
    """A public namespace names its modules for type checkers only: no stage reruns because one of them changes."""
    reached = code_version.closure("privmix.mixture.model")
    assert "privmix.mixture" in reached
    assert not {name for name in reached if name.startswith("privmix.estimator")}
    assert "privmix.privacy.pld" not in code_version.closure("privmix.privacy.ledger")
