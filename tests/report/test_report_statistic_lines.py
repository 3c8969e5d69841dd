"""Published statistics in words: units, digits, dates and atoms."""

import pytest
from clinic import ENTRY

from privmix.artefacts.domain import Domain
from privmix.artefacts.statistics import Statistic, StatisticRequest
from privmix.catalog.entry import Entry
from privmix.clean.normalisation import build_attributes, build_axes
from privmix.report import statistics
from privmix.report.format import SPACE

CLINIC = Entry.model_validate(ENTRY)
DOMAIN = Domain(
    dataset="clinic", title="Clinic", axes=build_axes(CLINIC), attributes=build_attributes(CLINIC), unit="record",
    relation="replace_one", max_records_per_person=1, visibility="synthetic", rows=1000,
)  # fmt: skip


def made(kind, values, lower, upper, accuracy, **asked):
    request = StatisticRequest(kind=kind, **asked)
    return Statistic(request=request, values=values, lower=lower, upper=upper, accuracy=accuracy)


@pytest.mark.parametrize(
    ("statistic", "cells"),
    [
        (
            made("mean", (81.2345,), (80.9,), (81.6,), 0.3655, column="weight"),
            ("mean of weight", "81.23", "80.90 to 81.60", "within ± 0.37"),
        ),
        (
            made("quantile", (18300.0,), (18290.0,), (18320.0,), 20.0, column="seen", q=0.5),
            ("0.5-quantile of seen", "2020-02-08", "2020-01-29 to 2020-02-28",
             f"within ± 20{SPACE}days"),
        ),
        (
            made("quantile", (1.0,), (0.0,), (2.0,), 1.0, column="pain", q=0.5),
            ("0.5-quantile of pain", "some", "none to much", f"within ± 1{SPACE}step"),
        ),
        (
            made("quantile", (4.0,), (2.0,), (7.0,), 3.0, column="visits", q=0.25),
            ("0.25-quantile of visits", "4", "2 to 7", "within ± 3"),
        ),
        (
            made("count", (1234.0,), (1200.0,), (1268.0,), 34.0, column="ward", value="a"),
            ("records with ward = a", "1,234", "1,200 to 1,268", f"within ± 34{SPACE}records"),
        ),
    ],
    ids=lambda each: each.request.kind if isinstance(each, Statistic) else "",
)  # fmt: skip
def test_a_statistic_has_the_unit_and_the_digits_of_its_accuracy(statistic, cells):
    (line,) = statistics.lines([statistic], DOMAIN)
    assert line.cells == cells


def test_a_histogram_names_bins_atoms_and_blanks():
    five = (5.0,) * 5
    visits = made("histogram", five, five, five, 2.0, column="visits", bins=3)
    assert statistics.cell_labels(visits, DOMAIN) == ["0 to 9", "10 to 20", "21 to 30", "0", "99"]
    ward = made("histogram", (5.0,) * 3, (5.0,) * 3, (5.0,) * 3, 2.0, column="ward")
    assert statistics.cell_labels(ward, DOMAIN) == ["a", "b", "blank"]
    weight = made("histogram", (5.0,) * 3, (5.0,) * 3, (5.0,) * 3, 2.0, column="weight", bins=2)
    assert statistics.cell_labels(weight, DOMAIN) == ["30 to 115", "115 to 200", "blank"]


def test_a_long_histogram_shows_its_first_cells_and_says_so():
    many = (5.0,) * 172
    found = statistics.lines([made("histogram", many, many, many, 2.0, column="weight", bins=171)], DOMAIN)
    assert len(found) == statistics.MOST_CELLS + 1
    assert found[-1].cells[0] == f"histogram of weight: 142{SPACE}further counts"
