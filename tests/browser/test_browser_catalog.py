"""The catalog in a real browser: no console messages, no requests, and a search by mouse and keyboard."""

import pytest

NAMES = [
    "breast_cancer", "breast_cancer_30", "checkins", "covid_testing", "gowalla", "movielens", "mpls_stops", "nafld",
    "odd",
]  # fmt: skip


def shown(page) -> list[str]:
    """Return the names of the datasets in the list."""
    cards = page.locator(".entries > li").all()
    return [card.get_attribute("data-name") for card in cards if card.is_visible()]


def entry(page) -> list[str]:
    """Return the names of the datasets whose full description is visible."""
    return [part.get_attribute("id") for part in page.locator("section.entry").all() if part.is_visible()]


def focused(page) -> str:
    return page.evaluate("document.activeElement.id")


@pytest.mark.parametrize(
    "fragment", ["", "#odd", "#checkins", "#?q=police&visibility=nonsense", "#%E0%A4%A", "#to"]
)
def test_the_page_has_no_console_messages_and_no_requests(visit, catalog, fragment):
    seen = visit(catalog, fragment)
    seen.page.wait_for_load_state("networkidle")
    assert seen.console == []
    assert [request for request in seen.requests if not request.startswith(("file:", "data:"))] == []
    assert len([request for request in seen.requests if request.startswith("file:")]) == 1
    assert seen.page.title() != "planted"


WIDE = """() => [...document.querySelectorAll("body *")].filter(element => element.checkVisibility()
  && !element.closest(".scroll, .skip, .about") && !element.parentElement.closest("svg")
  && element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(element => element.outerHTML.slice(0, 120))"""
OUT_OF_THE_DRAWING = """() => [...document.querySelectorAll(".current .lineage text")].filter(text =>
  text.getBoundingClientRect().right > text.closest("svg").getBoundingClientRect().right)
  .map(text => text.textContent)"""
CUT = "[...document.querySelectorAll('.scroll')].some(box => box.scrollWidth > box.clientWidth + 1)"


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_element_overflows_from_phone_to_desktop(visit, catalog, width):
    page = visit(catalog, width=width).page
    for fragment in ("#", "#breast_cancer_30", "#gowalla", "#odd"):
        page.goto(catalog.as_uri() + fragment)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(WIDE) == []
        assert page.evaluate(OUT_OF_THE_DRAWING) == []


def test_the_probe_detects_overflow(visit, catalog):
    page = visit(catalog, "#checkins", 390).page
    page.evaluate("""() => {
      document.querySelector("main").insertAdjacentHTML("beforeend", "<p style='width: 900px'>wide</p>");
      document.querySelector(".current .lineage .path").textContent = "x".repeat(99);
    }""")
    assert "900px" in "".join(page.evaluate(WIDE))
    assert page.evaluate(OUT_OF_THE_DRAWING) == ["x" * 99]


@pytest.mark.parametrize("width", [768, 1280])
def test_on_desktop_and_tablet_no_table_of_the_project_is_cut(visit, catalog, width):
    page = visit(catalog, width=width).page
    for name in NAMES[:-1]:
        page.goto(f"{catalog.as_uri()}#{name}")
        assert not page.evaluate(CUT), name


def test_letters_of_the_drawing_are_legible_on_a_phone(visit, catalog):
    page = visit(catalog, "#checkins", 390).page
    sizes = """() => [...document.querySelectorAll(".current .lineage text")].map(text =>
      parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)"""
    assert min(page.evaluate(sizes)) > 10


def test_typing_finds_datasets_and_the_url_keeps_the_search(visit, catalog):
    page = visit(catalog).page
    assert shown(page) == NAMES
    page.get_by_role("searchbox").click()
    page.keyboard.type("POLICE race")
    assert shown(page) == ["mpls_stops"]
    assert page.get_by_role("status").inner_text() == "1 of 9 datasets"
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert shown(page) == ["mpls_stops"]
    assert page.get_by_role("searchbox").input_value() == "POLICE race"
    page.reload()
    assert shown(page) == ["mpls_stops"]


def test_search_ignores_accents_and_case_and_reports_no_match(visit, catalog):
    page = visit(catalog).page
    page.get_by_role("searchbox").fill("zoe CAFE")
    assert shown(page) == ["odd"]
    page.get_by_role("searchbox").fill("zzz")
    assert shown(page) == []
    page.get_by_role("link", name="Show all datasets").click()
    assert shown(page) == NAMES
    assert page.get_by_role("searchbox").input_value() == ""


