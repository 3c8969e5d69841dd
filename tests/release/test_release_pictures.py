"""The picture of a release page: the same bytes on every machine, and the right shapes at the right places."""

import json
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from privmix.release import page, pictures
from privmix.release.folder import PAGE, ReleasedModel, read_release
from privmix.report import plot_window

COMMAND = """
import sys
from pathlib import Path
from privmix.release import verify
verify.verify(Path(sys.argv[1]))
assert "matplotlib" not in sys.modules
"""


def made_up(folder, coordinates: int, name: str = "x", geographic: bool = False) -> ReleasedModel:
    """Return a model of two components with this number of coordinates."""
    content = json.loads(read_release(folder).model_dump_json())
    limits = {"lower": 0.0, "upper": 1.0, "resolution": 0.001, "unit": "m"}
    names = [f"{name}{number}" for number in range(coordinates)]
    axes = [{**content["domain"]["axes"][0], **limits, "name": each} for each in names]
    if geographic:
        axes[0]["geographic"], axes[1]["geographic"] = "latitude", "longitude"
    content["domain"]["axes"] = axes
    content["about"]["bound_reasons"] = ["A reason."] * coordinates
    content["shares"] = {}
    content["synthetic"].update(rows=200, seed="7" * 32, columns=names, left_out=[])
    tilted = 0.01 * (np.eye(coordinates) + np.tri(coordinates) @ np.tri(coordinates).T)
    content["original"] = {
        "weights": [0.7, 0.3],
        "means": [[0.3] * coordinates, [0.6] * coordinates],
        "covariances": [tilted.tolist(), (0.02 * np.eye(coordinates)).tolist()],
    }
    return ReleasedModel.model_validate_json(json.dumps(content))


def test_another_machine_verifies_the_page_without_a_drawing_library(released, tmp_path):
    """Its locale, its order of sets and its settings of matplotlib do not matter."""
    (tmp_path / "matplotlibrc").write_text("font.size: 30\nsvg.fonttype: path\n")
    for settings in (
        {"LC_ALL": "C", "PYTHONHASHSEED": "1"},
        {"MATPLOTLIBRC": str(tmp_path), "PYTHONHASHSEED": "2"},
    ):
        command = [sys.executable, "-c", COMMAND, str(released["grid"])]
        subprocess.run(command, env={**os.environ, **settings}, check=True)


@pytest.mark.parametrize(("coordinates", "geographic"), [(1, False), (2, False), (2, True), (10, False)])
def test_the_last_digits_of_library_functions_do_not_matter(released, monkeypatch, coordinates, geographic):
    model = made_up(released["moments"], coordinates, geographic=geographic)
    expected = page.render(model)
    eigh, atan2, cos, exp = np.linalg.eigh, math.atan2, math.cos, np.exp
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: (eigh(matrix)[0], -eigh(matrix)[1]))
    monkeypatch.setattr(math, "atan2", lambda y, x: math.nextafter(atan2(y, x), math.inf))
    monkeypatch.setattr(math, "cos", lambda x: math.nextafter(cos(x), math.inf))
    monkeypatch.setattr(np, "exp", lambda x: np.nextafter(exp(x), math.inf))
    assert page.render(model) == expected


def test_ellipses_are_one_and_two_standard_deviations_from_the_centre(released):
    model = made_up(released["moments"], 3)
    rows = np.random.default_rng(1).uniform(0, 1, (100, 3))
    window = plot_window.window_around(model.domain, (0, 1), rows[:, :2])
    frame = pictures.Frame(window.limits[0], window.limits[1], 399)
    drawn = pictures.draw_model(model, rows)
    found = re.findall(r'"translate\((\S+) (\S+)\) rotate\((\S+)\)"', drawn)
    radii = re.findall(r'rx="(\S+)" ry="(\S+)"', drawn)
    assert len(found) == 2
    assert len(radii) == 4
    around = np.linspace(0, 2 * np.pi, 50)
    for place, (two, one) in enumerate(zip(radii[::2], radii[1::2], strict=True)):
        x, y, turn = map(float, found[place])
        angle = math.radians(turn)
        for sigmas, (rx, ry) in ((2, two), (1, one)):
            along, beside = float(rx) * np.cos(around), float(ry) * np.sin(around)
            right = x + along * math.cos(angle) - beside * math.sin(angle) - pictures.LEFT
            down = y + along * math.sin(angle) + beside * math.cos(angle) - pictures.TOP
            east = frame.across[0] + right / frame.scales[0]
            north = frame.up[1] - down / frame.scales[1]
            apart = np.column_stack([east, north]) - model.original.means[place][:2]
            precision = np.linalg.inv(np.array(model.original.covariances[place])[:2, :2])
            distance = np.sqrt(np.einsum("ni,ij,nj->n", apart, precision, apart))
            assert distance == pytest.approx(np.full(50, sigmas), abs=0.02)


def test_every_row_is_a_point_inside_the_frame(released):
    text = (released["grid"] / PAGE).read_text(encoding="utf-8")
    drawn = "".join(re.findall(r'<path class="rows" d="([^"]*)"', text))
    places = np.array(re.findall(r"M([\d.]+) ([\d.]+)h0", drawn), dtype=float)
    assert len(places) == read_release(released["grid"]).synthetic.rows
    assert (places >= [pictures.LEFT, pictures.TOP]).all()
    assert (places[:, 0] <= pictures.LEFT + pictures.WIDTH).all()


def test_one_coordinate_is_shown_by_its_density(released):
    model = made_up(released["moments"], 1)
    drawn = pictures.draw_model(model, np.random.default_rng(1).uniform(0, 1, (100, 1)))
    assert "x0 (m)" in drawn
    assert "density</text>" in drawn
    assert 'class="bars"' in drawn
    assert "ellipse" not in drawn


@pytest.mark.parametrize(
    ("low", "high", "labels", "power"),
    [
        (-0.3, 10.4, ["0", "5", "10"], ""),
        (-93.44, -93.09, ["−93.4", "−93.3", "−93.2", "−93.1"], ""),
        (-0.013, 0.021, ["−0.01", "0.00", "0.01", "0.02"], ""),
        (12_000, 98_000, ["20,000", "40,000", "60,000", "80,000"], ""),
        (1.6955e9, 1.7045e9, ["1.696", "1.698", "1.700", "1.702", "1.704"], " × 10⁹"),
        (-4e-7, 4.4e-7, ["−4", "−2", "0", "2", "4"], " × 10⁻⁷"),
    ],
)
def test_ticks_are_round_numbers(low, high, labels, power):
    places, texts, found = pictures._ticks(low, high, 5)
    assert (texts, found) == (labels, power)
    assert all(low <= place <= high for place in places)


def test_names_of_columns_cannot_add_elements(released):
    name = "<script>alert(1)</script>" + "long" * 20
    text = page.render(made_up(released["moments"], 2, name))
    assert "<script" not in text
    assert max(map(len, re.findall(r"<text[^>]*>([^<]*)</text>", text))) < 80


def test_the_page_can_load_and_run_nothing(released):
    text = (released["grid"] / PAGE).read_text(encoding="utf-8")
    assert "Content-Security-Policy\" content=\"default-src 'none';" in text
    assert not re.search(r"<(script|img|image|iframe|object)|\son\w+=", text)
