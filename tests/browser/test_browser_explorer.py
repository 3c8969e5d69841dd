"""The model explorer in a real browser (slider over ε, choice of mechanism), and the page of every kind of run."""

import json
import re

import made_up_run
import pytest
from made_up_run import CHECKINS, SURVEY, MadeUpData

WIDE = """() => [...document.querySelectorAll("body *")].filter(element => element.checkVisibility()
  && !element.closest(".scroll, .skip, pre, .hidden") && !element.parentElement.closest("svg")
  && element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(element => element.outerHTML.slice(0, 120))"""
CUT = """() => [...document.querySelectorAll(".chart svg text")].filter(text => text.checkVisibility()
  && (text.getBoundingClientRect().left < text.closest(".card").getBoundingClientRect().left
  || text.getBoundingClientRect().right > text.closest(".card").getBoundingClientRect().right))
  .map(text => text.textContent)"""


def card(page, dataset: str = "checkins"):
    return page.locator(f".explorer[data-dataset={dataset}]")


def told(page, dataset: str = "checkins", side: str = "closed") -> tuple[str, str]:
    figure = card(page, dataset).locator(f".{side}")
    return figure.locator(".name").inner_text(), figure.locator(".about").inner_text().replace("\xa0", " ")


def outlines(page, dataset: str = "checkins", side: str = "closed") -> list[str]:
    return (
        card(page, dataset)
        .locator(f".{side} svg path[d$='Z'], .{side} svg g[fill-opacity] path")
        .evaluate_all("paths => paths.map(path => path.getAttribute('d'))")
    )


def test_it_starts_with_the_best_mechanism_beside_the_best_non_private_model(visit, page):
    seen = visit(page).page
    assert told(seen) == (
        "dp_em_exact",
        "ε = 1 · 88 % utility kept (gap −0.29 nats per record)",
    )
    assert told(seen, side="open") == ("non_private", "no privacy")
    assert seen.locator(".explorer[data-dataset=checkins] use[href='#cloud-checkins']").count() == 2
    ring = "circle[r='8'], path[r], g[stroke='var(--ink)'][stroke-width='1.8'] > *"
    assert card(seen).locator(ring).count() == 2, "the isolated person is marked in both"


