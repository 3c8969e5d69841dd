"""The private file: only reports, compact, in random order. For releases see `test_release_reports`."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from making import (
    LOCAL,
    clusters,
    make_domain,
    write_clean,
)

from privmix.artefacts.io import parse_metadata, read_schema
from privmix.artefacts.private import PrivateInfo, read_private
from privmix.mechanisms.local import adaptive_tree_response
from privmix.mechanisms.shared import report_shuffle
from privmix.pipeline import collection
from privmix.pipeline.stages import privatise

ATTRIBUTES = (("night", ("no", "yes")), ("colour", ("red", "green", "blue")))
ROWS = 20_000


def _records(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(len(values), size=rows) for name, values in ATTRIBUTES}
    return clusters(rows, seed=seed), codes


def more_parameters(method):
    return {"within_m": 50_000} if method == "planar_laplace" else {}


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Runs the stage in this process; gives the path of the private file."""

    def run(method, points, codes, *more, epsilon=1.0, persons=None, name="private", **domain):
        domain = make_domain(**{"rows": len(points), "attributes": ATTRIBUTES, **domain})
        clean, output = tmp_path / "clean.parquet", tmp_path / f"{name}.parquet"
        write_clean(clean, domain, points, codes=codes, persons=persons)
        arguments = [
            "--mechanism",
            "m",
            "--parameters",
            json.dumps({"method": method, **more_parameters(method)}),
        ]
        arguments += ["--epsilon", str(epsilon), "--delta", "1e-6", "--components", "3"]
        arguments += [*(more or ("--seed", "1")), "--clean", str(clean), "--output", str(output)]
        monkeypatch.setattr(sys, "argv", ["privatise", *arguments])
        privatise.main()
        return output

    return run


def test_records_that_wait_for_their_round_are_in_no_named_file(make, tmp_path, monkeypatch):
    """During the rounds the folder holds the clean file and an empty file for the reports."""
    monkeypatch.setattr(report_shuffle, "FEW", 1)
    seen, told = [], adaptive_tree_response.estimate_shares

    def looking(*given):
        seen.append({path.suffix: path.stat().st_size for path in tmp_path.iterdir()})
        held = [os.readlink(each.path) for each in os.scandir("/proc/self/fd") if each.is_symlink()]
        seen[-1]["unnamed"] = sum("(deleted)" in path and str(tmp_path) in path for path in held)
        return told(*given)

    monkeypatch.setattr(collection, "replay_randomizer", lambda *given, **more: None)  # that is in memory
    monkeypatch.setattr(adaptive_tree_response, "estimate_shares", looking)
    make("adaptive_tree_response", *_records(3000))
    assert len(seen) > 1
    assert all(each.keys() == {".parquet", ".part", "unnamed"} for each in seen)
    assert all(each[".part"] == 0 and each["unnamed"] > 1 for each in seen)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean.parquet", "private.parquet"]


