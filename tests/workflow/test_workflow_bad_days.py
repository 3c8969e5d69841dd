"""Tests of bad configurations, bad files, killed jobs and mechanisms that fail."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from making import clusters, make_domain, write_clean
from project_copy import Project, add_dataset, copy_project


@pytest.fixture(scope="module")
def unrun(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project without any run."""
    return copy_project(tmp_path_factory.mktemp("unrun"))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("epsilons=[1, -1]", ["epsilons.1 = ", "-1", "greater than 0"]),
        ("epsilons=[1, 1]", ["epsilons", "twice"]),
        ("epsilons=many", ["epsilons = 'many'"]),
        ("delta=1", ["delta = 1", "less than 1"]),
        ("replicates=0", ["replicates = 0"]),
        ("replicate=3", ["unknown key 'replicate'", "did you mean 'replicates'"]),
        ("datasets=[tinny]", ["tinny", "did you mean 'tiny'"]),
        ('mechanisms={"x": {"method": "dp_me"}}', ["mechanisms.x", "dp_me", "did you mean 'dp_em'"]),
        ('mechanisms={"x": {"method": "dp_em", "nois": "ggg"}}', ["mechanisms.x", "did you mean 'noise'"]),
        ('mechanisms={"x": {"method": "dp_em", "iterations": "ten"}}', ["iterations = 'ten'"]),
        ('evaluation={"worst_record_run": 3}', ["did you mean 'worst_record_runs'"]),
        ('sources={"tiny": "nowhere.csv"}', ["nowhere.csv", "no file"]),
        ('components={"other": 3}', ["components", "tiny"]),
        ("catalog_dirs=[nowhere]", ["nowhere"]),
    ],
)
def test_a_bad_configuration_gets_one_sentence_before_any_rule(
    unrun: Project, override: str, words: list[str]
):
    result = unrun.snakemake("--dry-run", "--config", override)
    said = [line for line in result.stderr.splitlines() if line.startswith("privmix: ")]
    assert result.returncode != 0
    assert len(said) == 1, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in said[0]


def test_a_configfile_and_options_are_laid_over_the_default(unrun: Project):
    assert {job[2] for job in unrun.planned("--config", "epsilons=[2]") if job[0] == "fit"} == {"2", "inf"}


