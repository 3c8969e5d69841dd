"""Folds in a real browser: closed on a screen, opened with one key, and open in print."""

import pytest

FOLDED = {  # name: (place of the fold, an element that is visible only if it is open)
    "evidence": ("#answer .answer", "li"),
    "models": ("#models", ".panels figure"),
    "mistakes": ("#defects", "tbody tr"),
    "ledgers": ("#ledger .ledgers", "table"),
    "data": ("#data", "table"),
}


def fold(page, name: str):
    """Return the first fold of this name, and an element inside it."""
    place, inside = FOLDED[name]
    details = page.locator(f"{place} details.fold").first
    return details, details.locator(inside).first


@pytest.mark.parametrize("name", FOLDED)
def test_a_fold_opens_by_keyboard_and_closes_again(visit, page, name):
    seen = visit(page).page
    details, inside = fold(seen, name)
    assert not inside.is_visible()
    details.locator("summary").first.focus()
    seen.keyboard.press("Enter")
    assert inside.is_visible()
    seen.keyboard.press("Space")
    assert not inside.is_visible()


@pytest.mark.parametrize("name", FOLDED)
def test_nothing_is_folded_in_print_or_without_scripts(visit, page, name):
    paper = visit(page).page
    paper.emulate_media(media="print")
    _, inside = fold(paper, name)
    assert inside.bounding_box()["height"] > 10
    _, inside = fold(visit(page, script=False).page, name)
    assert inside.bounding_box()["height"] > 10


def test_on_a_phone_unfolded_parts_stay_inside_the_page(visit, page):
    seen = visit(page, width=390).page
    seen.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert seen.evaluate("document.documentElement.scrollWidth") <= 390


def test_axe_finds_nothing_serious_in_open_folds(visit, violations, page):
    seen = visit(page).page
    seen.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert violations(seen) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_navigation_links_lead_to_sections_below_the_bar(visit, page, width):
    seen = visit(page, width=width).page
    seen.emulate_media(reduced_motion="reduce")
    seen.get_by_role("link", name="Ledger", exact=True).click()
    seen.wait_for_function("scrollY > 1000")
    bar = seen.get_by_role("navigation", name="Sections").bounding_box()
    title = seen.locator("#ledger-title").bounding_box()
    assert bar["y"] == 0
    assert bar["height"] < 60, "one line"
    assert bar["height"] <= title["y"] < 300


def test_the_overview_links_to_the_answers(visit, page):
    seen = visit(page).page
    links = seen.locator(".overview tbody th a")
    assert links.count() == 3
    for link in links.all():
        assert seen.locator(link.get_attribute("href")).inner_text().startswith(link.inner_text())


def test_the_overview_leads_to_the_descriptions_of_the_mechanisms(visit, page):
    seen = visit(page).page
    links = seen.locator(".overview tbody .choice a")
    assert links.count() == 6
    for link in links.all():
        row = seen.locator(link.get_attribute("href"))
        assert row.locator("th").inner_text() == link.inner_text()
