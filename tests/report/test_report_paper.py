"""The charts of the page as files for papers."""

import errno
import os
import re
import struct
import xml.etree.ElementTree as ElementTree

import made_up_run
import pytest

from privmix.report import figures


def test_the_stage_writes_every_chart_of_the_page_as_svg_and_png(tmp_path):
    html = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path), figures="reports/figures")
    names = {path.name for path in (tmp_path / "reports/figures").iterdir()}
    stems = {"frontier-checkins", "frontier-survey", "roc-loss-checkins", "roc-loss-survey", "proven"}
    stems |= {f"roc-lira-{name}" for name in ("checkins", "survey") if f"roc-lira-{name}-" in html}
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("svg", "png")}
    for path in (tmp_path / "reports/figures").glob("*.svg"):
        ElementTree.parse(path)
        assert "var(--" not in path.read_text(), "colours stand in the file"
    for path in (tmp_path / "reports/figures").glob("*.png"):
        width, _ = struct.unpack(">II", path.read_bytes()[16:24])
        assert width > 800


def drawn(name: str = "roc-loss-x", label: str | None = "noisy_tree") -> figures.Figure:
    with figures.drawing(4, 3) as figure:
        figure.add_axes((0.2, 0.2, 0.7, 0.7)).plot([0, 1], [0, 1], label=label)
        figures.svg(figure, name, "A line.")
    return figure


def test_keep_figures_collects_only_figures_rendered_inside_it():
    drawn()
    with figures.keep_figures("roc-") as found:
        figure = drawn()
        drawn("portrait-x")
    drawn("roc-loss-later")
    assert found == {"roc-loss-x": figure}


def test_labelled_lines_get_a_legend_and_files_are_reproducible():
    named, bare = (figures.file_bytes(drawn(label=label), "x", "svg") for label in ("noisy_tree", None))
    assert b'id="legend_1"' in named
    assert b'id="legend_1"' not in bare
    assert figures.file_bytes(drawn(), "x", "svg") == named
    assert figures.file_bytes(drawn(), "x", "png") == figures.file_bytes(drawn(), "x", "png")
    assert not re.search(rb"<text\b", named), "letters are outlines, alike wherever the file goes"


def test_a_full_disk_changes_no_file_of_the_report(tmp_path, monkeypatch):
    configuration = made_up_run.write_run(
        tmp_path, (made_up_run.SURVEY,), ("non_private", "dp_em_exact"), (1.0,)
    )
    made_up_run.render(tmp_path, configuration, "reports/figures")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "reports").rglob("*.*")}
    assert len(before) > 4
    calls, original = [], os.fsync

    def full(handle):
        calls.append(handle)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        made_up_run.render(tmp_path, configuration, "reports/figures")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "reports").rglob("*.*")} == before
