"""CSV files from practice: each is read correctly, or refused with one sentence."""

import csv
import gzip
import io
import random

import pytest

from privmix.catalog.readers import delimited
from privmix.catalog.readers.base import read_batches
from privmix.errors import UserError

GOOD = b"who,height,smokes\na,170.5,no\nb,1.8e2,yes\n"


def test_a_plain_file_gives_its_values_and_line_numbers(read):
    got = read(GOOD)
    assert (got.who, got.height, got.smokes) == (["a", "b"], [170.5, 180.0], [0, 1])
    assert got.lines == [2, 3]
    assert got.bad == []


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(GOOD, mtime=0),
        b"\xef\xbb\xbf" + GOOD,
        gzip.compress(b"\xef\xbb\xbf" + GOOD, mtime=0),
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.rstrip(b"\n"),
        GOOD + b"\n\r\n\n",
        b"\n" + GOOD,
        b'"who","height","smokes"\n"a","170.5","no"\n"b","1.8e2","yes"\n',
        b"who , height,smokes\n a,170.5 , no\nb,+180, yes\n",
        b"extra,smokes,who,height\n1,no,a,170.5\n2,yes,b,180\n",
    ],
    ids=[
        "gzip", "byte-order-mark", "gzip-with-mark", "crlf", "no-last-line-end", "blank-lines-behind",
        "blank-line-before", "quoted", "spaces", "other-order-and-more-columns",
    ],
)  # fmt: skip
def test_the_formatting_of_a_file_does_not_change_its_values(read, content):
    got = read(content)
    assert (got.who, got.height, got.smokes, got.bad) == (["a", "b"], [170.5, 180.0], [0, 1], [])


def test_the_delimiter_comes_from_the_entry(read):
    got = read(GOOD.replace(b",", b";"), reader={"format": "csv", "delimiter": ";"})
    assert got.height == [170.5, 180.0]


def test_an_invalid_delimiter_is_refused(read):
    with pytest.raises(UserError, match="delimiter"):
        read(GOOD, reader={"format": "csv", "delimiter": "–"})


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (b"", "missing value"),
        (b"  ", "missing value"),
        (b"tall", "not a number"),
        (b"NaN", "not a number"),
        (b"inf", "not a number"),
        (b"-Infinity", "not a number"),
        (b"1e400", "not a number"),
        (b"NA", "not a number"),
        (b"1_000", "not a number"),
        (b"0x10", "not a number"),
        ("١٧٠".encode(), "not a number"),
    ],
)
@pytest.mark.parametrize("neighbour", [b"180", b"word"], ids=["alone", "beside-another-bad-value"])
def test_a_value_that_is_not_a_finite_number_makes_its_row_bad(read, field, reason, neighbour):
    got = read(b"who,height,smokes\na,170,no\nb," + field + b",yes\nc," + neighbour + b",no\n")
    assert (got.lines[0], got.who[0], got.height[0]) == (2, "a", 170.0)
    assert got.faults[0] == (3, reason)
    assert got.bad[0].column == "height"


def test_numbers_equal_those_of_python_to_the_last_bit(read):
    drawn = random.Random(7)
    texts = [repr(drawn.uniform(0, 300)) for _ in range(3000)] + ["0.1", "1e-320", "5.", ".5", "+7", "1E2"]
    rows = "".join(f"p,{text},no\n" for text in texts)
    assert read(f"who,height,smokes\n{rows}".encode()).height == [float(text) for text in texts]
    slow = read(f"who,height,smokes\np,word,no\n{rows}".encode())
    assert slow.height == [float(text) for text in texts]
    assert slow.faults == [(2, "not a number")]


def test_an_empty_or_unknown_category_and_an_empty_person_are_bad(read):
    got = read(b"who,height,smokes\na,1,\nb,2,often\n,3,no\nd,4,yes\n")
    assert got.faults == [(2, "missing value"), (3, "unknown category"), (4, "missing value")]
    assert (got.who, got.height, got.smokes, got.lines) == (["d"], [4.0], [1], [5])


