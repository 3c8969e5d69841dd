"""The report in a real browser: point, hide, sort and save, by mouse and by keyboard."""

import csv
import io
import math

import pandas as pd
import pytest

DATASETS = ["checkins", "homes", "survey"]
MECHANISMS = ["dp_em_linear", "dp_em_exact", "laplace_naive", "laplace_aware", "responses"]


def charts(page) -> list[str]:
    """Return the datasets with a visible frontier."""
    return page.locator(".card.frontier").evaluate_all(
        "cards => cards.filter(card => card.checkVisibility()).map(card => card.dataset.dataset)"
    )


def visible(page, selector: str) -> int:
    return page.locator(selector).evaluate_all("all => all.filter(each => each.checkVisibility()).length")


def drawn(page, dataset: str = "checkins") -> list[str]:
    """Return the mechanisms with markers in a frontier."""
    labels = page.locator(f".frontier[data-dataset={dataset}] .spot").evaluate_all(
        "spots => spots.map(spot => spot.getAttribute('aria-label').split(':')[0])"
    )
    return list(dict.fromkeys(labels))


def item(page, mechanism: str, dataset: str = "checkins"):
    return page.locator(f".frontier[data-dataset={dataset}] li[data-mechanism={mechanism}]")


def toggle(page, mechanism: str, dataset: str = "checkins"):
    return item(page, mechanism, dataset).locator(".toggle")


def rows(page, dataset: str = "checkins", column: int = 1) -> list[str]:
    """Return the texts of one column of the visible rows of a results table."""
    return page.locator(f".results[data-dataset={dataset}] tbody tr").evaluate_all(
        "(rows, at) => rows.filter(row => row.checkVisibility()).map(row => row.cells[at].textContent)",
        column - 1,
    )


def again(visit, seen, page):
    """Open the URL of a page in a new browser context."""
    return visit(page, seen.url[seen.url.index("#") :]).page


@pytest.mark.parametrize(
    "fragment", ["", "#results", "#frontier?hide=unknown&dataset=x&sort.checkins=y", "#?%E0%A4%A"]
)
def test_the_page_has_no_console_messages_and_no_requests(visit, page, fragment):
    seen = visit(page, fragment)
    seen.page.wait_for_load_state("networkidle")
    assert seen.console == []
    assert [address for address in seen.requests if not address.startswith("data:")] == [page.as_uri()]
    assert charts(seen.page) == DATASETS
    assert drawn(seen.page) == MECHANISMS


def test_a_legend_name_toggles_a_mechanism_in_every_frontier_and_the_url_keeps_it(visit, page):
    seen = visit(page).page
    toggle(seen, "dp_em_exact").click()
    assert "dp_em_exact" not in drawn(seen, "homes")
    assert toggle(seen, "dp_em_exact", "homes").get_attribute("aria-pressed") == "false"
    other = again(visit, seen, page)
    assert drawn(other) == [name for name in MECHANISMS if name != "dp_em_exact"]
    toggle(seen, "dp_em_exact", "homes").click()
    assert drawn(seen) == MECHANISMS
    assert "hide" not in seen.url


@pytest.mark.parametrize("way", ["only", "double click", "Shift", "keyboard"])
def test_a_mechanism_can_be_shown_alone_and_all_again(visit, page, way):
    seen = visit(page).page
    if way == "only":
        seen.get_by_role("button", name="Show only responses").first.click()
    elif way == "double click":
        toggle(seen, "responses").dblclick()
    elif way == "Shift":
        toggle(seen, "responses").click(modifiers=["Shift"])
    else:
        toggle(seen, "responses").focus()
        seen.keyboard.press("Shift+Enter")
    assert drawn(seen) == ["responses"]
    assert drawn(again(visit, seen, page)) == ["responses"]
    seen.get_by_role("button", name="Show all mechanisms").click()
    assert drawn(seen) == MECHANISMS


def test_a_mechanism_is_hidden_and_shown_alone_by_keyboard(visit, page):
    seen = visit(page).page
    toggle(seen, "dp_em_linear").focus()
    seen.keyboard.press("Space")
    assert drawn(seen) == MECHANISMS[1:]
    assert seen.evaluate("document.activeElement.getAttribute('aria-pressed')") == "false", "focus stays"
    seen.keyboard.press("Tab")
    seen.keyboard.press("Enter")
    assert drawn(seen) == ["dp_em_linear"]


def test_dataset_and_trust_narrow_the_frontiers_and_are_restored(visit, page):
    seen = visit(page).page
    seen.locator("#frontier-dataset").select_option("homes")
    seen.locator("#frontier-trust").select_option("local")
    assert charts(seen) == ["homes"]
    assert drawn(seen, "homes") == MECHANISMS[2:]
    assert not item(seen, "dp_em_exact", "homes").is_visible()
    other = again(visit, seen, page)
    assert (charts(other), drawn(other, "homes")) == (["homes"], MECHANISMS[2:])
    assert other.locator("#frontier-dataset").input_value() == "homes"


