"""The reports of a local release: reports and public values only, with fresh noise, in random order."""

import itertools

import numpy as np
import pyarrow.parquet as pq
import pytest
from making import LOCAL, clusters, make_mechanism, partitions_asked, spied

from privmix.artefacts.private import read_private
from privmix.audit import replay
from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, Spec, seeded_randomness
from privmix.mechanisms.local.adaptive_tree_response import oracle_of
from privmix.mechanisms.local.base import decode_reports
from privmix.mechanisms.local.tree_response import halvings
from privmix.mechanisms.shared.partitions import Partition
from privmix.privacy.accounting import Budget
from privmix.privacy.oracles.survey import row_type
from privmix.privacy.privtree import TreeShape

WITH_NOISE = ("laplace_input", "gaussian_input", "planar_laplace")
ATTRIBUTES = {"night": ("no", "yes"), "colour": ("red", "green", "blue")}
ENTRY = {
    "columns": [
        {"name": "who", "description": "Walker", "type": "identifier"},
        *(
            {
                "name": name, "description": name, "type": "number", "unit": "°", "geographic": name,
                "lower": -0.7, "upper": 0.7, "bound_reason": "The map ends there.", "resolution": 0.001,
            }
            for name in ("latitude", "longitude")
        ),
        *(
            {"name": name, "description": name, "type": "category", "values": list(values)}
            for name, values in ATTRIBUTES.items()
        ),
    ],
    "coordinates": ["latitude", "longitude"],
    "attributes": list(ATTRIBUTES),
}  # fmt: skip


def _records(rows, seed=0):
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(len(values), size=rows) for name, values in ATTRIBUTES.items()}
    return clusters(rows, seed=seed), codes


def _parameters(method):
    """Those of a quick mechanism, as a configuration has them."""
    needed = {"within_m": 50_000} if method == "planar_laplace" else {}
    naive = {"fit": "naive"} if method in WITH_NOISE else {}
    return {"method": method, "searches": 1, **needed, **naive}


@pytest.fixture
def reported(park):
    """`privmix release` of these records; gives what the file of reports says of itself, its columns and its path."""
    numbers = itertools.count()

    def release(method, points, codes, *, epsilon=1.0, persons=None, **entry):
        park.write(
            entry={**ENTRY, **entry},
            config={
                "mechanisms": {"m": _parameters(method)},
                "components": 3,
                "release": {"limit_epsilon": 1e3, "limit_delta": 1e-4},
            },
        )
        persons = np.arange(len(points)) if persons is None else persons
        said = [np.array(values)[codes[name]] for name, values in ATTRIBUTES.items()]
        lines = [
            f"p{who},{north!r},{east!r},{night},{colour}"
            for who, (north, east), night, colour in zip(persons, points.tolist(), *said, strict=True)
        ]
        head = "who,latitude,longitude,night,colour"
        (park.folder / "walks.csv").write_text("\n".join([head, *lines]) + "\n")
        path = park.release("m", epsilon, "--synthetic", "10", out=f"out/{next(numbers)}") / "reports.parquet"
        info, [columns] = read_private(path)
        return info, columns, path

    return release


@pytest.mark.parametrize("method", LOCAL)
def test_a_release_holds_reports_and_public_values_alone(reported, method):
    """The metadata do not depend on the records, except for questions that depend on earlier answers.

    The file has one row per report.
    """
    said, rounds = [], method == "adaptive_tree_response"
    for seed in (1, 2):
        info, columns, path = reported(method, *_records(2000, seed))
        assert rounds or info.asked == [{}]
        said.append(info.model_copy(update={"asked": []}))
        metadata = pq.read_metadata(path)
        assert set(metadata.metadata) <= {b"privmix", b"ARROW:schema", b"seal"}
        assert metadata.num_rows == 2000
        assert {len(values) for values in columns.values()} == {2000}
    assert said[0] == said[1]
    assert said[0].privacy.mode == "release"
    assert said[0].seconds == []
    assert "must not be published" not in said[0].notice
    assert said[0].privacy.epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("method", LOCAL)
