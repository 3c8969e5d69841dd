"""Waiting rows: they come out unchanged, and their files have no name and do not outlive the process."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from privmix.mechanisms.shared.report_shuffle import FEW, as_columns, as_rows, distribute_rows, open_spools


def _rows(number):
    columns = {"number": np.arange(number), "pair": np.arange(2.0 * number).reshape(number, 2)}
    return as_rows(columns)


def _open_files(folder):
    """Return the open files of this process in the folder, with a name or without."""
    held = [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{each}")]  # fmt: skip
    return [path for path in held if path.startswith(str(folder))]


@pytest.mark.parametrize("number", [0, 1, 1000, 30_000])
@pytest.mark.parametrize("in_memory", [True, False])
def test_rows_can_be_read_in_order_any_number_of_times(tmp_path, number, in_memory):
    rows = _rows(number)
    with open_spools(1, None if in_memory else tmp_path) as [spool]:
        for some in np.array_split(rows, 3):
            spool.add(some)
        for most in (7000, max(number, 1)):
            parts = list(spool.parts(most))
            assert all(len(part) <= most for part in parts)
            assert np.array_equal(np.concatenate(parts), rows)


def test_an_unused_spool_has_no_part_and_a_spool_of_empty_arrays_has_one():
    with open_spools(2, None) as [untouched, empty]:
        empty.add(_rows(0))
        assert list(untouched.parts(10)) == []
        assert [part.dtype for part in empty.parts(10)] == [_rows(0).dtype]


def test_rows_are_distributed_whole():
    rows, places = _rows(1000), np.arange(1000) % 3
    with open_spools(3, None) as three:
        distribute_rows(rows, places, three)
        for number, spool in enumerate(three):
            [part] = spool.parts(1000)
            assert np.array_equal(part, rows[places == number])


def test_columns_become_rows_and_columns_again():
    columns = {"a": np.arange(5, dtype=np.uint8), "b": np.ones((5, 3), np.float32)}
    found = as_columns(as_rows(columns))
    assert found.keys() == columns.keys()
    assert all(found[name].dtype == columns[name].dtype for name in columns)
    assert all(np.array_equal(found[name], columns[name]) for name in columns)


def test_few_rows_need_no_file_and_many_get_one_without_a_name(tmp_path):
    many = _rows(FEW // 24 + 1)
    with open_spools(2, tmp_path) as [first, second]:
        first.add(_rows(10))
        assert not _open_files(tmp_path)
        second.add(many)
        assert len(_open_files(tmp_path)) == 1
        assert not list(tmp_path.iterdir())
        assert np.array_equal(np.concatenate(list(second.parts(999))), many)
    assert not _open_files(tmp_path)
    with open_spools(1, None) as [spool]:
        before = len(os.listdir("/proc/self/fd"))
        spool.add(many)
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_killed_process_leaves_nothing(tmp_path):
    """Rows wait in the files of rounds when the process is killed: nothing is in the folder before or after."""
    script = (
        "import sys, time; import numpy as np; from pathlib import Path\n"
        "from privmix.mechanisms.shared import report_shuffle\n"
        "with report_shuffle.open_spools(3, Path(sys.argv[1])) as some:\n"
        "    for each in some: each.add(np.full(200_000, 77))\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"waiting\n"
    held = [os.readlink(each.path) for each in os.scandir(f"/proc/{process.pid}/fd")]
    assert sum(path.startswith(str(tmp_path)) for path in held) == 3
    assert not list(tmp_path.iterdir())
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not list(tmp_path.iterdir())
