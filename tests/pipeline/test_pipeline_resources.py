"""Resource requests depend on public sizes only and grow with each attempt."""

from pathlib import Path

import pytest

from privmix.catalog.entry import Entry, ExpectedCounts, FileSource, load_entry
from privmix.pipeline import resources

ROOT = Path(__file__).parents[2]


def entry(name: str) -> Entry:
    return load_entry(ROOT / f"data/catalog/{name}.yaml")


def without_figures(source: FileSource) -> Entry:
    return entry("mpls_stops").model_copy(update={"expected": ExpectedCounts(), "source": source})


def test_rows_are_the_catalogs_or_a_guess_that_is_not_too_small():
    assert resources.rows(entry("mpls_stops")) == 51_920
    assert resources.rows(entry("checkins")) == 24_000
    assert 6_442_892 <= resources.rows(entry("gowalla")) < 2 * 6_442_892
    assert resources.rows(without_figures(FileSource(kind="file", path="x.csv"))) == resources.UNKNOWN_ROWS


def test_a_users_file_is_never_opened_to_size_a_job():
    absent = without_figures(FileSource(kind="file", path="no/such/file.csv"))
    assert resources.memory_mb([absent]) == resources.memory_mb([absent])


def test_more_records_and_more_datasets_ask_for_more():
    small, large = entry("checkins"), entry("gowalla")
    assert resources.memory_mb([small]) < resources.memory_mb([large]) < resources.memory_mb([small, large])
    assert resources.minutes([small], 10) < resources.minutes([large], 10) < resources.minutes([large], 100)


def test_each_attempt_doubles_what_the_stage_may_use():
    own = [resources.memory_mb([entry("checkins")], attempt) - resources.RUNNER_MB for attempt in (1, 2, 3)]
    assert own == pytest.approx([own[0], 2 * own[0], 4 * own[0]], abs=2)
    times = [resources.minutes([entry("checkins")], 10, attempt) for attempt in (1, 2, 3)]
    assert times == pytest.approx([times[0], 2 * times[0], 4 * times[0]], abs=2)


def test_what_was_measured_fits_with_room():
    """A million records of two coordinates: 552 MB and 45 seconds at most in any stage."""
    million = entry("checkins").model_copy(update={"expected": ExpectedCounts(rows=1_000_000)})
    assert resources.memory_mb([million]) - resources.RUNNER_MB > 1.5 * 552
    assert (resources.minutes([million], 10) - resources.STAGE_MINUTES) * 60 > 1.5 * 45
