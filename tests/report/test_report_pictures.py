import re
from importlib.resources import files

import numpy as np
import pytest

from privmix.artefacts.clean import CleanData, CleanInfo, RowCounts
from privmix.artefacts.domain import Axis, Domain
from privmix.artefacts.fitted_model import FittedModel
from privmix.report import model_plot
from privmix.report.figures import SERIES, VARIABLES, drawing, series, spread, svg
from privmix.report.plot_window import (
    ACROSS,
    centres_outside,
    ellipses_around,
    map_window,
    plot_columns,
    plot_window,
)
from privmix.report.run import SHOWN_POINTS, sample_material


def clean_data(rows: int = 50, visibility: str = "public", geographic: bool = True) -> CleanData:
    bounds = {"latitude": (-90.0, 90.0), "longitude": (-180.0, 180.0)}
    axes = tuple(
        Axis(
            name=name, description="", unit="degree", geographic=name if geographic else None, lower=low,
            upper=high, resolution=0.02, centre=0.0, scale=0.005,
        )
        for name, (low, high) in bounds.items()
    )  # fmt: skip
    domain = Domain(
        dataset="d", title="D", axes=axes, attributes=(), unit="record", relation="replace_one",
        max_records_per_person=1, visibility=visibility, rows=rows,
    )  # fmt: skip
    counts = RowCounts(read=rows, kept=rows, dropped={}, clipped={}, persons=rows, train=rows, holdout=0)
    info = CleanInfo(domain=domain, entry_digest="", raw_sha256="", counts=counts, isolated=(3,))
    points = np.random.default_rng(0).uniform(-0.3, 0.3, (rows, 2))
    return CleanData(info, points, {}, np.arange(rows, dtype=np.uint64), np.ones(rows, dtype=bool))


def model(mean=(0.1, 0.2), deviation=(0.01, 0.02)) -> FittedModel:
    return FittedModel(
        replicate=0, weights=[1.0], means=[list(mean)],
        covariances=[np.diag(np.square(deviation)).tolist()], seconds=0.0,
    )  # fmt: skip


def test_nothing_of_a_sensitive_record_reaches_the_page():
    shown = sample_material(clean_data(visibility="sensitive"), np.random.default_rng(0))
    assert shown.cloud.size == 0
    assert shown.places.size == 0
    assert not shown.shares
    window = plot_window(shown, [model()])
    assert model_plot.draw_records(window, shown) is None


def test_public_records_are_sampled_and_in_original_units():
    clean = clean_data(rows=SHOWN_POINTS + 100)
    shown = sample_material(clean, np.random.default_rng(0))
    assert len(shown.cloud) == SHOWN_POINTS
    assert np.abs(shown.cloud).max() == pytest.approx(0.3 / 0.005, rel=0.01)
    assert shown.places.tolist() == (clean.points[3:4] / 0.005).tolist()


def test_held_out_records_are_not_drawn():
    clean = clean_data()
    clean.train[:] = False
    clean.train[7] = True
    shown = sample_material(clean, np.random.default_rng(0))
    assert shown.cloud.tolist() == (clean.points[7:8] / 0.005).tolist()


def test_a_map_has_longitude_on_the_horizontal_axis():
    assert plot_columns(clean_data().info.domain) == (1, 0)
    assert plot_columns(clean_data(geographic=False).info.domain) == (0, 1)


def test_without_records_the_window_is_two_standard_deviations_in_original_units():
    shown = sample_material(clean_data(visibility="sensitive", geographic=False), np.random.default_rng(0))
    window = plot_window(shown, [model(mean=(0.1, 0.2), deviation=(0.01, 0.02))])
    (left, right), (low, high) = window.limits
    assert (left + right) / 2 == pytest.approx(20.0)
    assert right - left == pytest.approx(
        4 * 2.0 * 1.08
    )  # 2σ on each side with σ = 0.01/0.005, plus the margin
    assert high - low == pytest.approx(4 * 4.0 * 1.08)


def test_a_window_without_records_stays_inside_the_public_box():
    shown = sample_material(clean_data(visibility="sensitive", geographic=False), np.random.default_rng(0))
    window = plot_window(shown, [model(deviation=(5.0, 5.0))])
    assert window.limits[0] == pytest.approx((-90 - 7.2, 90 + 7.2))


