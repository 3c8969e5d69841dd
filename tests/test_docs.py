"""Tests that run the examples of the pages in `docs/`, follow their links, and compare them with the code."""

import doctest
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import yaml

from privmix.artefacts.naive import Kind
from privmix.catalog.entry import Roles
from privmix.naive.records import Records
from privmix.naive.registry import RELEASES, build
from privmix.pipeline.naive import attack_release
from privmix.settings import load_settings

ROOT = Path(__file__).parents[1]
INSTEAD = ROOT / "docs/instead"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
MOST_LINES = 12  # of an example

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def links(text: str) -> list[str]:
    """Return the relative links of a text, without its blocks of code."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """Return the names by which a link finds the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_dead(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return not target.is_file() or bool(anchor and anchor not in anchors(target))


@each_page
def test_the_examples_of_a_page_give_what_they_say(page: Path):
    examples = [block for block in blocks(page, "python") if block.startswith(">>>")]
    assert len(examples) == page.read_text().count("```python"), "every Python block is a doctest"
    if page.parent == INSTEAD:
        assert len(examples) == 1, "a page has one example"
    for example in examples:
        assert len(example.splitlines()) <= MOST_LINES
        test = doctest.DocTestParser().get_doctest(example, {}, page.name, str(page), 0)
        assert test.examples[-1].want, "an example ends with a number"
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


@each_page
def test_the_links_of_a_page_resolve(page: Path):
    assert [link for link in links(page.read_text()) if is_dead(page, link)] == []


def test_a_dead_link_is_noticed(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A title\n[a](page.md#a-title) [b](#a-title) [c](none.md) [d](page.md#none) [e](https://x.org)\n"
    )
    found = links(page.read_text())
    assert [link for link in found if is_dead(page, link)] == ["none.md", "page.md#none"]


def test_every_release_and_every_attack_has_a_page_and_no_page_is_left_over():
    assert {page.stem for page in INSTEAD.glob("*.md")} == {"README", *RELEASES, *get_args(Kind)}
    assert "docs/instead/README.md" in links((ROOT / "README.md").read_text())


def clinic() -> Records:
    """Return made-up people with two quasi-identifiers and a secret."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"age": rng.integers(0, 6, 90), "town": rng.integers(0, 4, 90), "sick": rng.random(90) < 0.3}
    )
    people = people.astype(str).astype("category")
    return Records(people, people, Roles(quasi_identifiers=("age", "town"), sensitive=("sick",)), None, {})


@pytest.mark.parametrize("name", RELEASES)
def test_the_table_lists_the_attacks_that_run_on_each_release(name: str):
    (row,) = [line for line in (INSTEAD / "README.md").read_text().splitlines() if f"| [{name}](" in line]
    listed = re.findall(r"\[(\w+)\]\(\1\.md\)", row.split("|")[3])
    release, records, rng = build(name, {}, "here"), clinic(), np.random.default_rng(1)
    found = attack_release(release, release.make_table(records, rng), records, rng)
    assert sorted(listed) == sorted({attack.kind for attack in found})


def test_the_roles_and_the_configuration_of_the_first_page_are_valid():
    roles, configuration = map(yaml.safe_load, blocks(INSTEAD / "README.md", "yaml"))
    assert Roles.model_validate(roles["roles"]).columns == ("age", "town", "smoker")
    default = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    releases = default["naive_releases"] | configuration["naive_releases"]
    made = load_settings(default | {"naive_releases": releases}).naive_releases
    assert set(made) == set(RELEASES) - {"rounded"}
    for name, asked in made.items():
        build(asked.method, asked.parameters, name)
