"""Tests of what the cluster profiles require of the rules."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
RULES = {
    name: text
    for path in sorted((ROOT / "workflow/rules").glob("*.smk"))
    for name, text in re.findall(r"^rule (\w+):\n(.*?)(?=^\S|\Z)", path.read_text(), re.M | re.S)
}


def profile(name: str) -> dict:
    return yaml.safe_load((ROOT / f"workflow/profiles/{name}/config.yaml").read_text())


def test_every_rule_that_goes_to_a_cluster_says_what_it_needs():
    assert {"clean", "privatise", "fit", "evaluate", "report"} <= set(RULES)
    for name, text in RULES.items():
        if name != "download":  # a local rule
            assert "mem_mb=memory," in text, name
            assert re.search(r"\bruntime=minutes\(", text), name
            assert "threads: 1\n" in text, name


def test_retries_are_the_profiles_alone_and_a_release_has_none():
    """A retry of a rule would run in the same allocation, without the larger memory. A release would spend again."""
    assert profile("slurm")["retries"] >= 1
    assert {name for name, text in RULES.items() if "retries:" in text} == {"release"}
    assert "retries: 0" in RULES["release"]


def test_partition_and_account_have_one_place():
    texts = [path.read_text() for path in (ROOT / "workflow").rglob("*") if path.is_file()]
    for key in ("slurm_partition", "slurm_account"):
        assert sum(text.count(key) for text in texts) == 1


def test_chunks_hold_rules_that_exist_and_are_of_one_mechanism():
    chunked = profile("chunked")
    groups = dict(entry.split("=") for entry in chunked["groups"])
    assert set(groups) <= set(RULES)
    assert set(groups.values()) == {"{dataset}.{mechanism}", "{mechanism}"}
    assert {entry.split("=")[0] for entry in chunked["group-components"]} == set(groups.values())


def test_every_rule_is_measured_but_a_release():
    """A benchmark contains times, but a release keeps no time more precise than the day."""
    assert {name for name, text in RULES.items() if "    benchmark:\n" not in text} == {"release"}


def test_what_was_measured_is_no_input_of_the_report():
    """Otherwise a finished run without benchmark files would run again."""
    inputs = RULES["report"].split("    output:")[0]
    assert "BENCHMARKS" not in inputs
    assert "logs/" not in inputs
