"""Traces of a machine in the texts of a release: paths, hosts and times, and ordinary texts that are none."""

import json
from pathlib import Path

import pytest

from privmix.catalog.entry import entry_paths, load_entry
from privmix.errors import UserError
from privmix.release import traces

PATHS = [
    "copied from /ho" + "me/someone/a.csv",
    "see /media/disk/a.csv",
    r"C:\Users\someone",
    r"on d:\projects\clinic.csv",
    r"\\host\share\clinic.csv",
    r"(\\nas-2.local\data$)",
    "in ~/clinic/a.csv",
    "of ~someone/clinic.csv",
    "file:///clinic.csv",
    "FILE://host/clinic.csv",
    "smb://host/share",
]
TIMES = [
    "made at 09:15",
    "At 9:15 the run ended",
    "@23:59",
    "2026-01-02 03:04",
    "until 12:34:56",
    "09:15 UTC",
    "9:15 pm",
    "9:15Z",
    "um 09:15 Uhr",
]
ORDINARY = [
    "A map of scale 1:25 and 1:50.",
    "Nature 12:45-60, 2017; Biometrika 12:134.",
    "https://www.example.org/~smith/data/file.csv",
    "http://example.org:80/ho" + "me/page",
    "about ~5/6 of all rows, ~n/2",
    "a profile: /year, km/h, and/or",
    r"written as \alpha\beta in TeX",
    "Walks between 06:00 and 22:00, or around 12:30.",
    "that 1:10 ratio",
    "range: C: to D:",
]


@pytest.mark.parametrize(
    ("text", "what"), [*((text, "path") for text in PATHS), *((text, "time of day") for text in TIMES)]
)
def test_a_trace_of_a_machine_is_found(text, what):
    with pytest.raises(UserError, match=what):
        traces.check_traces(json.dumps({"description": text}, indent=1, ensure_ascii=False))


@pytest.mark.parametrize("text", ORDINARY)
def test_an_ordinary_text_is_no_trace(text):
    traces.check_traces(json.dumps({"description": text}, indent=1, ensure_ascii=False))


@pytest.mark.parametrize(
    "path", entry_paths([Path(__file__).parents[2] / "data/catalog"]), ids=lambda path: path.stem
)
def test_no_entry_of_the_catalog_has_a_trace(path):
    traces.check_traces(load_entry(path).model_dump_json(indent=1, exclude={"source"}))
