"""Tests of the rule `catalog`: the default target runs it, and only changes of entries, data or its code rerun it."""

import shutil
from pathlib import Path

import pytest
from project_copy import Project, add_dataset, copy_project

CATALOG = {("catalog", "", "")}
PAGE = "reports/catalog.html"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny project with a finished catalog."""
    project = copy_project(tmp_path_factory.mktemp("catalogued"))
    add_dataset(project.folder, "other", 300)
    result = project.snakemake(PAGE)
    assert result.returncode == 0, result.stderr[-3000:]
    return project.folder


@pytest.fixture
def project(finished: Path, tmp_path: Path) -> Project:
    """A copy that a test may change."""
    shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    return Project(tmp_path / "copy")


def test_page_and_package_tell_of_all_entries_and_of_the_run_s_files(finished: Path):
    html = (finished / PAGE).read_text(encoding="utf-8")
    assert 'id="tiny"' in html
    assert 'id="other"' in html
    assert "400\u00a0rows read" in html
    assert '"path": "raw/tiny.raw"' in (finished / "data/datapackage.json").read_text(encoding="utf-8")
    assert not (finished / "data/clean/other.parquet").exists(), "only the run's datasets are made"
    assert not (finished / "data/models").exists(), "the catalog waits for no model"


def test_frictionless_accepts_the_package_of_a_run(finished: Path):
    from frictionless import Package

    report = Package(str(finished / "data/datapackage.json")).validate()
    assert report.valid, report.flatten(["type", "note"])


def test_the_default_target_makes_the_catalog_and_the_summary_alone_does_not(project: Project):
    (project.folder / PAGE).unlink()
    summary, everything = project.planned(), project.planned(target="all")
    assert everything - summary == CATALOG
    assert ("report", "", "") in summary


def test_nothing_changed_nothing_done(project: Project):
    assert project.planned(target=PAGE) == set()
    project.edit("catalog/tiny.yaml", "name: tiny", "# A remark.\nname: tiny")
    project.edit("src/privmix/mixture/em.py", "\ndef ", "\nEDITED = 1\n\n\ndef ")
    assert project.planned("--config", "replicates=2", target=PAGE) == set()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("catalog/other.yaml", "made for a test", "made for two tests"),
        ("src/privmix/report/catalog_page.py", "\ndef ", "\nEDITED = 1\n\n\ndef "),
        ("src/privmix/report/templates/catalog/catalog.css", ".found", ".found, .edited"),
    ],
)
def test_an_edited_entry_or_its_code_makes_the_catalog_alone_again(
    project: Project, name: str, old: str, new: str
):
    project.edit(name, old, new)
    assert project.planned(target=PAGE) == CATALOG


def test_a_new_entry_makes_it_again_and_a_broken_one_stops_nothing(project: Project):
    (project.folder / "catalog/broken.yaml").write_text("name: broken\n", encoding="utf-8")
    assert project.planned(target=PAGE) == CATALOG
    result = project.snakemake(PAGE)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "Skipped: catalog/broken.yaml: key 'title' is missing; add it." in result.stdout + result.stderr
    assert "key &#39;title&#39; is missing" in (project.folder / PAGE).read_text(encoding="utf-8")
