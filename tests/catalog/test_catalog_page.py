"""`reports/catalog.html`: everything in an entry, nothing sensitive, and no foreign markup."""

import re
from html import unescape
from pathlib import Path

import pytest
import yaml
from odd_entry import MARKUP, odd_entry, write_odd_entry

from privmix.artefacts.clean import read_clean_info
from privmix.catalog.dataset_files import DatasetFiles, find_files
from privmix.catalog.entry import Entry, entry_names, load_entry
from privmix.catalog.sources import acquire
from privmix.clean.pipeline import clean
from privmix.cli import main
from privmix.pipeline.catalog import FILES
from privmix.report.catalog_page import (
    CatalogRun,
    PlannedMechanism,
    _lineage,
    exact,
    lineage_graph,
    render,
    wrap,
)

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "data/catalog"
LOCAL, CENTRAL = PlannedMechanism(local=True, jobs=5), PlannedMechanism(local=False, jobs=5)
TREE = PlannedMechanism(local=False, jobs=5, max_coordinates=3)
PLAN = CatalogRun(("checkins",), (), (LOCAL, CENTRAL, TREE))


def page(*holdings: DatasetFiles, plan: CatalogRun = PLAN, problems: tuple[str, ...] = ()) -> str:
    return render(holdings, problems, plan, FILES)