def test_centres_out_of_view_are_counted():
    shown = sample_material(clean_data(geographic=False), np.random.default_rng(0))
    window = plot_window(shown, [model()])
    assert centres_outside(window, model(mean=(0.0, 0.0))) == 0
    assert centres_outside(window, model(mean=(0.0, 0.9))) == 1


def test_an_ellipse_around_the_whole_picture_is_counted_but_not_drawn():
    shown = sample_material(clean_data(geographic=False), np.random.default_rng(0))  # records within ±0.3
    window = plot_window(shown, [model()])
    small, wide = model(mean=(0.0, 0.0), deviation=(0.1, 0.1)), model(mean=(0.0, 0.0), deviation=(0.5, 0.5))
    elongated = model(mean=(0.0, 0.0), deviation=(9.0, 0.1))
    assert [ellipses_around(window, one) for one in (small, wide, elongated)] == [0, 1, 0]
    drawn = [
        model_plot.draw_model(window, shown, one, SERIES[0], "p", "", None)
        for one in (small, wide, elongated)
    ]
    painted = ["opacity: 0.25" in picture for picture in drawn]
    assert painted == [True, False, True]


@pytest.mark.parametrize("latitudes", [(-2.0, 2.0), (58.0, 62.0), (-80.0, 80.0)])
def test_a_kilometre_is_as_long_to_the_north_as_to_the_east(latitudes):
    (left, right), (low, high) = (limits := map_window([(-10.0, 10.0), latitudes]))[0]
    middle = np.radians(sum(latitudes) / 2)
    per_degree_across = ACROSS / (right - left)
    per_degree_up = limits[1] / (high - low)
    assert per_degree_up * np.cos(middle) == pytest.approx(per_degree_across)
    assert left <= -10
    assert right >= 10
    assert low <= latitudes[0]
    assert high >= latitudes[1]


def test_pictures_take_their_colours_from_the_page_and_their_ids_do_not_clash():
    pictures = []
    for name in ("one", "two"):
        with drawing(2, 2) as figure:
            axes = figure.subplots()
            axes.plot([0, 1], [0, 1], color=SERIES[0], marker="o")
            pictures.append(svg(figure, name, 'a "quoted" <label>'))
    text = pictures[0] + pictures[1]
    assert "var(--series-0)" in text
    assert SERIES[0] not in text
    assert "<style" not in text
    assert "http" not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)) > 4
    for target in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text):
        assert "".join(target) in ids
    assert "&#34;quoted&#34; &lt;label&gt;" in text


def luminance(colour: str) -> float:
    """Compute the relative luminance of an sRGB colour (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_letters_and_lines_have_contrast_in_both_schemes(scheme):
    css = (files("privmix.report") / "templates" / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    colours = dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", blocks[scheme]))
    assert set(VARIABLES.values()) <= set(colours), "every colour of the pictures has a value in this scheme"
    for name in {"--ink", "--muted", *(v for v in VARIABLES.values() if v.startswith("--series"))}:
        for ground in ("--surface", "--page"):
            light, dark = sorted((luminance(colours[name]), luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{name} on {ground}"


def test_every_mechanism_looks_different_and_local_ones_are_dashed_and_hollow():
    names = [f"m{i}" for i in range(40)]
    looks = series(names, {name: "local" if int(name[1:]) % 2 else "central" for name in names})
    assert len({(look.colour, look.marker) for look in looks.values()}) == len(names)
    assert looks["m0"].line == "-"
    assert looks["m0"].fill == looks["m0"].colour
    assert looks["m1"].line != "-"
    assert looks["m1"].fill != looks["m1"].colour
    assert "local" in looks["m1"].label


def test_labels_move_apart_keep_their_order_and_stay_inside():
    placed = spread([0.5, 0.5, 0.51, 0.99, 1.0], 0.1, 0.0, 1.0)
    assert placed == sorted(placed)
    assert min(np.diff(placed)) >= 0.1 - 1e-12
    assert placed[-1] <= 1.0 + 1e-12
    assert placed[0] < 0.5
    assert spread([0.8, 0.2], 0.1, 0.0, 1.0) == pytest.approx([0.8, 0.2])
    assert spread([0.5, 0.5, 0.5], 0.1, 0.0, 1.0) == pytest.approx([0.4, 0.5, 0.6])