def test_an_empty_category_counts_as_the_value_in_the_entry(read, entry):
    columns = [column.model_dump() for column in entry().columns]
    columns[2]["missing"] = "unknown"
    got = read(b"who,height,smokes\na,1,\nb,2,often\n", columns=columns)
    assert got.smokes == [2]
    assert got.faults == [(3, "unknown category")]


def test_an_identifier_that_is_not_the_person_may_be_empty(read):
    assert read(b"who,height,smokes\n,1,no\n", privacy={}).who == [""]


def test_rows_with_a_wrong_field_count_are_bad_and_line_numbers_stay_correct(read):
    got = read(b"who,height,smokes\na,1,no\n\nb,2\nc,3,no,4\nd,x,no\ne,5,yes\n")
    assert got.faults == [(4, "wrong field count"), (5, "wrong field count"), (6, "not a number")]
    assert (got.who, got.lines) == (["a", "e"], [2, 7])


def test_a_row_with_two_faults_counts_once(read):
    got = read(b"who,height,smokes\n,x,often\nb,2,no\n")
    assert got.faults == [(2, "missing value")]


def test_quoted_fields_may_hold_delimiters_quotes_and_line_ends(read):
    got = read(b'who,height,smokes\n"a, ""A""",1,no\n"b\nB\r\nb",2,yes\nc,x,no\n"d",4,no\n')
    assert got.who == ['a, "A"', "b\nB\r\nb", "d"]
    assert got.lines == [2, 3, 7]
    assert got.faults == [(6, "not a number")]


def test_a_wrong_record_over_several_lines_is_one_bad_row(read):
    got = read(b'who,height,smokes\n"b\nB",2,yes,more\nc,3,no\n')
    assert got.faults == [(2, "wrong field count")]
    assert (got.who, got.lines) == (["c"], [4])


def test_a_stray_quote_spoils_its_own_line_only(read):
    got = read(b'who,height,smokes\n"a,1,no\nb,2,yes\nc,3,no\n')
    assert got.faults == [(2, "broken quotes or line end")]
    assert got.who == ["b", "c"]
    got = read(b'who,height,smokes\n"a,1,no\nb,2,yes\n"c,3,no\nd,4,yes\n')
    assert [line for line, _ in got.faults] == [2, 4]
    assert got.who == ["b", "d"]


def test_a_second_open_quote_in_a_line_swallows_nothing(read):
    got = read(b'who,height,smokes\na"x,"1,no\nb,2,yes\nc,3,no\n')
    assert [line for line, _ in got.faults] == [2]
    assert got.who == ["b", "c"]


def test_a_lone_carriage_return_makes_a_bad_row_not_two_rows(read):
    got = read(b"who,height,smokes\na,1,no\rb,2,yes\nc,3,no\n")
    assert got.faults == [(2, "broken quotes or line end")]
    assert (got.who, got.lines) == (["c"], [3])


def test_two_faults_that_cancel_in_the_number_of_rows_are_both_found(read):
    got = read(b'who,height,smokes\na,1,no\rb,2,yes\nc"x,"3,no\nd,4,yes\n')
    assert [line for line, _ in got.faults] == [2, 3]
    assert (got.who, got.lines) == (["d"], [4])


def test_lines_are_counted_from_the_top_of_the_file(read):
    got = read(b'\n\n"who","height","smo\nkes",smokes\na,1,,no\nb,x,,no\n')
    assert (got.lines, got.faults) == ([5], [(6, "not a number")])


def test_a_field_of_a_megabyte_is_read(read):
    note = b"x" * 10**6
    got = read(b'who,height,smokes,note\n"a",1,no,"' + note + b'"\nb,2,no,"\n' + note + b'"\nc,3,no,' + note)
    assert (got.who, got.bad) == (["a", "b", "c"], [])