def spot(page, start: str, dataset: str = "checkins"):
    return page.locator(f'.frontier[data-dataset={dataset}] .spot[aria-label^="{start}"]').first


def test_axes_are_logarithmic_or_linear(visit, page):
    seen = visit(page).page
    places = "s => [...document.querySelectorAll(s)].slice(0, 3).map(spot => +spot.getAttribute('cx'))"
    where = ".frontier[data-dataset=checkins] .spot[aria-label^=dp_em_exact]"
    low, middle, high = seen.evaluate(places, where)
    assert middle - low == pytest.approx(high - middle, rel=1e-6), "a factor of ten is as long everywhere"
    seen.locator("#frontier-x").select_option("linear")
    low, middle, high = seen.evaluate(places, where)
    assert (high - middle) / (middle - low) == pytest.approx(10, rel=1e-6)
    seen.locator("#frontier-y").select_option("linear")
    heights = [float(each.get_attribute("cy")) for each in seen.locator(where).all()]
    results = pd.read_csv(page.with_name("results.csv")).query(
        "dataset == 'checkins' and mechanism == 'dp_em_exact' and metric == 'holdout_gap'"
    )
    gaps = results.groupby("epsilon")["value"].mean().tolist()
    assert (heights[2] - heights[1]) / (heights[1] - heights[0]) == pytest.approx(
        (gaps[2] - gaps[1]) / (gaps[1] - gaps[0]), rel=1e-6
    )
    seen.get_by_role("button", name="Show only dp_em_exact").first.click()
    assert "out of view" in seen.locator(".frontier[data-dataset=checkins] .rule.out").inner_text()
    other = again(visit, seen, page)
    assert other.evaluate(places, where) == seen.evaluate(places, where)


@pytest.mark.parametrize("width", [390, 1280])
def test_pointing_at_a_marker_shows_its_numbers(visit, page, width):
    seen = visit(page, width=width).page
    spot(seen, "dp_em_exact: ε 1,").hover()
    tip = seen.locator(".tip")
    words = tip.inner_text().replace("\xa0", " ").split("\n")
    facts = dict(zip(words[1::2], words[2::2], strict=True))
    assert words[0] == "dp_em_exact"
    assert (facts["ε"], facts["δ"], facts["from"]) == ("1", "10⁻⁶", "3 replicates")
    assert (facts["noise"], facts["composition"]) == ("ggg", "exact")
    assert facts["mean gap"] == "−0.29 nats"
    assert facts["95 % interval"] == "−0.34 to −0.24"
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert seen.evaluate("document.documentElement.scrollWidth") <= width
    seen.mouse.move(1, 1)
    assert not tip.is_visible()


def test_arrow_keys_move_between_markers(visit, page):
    seen = visit(page).page
    spot(seen, "dp_em_linear: ε 0.1,").focus()
    assert seen.locator(".tip b").inner_text() == "dp_em_linear"
    seen.keyboard.press("ArrowRight")
    seen.keyboard.press("ArrowDown")
    assert seen.evaluate("document.activeElement.getAttribute('aria-label')").startswith("dp_em_exact: ε 1,")
    assert seen.locator(".tip b").inner_text() == "dp_em_exact"
    seen.keyboard.press("Escape")
    assert not seen.locator(".tip").is_visible()
    stops = seen.locator(".frontier[data-dataset=checkins] .spot[tabindex='0']")
    assert stops.count() == 1, "a picture is one stop of the Tab key"


def test_a_table_sorts_by_mouse_and_keyboard_and_the_url_keeps_the_order(visit, page):
    seen = visit(page).page
    before = rows(seen)
    head = seen.locator(".results[data-dataset=checkins] th[data-key=gap]")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    gaps = seen.locator(".results[data-dataset=checkins] tbody td:nth-child(5)")
    values = [float(each) for each in gaps.evaluate_all("cells => cells.map(cell => cell.dataset.value)")]
    assert values == sorted(values)
    assert len(values) > 10
    head.get_by_role("button").focus()
    seen.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert rows(seen)[0] == "non_private"
    assert rows(seen, "homes") == rows(visit(page).page, "homes"), "each table has its own order"
    assert rows(again(visit, seen, page)) == rows(seen)
    seen.keyboard.press("Enter")
    assert (head.get_attribute("aria-sort"), rows(seen)) == (None, before)


def test_missing_values_come_last_in_both_directions(visit, page):
    seen = visit(page).page
    button = seen.locator(".results[data-dataset=survey] th[data-key=gap]").get_by_role("button")
    for _ in range(2):
        button.click()
        assert rows(seen, "survey")[-1] == "responses"
    seen.locator("#results-epsilon").select_option("all")
    assert rows(seen, "survey")[-3:] == ["responses"] * 3


