"""Fixtures of releases."""

import shutil
from pathlib import Path

import pytest
from walks_park import Park

from privmix.audit import noise_tests

ALARM = 1e-9  # false alarms of a replay: with some hundred of them the usual 1e-4 would fail one run of CI in fifty


@pytest.fixture
def park(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Park:
    """A folder with everything in it."""
    monkeypatch.setattr(noise_tests.noise_findings, "__defaults__", (ALARM,))
    monkeypatch.chdir(tmp_path)
    made = Park(tmp_path)
    made.write()
    return made


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A release of each kind, made once: to be read, or copied."""
    folder = tmp_path_factory.mktemp("released")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_tests.noise_findings, "__defaults__", (ALARM,))
        patch.chdir(folder)
        made = Park(folder)
        made.write()
        return {
            mechanism: made.release(mechanism, 1.0, "--synthetic", "500", out=mechanism)
            for mechanism in ("grid", "moments", "response")
        }


@pytest.fixture
def copied(released: dict[str, Path], tmp_path: Path) -> Path:
    """A release that may be spoiled."""
    return Path(shutil.copytree(released["grid"], tmp_path / "copy"))
