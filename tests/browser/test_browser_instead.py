"""The section on releases without a guarantee in a real browser: it fits a phone and is accessible."""

import pytest


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """The page of a run with attacked releases."""
    import made_up_run
    import test_report_instead as releases

    root = tmp_path_factory.mktemp("attacked")
    made_up_run.render(root, releases.write_run(root, [releases.CODES, releases.TABLE]))
    return root / "reports/summary.html"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_section_is_accessible_and_fits(visit, violations, attacked, width, scheme):
    seen = visit(attacked, "#instead", width, scheme)
    for details in seen.page.locator("#instead details").all():
        details.locator("summary").click()
    assert violations(seen.page) == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_details_are_closed_at_first(visit, attacked):
    seen = visit(attacked)
    section = seen.page.locator("#instead")
    assert section.get_by_text("can be singled out").is_visible()
    assert not section.get_by_text("Unique rows").is_visible()
