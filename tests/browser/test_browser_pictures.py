"""Screenshots of the whole page; `pytest --basetemp=DIR tests/browser` keeps them."""

import matplotlib.image
import numpy as np
import pytest

LEAST_SHARE = 0.02  # smallest share of pixels that are not background


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]
)
def test_a_picture_of_the_whole_page_shows_its_sections(visit, page, tmp_path, width, scheme):
    seen = visit(page, width=width, scheme=scheme).page
    seen.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    path = tmp_path / f"page-{width}-{scheme}.png"
    seen.screenshot(path=path, full_page=True)
    pixels = matplotlib.image.imread(path)[..., :3]
    assert pixels.shape[1] == width
    light = pixels[:3, :3].mean() > 0.5
    assert light == (scheme == "light"), "the scheme that was asked for"
    for name in (
        "answer",
        "frontier",
        "models",
        "attack",
        "audit",
        "ledger",
        "results",
        "data",
        "run",
        "glossary",
    ):
        top, height = seen.locator(f"#{name}").evaluate(
            "part => [part.getBoundingClientRect().top + scrollY, part.offsetHeight]"
        )
        part = pixels[int(top) : int(top + height)]
        counts = np.bincount(((part * 15).astype(int) @ [256, 16, 1]).ravel())  # pixels per colour
        assert np.count_nonzero(counts) > 8, f"{name} has letters and colours"
        assert 1 - counts.max() / counts.sum() > LEAST_SHARE, f"{name} is not empty"
