import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

WIDTHS = (390, 768, 1280)
# Runs inside the page and sends the browser's measurements to the outer frame. Elements that scroll may be wide.
PROBE = """<script>
addEventListener("load", () => {
  const root = document.documentElement;
  const sticksOut = element => element.getBoundingClientRect().right > root.clientWidth + 1;
  const allowed = element => element.closest(".scroll, pre, .hidden, .skip") || element.parentElement.closest("svg");
  const letters = [...document.querySelectorAll("figure svg text")].filter(text => text.checkVisibility());
  const pixels = text => parseFloat(getComputedStyle(text).fontSize) * Math.sqrt(Math.abs(
    text.getScreenCTM().a * text.getScreenCTM().d - text.getScreenCTM().b * text.getScreenCTM().c));
  const entries = performance.getEntriesByType("resource").map(entry => entry.name);
  const clouds = [...document.querySelectorAll("use")].filter(use => use.getBoundingClientRect().width > 100);
  parent.postMessage({
    width: root.clientWidth,
    scrollWidth: root.scrollWidth,
    wide: [...document.querySelectorAll("body *")].filter(element => !allowed(element) && sticksOut(element))
      .map(element => element.outerHTML.slice(0, 120)),
    requests: entries.filter(name => !name.startsWith("data:")),
    smallest: Math.min(...letters.map(pixels)),
    clouds: clouds.length,
    cut: [...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth + 1)
      .map(box => box.ariaLabel),
    shortened: [...document.querySelectorAll(".scroll")].filter(box => box.scrollHeight > box.clientHeight + 1).length,
    trust: [...document.querySelectorAll(".trust")].filter(cell => cell.checkVisibility()).length,
    captions: [...document.querySelectorAll("caption")].filter(caption => caption.checkVisibility())
      .map(caption => caption.getBoundingClientRect().right),
    gaps: [...document.querySelectorAll("#results tbody td.n:nth-child(4)")]
      .map(cell => cell.getBoundingClientRect().right),
  }, "*");
});
</script>"""
FRAMES = """<!DOCTYPE html><title>frames</title><body><script>
const reports = [];
addEventListener("message", event => {
  reports.push(event.data);
  document.getElementById("probe").textContent = JSON.stringify(reports);
});
</script><pre id="probe"></pre>%s</body>"""


def probe(browse: Callable, page: Path, widths: tuple[int, ...], addition: str = "") -> dict[int, dict]:
    """Measure the page in a frame of each width (a window cannot be as narrow as a phone)."""
    inside = page.with_name("probed.html")
    inside.write_text(
        page.read_text(encoding="utf-8").replace("</body>", addition + PROBE + "</body>"), "utf-8"
    )
    frames = "".join(
        f'<iframe src="probed.html" width="{w}" height="800" style="border:0"></iframe>' for w in widths
    )
    outside = page.with_name("frames.html")
    outside.write_text(FRAMES % frames, "utf-8")
    dom = browse(outside).dom
    reports = json.loads(re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL).group(1))
    return {report["width"]: report for report in reports}


def test_the_page_loads_without_console_messages(browse, page):
    loaded = browse(page)
    assert loaded.console == ()
    assert "The answer at ε = 1" in loaded.dom
    assert "</html>" in loaded.dom


@pytest.mark.parametrize("defect", ["throw new Error('planted')", "console.error('planted')"])
def test_a_planted_error_appears_on_the_console(browse, tmp_path, defect):
    broken = tmp_path / "broken.html"
    broken.write_text(
        f"<!DOCTYPE html><title>x</title><body><script>{defect}</script></body>", encoding="utf-8"
    )
    assert "planted" in "".join(browse(broken).console)


def test_the_page_has_no_overflow_no_requests_and_legible_letters_at_every_width(browse, page):
    seen = probe(browse, page, WIDTHS)
    assert sorted(seen) == sorted(WIDTHS)
    for width, report in seen.items():
        assert report["scrollWidth"] <= width
        assert report["wide"] == []
        assert report["requests"] == []
        assert report["smallest"] >= 9, "pixels of the smallest letter in a picture"
        assert report["clouds"] > 5, "the records lie under the ellipses"


def test_on_desktop_no_table_is_cut(browse, page):
    assert probe(browse, page, (1280,))[1280]["cut"] == []


def test_on_a_phone_tables_begin_with_numbers_and_captions_wrap(browse, page):
    phone, desk = (probe(browse, page, (width,))[width] for width in (390, 1280))
    assert (phone["trust"], desk["trust"] > 20) == (0, True)
    assert len(phone["captions"]) > 5
    assert max(phone["captions"]) <= 390
    assert len(phone["gaps"]) > 20
    assert max(phone["gaps"]) <= 390, "the utility kept is seen without scrolling"


def test_all_rows_of_a_table_are_visible(browse, page):
    assert all(report["shortened"] == 0 for report in probe(browse, page, WIDTHS).values())


def test_the_probe_detects_overflow_and_requests(browse, page):
    planted = '<div style="width:900px">wide</div><img src="http://127.0.0.1:9/planted.png" alt="">'
    seen = probe(browse, page, (390,), planted)[390]
    assert seen["scrollWidth"] >= 900
    assert "900px" in "".join(seen["wide"])
    assert "planted.png" in "".join(seen["requests"])


CURRENT = "[...document.querySelectorAll('nav [aria-current]')].map(link => [link.hash, link.ariaCurrent])"
WORDS = """() => {
  const last = document.getElementById("models").getBoundingClientRect().bottom;
  const parts = [...document.querySelectorAll("header, nav, main > section")];
  return parts.filter(part => part.getBoundingClientRect().bottom <= last).map(part => part.innerText).join(" ");
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_navigation_marks_the_current_section(visit, page, width):
    seen = visit(page, width=width).page
    seen.emulate_media(reduced_motion="reduce")
    assert seen.evaluate(CURRENT) == [["#answer", "true"]]
    for name in ("frontier", "attack", "ledger", "models"):
        seen.evaluate("name => document.getElementById(name).scrollIntoView()", name)
        seen.wait_for_function(f"document.querySelector('nav [aria-current]').hash === '#{name}'")
        assert seen.evaluate(CURRENT) == [[f"#{name}", "true"]]
        box = seen.locator("nav [aria-current]").bounding_box()
        assert 0 <= box["y"] < 60, "the navigation stays in view"
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width, "and so does the link"
    seen.evaluate("scrollTo(0, document.body.scrollHeight)")
    seen.wait_for_function("document.querySelector('nav [aria-current]').hash === '#glossary'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_current_link_looks_different(visit, page, scheme):
    seen = visit(page, scheme=scheme).page
    colours = seen.locator("nav a").evaluate_all(
        "links => links.map(link => getComputedStyle(link).backgroundColor)"
    )
    assert colours[0] != colours[1]
    assert len(set(colours[1:])) == 1


def test_without_javascript_the_navigation_is_plain_links(visit, page):
    seen = visit(page, script=False).page
    assert seen.locator("nav a").count() > 9
    assert seen.locator("nav [aria-current]").count() == 0
    seen.locator("nav a", has_text="Ledger").click()
    assert seen.url.endswith("#ledger")


def test_the_first_part_is_short(visit, page):
    assert 300 < len(visit(page).page.evaluate(WORDS).split()) <= 1700
