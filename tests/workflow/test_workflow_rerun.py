"""Tests of reruns: every edit reruns the stages that depend on it, and no others."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from project_copy import Project, copy_project

PRIVATE = {("dp_em_ggg_exact", e) for e in ("1", "3")} | {("randomized_response", e) for e in ("1", "3")}
ALL = PRIVATE | {("non_private", "inf")}
REPORT = {("report", "", "")}


def chain(*mechanisms: str, epsilons: tuple[str, ...] = ("1", "3")) -> set[tuple[str, str, str]]:
    """Return the jobs of these mechanisms from privatise to audit, and the report."""
    jobs = set(REPORT)
    for mechanism in mechanisms:
        for epsilon in ("inf",) if mechanism == "non_private" else epsilons:
            stages = ["fit", "evaluate"] + (["privatise"] if mechanism == "randomized_response" else [])
            stages += ["audit"] if mechanism != "non_private" else []
            jobs |= {(stage, mechanism, epsilon) for stage in stages}
    return jobs


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tiny run."""
    project = copy_project(tmp_path_factory.mktemp("finished"))
    result = project.snakemake("reports/summary.html")
    assert result.returncode == 0, result.stderr[-3000:]
    return project.folder


@pytest.fixture
def project(finished: Path, tmp_path: Path) -> Project:
    """A copy of the finished run that a test may change."""
    shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    return Project(tmp_path / "copy")


def test_the_run_makes_what_it_promises(finished: Path):
    import pandas as pd

    from privmix.artefacts.scores import RESULT_COLUMNS

    results = pd.read_csv(finished / "reports/results.csv")
    assert tuple(results.columns) == RESULT_COLUMNS
    again = pd.read_parquet(finished / "reports/results.parquet")
    assert len(again) == len(results)
    done = set(zip(results["mechanism"], results["epsilon"].map("{:g}".format), strict=True))
    assert done == ALL
    assert {"holdout_loglik", "holdout_gap", "mia_loss_auc", "seconds_fit"} <= set(results["metric"])
    bounds = results[results["metric"] == "audit_epsilon_lower"]
    audited = set(zip(bounds["mechanism"], bounds["epsilon"].map("{:g}".format), strict=True))
    assert audited == {
        job for job in PRIVATE if job[0] == "randomized_response"
    }  # the other audits are too expensive here
    assert "<html" in (finished / "reports/summary.html").read_text()[:500]
    charts = {path.name for path in (finished / "reports/figures").glob("[!.]*")}
    assert {"frontier-tiny.svg", "frontier-tiny.png", "proven.svg", "roc-loss-tiny.png"} <= charts


def test_every_job_was_measured_and_the_page_says_so(finished: Path):
    measured = {path.parent.name for path in (finished / "logs/benchmarks").rglob("*.tsv")}
    assert {"download", "clean", "dp_em_ggg_exact", "randomized_response"} <= measured
    words = re.sub(r"<[^>]+>|\s+", " ", (finished / "reports/summary.html").read_text())
    for stage, jobs in {
        "download": 1,
        "clean": 1,
        "privatise": 2,
        "fit": 5,
        "evaluate": 5,
        "audit": 4,
    }.items():
        assert re.search(rf"\b{stage} +{jobs} +[\d.]+ (s|min) ", words), stage


def test_jobs_whose_measurement_is_lost_are_not_done_again(project: Project):
    shutil.rmtree(project.folder / "logs/benchmarks")
    assert project.planned() == set()


def test_the_last_words_are_the_answers_and_the_page_in_lines_that_fit(project: Project):
    command = project.command("--force", "reports/summary.html")
    environment = {**project.environment(), "COLUMNS": "60"}
    said = subprocess.run(
        command, cwd=project.folder, env=environment, capture_output=True, text=True, check=True
    ).stderr
    end = said[said.index("steps (100%) done") :].splitlines()
    assert end[2].startswith("tiny, central: At ε = 1, dp_em_ggg_exact")
    last = end.index("The report is reports/summary.html")
    assert max(map(len, end[2 : last + 1])) <= 60
    assert len(end) - last <= 5, "Snakemake prints little after it"


def test_a_run_without_a_report_has_no_last_words(project: Project):
    said = project.snakemake("--force", "data/clean/tiny.parquet")
    assert said.returncode == 0
    assert "The report is" not in said.stderr


def test_a_second_call_has_nothing_to_do(project: Project):
    result = project.snakemake("reports/summary.html")
    assert result.returncode == 0
    assert "Nothing to be done" in result.stdout + result.stderr


def test_a_comment_or_docstring_reruns_nothing(project: Project):
    project.edit("src/privmix/privacy/noise.py", "from dataclasses", "# A remark.\nfrom dataclasses")
    project.edit("src/privmix/mixture/em.py", '"""EM for', '"""About EM for')
    assert project.planned() == set()


