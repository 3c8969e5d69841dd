"""Tests that run the examples of the README and compare its tables with the code."""

import doctest
import re
from pathlib import Path

import yaml

from privmix.catalog.entry import load_entry
from privmix.mechanisms.registry import METHODS
from privmix.report.methods import PROMISES
from privmix.settings import ReleaseSettings, Settings, load_settings

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, re.DOTALL)


def test_the_python_examples_give_what_they_say():
    examples = [block for language, block in BLOCKS if language == "python"]
    shown = [example for example in examples if example.startswith(">>>")]
    assert len(shown) == 2
    for example in shown:
        test = doctest.DocTestParser().get_doctest(example, {}, "README", None, 0)
        assert len(test.examples) >= 5
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_the_estimator_example_runs():
    (example,) = (block for language, block in BLOCKS if language == "python" and not block.startswith(">>>"))
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["model"].privacy_.ledger


def test_the_entry_and_configuration_for_ones_own_data_are_valid(tmp_path: Path):
    entry, config, publish, persons, attacks = (block for language, block in BLOCKS if language == "yaml")
    (tmp_path / "clinic.yaml").write_text(entry)
    assert load_entry(tmp_path / "clinic.yaml").coordinates == ("age", "systolic")
    who = "columns:\n  - {name: who, description: Patient, type: identifier}"
    (tmp_path / "clinic.yaml").write_text(entry.replace("columns:", who) + persons)
    assert load_entry(tmp_path / "clinic.yaml").privacy.unit == "person"
    for each in (config, publish):
        assert set(yaml.safe_load(each)) <= set(Settings.model_fields)
    ReleaseSettings.model_validate(yaml.safe_load(publish)["release"])
    default = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    assert load_settings(default | yaml.safe_load(attacks)).evaluation.shadows == 64


def test_every_method_is_in_the_table_and_the_picture_is_there():
    assert [name for name in METHODS if f"`{name}`" not in TEXT] == []
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", TEXT):
        assert (ROOT / picture).is_file()
        assert (ROOT / picture).stat().st_size < 400_000, "a README loads quickly"


def test_the_table_promises_what_the_page_does():
    assert set(PROMISES) == set(METHODS)
    for method, (guarantee, use) in PROMISES.items():
        (row,) = [line for line in TEXT.splitlines() if re.match(rf"\| (`\w+`, )?`{method}`.*\| .*\|$", line)]
        *_, promised, when, _ = re.split(r"\s*(?<!\\)\|\s*", row)
        assert guarantee in ([promised] if promised == guarantee else re.split(r", (?=\()", promised)), method
        assert use == when, method
