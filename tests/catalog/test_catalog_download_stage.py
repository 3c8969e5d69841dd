"""The stage `download` as a process: killed, run again, and failing."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from catalog_server import Serve, Server, status

BODY = random.Random(1).randbytes(400_000)


def write_entry(folder: Path, source: dict[str, object]) -> Path:
    number = {
        "type": "number",
        "description": "d",
        "lower": 0,
        "upper": 1,
        "bound_reason": "r",
        "resolution": 1,
    }
    path = folder / "thing.yaml"
    entry = {
        "name": "thing",
        "title": "Thing",
        "description": "For a test.",
        "licence": {"spdx": "CC0-1.0"},
        "source": source,
        "reader": {"format": "csv"},
        "columns": [{"name": "x", **number}],
        "coordinates": ["x"],
    }
    path.write_text(yaml.safe_dump(entry), encoding="utf-8")
    return path


def url_source(url: str) -> dict[str, object]:
    return {"kind": "url", "url": url, "bytes": len(BODY), "sha256": hashlib.sha256(BODY).hexdigest()}


def command(entry: Path, output: Path, *more: str) -> list[str]:
    stage = [sys.executable, "-m", "privmix.pipeline.stages.download"]
    return [*stage, "--entry", str(entry), "--output", str(output), *more]


def wait_for(path: Path, size: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and path.stat().st_size >= size:
            return
        time.sleep(0.01)
    pytest.fail(f"{path} never reached {size} bytes")


def test_a_killed_download_is_resumed_by_the_same_command(server: Server, tmp_path: Path):
    slow = Serve(BODY, trickle=0.01)
    entry = write_entry(tmp_path, url_source(server.at("/f", slow, Serve(BODY))))
    output = tmp_path / "raw" / "thing.raw"
    partial = tmp_path / "raw" / "thing.raw.partial"
    running = subprocess.Popen(command(entry, output), stderr=subprocess.DEVNULL)
    wait_for(partial, 50_000)
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    assert not output.exists()
    had = partial.stat().st_size
    assert 0 < had < len(BODY)

    subprocess.run(command(entry, output), check=True, capture_output=True)
    assert output.read_bytes() == BODY
    assert server.seen("/f")[1]["Range"] == f"bytes={had}-"
    assert [path.name for path in output.parent.iterdir()] == ["thing.raw"]


def test_a_failed_download_ends_in_one_sentence_and_status_1(server: Server, tmp_path: Path):
    entry = write_entry(tmp_path, url_source(server.at("/f", status(404))))
    output = tmp_path / "thing.raw"
    done = subprocess.run(command(entry, output), capture_output=True, text=True)
    assert done.returncode == 1
    assert not output.exists()
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        "privmix download: thing could not be downloaded from http"
    )


def test_an_override_is_taken_unchecked(tmp_path: Path):
    entry = write_entry(tmp_path, url_source("http://127.0.0.1:9/never"))
    mine = tmp_path / "mine.csv"
    mine.write_text("x\n0.5\n", encoding="utf-8")
    output = tmp_path / "raw" / "thing.raw"
    subprocess.run(command(entry, output, "--override", str(mine)), check=True)
    assert output.read_text(encoding="utf-8") == "x\n0.5\n"