def test_a_quote_open_at_the_end_of_a_block_continues_in_the_next(read, monkeypatch):
    content = b'who,height,smokes\nx"y,1,"no\nb,2,no\nc,3,yes\n'
    whole = read(content)
    assert [line for line, _ in whole.faults] == [2]
    monkeypatch.setattr(delimited, "BLOCK_BYTES", len(b'x"y,1,"no\n'))
    assert read(content) == whole


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_the_size_of_blocks_does_not_change_the_result(read, monkeypatch, block):
    drawn = random.Random(3)
    choices = ["a", "ü", 'q"q', "x, y", "two\nlines", "cr\r\nlf", ""]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["who", "height", "smokes"])
    for number in range(200):
        fields = [
            drawn.choice(choices),
            drawn.choice(["1.5", "2", "x", ""]),
            drawn.choice(["no", "yes", "?"]),
        ]
        writer.writerow(fields + ["more"] * (drawn.random() < 0.1))
        text.write("\n" * (drawn.random() < 0.1))
        if number == 100:
            text.write('"stray,1,no\n')
    content = text.getvalue().encode()
    whole = read(content)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
    pieces = read(content)
    assert pieces == whole
    assert len(whole.who) > 20
    assert len({row.reason for row in whole.bad}) == 5


def test_arrow_and_the_csv_module_agree(read, monkeypatch):
    content = b'who,height,smokes\na,1,no\n"b ""B""",2,yes\n\nc,x,no\nd,4\n"e,e",5,no\r\nf,6,?\n'
    fast = read(content)
    monkeypatch.setattr(delimited, "_each_line_is_a_record", lambda block, layout: False)
    assert read(content) == fast
    assert fast.who == ["a", 'b "B"', "e,e"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n", "no header row"),
        (b"\xef\xbb\xbf", "no header row"),
        (b"who,height,smokes\n", "contains no rows"),
        (b"who,height,smokes", "contains no rows"),
        (b"who,height,smokes\n\n\n", "contains no rows"),
        (b"who,heigth,smokes\na,1,no\n", r"'height'.*'who', 'heigth', 'smokes'.*did you mean 'heigth'"),
        (
            b"who;height;smokes\na;1;no\n",
            r"first line has 1 field.* names 0 of the 3 columns .*reader\.delimiter",
        ),
        (b"who,height,smokes,height\na,1,no,2\n", "two columns are named 'height'"),
        (b"who,height,smokes\na,1,no\nJos\xe9,2,no\n", r"not UTF-8 text: see the byte at offset 28, line 3"),
        (b"who,h\xf6he,smokes\na,1,no\n", r"byte at offset 5, line 1"),
        ("who,height,smokes\na,1,no\n".encode("utf-16"), r"not UTF-8 text: see the byte at offset 0, line 1"),
        (b"who,height,smokes\ra,1,no\r", "no line end"),
        (gzip.compress(GOOD * 9, mtime=0)[:-12], "broken gzip file"),
        (b"\x1f\x8b garbage", "broken gzip file"),
    ],
)
def test_an_unusable_file_is_refused_with_one_sentence(read, content, sentence):
    with pytest.raises(UserError, match=sentence) as refused:
        read(content)
    assert "\n" not in str(refused.value)


def test_the_byte_offset_of_a_wrong_byte_counts_over_blocks(read, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 40)
    content = b"who,height,smokes\n" + b"a,1,no\n" * 50 + b"\xff,1,no\n"
    with pytest.raises(UserError, match=f"offset {18 + 350}, line 52"):
        read(content)


def test_a_missing_file_is_one_sentence(tmp_path, entry):
    with pytest.raises(UserError, match="is not a file"):
        list(read_batches(tmp_path / "none.csv", entry()))


SECRET = "Zoe"


@pytest.mark.parametrize(
    "content",
    [
        f"{SECRET},170,no\nb,180,yes\n",
        f"{SECRET},170\n{SECRET},180,no\n",
        f"{SECRET};170;no\n",
        f"who,height,smokes\n{SECRET}\xe9,170,no\n",
    ],
    ids=["no-header", "no-header-short", "other-delimiter", "not-utf8"],
)
def test_no_message_shows_a_cell_of_a_record(read, content):
    with pytest.raises(UserError) as refused:
        read(content.encode("latin-1"))
    for cell in (SECRET, "170", "xe9", "é"):
        assert cell not in str(refused.value).replace("people.raw", "")


def test_bad_rows_keep_line_column_and_reason_but_no_content(read):
    got = read(f'who,height,smokes\na,{SECRET},no\nb,1,{SECRET}\n{SECRET},2\n"{SECRET}\nd,4,no\n'.encode())
    assert [row.line for row in got.bad] == [2, 3, 4, 5]
    assert SECRET not in repr(got.bad)
