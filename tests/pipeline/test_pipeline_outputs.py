"""Several output files are written all together or not at all."""

import errno
import os
from pathlib import Path

import pytest

from privmix.pipeline.outputs import write_together


def test_all_files_are_written(tmp_path: Path):
    files = {tmp_path / "a" / "one": b"1", tmp_path / "b" / "two": b"2"}
    write_together(files)
    assert {path: path.read_bytes() for path in files} == files
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "one", "two"]


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("step", ["write", "fsync"])
def test_no_file_changes_if_one_of_them_fails(tmp_path: Path, monkeypatch, failing: int, step: str):
    files = {tmp_path / name: name.encode() for name in ("one", "two", "three")}
    for path in files:
        path.write_text("old")
    calls, original = [], os.fsync

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(handle)

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        files[list(files)[failing - 1]] = None  # cannot be written
    with pytest.raises((OSError, TypeError)):
        write_together(files)
    assert {path.read_text() for path in files} == {"old"}
    assert sorted(os.listdir(tmp_path)) == ["one", "three", "two"]
