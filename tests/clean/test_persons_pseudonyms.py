"""Pseudonyms: keyed, stable, and one key for any number of jobs."""

import hashlib
import stat
import subprocess
import sys

import pyarrow as pa
import pytest

from privmix.clean.persons import load_or_create_key, pseudonymise
from privmix.errors import UserError

IDS = pa.array(["a", "b", "a", "ü"])


def test_a_pseudonym_is_a_keyed_hash_of_the_person():
    first = pseudonymise(IDS, b"1" * 32, "places")
    assert first.dtype == "uint64"
    assert first[0] == first[2]
    assert len(set(first.tolist())) == 3
    expected = hashlib.blake2b("places\0ü".encode(), key=b"1" * 32, digest_size=8).digest()
    assert int(first[3]) == int.from_bytes(expected, "little")


def test_another_key_or_dataset_gives_other_pseudonyms():
    first = pseudonymise(IDS, b"1" * 32, "places")
    assert not set(first.tolist()) & set(pseudonymise(IDS, b"2" * 32, "places").tolist())
    assert not set(first.tolist()) & set(pseudonymise(IDS, b"1" * 32, "others").tolist())


def test_the_key_is_made_once_and_only_its_owner_can_read_it(tmp_path):
    path = tmp_path / "data" / ".pseudonym.key"
    key = load_or_create_key(path)
    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create_key(path) == key
    assert load_or_create_key(tmp_path / "other.key") != key
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_jobs_that_start_at_once_agree_on_one_key(tmp_path):
    code = (
        "import sys; from pathlib import Path; from privmix.clean.persons import load_or_create_key\n"
        "print('ready', flush=True); sys.stdin.readline(); print(load_or_create_key(Path(sys.argv[1])).hex())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "key")]
    jobs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for job in jobs:
        assert job.stdout.readline() == "ready\n"
    for job in jobs:
        job.stdin.write("\n")
        job.stdin.flush()
    keys = {job.communicate()[0] for job in jobs}
    assert len(keys) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_key_made_by_another_job_at_the_same_time_wins(tmp_path, monkeypatch):
    path = tmp_path / "key"
    (tmp_path / "theirs").write_bytes(b"t" * 32)
    real = sys.modules["os"].link

    def late(source, target):
        real(tmp_path / "theirs", target)
        real(source, target)

    monkeypatch.setattr("os.link", late)
    assert load_or_create_key(path) == b"t" * 32


def test_a_broken_key_is_one_sentence(tmp_path):
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(UserError, match="holds 5 bytes; a pseudonym key has 32"):
        load_or_create_key(tmp_path / "key")
