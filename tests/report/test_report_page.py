import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import made_up_run
import numpy as np
import pandas as pd
import pytest
import yaml
from made_up_run import CHECKINS, HOMES, SURVEY, MadeUpData

from privmix.artefacts.clean import read_clean
from privmix.artefacts.scores import RESULT_COLUMNS
from privmix.errors import UserError
from privmix.report import sections, templating
from privmix.report.sections.proportions import dataset_proportions
from privmix.report.sections.results import attach

PLAIN = MadeUpData("plain", rows=400)
INLINE = {"a", "b", "strong", "span", "code", "wbr"}
NOUNS = "replicates|records|datasets|jobs|mechanisms|releases|measurements|components"
LEAKS = (
    " nan ",
    " None (?!of the)",
    "Undefined",
    r"Estimate\(",
    "{{|}}",
    " [,.]",
    rf"\b1 ({NOUNS})\b",
    "&amp;",
)
VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use", "image", "circle", "rect", "wbr"}


class Outline(HTMLParser):
    """The structure and text of a page, as a screen reader sees them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.titles: list[str] = []
        self.pictures: list[dict] = []
        self.tables = self.captions = 0
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.ids.append(values["id"])
        if tag in ("a", "use") and values.get("href", "").startswith("#"):
            self.links.append(values["href"][1:])
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "svg":
            self.pictures.append(values)
        self.tables += tag == "table"
        self.captions += tag == "caption"
        if tag not in INLINE:
            self.text.append(" ")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in INLINE:
            self.text.append(" ")
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "pre", "script"):
            self.text.append(data)
        if self.open and self.open[-1] == "h2":
            self.titles.append(data)

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.text)).replace("\u00a0", " ")


def check(html: str) -> str:
    """Check that the page is valid, and return its text."""
    page = Outline(html)
    assert page.open == [], "every element is closed"
    assert len(page.ids) == len(set(page.ids)), "ids are unique"
    assert set(page.links) <= set(page.ids), "links inside the page have a target"
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(page.headings, page.headings[1:], strict=False)), (
        "no level is skipped"
    )
    assert page.tables == page.captions > 0
    for picture in page.pictures:
        assert picture.get("aria-hidden") == "true" or picture.get("aria-label"), "pictures have words"
    for leak in LEAKS:
        assert not re.search(leak, page.words), re.search(f".{{0,80}}(?:{leak}).{{0,40}}", page.words).group()
    return page.words


def test_the_page_begins_with_the_answer_and_has_every_section(rendered):
    words = check(rendered.html)
    assert Outline(rendered.html).titles == [
        "The answer at ε = 1",
        "Frontier: utility against privacy",
        "Models: what each mechanism fitted",
        "Usefulness: do synthetic rows look like records?",
        "Groups: who pays for privacy?",
        "How wrong will my numbers be?",
        "Attack: was this record in the training data?",
        "Audit: does each mechanism keep its privacy claim?",
        "Privacy ledger: what each mechanism measured",
        "Shares of categorical attributes (local mechanisms)",
        "Results",
        "The data",
        "The run",
        "Glossary",
    ]
    assert len(re.findall("best of the [23] (?:central|local) mechanisms", words)) == 4


def test_the_page_is_self_contained(rendered):
    for tag, attribute, value in re.findall(
        r'<(\w+)[^>]*?\s(src|href|data|srcset|poster)="([^"]*)"', rendered.html
    ):
        own = value.startswith(("#", "data:"))
        assert own or (tag, attribute) == ("a", "href"), value
    assert not re.search("<script[^>]* src", rendered.html)
    assert "@import" not in rendered.html
    assert not re.search(r"url\((?!#)", rendered.html)


def test_the_results_files_include_the_gap(rendered):
    results = pd.read_csv(rendered.root / "reports/results.csv")
    assert tuple(results.columns) == RESULT_COLUMNS
    assert "holdout_gap" in set(results["metric"])
    assert pd.read_parquet(rendered.root / "reports/results.parquet")["value"].tolist() == pytest.approx(
        results["value"].tolist()
    )
    assert 'href="results.csv"' in rendered.html
    assert 'href="results.parquet"' in rendered.html


def test_failures_are_shown_with_their_reason(rendered):
    words = check(rendered.html)
    assert "3 jobs have no result" in words
    assert "randomized_response cannot work on survey: its grid would have 10^8 cells." in words
    assert "0.1, 1, 10" in words


def test_text_from_catalog_and_configuration_is_escaped(rendered):
    assert "made up &lt;for a test&gt; &amp; escaped" in rendered.html


def test_the_same_files_make_the_same_page(rendered):
    assert made_up_run.render(rendered.root, rendered.configuration) == rendered.html


def test_every_section_is_one_module_and_one_template_of_the_same_name(rendered):
    folder = Path(sections.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {path.stem for path in (folder.parent / "templates/sections").iterdir()} == modules
    assert set(re.findall(r'<section id="(\w+)"', rendered.html)) == modules - {
        "nearby",
        "instead",
        "labels",
    }


LIBRARIES = {
    "d3.min.js": "f2094bbf6141b359722c4fe454eb6c4b0f0e42cc10cc7af921fc158fceb86539",
    "plot.umd.min.js": "4358086467740777dd788d6b27a95cebdbaefdd50c730a3060117073bd7134cb",
}


def test_the_chart_libraries_are_unmodified_and_have_licences(rendered):
    folder = Path(templating.__file__).parent / "vendor"
    assert {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in templating.LIBRARIES
    } == LIBRARIES
    for name in ("d3", "plot"):
        assert "Permission to use, copy, modify" in (folder / f"LICENSE.{name}").read_text()
    for library in templating.libraries():
        assert library in rendered.html
        assert "</script" not in library


def test_only_web_addresses_become_links(tmp_path):
    configuration = made_up_run.write_run(tmp_path, datasets=(PLAIN,), failing=())
    entry = tmp_path / "catalog/plain.yaml"
    described = yaml.safe_load(entry.read_text())
    described["homepage"] = "javascript:alert(1)"
    described["licence"]["url"] = "https://example.org/licence"
    entry.write_text(yaml.safe_dump(described))
    html = made_up_run.render(tmp_path, configuration)
    assert 'href="javascript' not in html
    assert "<dd>javascript:alert(1)</dd>" in html
    assert 'href="https://example.org/licence"' in html


def test_the_catalog_is_linked_if_its_page_exists(tmp_path):
    configuration = made_up_run.write_run(tmp_path, datasets=(PLAIN,), failing=())
    assert 'href="catalog.html"' not in made_up_run.render(tmp_path, configuration)
    (tmp_path / "reports/catalog.html").write_text("<!DOCTYPE html><title>catalog</title>")
    assert 'href="catalog.html"' in made_up_run.render(tmp_path, configuration)


def test_a_large_file_is_not_embedded():
    noise = np.random.default_rng(1).bytes(400_000)
    assert attach("results.parquet", noise).content is None
    assert attach("results.csv", b"a,b\n" * 100_000, packed=True).content is not None


def test_the_page_is_small(rendered):
    libraries = sum(map(len, templating.libraries()))
    assert libraries < 500_000
    assert len(rendered.html) - libraries < 1_100_000


def test_proportions_are_shown_with_the_true_share(rendered):
    words = check(rendered.html)
    assert "at night: yes" in words
    assert "true share" in words
    assert "Of ε = 1, 0.5 is for the place and 0.5 for “at night”." in words


def test_the_stage_prints_the_answers_and_the_path_of_the_page(tmp_path, capsys):
    configuration = made_up_run.write_run(
        tmp_path, datasets=(PLAIN,), mechanisms=("non_private", "dp_em_exact")
    )
    made_up_run.render(tmp_path, configuration)
    *answers, last = capsys.readouterr().out.splitlines()
    assert last == "The report is reports/summary.html"
    assert len(answers) == 1
    assert answers[0].startswith("plain, central: At ε = 1, dp_em_exact keeps ")
    assert answers[0].endswith("It is the only central mechanism.")


def test_missing_files_are_named_and_the_rest_is_shown(tmp_path):
    configuration = made_up_run.write_run(tmp_path, datasets=(PLAIN,), failing=())
    (tmp_path / "data/models/plain/dp_em_exact/eps-1.json").unlink()
    (tmp_path / "data/scores/plain/dp_em_exact/eps-1.parquet").unlink()
    (tmp_path / "data/scores/plain/responses/eps-10.parquet").unlink()
    words = check(made_up_run.render(tmp_path, configuration))
    assert "2 jobs have no result" in words
    assert "plain dp_em_exact 1 Not made" in words
    assert "plain responses 10 Not made" in words
    assert "the only central mechanism that ran (1 failed)" in words


def test_a_run_without_files_still_has_a_page(tmp_path):
    configuration = made_up_run.write_run(tmp_path, datasets=(PLAIN,))
    for path in (tmp_path / "data").rglob("*.*"):
        path.unlink()
    words = check(made_up_run.render(tmp_path, configuration))
    assert "None of the 2 central mechanisms has a result at ε = 1." in words.replace("\u00a0", " ")
    assert "The dataset was not downloaded or not cleaned" in words


def test_a_truncated_file_is_refused_with_a_sentence(tmp_path):
    configuration = made_up_run.write_run(tmp_path, datasets=(PLAIN,))
    path = tmp_path / "data/scores/plain/dp_em_exact/eps-1.parquet"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UserError, match=r"eps-1\.parquet has no seal.* or it is damaged"):
        made_up_run.render(tmp_path, configuration)
    assert not (tmp_path / "reports/summary.html").exists()


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"replicates": 1}, "Each point is one replicate, so there is no interval."),
        ({"epsilons": (2.0,)}, "The answer at ε = 2"),
        ({"mechanisms": ("non_private",)}, "This run has no private mechanism"),
        ({"mechanisms": ("dp_em_exact",)}, "no non-private model"),
        ({"datasets": (MadeUpData("one", dimensions=1, rows=400),)}, "over a histogram of"),
        ({"datasets": (MadeUpData("ten", dimensions=10, rows=400),)}, "shows the first two of 10 coordinates."),
        ({"copies": 10}, "20 private mechanisms"),
        ({"worse": 40.0}, "do not use No central mechanism surely keeps 50 % of the utility"),
        ({"failing": [("plain", m) for m in made_up_run.METHODS]}, "There is no model of this dataset to draw."),
        ({"epsilons": (0.001, 1000.0)}, "The answer at ε = 0.001"),
    ],
    ids=["one replicate", "one epsilon", "nothing private", "no baseline", "d=1", "d=10", "20 mechanisms",
         "useless", "all fail", "extreme epsilons"],
)  # fmt: skip
def test_every_kind_of_run_makes_a_valid_page(tmp_path, options, phrase):
    options = {"datasets": (PLAIN,), "mechanisms": ("non_private", "dp_em_exact", "responses"), **options}
    words = check(made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, **options)))
    assert phrase in words


def test_sensitive_records_leave_no_trace_on_the_page(tmp_path):
    secret = MadeUpData("secret", geographic=True, visibility="sensitive", isolated=True, attribute=True)
    html = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(secret,), failing=()))
    words = check(html)
    assert "The records are sensitive, so none is drawn." in words
    assert "<image" not in html
    assert '<use href="#cloud' not in html
    assert "The ring marks" not in words
    assert 'id="portrait-secret-non_private' not in html
    assert '"baseline":null' in html
    assert '"places":[]' in html
    assert "true share" not in words
    assert "Shares in secret, estimated by responses at ε = 1" in words


def test_counts_and_hashes_of_sensitive_records_are_hidden(tmp_path):
    secret = MadeUpData("secret", visibility="sensitive", rows=2345, relation="add_remove")
    html = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(secret,), failing=()))
    words = check(html)
    assert "other counts are hidden because the records are sensitive" in words
    clean = read_clean(tmp_path / "data/clean/secret.parquet").info
    counts = (clean.counts.read, clean.counts.kept, clean.counts.train, clean.counts.holdout)
    assert min(counts) > 100
    for told in counts:
        assert not re.search(rf"\b({told}|{told:,})\b", words)
    assert clean.raw_sha256 not in html


def test_public_records_are_drawn_once_and_used_by_every_picture(tmp_path):
    html = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,), failing=()))
    assert html.count("data:image/png") == 1
    assert html.count('href="#cloud-checkins"') == len(made_up_run.USUAL)
    assert html.count("The ring marks") == 1


def attack_section(html: str) -> str:
    return html[html.index('<section id="attack"') : html.index('<section id="audit"')]


def test_the_average_attack_has_no_limit_if_people_hold_several_records(tmp_path):
    html = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    section, shadows = attack_section(html).split("<summary>Shadow-model attacks")
    assert "above the limit at" not in section
    assert "var(--forbidden)" not in section
    assert "shaded region" not in section
    short, full = section.split("<summary>True-positive rates")
    private = r"<tr[^>]*>\s*<th scope=\"row\">(?!non_<wbr>private).*?</tr>"
    assert "limit for<br>isolated-1 (AUC)" in short, "only the worst record has a limit"
    assert [row.count("0.731") for row in re.findall(private, short, re.DOTALL)] == [1] * 5
    rows = re.findall(private, full, re.DOTALL)
    assert len(rows) == 15
    assert all(row.count("(limit ") == 1 for row in rows), "only the worst record has a limit"
    assert shadows.count("(limit 0.731)") == 2, (
        "a shadow model has or has not one record, which the guarantee is for"
    )
    reason = "Persons here have several records, so ε hardly limits an attack on all records of a person"
    words = check(html)
    assert words.count(reason) == 1
    assert "the limit on one record is shown for isolated-1." in words


def test_limits_in_expectation_are_shown_if_each_person_has_one_record(tmp_path):
    html = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(HOMES,)))
    section = attack_section(html)
    assert "above the limit at ε = 1" in section
    assert "var(--forbidden)" in section
    full = section.split("<summary>True-positive rates")[1]
    row = re.search(r"<th scope=\"row\">dp_<wbr>em_<wbr>exact.*?</tr>", full, re.DOTALL).group()
    assert re.findall(r"\(limit ([\d.]+)", row) == ["0.731", "0.3", "2.7", "0.731"]
    words = check(html)
    assert "several records" not in words
    assert "The limit holds in expectation" in words


def test_remarks_about_all_datasets_appear_once(tmp_path):
    configuration = made_up_run.write_run(tmp_path, datasets=(CHECKINS, HOMES, SURVEY))
    words = check(made_up_run.render(tmp_path, configuration))
    for phrase in (
        "Higher is better.", "Ellipses reach 2σ", "the first replicate, not the best", "The shaded region is",
        "limit = the highest AUC that ε allows", "its interval reaches below the limit",
    ):  # fmt: skip
        assert words.count(phrase) == 1, phrase


def test_the_page_begins_with_the_notice_that_it_is_confidential(rendered):
    words = check(rendered.html)
    notice = (
        "Keep this page as confidential as the records. Choosing a mechanism from this report also uses the data; the "
        "privacy cost of that choice is not included in ε. If that matters, choose on similar public or synthetic "
        "data. To publish, run privmix release: it writes a folder with a model and synthetic rows."
    )
    lead = words.index("3 replicates (repetitions with new noise) each.")
    assert lead < words.index(notice) < words.index("The answer at ε = 1")


def test_the_navigation_is_made_from_the_sections(rendered):
    nav = rendered.html[rendered.html.index("<nav") : rendered.html.index("</nav>")]
    links = re.findall(r'<a href="#(\w+)">(\w+)</a>', nav)
    assert [name for name, _ in links] == re.findall(r'<section id="(\w+)"', rendered.html)
    labels = {name: label for name, label in links}
    assert labels.pop("proportions") == "Shares"
    assert all(label == name.capitalize() for name, label in labels.items())


def test_the_first_part_has_one_scale_of_utility(rendered):
    first = rendered.html[rendered.html.index("<header") : rendered.html.index('<section id="attack"')]
    words = check(rendered.html)
    assert (
        "100 % is the best non-private model of this run; 0 % is a model that knows only the public bounds"
        in words
    )
    assert not re.search("density kept|of the density|knowledge", first)


def test_mechanisms_that_cannot_fit_a_dataset_are_named_once_and_not_as_failures(tmp_path):
    wide = MadeUpData("wide", dimensions=6, rows=400)
    configuration = made_up_run.write_run(tmp_path, datasets=(wide,), failing=())
    words = check(made_up_run.render(tmp_path, configuration))
    assert words.count("did not run, because wide has 6 coordinates: responses (at most 4 coordinates).") == 1
    assert "best of the 2 local mechanisms that ran (1 cannot handle 6 coordinates)" in words
    assert "no result" not in words[: words.index("Attack: was")]
    results = pd.read_csv(tmp_path / "reports/results.csv")
    assert "responses" not in set(results["mechanism"])


def test_a_trust_model_without_a_mechanism_that_can_fit_says_so(tmp_path):
    wide = MadeUpData("wide", dimensions=6, rows=400)
    names = ("non_private", "dp_em_exact", "responses")
    configuration = made_up_run.write_run(tmp_path, datasets=(wide, PLAIN), mechanisms=names, failing=())
    words = check(made_up_run.render(tmp_path, configuration))
    assert "No local mechanism of this run can handle 6 coordinates." in words
    assert "Add a local mechanism that can handle 6 coordinates." in words


def test_without_a_person_column_the_data_card_counts_no_persons(tmp_path):
    datasets = (MadeUpData("nameless", named=False, rows=4321), MadeUpData("named"))
    configuration = made_up_run.write_run(tmp_path, datasets, mechanisms=("non_private", "dp_em_exact"))
    words = check(made_up_run.render(tmp_path, configuration))
    assert "4,321 records kept" in words
    assert "held-out records; the data do not identify persons" in words
    assert "held-out records; 3,000 persons in total" in words


def test_every_mechanism_is_explained_by_its_method_and_parameters(rendered):
    words = check(rendered.html)
    assert (
        "dp_em_linear dp_em attribute_share: 0.2 noise: llg composition: linear iterations: 10 noise: llg (Laplace, "
        "Laplace, Gaussian)" in words
    )
    assert "laplace_naive laplace_input attribute_share: 0.2 fit: naive searches: 3 fit:" in words
    for start in (
        "dp_em_linear central DP-EM:",
        "laplace_naive local Laplace",
        "non_private – EM on",
    ):
        assert start in words


def test_the_glossary_names_the_protected_unit_and_the_thresholds(rendered, tmp_path):
    words = check(rendered.html)
    assert "How much one protected unit (here: one record, not one person) can change" in words
    assert "usable surely keeps 50 %" in words
    people = made_up_run.write_run(
        tmp_path, datasets=(MadeUpData("people", unit="person", records_each=2),), mechanisms=("dp_em_exact",)
    )
    assert "(here: all records of one person)" in check(made_up_run.render(tmp_path, people))


def test_an_interval_outside_0_to_100_percent_is_described_as_outside(tmp_path):
    run, _ = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    (outcome,) = [o for o in run.outcomes if o.mechanism == "responses" and o.epsilon == 1.0]
    share = outcome.model.models[0].proportions[0].model_copy(update={"estimate": -0.1, "normal": (0.0, 0.0)})
    fitted = outcome.model.models[0].model_copy(update={"proportions": [share]})
    model = outcome.model.model_copy(update={"models": (fitted,)})
    (row,) = dataset_proportions(replace(run, outcomes=(replace(outcome, model=model),)), "checkins").shown
    assert row.normal.replace("\u00a0", " ") == "outside 0 to 100 %"
    assert row.estimate.replace("\u00a0", " ") == "−10 %"


def test_shadow_model_attacks_are_shown_with_limit_and_worst_record(tmp_path):
    html = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(HOMES,)))
    words = check(html)
    assert (
        "Shadow-model attacks ran only on non_private, dp_em_linear at ε = 1 and dp_em_exact at ε = 1."
        in words
    )
    shadows = attack_section(html).split("<summary>Shadow-model attacks")[1]
    bare, private = (
        re.search(rf"<th scope=\"row\">{name}.*?</tr>", shadows, re.DOTALL).group()
        for name in ("non_<wbr>private", "dp_<wbr>em_<wbr>exact")
    )
    assert "0.797 [0.786, 0.809]" in bare
    assert "limit" not in bare
    for part in ("0.503 [0.492, 0.515]", "(limit 0.731)", "0.660", "0.710", "(within chance 0.776)"):
        assert part in private
    assert "17\u00a0% [11\u00a0%, 23\u00a0%]" in shadows


def test_a_page_without_shadow_models_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(made_up_run, "_attacks", lambda method, epsilon, attribute=False: {})
    html = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(HOMES,)))
    words = check(html)
    assert "No shadow-model attack ran on this dataset. To run one, set evaluation.shadows." in words
    assert "Attribute inference" not in words


def _table_rows(html, caption):
    """Return the rows of the table with this caption."""
    return re.findall(r"<tr.*?</tr>", html.split(caption)[1].split("</table>")[0], re.DOTALL)


def test_a_dataset_with_attributes_shows_guesses_of_a_category_and_attacks_without_attributes(rendered):
    html = attack_section(rendered.html)
    assert "the attacker tries every value and takes the one with the highest density" in html
    assert "“Coordinates only” is the same attack without the attributes." in html
    with_attribute, without = html.split("<h3>Made-up checkins</h3>")[1].split("<h3>Made-up survey</h3>")
    for shown in (
        "loss attack, coordinates<br>only (AUC)",
        "LiRA, coordinates<br>only: AUC",
        "0.743",
        "0.521",
    ):
        assert shown in with_attribute
        assert shown not in without
    header, bare, *private = _table_rows(with_attribute, "Guesses of a category on checkins</caption>")
    assert "most common value" in header
    assert "non_<wbr>private" in bare
    for share in ("93\u00a0%", "71\u00a0%", "69\u00a0%", "22\u00a0% [18\u00a0%, 26\u00a0%]"):
        assert share in bare
    assert all("1\u00a0% [−3\u00a0%, 5\u00a0%]" in row for row in private)
    assert "Guesses of a coordinate on checkins" in with_attribute
    assert "Guesses of a coordinate on survey" in without
    assert "Guesses of a category" not in without
