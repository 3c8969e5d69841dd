"""The slider of the attacker's view in a real browser: by keyboard, kept in the URL, with the numbers of the table."""

import pytest


def view(page, dataset="homes"):
    return page.locator(f"#attack details:has(#prior-{dataset})")


def opened(seen, dataset="homes"):
    place = view(seen.page, dataset)
    place.locator("summary").click()
    return place


def cells(place, kind, number=0, of=1):
    """Return the words of one column of the table."""
    return [words.split() for words in place.locator(f"tbody td.{kind}").all_text_contents()[number::of]]


def test_the_slider_shows_the_numbers_of_the_table(visit, page):
    seen = visit(page)
    place = opened(seen)
    assert cells(place, "chosen") == cells(place, "static", 1, 3)
    place.get_by_role("slider").fill("50")
    assert cells(place, "chosen") == cells(place, "static", 2, 3)
    place.get_by_role("slider").fill("1")
    assert cells(place, "chosen") == cells(place, "static", 0, 3)
    assert seen.console == []


def test_the_slider_works_by_keyboard_and_the_url_keeps_it(visit, page):
    seen = visit(page)
    place = opened(seen)
    slider = place.get_by_role("slider")
    slider.focus()
    seen.page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "11 %"
    assert seen.page.url.endswith("#attack?prior=11")
    assert "if 11 % sure before" in place.locator("thead").inner_text()
    again = visit(page, "#attack?prior=11")
    assert opened(again, "survey").get_by_role("slider").input_value() == "11", "one prior for all datasets"
    seen.page.keyboard.press("ArrowLeft")
    assert "prior" not in seen.page.url


@pytest.mark.parametrize("wrong", ["0", "100", "x", "1.5"])
def test_a_wrong_prior_in_the_url_is_the_usual_one(visit, page, wrong):
    seen = visit(page, f"#attack?prior={wrong}")
    assert opened(seen).get_by_role("slider").input_value() == "10"
    assert seen.console == []


def test_without_scripts_there_is_a_table_and_no_slider(visit, page):
    seen = visit(page, script=False)
    place = view(seen.page)
    assert place.locator("thead .static").last.is_visible()
    assert not place.locator("input").is_visible()
    assert not place.locator("thead .chosen").is_visible()


def test_with_scripts_only_the_chosen_prior_is_shown_and_print_has_the_table(visit, page):
    seen = visit(page)
    place = opened(seen)
    assert place.locator("thead .chosen").is_visible()
    assert not place.locator("thead .static").first.is_visible()
    seen.page.emulate_media(media="print")
    assert not place.locator("thead .chosen").is_visible()
    assert place.locator("thead .static").first.is_visible()
