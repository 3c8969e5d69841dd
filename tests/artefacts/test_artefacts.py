"""Files between stages are written completely or not at all, and read back unchanged."""

import errno
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from making import make_domain

from privmix.artefacts.clean import (
    CleanInfo,
    RowCounts,
    clean_schema,
    iterate_train_points,
    iterate_train_records,
    read_clean,
)
from privmix.artefacts.io import (
    PARQUET_SEAL,
    add_metadata,
    atomic_write,
    numpy_column,
    parse_metadata,
    read_table,
    sealed_write,
    to_arrow,
    write_table,
)
from privmix.artefacts.scores import RESULT_COLUMNS, ScoresInfo, results_table
from privmix.errors import UserError
from privmix.pipeline import runner


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "file.json"
    target.write_text("old")

    def fill_the_disk():
        with atomic_write(target) as temporary:
            temporary.write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fill_the_disk()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.json"]


def test_a_finished_write_replaces_the_file_with_ordinary_permissions(tmp_path):
    target = tmp_path / "deep" / "file.json"
    with atomic_write(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert os.listdir(target.parent) == ["file.json"]
    assert target.stat().st_mode & 0o600 == 0o600


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_full_disk_is_one_sentence(code, capsys):
    def main():
        raise OSError(code, os.strerror(code), "data/x.parquet")

    with pytest.raises(SystemExit) as left:
        runner.run_stage("fit", main)
    assert str(left.value).startswith(f"privmix fit: {os.strerror(code)}")
    assert "\n" not in str(left.value)


def test_an_unexpected_error_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        runner.run_stage("fit", lambda: 1 / 0)


@pytest.mark.parametrize(
    "values",
    [np.arange(5.0), np.arange(5, dtype=np.uint8), np.arange(10.0)[::2], np.empty(0, dtype=np.int64)],
)
def test_numbers_survive_arrow(values):
    table = pa.table({"x": to_arrow(values)})
    assert numpy_column(table, "x").dtype == values.dtype
    assert np.array_equal(numpy_column(table, "x"), values)


def test_texts_survive_arrow():
    texts = ["", "ε = 1", "plain", "日本"]
    assert to_arrow(texts).to_pylist() == texts


def test_results_have_exactly_the_promised_columns(tmp_path):
    row = dict.fromkeys(("dataset", "mechanism", "method", "trust", "unit", "relation", "metric"), "x")
    table = results_table([{**row, "epsilon": np.inf, "delta": 0.0, "replicate": 1, "value": 2.5}])
    assert tuple(table.column_names) == RESULT_COLUMNS
    assert table.to_pylist()[0]["epsilon"] == np.inf
    assert results_table([]).num_rows == 0
    info = ScoresInfo(
        dataset="d", mechanism="m", method="m", parameters={}, trust="local", epsilon=np.inf, delta=0.0,
        roc=[(0.0, 0.5)],
    )  # fmt: skip
    write_table(tmp_path / "scores.parquet", table, info)
    again = read_table(tmp_path / "scores.parquet")
    assert parse_metadata(again, ScoresInfo) == info
    assert again.select(list(RESULT_COLUMNS)).to_pylist() == table.to_pylist()


def test_a_broken_or_foreign_file_is_one_sentence(tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 but not much more")
    with pytest.raises(UserError, match="delete it and run the pipeline again"):
        read_table(broken)
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"a": [1]}), foreign)
    with pytest.raises(UserError, match="has no seal"):
        read_table(foreign)


def test_normalised_and_original_units_are_inverse():
    domain = make_domain(dimensions=3)
    points = np.linspace(-0.5, 0.5, 12).reshape(4, 3)
    assert domain.normalise(domain.denormalise(points)) == pytest.approx(points)
    assert np.linalg.norm(domain.upper) <= 1 + 1e-12


def write_clean(path, train, words=("train", "holdout")):
    """Write a clean Parquet of made-up records with these training rows, in small row groups."""
    rows, domain = len(train), make_domain(attributes=(("c", ("a", "b")),))
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (rows, 2))
    held = np.where(train, words.index("train"), words.index("holdout")).astype(np.int8)
    columns = [
        to_arrow(np.arange(rows, dtype=np.uint64)),
        *map(to_arrow, points.T),
        to_arrow(np.zeros(rows, dtype=np.int16)),
        pa.DictionaryArray.from_arrays(to_arrow(held), list(words)),
    ]
    kept, persons = int(np.sum(train)), rows
    counts = RowCounts(
        read=rows, kept=rows, dropped={}, clipped={}, persons=persons, train=kept, holdout=rows - kept
    )
    info = CleanInfo(domain=domain, entry_digest="", raw_sha256="", counts=counts, isolated=())
    schema = add_metadata(clean_schema(2, ("c",)), info)
    with sealed_write(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=100)
        writer.add_key_value_metadata(PARQUET_SEAL)
    return points


@pytest.mark.parametrize("words", [("train", "holdout"), ("holdout", "train")])
@pytest.mark.parametrize("rows", [1, 64, 100, 1000])
def test_training_batches_are_the_training_records_in_order(tmp_path, rows, words):
    train = np.random.default_rng(1).random(350) < 0.6
    train[100:200] = False  # a row group with no training record
    points = write_clean(tmp_path / "clean.parquet", train, words)
    batches = list(iterate_train_points(tmp_path / "clean.parquet", rows))
    assert max(len(batch) for batch in batches) <= rows
    assert all(batch.shape[1] == 2 for batch in batches)
    clean = read_clean(tmp_path / "clean.parquet")
    assert np.array_equal(np.concatenate(batches), points[train])
    assert np.array_equal(np.concatenate(batches), clean.points[clean.train])


def test_persons_of_training_records_are_read_only_on_request(tmp_path):
    train = np.random.default_rng(1).random(350) < 0.6
    points = write_clean(tmp_path / "clean.parquet", train)
    parts = list(iterate_train_records(tmp_path / "clean.parquet", 64, with_persons=True))
    assert np.array_equal(np.concatenate([persons for _, _, persons in parts]), np.flatnonzero(train))
    assert np.array_equal(np.concatenate([some for some, _, _ in parts]), points[train])
    assert {persons for _, _, persons in iterate_train_records(tmp_path / "clean.parquet")} == {None}


def test_training_batches_restart_each_time_and_close_the_file(tmp_path):
    write_clean(tmp_path / "clean.parquet", np.ones(300, dtype=bool))
    begun = iterate_train_points(tmp_path / "clean.parquet", 100)
    first = next(begun)
    begun.close()
    assert np.array_equal(next(iterate_train_points(tmp_path / "clean.parquet", 100)), first)
    assert sum(len(batch) for batch in iterate_train_points(tmp_path / "clean.parquet", 100)) == 300


def test_reading_training_points_in_batches_keeps_memory_small(tmp_path):
    path, rows, groups = tmp_path / "clean.parquet", 50_000, 20
    schema = clean_schema(2, ())
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(groups):
            split = pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int8), ["train"])
            columns = [np.arange(rows, dtype=np.uint64), *rng.random((2, rows)), split]
            writer.write_table(pa.table(columns, schema=schema))
    before, most = pa.total_allocated_bytes(), 0
    for _ in iterate_train_points(path, 10_000):
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < path.stat().st_size / 5
