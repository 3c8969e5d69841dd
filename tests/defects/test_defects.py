"""Every planted defect is detected: by the replay in three runs, nearly all by the game, and on the page."""

from pathlib import Path

import pytest
from matrix import AS_IT_IS, as_table, matrix
from mutate import copied
from planted import DEFECTS, METHOD
from project_copy import ROOT, Project, copy_project

from privmix.pipeline.code_version import audit_code_version
from privmix.report.defects import load_matrix

CONFIG = f"""
catalog_dirs: [catalog]
datasets: [tiny]
mechanisms:
  non_private: null
  dp_em_llg_linear: null
  dp_em_ggg_exact: null
  {METHOD}: {{method: {METHOD}}}
  noisy_tree: null
  tree_then_moments: null
  laplace_naive: null
  laplace_aware: null
  randomized_response: null
  tree_response: null
epsilons: [1]
replicates: 1
components: 3
audit: {{runs: 20}}
"""


def test_all_eleven_defects_fit_the_sources(tmp_path: Path):
    assert len({defect.name for defect in DEFECTS}) == 11
    for number, defect in enumerate(DEFECTS):
        source = copied(defect, tmp_path / str(number))
        for edit in defect.edits:
            compile((source / "privmix" / edit.path).read_text(), edit.path, "exec")


@pytest.mark.slow
def test_the_replay_detects_all_defects_and_the_game_nearly_all():
    found = matrix(seeds=1)
    print(as_table(found))
    assert (found.as_it_is.replayed, found.as_it_is.alarmed) == (0, 0)
    assert [row.name for row in found.planted if not row.replayed] == []
    assert sum(row.alarmed for row in found.planted) >= 10
    kept = {row.name: (bool(row.trials[0].finding), row.trials[0].alarm) for row in load_matrix().rows}
    assert {row.name: (bool(row.trials[0].finding), row.trials[0].alarm) for row in found.rows} == kept


def test_the_stored_matrix_belongs_to_the_current_code():
    """After a change of the audit, or of the code that it runs: `python tests/defects/matrix.py`."""
    assert [row.name for row in load_matrix().rows] == [AS_IT_IS, *(defect.name for defect in DEFECTS)]
    assert load_matrix().code == audit_code_version(METHOD)


def test_the_readme_has_the_same_matrix():
    assert as_table(load_matrix()) in (ROOT / "README.md").read_text(encoding="utf-8")


def _let_people_be_left_out(project: Project) -> None:
    """Make the number of records private: if it is public, counts without noise are no defect."""
    entry, table = project.folder / "catalog/tiny.yaml", project.folder / "tiny.csv"
    who = "  - {name: who, description: Who, type: identifier}\ncoordinates:"
    text = entry.read_text().replace("coordinates:", who)
    entry.write_text(
        f"{text}privacy: {{relation: add_remove, person_column: who}}\nexpected: {{rows: 400}}\n"
    )
    head, *lines = table.read_text().splitlines()
    table.write_text("\n".join([f"{head},who", *(f"{line},p{n}" for n, line in enumerate(lines))]) + "\n")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with one mechanism, run once as it is."""
    made = copy_project(tmp_path_factory.mktemp("defects") / "project")
    (made.folder / "tiny.yaml").write_text(CONFIG)
    _let_people_be_left_out(made)
    result = made.snakemake("reports/summary.html")
    assert result.returncode == 0, result.stderr[-2000:]
    return made


def _marked(project: Project) -> bool:
    page = (project.folder / "reports/summary.html").read_text(encoding="utf-8")
    return '<span class="pill poor">fails</span>' in page and 'class="warning"' in page


def test_a_run_of_the_unchanged_code_has_no_red_mark(project: Project):
    assert not _marked(project)


@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_planted_defect_is_red_on_the_page(project: Project, defect):
    """From the configuration through Snakemake to the report."""
    kept = {edit.path: (project.folder / "src/privmix" / edit.path).read_text() for edit in defect.edits}
    try:
        for edit in defect.edits:
            project.edit(f"src/privmix/{edit.path}", edit.before, edit.after)
        result = project.snakemake("reports/summary.html")
        assert result.returncode == 0, result.stderr[-2000:]
        assert _marked(project)
    finally:
        for path, text in kept.items():
            (project.folder / "src/privmix" / path).write_text(text)