def test_the_tables_show_the_reported_epsilon_first_and_others_on_demand(visit, page):
    seen = visit(page).page
    shown = rows(seen)
    assert sorted(shown) == sorted(["non_private", *MECHANISMS])
    assert shown[0] == "non_private"
    assert set(rows(seen, column=3)) == {"none", "1"}
    seen.locator("#results-epsilon").select_option("10")
    assert set(rows(seen, column=3)) == {"none", "10"}
    seen.locator("#results-epsilon").select_option("all")
    assert len(rows(seen)) == 16
    assert len(rows(again(visit, seen, page))) == 16


def test_rows_are_filtered_and_counted_and_the_url_keeps_the_filter(visit, page):
    seen = visit(page).page
    assert seen.locator("#results .found").inner_text() == "18 of 48 rows"
    seen.locator("#results-words").click()
    seen.keyboard.type("LAPLACE local")
    seen.locator("#results-epsilon").select_option("10")
    assert sorted(rows(seen)) == ["laplace_aware", "laplace_naive"]
    seen.locator("#results-dataset").select_option("homes")
    assert (rows(seen), sorted(rows(seen, "homes"))) == ([], ["laplace_aware", "laplace_naive"])
    assert seen.locator("#results .found").inner_text() == "2 of 48 rows"
    other = again(visit, seen, page)
    assert (rows(other), rows(other, "homes")) == ([], rows(seen, "homes"))
    other.locator("#results-words").fill("10^8 cells")
    assert other.locator("#results .found").inner_text() == "0 of 48 rows"
    other.locator("#results-dataset").select_option("")
    assert rows(other, "survey") == ["responses"], "a reason is found too"


def saved(page, label: str) -> tuple[str, bytes]:
    with page.expect_download() as download:
        page.get_by_role("button", name=label).click()
    return download.value.suggested_filename, download.value.path().read_bytes()


@pytest.mark.parametrize(
    ("label", "name"),
    [("Save all scores (CSV)", "results.csv"), ("Save all scores (Parquet)", "results.parquet")],
)
def test_the_page_contains_the_results_files_byte_for_byte(visit, page, tmp_path, label, name):
    alone = tmp_path / "sent by mail.html"
    alone.write_bytes(page.read_bytes())
    assert saved(visit(alone).page, label) == (name, page.with_name(name).read_bytes())


def test_the_shown_rows_are_saved_in_order_with_all_digits(visit, page):
    seen = visit(page).page
    seen.locator("#results-dataset").select_option("survey")
    seen.locator(".results[data-dataset=survey] th[data-key=mechanism]").get_by_role("button").click()
    name, content = saved(seen, "Save shown rows (CSV)")
    table = list(csv.DictReader(io.StringIO(content.decode())))
    assert name == "results-shown.csv"
    assert [row["mechanism"] for row in table] == sorted(["non_private", *MECHANISMS])
    results = pd.read_csv(page.with_name("results.csv")).query("dataset == 'survey'")
    results = results[results["epsilon"].isin([1, math.inf])]
    gaps = results[results["metric"] == "holdout_gap"].groupby("mechanism")["value"].mean()
    for row in table[:-1]:
        assert float(row["gap"]) == pytest.approx(gaps[row["mechanism"]], rel=1e-12)
    assert (table[-1]["gap"], "10^8 cells" in table[-1]["failure"]) == ("", True)


def test_links_inside_the_page_keep_the_choices(visit, page):
    seen = visit(page, "#frontier?hide=responses").page
    seen.get_by_role("link", name="Results", exact=True).click()
    seen.wait_for_function("location.hash.startsWith('#results?')")
    assert "hide=responses" in seen.url
    assert "responses" not in drawn(seen)


def test_without_javascript_pictures_are_static_and_there_are_no_controls(visit, page):
    seen = visit(page, script=False).page
    assert seen.locator("#frontier .wide svg").first.is_visible()
    assert visible(seen, ".live, .tip, button") == 0
    assert len(rows(seen)) == 16


def test_print_has_static_pictures_and_every_row(visit, page):
    seen = visit(page, "#results?find=nothing-has-this&dataset=homes&hide=responses").page
    assert rows(seen) == []
    seen.emulate_media(media="print")
    assert seen.locator("#frontier .wide svg").first.is_visible()
    assert visible(seen, ".live, .tip, .toggle") == 0
    assert len(rows(seen)) == 16
    assert charts(seen) == DATASETS


@pytest.mark.parametrize("media", ["screen", "print"])
def test_cells_are_table_cells_on_desktop_and_in_print(visit, page, media):
    seen = visit(page).page
    seen.emulate_media(media=media)
    displays = seen.locator("tbody :is(td, th)").evaluate_all(
        "cells => [...new Set(cells.map(cell => getComputedStyle(cell).display))]"
    )
    assert set(displays) - {"none"} == {
        "table-cell"
    }  # scripts hide cells of the table for readers without scripts


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_axe_finds_nothing_serious(visit, violations, page, width, scheme):
    seen = visit(page, "#frontier?hide=responses&sort.checkins=-gap", width, scheme).page
    spot(seen, "dp_em_exact: ε 1,").focus()
    assert violations(seen) == []