def text(html: str) -> str:
    """Return the visible text: no tags, one space between words."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def held(name: str) -> DatasetFiles:
    return DatasetFiles(load_entry(FOLDER / f"{name}.yaml"), Path("data/catalog") / f"{name}.yaml")


@pytest.mark.parametrize("name", entry_names([FOLDER]))
def test_the_page_shows_everything_in_the_entry(name: str):
    holding = held(name)
    entry, told = holding.entry, text(page(holding))
    parts = [
        entry.title,
        entry.description,
        entry.citation,
        entry.licence.spdx,
        entry.homepage,
        entry.privacy.note,
    ]
    parts += [*entry.keywords, *entry.caveats, *entry.isolated, str(holding.path)]
    for column in entry.columns:
        parts += [column.name, column.description, column.bound_reason, column.unit, *column.values]
        parts += [
            exact(number) for number in (column.lower, column.upper, column.resolution) if number is not None
        ]
    if entry.source.kind == "url":
        parts += [entry.source.url, entry.source.sha256, f"{entry.source.bytes:,}"]
    assert [part for part in parts if " ".join(part.split()) not in told] == []


def test_markup_in_an_entry_is_text():
    html = page(DatasetFiles(Entry.model_validate(odd_entry()), Path("odd.yaml")))
    assert MARKUP not in html
    assert "&lt;script&gt;document.title" in html
    assert html.count("<script>") == 1, "the page's own"
    assert "onclick=alert(1)>" not in html


def test_only_web_addresses_are_links():
    licence = {"spdx": "LicenseRef-odd", "url": "javascript:alert(1)"}
    odd = Entry.model_validate(odd_entry(licence=licence, homepage="javascript:alert(2)"))
    html = page(DatasetFiles(odd, Path("odd.yaml")), held("gowalla"))
    assert 'href="javascript:' not in html
    assert "javascript:alert(2)" in text(html)
    assert 'href="https://snap.stanford.edu/data/loc-gowalla.html"' in html


def test_passwords_in_urls_are_hidden():
    secret = "https://me:s3cret@example.org/"
    entry = load_entry(FOLDER / "gowalla.yaml")
    source = entry.source.model_copy(update={"url": secret + "a.gz", "mirrors": (secret + "b.gz",)})
    shown = entry.model_copy(update={"source": source, "homepage": secret})
    html = page(DatasetFiles(shown, Path("data/catalog/gowalla.yaml")))
    assert "s3cret" not in html
    for name in ("a.gz", "b.gz"):
        assert f'<a href="https://***@example.org/{name}">' in html


def test_the_page_is_one_file():
    html = page(*map(held, entry_names([FOLDER])))
    assert not re.search(r"<link[^>]+href=\"(?!data:)|<script[^>]+src|@import|url\(", html)
    assert len(html) < 1_000_000


def test_bounds_keep_all_their_digits():
    assert exact(1_000_040.0) == "1,000,040"
    assert exact(-1_234_567.25) == "−1,234,567.25"
    assert exact(0.00045) == "0.00045"
    assert exact(44.88) == "44.88"
    assert exact(2e-7) == "2·10⁻⁷"


def cleaned(tmp_path: Path, **changes) -> DatasetFiles:
    """Return changed check-ins, acquired and cleaned."""
    content = yaml.safe_load((FOLDER / "checkins.yaml").read_text(encoding="utf-8"))
    entry = Entry.model_validate({**content, **changes})
    raw, target = tmp_path / "checkins.raw", tmp_path / "checkins.parquet"
    acquire(entry, raw)
    clean(entry, raw, target, master_seed=1, key=b"k" * 32, overridden=False)
    return find_files(entry, Path("checkins.yaml"), raw, target)


def test_the_counts_of_a_clean_file_are_shown_for_public_data(tmp_path: Path):
    holding = cleaned(tmp_path)
    counts = read_clean_info(tmp_path / "checkins.parquet").counts
    told = text(page(holding)).replace("\u00a0", " ")
    assert "24,000 rows read, 24,000 records kept of 5,904 persons" in told
    assert f"{counts.train:,} training records, {counts.holdout:,} held-out records" in told
    assert f"{(tmp_path / 'checkins.raw').stat().st_size:,} bytes" in told
    assert read_clean_info(tmp_path / "checkins.parquet").raw_sha256 in told


def test_counts_size_and_hash_of_sensitive_data_are_hidden(tmp_path: Path):
    person = {
        "unit": "person",
        "relation": "add_remove",
        "person_column": "person",
        "max_records_per_person": 200,
    }
    holding = cleaned(tmp_path, visibility="sensitive", privacy=person)
    info = read_clean_info(tmp_path / "checkins.parquet")
    told = text(page(holding)).replace("\u00a0", " ")
    size = (tmp_path / "checkins.raw").stat().st_size
    for figure in (f"{info.counts.train:,}", f"{info.counts.holdout:,}", f"{size:,}", info.raw_sha256):
        assert figure not in told
    assert "other counts are hidden because the records are sensitive" in told
    assert "24,000 rows, 5,904 persons" in told, "public counts of the entry"


def test_the_number_of_sensitive_records_is_public_under_replace_one(tmp_path: Path):
    holding = cleaned(tmp_path, visibility="sensitive")
    rows = read_clean_info(tmp_path / "checkins.parquet").domain.rows
    assert f"{rows:,} training records (public under this relation)" in text(page(holding)).replace(
        "\u00a0", " "
    )


def boxes(html: str) -> list[str]:
    drawing = re.search(r"<svg viewBox.*?</svg>", html, re.DOTALL).group(0)
    return [unescape(words) for words in re.findall(r"<text[^>]*>(?:<tspan[^>]*>)?(.*?)<", drawing)]


def test_the_lineage_goes_from_the_source_to_the_report_by_the_files_of_the_sweep():
    drawn = boxes(page(held("checkins")))
    titles = ["Source", "Raw file", "Clean records", "Private reports", "Models", "Scores", "Report"]
    assert [word for word in drawn if word in titles] == titles
    joined = "".join(drawn)
    for path in ("data/raw/checkins.raw", "data/clean/checkins.parquet", "reports/summary.html"):
        assert path in joined
    assert "data/private/checkins/<mechanism>/eps-<ε>.parquet" in joined
    assert "data/models/checkins/<mechanism>/eps-<ε>.json" in joined
    assert "2 central" in drawn
    assert "15\u00a0files" in drawn


def test_without_local_or_without_central_mechanisms_there_is_no_fork():
    central = CatalogRun(("checkins",), (), (CENTRAL,))
    assert "Private reports" not in boxes(page(held("checkins"), plan=central))
    local = CatalogRun(("checkins",), ("checkins",), (LOCAL,))
    drawn = boxes(page(held("checkins"), plan=local))
    assert "Private reports" in drawn
    assert not [word for word in drawn if word.endswith("central")]
    assert "a local file given in the configuration" in drawn


def test_mechanisms_that_cannot_fit_a_dataset_are_not_counted():
    drawn = boxes(page(held("breast_cancer")))
    assert "1 central" in drawn
    assert "10\u00a0files" in drawn


def test_a_dataset_that_is_not_in_the_run_says_so():
    assert "To make these files, add gowalla to datasets" in text(page(held("gowalla")))
    assert "The configured run makes these files." in text(page(held("checkins")))


def test_lines_break_at_slashes_and_spaces_and_lose_nothing():
    assert wrap("data/private/somewhere/x", 15) == ("data/private/", "somewhere/x")
    assert wrap("generator checkins, seed 7", 12) == ("generator", "checkins,", "seed 7")
    assert wrap("a" * 25, 10) == ("a" * 10, "a" * 10, "a" * 5)


def test_boxes_do_not_overlap_and_arrows_join_them():
    drawn = lineage_graph(_lineage(held("breast_cancer_30"), PLAN, FILES))
    assert all(
        above.y + above.height < below.y for above, below in zip(drawn.boxes, drawn.boxes[1:], strict=False)
    )
    assert drawn.boxes[-1].y + drawn.boxes[-1].height <= drawn.height
    for arrow in drawn.arrows:
        assert any(box.y + box.height == arrow.start for box in drawn.boxes)
        assert any(box.y == arrow.end for box in drawn.boxes)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a configuration and two valid entries."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/catalog").mkdir(parents=True)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text(
        "datasets: [checkins]\nmechanisms: {tree: {method: noisy_tree}}\nepsilons: [1]\n"
    )
    for name in ("checkins", "gowalla"):
        (tmp_path / f"data/catalog/{name}.yaml").write_bytes((FOLDER / f"{name}.yaml").read_bytes())
    return tmp_path


def test_the_command_writes_both_files_and_says_where(project: Path, capsys: pytest.CaptureFixture[str]):
    main(["catalog", "page"])
    said = capsys.readouterr().out
    assert "reports/catalog.html\n" in said
    assert "data/datapackage.json\n" in said
    assert "Gowalla check-ins" in (project / "reports/catalog.html").read_text(encoding="utf-8")
    assert '"name": "gowalla"' in (project / "data/datapackage.json").read_text(encoding="utf-8")


def test_another_catalog_may_be_browsed(project: Path):
    (project / "mine").mkdir()
    write_odd_entry(project / "mine")
    main(["catalog", "page", "--catalog", "mine", "--html", "mine.html", "--package", "mine.json"])
    html = (project / "mine.html").read_text(encoding="utf-8")
    assert 'id="odd"' in html
    assert 'id="gowalla"' not in html


def test_a_broken_entry_is_one_sentence_on_the_page_beside_the_others(project: Path):
    (project / "data/catalog/broken.yaml").write_text("name: <b>\n", encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        main(["catalog", "page"])
    sentence = str(caught.value).removeprefix("privmix catalog: ")
    assert (
        sentence == "data/catalog/broken.yaml: name = '<b>': string should match pattern '^[a-z][a-z0-9_]*$'."
    )
    html = (project / "reports/catalog.html").read_text(encoding="utf-8")
    assert sentence in text(html)
    assert "= &#39;&lt;b&gt;&#39;" in html
    assert 'id="checkins"' in html


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--catalog", "nowhere"], "catalog folder nowhere does not exist"),
        (["--catalog", "empty"], "there is no .yaml file in empty; add an entry."),
        (["--configfile", "gone.yaml"], "configuration gone.yaml does not exist"),
        (["--configfile", "list.yaml"], "list.yaml: a configuration is a mapping of keys to values"),
    ],
)
def test_a_missing_file_is_one_sentence_and_nothing_is_written(
    project: Path, arguments: list[str], sentence: str
):
    (project / "empty").mkdir()
    (project / "list.yaml").write_text("- 1\n")
    with pytest.raises(SystemExit) as caught:
        main(["catalog", "page", *arguments])
    assert sentence in str(caught.value)
    assert not (project / "reports").exists()