def test_the_slider_works_by_mouse(visit, page):
    seen = visit(page).page
    before, open_before = outlines(seen), outlines(seen, side="open")
    assert len(before) >= 6
    slider = card(seen).get_by_role("slider")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    seen.mouse.click(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    assert told(seen)[1].startswith("ε = 10 ·")
    assert slider.get_attribute("aria-valuetext") == "ε = 10"
    assert outlines(seen) != before
    assert outlines(seen, side="open") == open_before
    assert told(seen, "homes")[1].startswith("ε = 1 ·"), "each dataset has its own"


def test_slider_and_choice_work_by_keyboard_and_the_url_keeps_them(visit, page):
    seen = visit(page).page
    card(seen).get_by_role("slider").focus()
    seen.keyboard.press("ArrowLeft")
    assert told(seen)[1].startswith("ε = 0.1 ·")
    card(seen).get_by_role("combobox").focus()
    seen.keyboard.type("laplace_a")
    assert told(seen)[0] == "laplace_aware (local)"
    other = visit(page, seen.url[seen.url.index("#") :]).page
    assert told(other) == told(seen)
    assert outlines(other) == outlines(seen)
    card(seen).get_by_role("slider").focus()
    seen.keyboard.press("ArrowRight")
    assert "epsilon" not in seen.url, "the usual choice is not in the address"


def test_a_missing_model_shows_the_reason(visit, page):
    seen = visit(page, "#models?see.survey=responses&epsilon.survey=0.1").page
    assert "10^8 cells" in card(seen, "survey").locator(".closed .empty").inner_text()
    assert card(seen, "survey").locator(".open svg").is_visible()


def test_an_unknown_choice_falls_back_to_the_default(visit, page):
    seen = visit(page, "#models?see.checkins=unknown&epsilon.checkins=7")
    assert told(seen.page)[0] == "dp_em_exact"
    assert told(seen.page)[1].startswith("ε = 1 ·")
    assert seen.console == []


def test_ticks_have_enough_digits_to_differ(visit, page, tmp_path):
    """Latitudes of one city share their first digits."""
    html = page.read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', html, re.DOTALL).group(1))
    limits = json.dumps(data["explorers"][0]["limits"], separators=(",", ":"))
    city = tmp_path / "city.html"
    assert limits in html
    city.write_text(html.replace(limits, "[[-93.42,-93.11],[44.885,45.057]]"), encoding="utf-8")
    texts = card(visit(city).page).locator(".closed svg text").all_text_contents()
    assert {"44.90", "44.95", "45.00", "45.05", "−93.3", "−93.2"} <= set(texts)


def test_without_javascript_only_the_small_multiples_are_shown(visit, page):
    seen = visit(page, script=False).page
    assert not card(seen).is_visible()
    assert seen.locator("#models .panels figure").first.is_visible()


@pytest.mark.parametrize(
    ("options", "see"),
    [
        ({"failing": [("checkins", "responses")]}, "5 of 6"),
        ({"replicates": 1}, "(gap −"),
        ({"epsilons": (2.0,)}, "ε = 2"),
        ({"datasets": (MadeUpData("ten", dimensions=10, rows=400),)}, "· gap −"),
        ({"datasets": (MadeUpData("one", dimensions=1, rows=400),)}, "(gap −"),
        ({"copies": 8}, "(gap −"),
        ({"datasets": (MadeUpData("secret", geographic=True, visibility="sensitive", isolated=True),)}, "(gap −"),
        ({"mechanisms": ("dp_em_exact",)}, "ε = 1"),
        ({"mechanisms": ("non_private",)}, None),
        ({"failing": [("checkins", name) for name in made_up_run.METHODS]}, None),
        ({"epsilons": (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)}, "ε = 1"),
    ],
    ids=["one fails", "one replicate", "one epsilon", "d=10", "d=1", "40 mechanisms", "sensitive", "no baseline",
         "nothing private", "all fail", "seven epsilons"],
)  # fmt: skip
def test_every_kind_of_run_is_readable_on_phone_and_desktop(visit, tmp_path, options, see):
    options = {"datasets": (CHECKINS,), "failing": (), **options}
    made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, **options))
    seen = visit(tmp_path / "reports/summary.html")
    for width in (1280, 390):
        seen.page.set_viewport_size({"width": width, "height": 900})
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.page.evaluate(WIDE) == []
        assert seen.page.evaluate(CUT) == []
    assert seen.console == []
    name = options["datasets"][0].name
    assert card(seen.page, name).count() == (see is not None)
    if see == "5 of 6":
        assert seen.page.locator(".toggle").count() == 4
        assert seen.page.locator("#failures").is_visible()
    elif see is not None:
        assert see in told(seen.page, name)[1]
        assert card(seen.page, name).locator(".closed svg").is_visible()
        assert seen.page.locator(".chart .spot").count() > 0
    if name == "secret":
        assert card(seen.page, name).locator(".open, use, circle").count() == 0
        assert "non_private" not in seen.page.locator("#models").inner_text()
    if options.get("copies"):
        assert seen.page.locator(".toggle").count() == 40
        seen.page.locator(".only").nth(39).click()
        assert seen.page.locator(".chart .spot").count() == 3
    if len(options.get("epsilons", (0, 0))) == 1:
        assert card(seen.page, name).get_by_role("slider").is_disabled()


def test_axe_finds_nothing_serious_with_a_failure_on_a_dark_phone(visit, violations, tmp_path):
    made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(SURVEY,)))
    seen = visit(
        tmp_path / "reports/summary.html", "#models?see.survey=responses&trust=local", 390, "dark"
    ).page
    assert violations(seen) == []