def test_editing_the_report_reruns_the_report_alone(project: Project):
    project.edit("src/privmix/report/format.py", "\ndef ", "\nEDITED = 1\n\n\ndef ")
    assert project.planned() == REPORT


def test_editing_a_template_reruns_the_report_alone(project: Project):
    project.edit("src/privmix/report/templates/page.html", "</body>", "<!-- edited --></body>")
    assert project.planned() == REPORT


def test_editing_the_noise_reruns_everything_after_clean(project: Project):
    project.edit("src/privmix/privacy/noise.py", "\ndef _check", "\nEDITED = 1\n\n\ndef _check")
    assert project.planned() == chain("non_private", "dp_em_ggg_exact", "randomized_response")


def test_editing_one_mechanism_reruns_its_chain_alone(project: Project):
    project.edit(
        "src/privmix/mechanisms/central/dp_em.py", "LARGEST_VARIANCE = 1.0", "LARGEST_VARIANCE = 0.9"
    )
    assert project.planned() == chain("dp_em_ggg_exact")


def test_changing_one_mechanisms_parameter_reruns_its_chain_alone(project: Project):
    parameter = 'mechanisms={"randomized_response": {"attribute_share": 0.3}}'
    assert project.planned("--config", parameter) == chain("randomized_response")


def test_adding_an_epsilon_runs_only_its_jobs(project: Project):
    new = chain("dp_em_ggg_exact", "randomized_response", epsilons=("10",))
    assert project.planned("--config", "epsilons=[1, 3, 10]") == new
    result = project.snakemake("reports/summary.html", "--config", "epsilons=[1, 3, 10]")
    assert result.returncode == 0, result.stderr[-2000:]
    assert f"{len(new)} of {len(new)} steps (100%) done" in result.stdout + result.stderr


def test_changing_the_attack_reruns_evaluation_alone(project: Project):
    planned = project.planned("--config", 'evaluation={"false_positive_rates": [0.05]}')
    assert planned == {("evaluate", *job) for job in ALL} | REPORT


def test_editing_an_attack_refits_nothing_but_editing_the_replay_does(project: Project):
    project.edit("src/privmix/attacks/attribute.py", "\ndef ", "\nEDITED = 1\n\n\ndef ")
    assert project.planned() == {("evaluate", *job) for job in ALL} | REPORT
    project.edit("src/privmix/audit/replay.py", "LOCAL_RUNS = 3", "LOCAL_RUNS = 4")
    assert project.planned() == chain("non_private", "dp_em_ggg_exact", "randomized_response")


def test_more_runs_of_the_audit_rerun_the_audit_alone(project: Project):
    assert project.planned("--config", 'audit={"runs": 30}') == {("audit", *job) for job in PRIVATE} | REPORT


def test_editing_the_game_reruns_the_audit_alone(project: Project):
    project.edit("src/privmix/audit/game.py", "MAIN = 0.8", "MAIN = 0.7")
    assert project.planned() == {("audit", *job) for job in PRIVATE} | REPORT


def test_shadow_models_for_one_mechanism_rerun_its_evaluation_alone(project: Project):
    attack = 'evaluation={"shadows": 12, "shadow_mechanisms": ["dp_em_ggg_exact"], "shadow_epsilons": [3]}'
    assert project.planned("--config", attack) == {("evaluate", "dp_em_ggg_exact", "3")} | REPORT


def test_words_of_a_catalog_entry_rerun_nothing_but_its_bounds_do(project: Project):
    project.edit("catalog/tiny.yaml", "description: Three clusters", "description: Some clusters")
    assert project.planned() == set()
    project.edit("catalog/tiny.yaml", "lower: -1", "lower: -1.5")
    audits = {("audit", *job) for job in PRIVATE}  # do not depend on the data
    assert project.planned() == chain("non_private", "dp_em_ggg_exact", "randomized_response") - audits | {
        ("clean", "", "")
    }


def test_whom_a_dataset_protects_reruns_the_audits(project: Project):
    entry = "catalog/tiny.yaml"
    project.edit(entry, "type: category, values: [f, m]", "type: identifier")
    asked = "privacy: {relation: add_remove, person_column: sex}\nexpected: {rows: 400}"
    project.edit(entry, "attributes: [sex]", asked)
    assert {("audit", *job) for job in PRIVATE} <= project.planned()


def test_changing_the_users_file_reruns_from_the_start(project: Project):
    with (project.folder / "tiny.csv").open("a") as stream:
        stream.write("0.1,0.1,f\n")
    assert {("download", "", ""), ("clean", "", "")} <= project.planned()