@pytest.mark.parametrize("method", LOCAL)
def test_rows_are_in_no_order(make, method):
    """Records sorted by place and by person, at a budget that hides nothing: the file does not know the order."""
    rng = np.random.default_rng(0)
    half = np.full((ROWS // 2, 2), 0.6)
    points = np.vstack([-half, half]) + rng.normal(0, 0.01, (ROWS, 2))
    codes = {name: np.repeat([0, 1], ROWS // 2) for name, _ in ATTRIBUTES}
    path = make(method, points, codes, epsilon=200.0)
    _, [columns] = read_private(path)
    late = columns["a_night"] == 1
    assert late.mean() == pytest.approx(0.5, abs=0.01)
    rank = np.arange(ROWS)[late].mean() / ROWS
    assert abs(rank - 0.5) < 5 / np.sqrt(12 * ROWS / 2)
    changes = np.count_nonzero(np.diff(late.astype(int)))
    assert abs(changes - ROWS / 2) < 5 * np.sqrt(ROWS) / 2


@pytest.mark.parametrize("method", LOCAL)
def test_the_order_of_the_records_does_not_show_in_the_size(make, method):
    points, codes = _records()
    order = np.lexsort(points.T)
    sizes = [
        make(method, points[rows], {name: code[rows] for name, code in codes.items()}, epsilon=200.0)
        .stat()
        .st_size
        for rows in (np.arange(ROWS), order)
    ]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.04)


@pytest.mark.parametrize("method", LOCAL)
def test_no_person_is_in_the_file(make, method):
    persons = np.random.default_rng(4).integers(2**40, 2**62, size=2000)
    path = make(method, *_records(2000), persons=persons)
    _, [columns] = read_private(path)
    assert not {"person", "split", "replicate"} & set(columns)
    content = path.read_bytes()
    assert not any(int(person).to_bytes(8, "little") in content for person in persons)


@pytest.mark.parametrize("method", LOCAL)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_file_is_compact(make, method, epsilon):
    """At most half as large again as the entropy of the columns, each rounded up to whole bytes."""
    path = make(method, *_records(50_000), epsilon=epsilon)
    _, [columns] = read_private(path)
    rounded = sum(np.ceil(_entropy(values) / 8) for values in columns.values())
    assert path.stat().st_size <= 1.5 * rounded * 50_000


def _entropy(values):
    """Bits: of the empirical law where values repeat, else those that are not the same in all rows."""
    if values.ndim == 1 and values.dtype.kind == "u":
        counts = np.bincount(values)
        share = counts[counts > 0] / len(values)
        return -(share * np.log2(share)).sum()
    octets = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    return sum(_entropy(column) for column in octets.T)


def test_a_benchmark_file_says_that_it_must_not_be_published(make):
    path = make("randomized_response", *_records(2000), "--seed", "1", "--replicates", "2")
    info, replicates = read_private(path)
    assert info == parse_metadata(read_schema(path), PrivateInfo)  # without the rows
    assert "must not be published" in info.notice
    assert info.privacy.mode == "benchmark"
    assert info.reports == [2000, 2000]
    assert not np.array_equal(replicates[0]["a_colour"], replicates[1]["a_colour"])


@pytest.mark.parametrize("method", LOCAL)
def test_every_person_gives_the_same_number_of_reports(make, method):
    """900 persons with 1 to 4 records each give one report each."""
    holds = np.random.default_rng(1).integers(1, 5, size=900)
    persons = np.repeat(np.arange(900), holds)
    path = make(method, *_records(len(persons)), persons=persons, unit="person", max_records=4, epsilon=2.0)
    info, _ = read_private(path)
    assert info.reports == [900]
    assert (info.privacy.unit, info.privacy.relation) == ("person", "replace_one")
    assert info.privacy.epsilon == pytest.approx(2.0)


def _stage(*arguments):
    command = [
        sys.executable,
        "-m",
        "privmix.pipeline.stages.privatise",
        "--mechanism",
        "m",
        "--epsilon",
        "1",
    ]
    command += ["--delta", "1e-6", "--components", "3", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("arguments", "sentence"), [(["--release"], "required"), ([], "required")])
def test_the_stage_makes_no_file_that_may_be_published(tmp_path, arguments, sentence):
    """`privmix release` makes such files and accounts for them."""
    parameters = ["--parameters", '{"method": "laplace_input"}']
    done = _stage(
        *parameters, *arguments, "--clean", tmp_path / "c", "--output", tmp_path / "private.parquet"
    )
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", ["tree_response", "adaptive_tree_response"])
def test_no_training_record_is_a_sentence(tmp_path, method):
    points = clusters(5)
    write_clean(tmp_path / "clean.parquet", make_domain(rows=5), points, train=np.zeros(5, dtype=bool))
    done = _stage(
        "--parameters", json.dumps({"method": method}), "--seed", "1",
        "--clean", tmp_path / "clean.parquet", "--output", tmp_path / "private.parquet",
    )  # fmt: skip
    assert done.returncode == 1
    assert "there are no training records" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["clean.parquet"]


def test_reports_are_read_with_the_budget_that_they_were_made_with(make, tmp_path):
    private = make("randomized_response", *_records(2000), epsilon=4.0)
    command = [sys.executable, "-m", "privmix.pipeline.stages.fit", "--mechanism", "m", "--delta", "1e-6"]
    command += ["--parameters", '{"method": "randomized_response"}', "--components", "3", "--seed", "1"]
    command += ["--private", str(private), "--output", str(tmp_path / "model.json"), "--epsilon"]
    wrong = subprocess.run([*command, "0.5"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "at ε = 4, δ = 1e-06, not those of" in wrong.stderr
    assert not (tmp_path / "model.json").exists()
    right = subprocess.run([*command, "4"], capture_output=True, text=True, check=False)
    assert right.returncode == 0, right.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "unit"),
    [
        ("laplace_input", "record"),
        ("tree_response", "record"),
        ("adaptive_tree_response", "record"),
        ("adaptive_tree_response", "person"),
    ],
)
def test_memory_does_not_grow_with_the_records(tmp_path, method, unit):
    """Of a thousand people, where they are the unit."""
    peaks = []
    for rows in (400_000, 2_000_000):
        rng = np.random.default_rng(1)
        clean = tmp_path / f"{rows}.parquet"
        domain = make_domain(rows=rows, unit=unit, max_records=2000 if unit == "person" else 1)
        persons = np.arange(rows) % 1000 if unit == "person" else None
        write_clean(clean, domain, rng.uniform(-0.7, 0.7, (rows, 2)), persons=persons)
        script = (
            "import sys; from pathlib import Path; from privmix.pipeline.stages import privatise; privatise.main();"
            "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
        )
        arguments = ["--mechanism", "m", "--parameters", json.dumps({"method": method}), "--epsilon", "1"]
        arguments += ["--delta", "1e-6", "--components", "3", "--seed", "1"]
        arguments += ["--clean", str(clean), "--output", str(tmp_path / "private.parquet")]
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] < peaks[0] + 25  # MB; 1.6 million more records are 26 MB in the file and 64 MB in memory