def test_two_releases_share_no_noise(reported, method):
    records = _records(2000)
    (_, first, _), (_, second, _) = (reported(method, *records) for _ in range(2))
    assert any(not np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("method", LOCAL)
def test_rows_of_a_release_are_in_no_order(reported, method):
    """Records sorted by place and by attribute, at a budget that hides little: the file does not know the order."""
    rows = 2000
    side = np.repeat([0, 1], rows // 2)
    points = np.where(side, 0.4, -0.4)[:, None] + np.random.default_rng(0).normal(0, 0.01, (rows, 2))
    info, columns, _ = reported(method, points, dict.fromkeys(ATTRIBUTES, side), epsilon=20.0)
    assert info.privacy.mode == "release"
    late = columns["a_night"] == 1
    assert late.mean() == pytest.approx(0.5, abs=0.05)
    assert abs(np.arange(rows)[late].mean() / rows - 0.5) < 5 / np.sqrt(12 * rows / 2)
    assert abs(np.count_nonzero(np.diff(late.astype(int))) - rows / 2) < 5 * np.sqrt(rows) / 2


@pytest.mark.parametrize("method", WITH_NOISE)
def test_noise_of_a_release_lies_on_the_lattice(reported, method):
    """Where doubles could lie tells what they were made from; whole steps of 2^-20 do not."""
    points, codes = _records(2000)
    info, columns, _ = reported(method, points, codes, epsilon=200.0)
    for axis in ("y0", "y1"):
        assert np.abs(columns[axis]).max() < 8  # where single precision has every step
        assert _on_the_lattice(columns[axis])
    spec, budget = Spec(info.domain, 3), Budget(200.0, 1e-6)
    benchmark = make_mechanism(method).privatise(Records(points, codes), spec, budget, seeded_randomness(1))
    assert not _on_the_lattice(benchmark.columns["y0"])  # the power twin


def _on_the_lattice(column):
    steps = column.astype(np.float64) * 2**20
    return np.array_equal(steps, np.rint(steps))


@pytest.mark.parametrize("method", LOCAL)
def test_the_number_of_records_of_a_person_is_not_in_a_release(reported, method):
    """The same persons with fewer and with more records give the same metadata and the same number of rows."""
    privacy = {
        "unit": "person", "relation": "add_remove", "person_column": "who", "max_records_per_person": 4,
    }  # fmt: skip
    said = []
    for holds in (1, 3):
        persons = np.repeat(np.arange(300), holds)
        info, *_ = reported(
            method, *_records(len(persons)), persons=persons, privacy=privacy, expected={"rows": 800}
        )
        said.append(info.model_copy(update={"asked": []}))
    assert said[0] == said[1]
    assert said[0].reports == [300]
    assert said[0].privacy.relation == "replace_one"


def test_what_rounds_were_asked_follows_from_the_released_rows(reported):
    """The only metadata that depend on answers can be computed from the rows."""
    info, columns, _ = reported("adaptive_tree_response", *_records(3000), epsilon=3.0)
    spec = Spec(info.domain, 3)
    plan = registry.build(info.method, info.parameters).plan(spec, Budget(3.0, 1e-6))
    [asked] = info.asked
    assert set(asked) == {"partitions"}
    assert set(columns) == {"part", "a_night", "a_colour"}
    found = partitions_asked(_rows(columns["part"], asked, spec, plan), spec, plan)
    assert asked["partitions"] == [each.shape.packed() for each in found]


def _rows(column, asked, spec, plan):
    """The reports as they were made; their layout is that of the partitions asked, which all can read."""
    deepest = halvings(spec, "").depth
    partitions = [Partition(TreeShape.unpacked(0, text), deepest) for text in asked["partitions"]]
    return decode_reports(column, row_type([oracle_of(each, plan) for each in partitions]))


@pytest.mark.parametrize("method", LOCAL)
def test_a_release_keeps_nothing_of_its_replay(reported, monkeypatch, method):
    """Neither the file nor the verdict holds anything that depends on records or noise."""
    seen = []
    spied(monkeypatch, replay, "audit_local_mechanism", seen)
    info, *_ = reported(method, *_records(600))
    assert info.replay is None
    assert len(seen) == 2  # of the rehearsal, and of the release
    assert all(verdict.passed for _, verdict in seen)
    assert all(verdict.noise == [] and verdict.used is None for _, verdict in seen)