def test_choices_narrow_the_list_and_are_restored(visit, catalog):
    page = visit(catalog).page
    page.get_by_label("Visibility", exact=True).select_option("public")
    page.get_by_label("Source", exact=True).select_option("Python package")
    public = ["breast_cancer", "breast_cancer_30", "covid_testing", "movielens", "mpls_stops", "nafld"]
    assert shown(page) == public
    again = visit(catalog, page.url[page.url.index("#") :]).page
    assert shown(again) == shown(page)
    assert again.get_by_label("Visibility", exact=True).input_value() == "public"


def test_a_dataset_is_found_opened_and_closed_by_keyboard(visit, catalog):
    page = visit(catalog).page
    page.keyboard.press("/")
    page.wait_for_function("document.activeElement.id === 'search-field'")
    page.keyboard.type("stops/")  # a slash in the field is plain text
    assert page.get_by_role("searchbox").input_value() == "stops/"
    page.keyboard.press("Escape")
    assert shown(page) == NAMES
    page.keyboard.type("minneapolis")
    for _ in range(3):  # past the two choices, to the first dataset
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("document.body.dataset.view === 'entry'")
    assert entry(page) == ["mpls_stops"]
    assert shown(page) == []
    page.wait_for_function("document.activeElement.id === 'mpls_stops-title'")
    assert page.title() == "Police stops in Minneapolis, 2017: Privmix catalog"
    page.go_back()
    page.wait_for_function("document.body.dataset.view === 'list'")
    assert shown(page) == ["mpls_stops"], "the search is as it was left"
    page.keyboard.press("/")
    page.wait_for_function("document.activeElement.id === 'search-field'")


def test_a_click_opens_the_card_and_a_click_on_a_keyword_searches(visit, catalog):
    page = visit(catalog).page
    page.locator("li[data-name=checkins]").click(position={"x": 150, "y": 120})
    assert entry(page) == ["checkins"]
    page.get_by_role("link", name="outlier").click()
    assert shown(page) == ["checkins"]
    page.goto(catalog.as_uri() + "#odd")
    page.locator("#odd .keywords a").last.click()
    assert page.get_by_role("searchbox").input_value() == "a&b=c#d"
    assert shown(page) == ["odd"]


def test_a_link_to_an_entry_shows_that_entry(visit, catalog):
    page = visit(catalog, "#gowalla").page
    assert (entry(page), shown(page)) == (["gowalla"], [])
    page.get_by_role("link", name="All datasets").click()
    assert (entry(page), shown(page)) == ([], NAMES)


def test_without_javascript_everything_is_shown(visit, catalog):
    page = visit(catalog, script=False).page
    assert (shown(page), entry(page)) == (NAMES, NAMES)
    assert not page.get_by_role("searchbox").is_visible()


def test_print_has_the_list_and_its_datasets_or_one_dataset(visit, catalog):
    page = visit(catalog, "#?q=police").page
    page.emulate_media(media="print")
    assert (shown(page), entry(page)) == (["mpls_stops"], ["mpls_stops"])
    assert not page.get_by_role("searchbox").is_visible()
    page = visit(catalog, "#checkins", scheme="dark").page
    page.emulate_media(media="print")
    assert (shown(page), entry(page)) == ([], ["checkins"])
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 32, 38)", "dark on white"


def test_the_dark_scheme_is_dark(visit, catalog):
    light, dark = (visit(catalog, scheme=scheme).page for scheme in ("light", "dark"))
    colour = "getComputedStyle(document.body).backgroundColor"
    assert (light.evaluate(colour), dark.evaluate(colour)) == ("rgb(244, 246, 248)", "rgb(18, 22, 27)")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
@pytest.mark.parametrize("fragment", ["", "#checkins", "#gowalla", "#?q=nothing-has-this"])
def test_axe_finds_nothing_serious(visit, violations, catalog, fragment, width, scheme):
    assert violations(visit(catalog, fragment, width, scheme).page) == []


def test_axe_detects_a_field_without_a_name_and_low_contrast(visit, violations, catalog):
    page = visit(catalog).page
    page.evaluate("""document.body.insertAdjacentHTML("beforeend",
      '<main><input><p style="color: #bbb; background: #fff">pale</p></main>')""")
    assert {line.split(":")[0] for line in violations(page)} >= {"label", "color-contrast"}
