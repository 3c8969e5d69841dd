"""Parquet files follow the same rules as text: same values, same reasons, same messages."""

import datetime
import decimal
import gzip
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privmix.errors import UserError

PARQUET = {"format": "parquet"}


def packed(columns: dict, **options) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content, **options)
    return content.getvalue()


GOOD = {"more": [0, 0], "smokes": ["no", "yes"], "who": ["a", "b"], "height": [170.5, 180.0]}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_gives_its_values_and_row_numbers(read, pack):
    got = read(pack(packed(GOOD)), reader=PARQUET)
    assert (got.who, got.height, got.smokes) == (["a", "b"], [170.5, 180.0], [0, 1])
    assert (got.lines, got.bad) == ([1, 2], [])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("height", pa.array([170, 180], pa.uint8())),
        ("height", pa.array([170, 180], pa.float32())),
        ("height", pa.array([decimal.Decimal("170"), decimal.Decimal("180")])),
        ("height", pa.array(["170", " 180 "])),
        ("who", pa.array(["7", "8"]).dictionary_encode()),
        ("who", pa.array([7, 8], pa.int64())),
        ("smokes", pa.array(["no", "yes"], pa.large_string())),
    ],
)
def test_storage_types_do_not_change_the_values(read, column, values):
    got = read(packed(GOOD | {"height": [170.0, 180.0], "who": ["7", "8"], column: values}), reader=PARQUET)
    assert (got.who, got.height, got.smokes) == (["7", "8"], [170.0, 180.0], [0, 1])


def test_nulls_and_not_numbers_are_bad_rows_with_their_reason(read):
    got = read(
        packed(
            {
                "who": ["a", None, "c", "d", "e"],
                "height": [1.0, 2.0, None, float("nan"), 5.0],
                "smokes": ["no", "no", "no", "no", None],
            }
        ),
        reader=PARQUET,
    )
    assert got.faults == [(n, "missing value") for n in (2, 3)] + [(4, "not a number"), (5, "missing value")]
    assert got.who == ["a"]
    assert [row.column for row in got.bad] == ["who", "height", "height", "smokes"]


def test_text_in_a_number_is_a_bad_row_as_in_csv(read):
    got = read(packed(GOOD | {"height": ["170", "tall"]}), reader=PARQUET)
    assert (got.height, got.faults) == ([170.0], [(2, "not a number")])


def test_row_numbers_continue_across_row_groups(read):
    rows = 200_000
    heights = [1.0] * rows
    heights[-1] = None
    table = {"who": ["a"] * rows, "height": heights, "smokes": ["no"] * rows}
    got = read(packed(table, row_group_size=1000), reader=PARQUET)
    assert got.faults == [(rows, "missing value")]
    assert got.lines == list(range(1, rows))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"who,height,smokes\na,1,no\n", "is not a Parquet file"),
        (packed(GOOD)[:-20], "is not a Parquet file"),
        (packed({"who": ["a"], "height": [1.0]}), r"'smokes' .* is not in the file, which has 'who', 'height'"),
        (packed(GOOD | {"height": [datetime.date(2020, 1, 1)] * 2}), r"'height' is stored as date32.* as type number"),
        (packed(GOOD | {"height": [True, False]}), "'height' is stored as bool, which cannot be read as type number"),
        (packed(GOOD | {"who": [[1], [2]]}), "'who' is stored as list.*, which cannot be read as type identifier"),
        (packed({name: values[:0] for name, values in GOOD.items()} | {"height": pa.array([], pa.float64()),
         "who": pa.array([], pa.string()), "smokes": pa.array([], pa.string())}), "contains no rows"),
    ],
)  # fmt: skip
def test_an_unusable_file_is_refused_with_one_sentence(read, content, sentence):
    with pytest.raises(UserError, match=sentence):
        read(content, reader=PARQUET)


def test_a_page_that_was_altered_is_refused(read):
    content = bytearray(packed({"who": ["a", "b"], "height": [1.25, 1.5], "smokes": ["no", "yes"]}))
    content[4:60] = bytes(56)
    with pytest.raises(UserError, match="Parquet file"):
        read(bytes(content), reader=PARQUET)
