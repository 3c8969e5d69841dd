"""A damaged file is refused with a sentence, wherever the damage is. So is a file of another kind or without a seal."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from making import clusters, make_domain, write_clean

from privmix.artefacts.audit import AuditFile
from privmix.artefacts.clean import read_clean, read_clean_info
from privmix.artefacts.io import (
    JSON_SEAL,
    NO_DIGITS,
    SEAL_FIELD,
    Artefact,
    describe_damage,
    parse_metadata,
    read_json,
    read_schema,
    read_table,
    seal,
    sealed_write,
    write_table,
)
from privmix.artefacts.model import ModelFile
from privmix.artefacts.private import PrivateInfo, read_private
from privmix.artefacts.scores import ScoresInfo
from privmix.errors import UserError
from privmix.pipeline.stages import audit, evaluate, fit, privatise

FLIPS = 100  # of each kind of file
CUTS = 20


def _read_scores(path):
    return parse_metadata(read_table(path), ScoresInfo, path)


READERS = {
    "clean.parquet": (read_clean, read_clean_info),
    "private.parquet": (read_private, lambda path: parse_metadata(read_schema(path), PrivateInfo, path)),
    "model.json": (lambda path: read_json(path, ModelFile),),
    "scores.parquet": (_read_scores,),
    "audit.json": (lambda path: read_json(path, AuditFile),),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, bytes]:
    """The content of a file of each kind, as the stages write them."""
    folder = tmp_path_factory.mktemp("made")
    write_clean(folder / "clean.parquet", make_domain(rows=200), clusters(300), train=np.arange(300) % 3 > 0)
    budget = ["--mechanism", "m", "--parameters", json.dumps({"method": "laplace_input"}), "--epsilon", "1",
              "--delta", "1e-6", "--seed", "1"]  # fmt: skip
    job = [*budget, "--components", "2"]
    commands = (
        (privatise, *job, "--clean", "clean.parquet", "--output", "private.parquet"),
        (fit, *job, "--private", "private.parquet", "--output", "model.json"),
        (evaluate, *job, "--clean", "clean.parquet", "--private", "private.parquet", "--model", "model.json",
         "--false-positive-rates", "0.1", "--worst-record-runs", "2", "--output", "scores.parquet"),
        (audit, *budget, "--kind", "record", "replace_one", "--runs", "20", "--output", "audit.json"),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for stage, *arguments in commands:
            patch.setattr(sys, "argv", [stage.__name__, *arguments])
            stage.main()
    return {name: (folder / name).read_bytes() for name in READERS}


def _assert_refused(path: Path, content: bytes, what: str) -> None:
    """Check that every reader of this kind of file refuses the content with one sentence that names the file."""
    path.write_bytes(content)
    for read in READERS[path.name]:
        with pytest.raises(UserError) as refusal:
            read(path)
        said = str(refusal.value)
        assert said.startswith(f"{path} "), what
        assert said.endswith("delete it and run the pipeline again."), what
        assert "\n" not in said, what


@pytest.mark.parametrize("name", READERS)
def test_an_unchanged_file_is_read(made, tmp_path, name):
    (tmp_path / name).write_bytes(made[name])
    for read in READERS[name]:
        read(tmp_path / name)


@pytest.mark.parametrize("name", READERS)
def test_every_flipped_bit_is_noticed(made, tmp_path, name):
    """Flip random bits of the whole file, every bit of the first digit of the seal, and every bit of the end."""
    content = made[name]
    bits = 8 * len(content)
    first = 8 * (content.rindex(SEAL_FIELD) + len(SEAL_FIELD))
    random = np.random.default_rng(1).integers(bits, size=FLIPS)
    for bit in (*random.tolist(), *range(first, first + 8), *range(bits - 64, bits)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        _assert_refused(tmp_path / name, bytes(damaged), f"bit {bit} of {bits}")


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_cut_short_or_longer_is_noticed(made, tmp_path, name):
    content = made[name]
    for length in (0, 1, *np.random.default_rng(2).integers(len(content), size=CUTS).tolist()):
        _assert_refused(tmp_path / name, content[:length], f"{length} of {len(content)} bytes")
    for more in (b"\n", b"\0", content):
        _assert_refused(tmp_path / name, content + more, f"{more[:9]!r} at the end")


@pytest.mark.parametrize("name", READERS)
def test_a_file_without_a_seal_is_refused(made, tmp_path, name):
    """Older versions of Privmix wrote such files."""
    _assert_refused(tmp_path / name, made[name].replace(SEAL_FIELD, b'"content_sha256": "'), "another field")
    place = made[name].rindex(SEAL_FIELD) + len(SEAL_FIELD)
    blank = made[name][:place] + NO_DIGITS + made[name][place + len(NO_DIGITS) :]
    _assert_refused(tmp_path / name, blank, "zeros")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("other", READERS)
def test_a_file_of_another_kind_is_refused(made, tmp_path, name, other):
    if name != other:
        _assert_refused(tmp_path / name, made[other], f"{other} as {name}")


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file_is_one_sentence(tmp_path, name):
    for read in READERS[name]:
        with pytest.raises(UserError, match="cannot be read"):
            read(tmp_path / name)


def test_the_seal_is_a_field_of_the_json(made):
    assert len(json.loads(made["model.json"])["content_seal"]) == len(NO_DIGITS)


def test_running_out_of_memory_is_not_called_damage(tmp_path, monkeypatch):
    class Nothing(Artefact):
        pass

    write_table(tmp_path / "file.parquet", pa.table({"a": [1.0]}), Nothing())
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.read", lambda self: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        read_table(tmp_path / "file.parquet")


def test_a_file_without_a_place_for_the_seal_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="no place for a seal"), sealed_write(tmp_path / "file") as temporary:
        temporary.write_text("{}")
    assert not list(tmp_path.iterdir())


LARGE = (3 << 20) + 4321  # bytes: three blocks and a part


def _large(path: Path) -> bytearray:
    """Return the content of a sealed file of several blocks."""
    content = bytearray(np.random.default_rng(3).bytes(LARGE))
    content[-len(JSON_SEAL) :] = JSON_SEAL
    path.write_bytes(content)
    seal(path)
    return bytearray(path.read_bytes())


def _damage(content: bytes | bytearray) -> str | None:
    return describe_damage(io.BytesIO(content))


def test_damage_of_a_file_of_several_blocks_is_noticed(tmp_path):
    """Flip single bits anywhere, the highest bit of words in each row, and bytes of runs within 4,000 bytes."""
    content = _large(tmp_path / "file")
    assert _damage(content) is None
    rng = np.random.default_rng(4)
    bits = [
        *rng.integers(8 * LARGE, size=150).tolist(),
        *(8 * (4096 * row + 7) + 7 for row in range(0, 768, 7)),
    ]
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
        assert _damage(content), bit
        content[bit // 8] ^= 1 << bit % 8
    for start in rng.integers(LARGE - 5000, size=50).tolist():
        damaged = content.copy()
        damaged[start : start + 4000] = bytes(4000)
        assert _damage(damaged), start
    assert _damage(content) is None


def test_moved_parts_of_a_file_are_noticed(tmp_path):
    content = _large(tmp_path / "file")
    for size in (4096, 8192, 1 << 20):
        one, other = slice(0, size), slice(size, 2 * size)
        moved = content.copy()
        moved[one], moved[other] = content[other], content[one]
        assert _damage(moved), size
    assert _damage(content[:4096] + content[8192:])
    assert _damage(content[:-9] + bytes(9))


def test_a_seal_across_two_blocks_is_complete(tmp_path):
    content = bytearray(np.random.default_rng(3).bytes((1 << 20) + 30)) + b"PAR1"
    field = SEAL_FIELD + NO_DIGITS
    content[-len(field) - 8 : -8], content[-8:-4] = field, (200).to_bytes(4, "little")
    (tmp_path / "file").write_bytes(content)
    seal(tmp_path / "file")
    sealed = bytearray((tmp_path / "file").read_bytes())
    assert _damage(sealed) is None
    start = sealed.rindex(SEAL_FIELD) + len(SEAL_FIELD)
    assert start < 1 << 20 < start + len(NO_DIGITS)
    for place in (start - 1, start, start + 63, start + 64):
        damaged = sealed.copy()
        damaged[place] ^= 1
        assert _damage(damaged), place


def test_a_stream_may_return_fewer_bytes_than_asked(tmp_path):
    """The file system may do so; the seal is the same."""

    class Slow(io.BytesIO):
        def readinto(self, buffer):
            return super().readinto(memoryview(buffer)[: 1 + len(buffer) // 3])

    content = _large(tmp_path / "file")
    assert describe_damage(Slow(content)) is None
