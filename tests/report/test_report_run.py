"""The run section: code, usage of the stages, and commands to reproduce the page."""

import dataclasses
import re

import made_up_run
import pytest
from snakemake.cli import get_argument_parser

from privmix.pipeline import plan
from privmix.report.format import megabytes
from privmix.report.run import JobUsage, StageUsage, parse_benchmark, summarize_stage

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def line(seconds: object, memory: object) -> str:
    return f"{HEADER}{seconds}\t0:00:01\t{memory}\t1\t1\t1\t0\t0\t90.0\t1.0\n"


def words_of(html: str) -> str:
    card = html[html.index('id="run"') : html.index('id="glossary"')]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", card)).replace("\u00a0", " ")


@pytest.fixture
def measured(tmp_path):
    """Return the page of a made-up run with benchmark files for some jobs."""
    configuration = made_up_run.write_run(tmp_path)
    seen = {
        "clean/checkins": line(1.25, 100.5),
        "clean/survey": line(0.5, "NA"),
        "fit/checkins/dp_em_exact/eps-1": line(20, 300),
        "fit/checkins/dp_em_exact/eps-0.1": line(30, 2048),
        "fit/survey/dp_em_exact/eps-10": line(9, 40),
        "fit/of_another_run/dp_em_exact/eps-1": line(5000, 90_000),
        "audit/dp_em_exact/eps-1": HEADER,
    }
    for name, text in seen.items():
        path = tmp_path / f"logs/benchmarks/{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made_up_run.render(tmp_path, configuration)


def test_each_stage_shows_jobs_seconds_and_memory(measured):
    words = words_of(measured)
    assert "clean 2 1.75 s 1.25 s 100 MB" in words
    assert "fit 3 of 32 59 s 30 s 2.0 GB" in words, (
        "of this run alone, and no job counts for one not measured"
    )


def test_unmeasured_stages_have_no_numbers(measured):
    words = words_of(measured)
    assert "download 0 of 2 – – –" in words
    assert "audit 0 of 15 – – –" in words, "a file without a line is no measurement"


def test_without_benchmark_files_the_page_says_so(rendered):
    assert "logs/benchmarks has no files" in words_of(rendered.html)
    assert "longest" not in words_of(rendered.html)


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (line(1.5, 20.25), JobUsage(1.5, 20.25)),
        (line(1.5, "NA"), JobUsage(1.5, None)),
        (line(1.5, "-"), JobUsage(1.5, None)),
        (line(1.5, "nan"), JobUsage(1.5, None)),
        (HEADER, None),
        ("", None),
        ("half a li", None),
    ],
)
def test_benchmark_files_are_parsed_and_missing_values_are_none(text, used):
    assert parse_benchmark(text) == used


def test_a_stage_sums_seconds_and_takes_the_largest_memory():
    jobs = [JobUsage(1.0, None), JobUsage(2.5, 7.0), JobUsage(0.5, 9.0)]
    assert summarize_stage("fit", 4, jobs) == StageUsage("fit", 4, 3, 4.0, 2.5, 9.0)
    assert summarize_stage("fit", 4, []) == StageUsage("fit", 4, 0, None, None, None)


@pytest.mark.parametrize(("value", "text"), [(99.6, "100 MB"), (1023.4, "1023 MB"), (1024, "1.0 GB")])
def test_memory_has_a_fitting_unit(value, text):
    assert megabytes(value).replace("\u00a0", " ") == text


def test_every_stage_has_the_benchmarks_of_its_own_jobs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planned = plan.make_plan(made_up_run.write_run(tmp_path))
    assert planned.benchmark_paths("clean") == [
        "logs/benchmarks/clean/checkins.tsv",
        "logs/benchmarks/clean/survey.tsv",
    ]
    assert len(planned.benchmark_paths("fit")) == len(planned.jobs())
    assert not any("dp_em" in path or "non_private" in path for path in planned.benchmark_paths("privatise"))
    assert not any("inf" in path or "survey" in path for path in planned.benchmark_paths("audit"))


def test_the_card_shows_the_commands_to_reproduce_the_page(rendered):
    run, _ = made_up_run.load(rendered.root, rendered.configuration)
    words = words_of(rendered.html)
    make = "snakemake --cores all reports/summary.html --configfile run.yaml"
    for command in (
        f"git checkout {run.provenance.commit}",
        "make environment . .venv/bin/activate",
        make,
    ):
        assert command in words
    understood = get_argument_parser().parse_args(make.split()[1:])
    assert understood.targets == ["reports/summary.html"], "options of Snakemake take all words that follow"
    assert [str(path) for path in understood.configfile] == ["run.yaml"]
    assert ("uncommitted changes" in words) == run.provenance.modified
    assert "sha256 " + "ab" * 32 in words
    assert dataclasses.asdict(run.provenance)["processor"] in words