def _first_job(runner: subprocess.Popen, stage: str) -> psutil.Process:
    """Wait for the first process of that stage that Snakemake starts."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in psutil.Process(runner.pid).children(recursive=True):
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            if f"privmix.pipeline.stages.{stage}" in words and "python" in Path(words[0]).name:
                return process
        time.sleep(0.01)
    raise AssertionError(f"no job of stage {stage} was seen")


def _partial_files(folder: Path) -> list[Path]:
    return [
        path for part in ("data", "reports") for path in (folder / part).rglob("*") if path.suffix == ".part"
    ]


def test_a_killed_job_leaves_nothing_half_written_and_the_same_command_finishes(tmp_path: Path):
    project = copy_project(tmp_path / "project")
    runner = project.start("reports/summary.html")
    _first_job(runner, "fit").kill()
    assert runner.wait(timeout=240) != 0
    models = list((project.folder / "data/models").rglob("*.json"))
    scores = list((project.folder / "data/scores").rglob("*.parquet"))
    assert len(models) == len(scores) == 4  # keep-going: every other chain was finished
    assert not (project.folder / "reports/summary.html").exists()
    assert "Not made" in (project.folder / "reports/incomplete.html").read_text()
    again = project.snakemake("reports/summary.html")
    assert again.returncode == 0, again.stderr[-2000:]
    assert "Not made" not in (project.folder / "reports/summary.html").read_text()
    assert not list((project.folder / "reports").glob("incomplete.*"))
    assert not _partial_files(project.folder)


def test_a_clean_file_that_is_damaged_or_of_another_dataset_stops_the_fit_with_a_sentence(tmp_path: Path):
    project = copy_project(tmp_path / "project")
    clean, model = project.folder / "data/clean/tiny.parquet", "data/models/tiny/non_private/eps-inf.json"
    assert project.snakemake("data/clean/tiny.parquet").returncode == 0
    damaged = bytearray(clean.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    clean.write_bytes(damaged)
    sentences = ["data/clean/tiny.parquet is damaged or was changed"]
    for number in range(2):
        result = project.snakemake(model)
        log = (project.folder / "logs/fit/tiny/non_private/eps-inf.log").read_text()
        assert result.returncode != 0
        assert log.startswith(f"privmix fit: {sentences[number]}"), log
        assert log.endswith("delete it and run the pipeline again.\n")
        assert log.count("\n") == 1
        assert "Not made" in (project.folder / "reports/incomplete.html").read_text()
        write_clean(clean, make_domain(), clusters())
        sentences.append("data/clean/tiny.parquet holds the records of made, not those of tiny")
    clean.unlink()
    assert project.snakemake(model).returncode == 0


def test_after_a_killed_snakemake_unlock_and_the_same_command_finish(tmp_path: Path):
    project = copy_project(tmp_path / "project")
    runner = project.start("reports/summary.html")
    _first_job(runner, "fit")
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert project.snakemake("--unlock").returncode == 0
    again = project.snakemake("reports/summary.html")
    assert again.returncode == 0, again.stderr[-2000:]
    assert "Not made" not in (project.folder / "reports/summary.html").read_text()


def test_people_and_a_mechanism_that_cannot_work_are_results_and_no_crash(tmp_path: Path):
    """Run persons with several records, and planar noise on data without places."""
    project = copy_project(tmp_path / "project")
    entry, config = project.folder / "catalog/tiny.yaml", project.folder / "tiny.yaml"
    person = "  - {name: sex, description: An attribute, type: category, values: [f, m]}\n"
    text = entry.read_text().replace(person, "  - {name: sex, description: Who, type: identifier}\n")
    text = text.replace(
        "attributes: [sex]",
        "privacy: {unit: person, person_column: sex, max_records_per_person: 400}\nexpected: {rows: 800}",
    )
    lines = (project.folder / "tiny.csv").read_text().splitlines()
    rows = [line.rsplit(",", 1)[0] + f",{number % 100}" for number, line in enumerate(lines[1:])]
    (project.folder / "tiny.csv").write_text("\n".join([lines[0], *rows]) + "\n")
    entry.write_text(text)
    planar = "  tree_response: null\n  planar: {method: planar_laplace, within_m: 1000}\n"
    config.write_text(config.read_text().replace("  tree_response: null\n", planar))
    result = project.snakemake("reports/summary.html")
    assert result.returncode == 0, result.stderr[-2000:]
    page = (project.folder / "reports/summary.html").read_text()
    assert "Each person gave one report" in page
    assert "needs a latitude and a longitude" in page


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,c,sex\n1,2,f\n", ["'b'", "a, c, sex"]),
        ("a,b,sex\n", ["no rows"]),
        ("", ["empty"]),
        ("a,b,sex\n0.1,0.2,f\n", ["two"]),
        ("a,b,sex\n0.1,x,f\n0.1,NaN,f\n", ["line 2", "not a number", "line 3"]),
    ],
)
def test_a_bad_file_of_the_users_gets_a_sentence_and_leaves_no_clean_file(
    tmp_path: Path, content: str, words: list
):
    project = copy_project(tmp_path / "project")
    (project.folder / "tiny.csv").write_text(content)
    result = project.snakemake("data/clean/tiny.parquet")
    said = result.stdout + result.stderr
    assert result.returncode != 0
    assert not (project.folder / "data/clean/tiny.parquet").exists()
    assert "Traceback" not in said, said
    for word in words:
        assert word in said


def test_equal_rows_give_a_correct_report(tmp_path: Path):
    project = copy_project(tmp_path / "project")
    (project.folder / "tiny.csv").write_text("\ufeffa,b,sex\n" + "0.25,0.5,f\n" * 300, encoding="utf-8")
    result = project.snakemake("reports/summary.html", "--config", "epsilons=[1]")
    assert result.returncode == 0, result.stderr[-2000:]


def test_several_datasets_share_one_secret_key(tmp_path: Path):
    project = copy_project(tmp_path / "project")
    add_dataset(project.folder, "second", 50)
    targets = ["data/clean/tiny.parquet", "data/clean/second.parquet"]
    result = project.snakemake(*targets, "--config", "datasets=[tiny, second]")
    assert result.returncode == 0, result.stderr[-2000:]
    key = project.folder / "data/.pseudonym.key"
    assert key.stat().st_mode & 0o777 == 0o600
