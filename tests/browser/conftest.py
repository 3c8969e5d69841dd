"""Headless Chromium, driven by its command line: a copy of a page goes in, its DOM and its console come out."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--enable-logging=stderr", "--v=0",
    "--virtual-time-budget=4000", "--dump-dom",
)  # fmt: skip
CONSOLE = re.compile(r'CONSOLE[^"]*\] "(?P<message>.*)", source:')


@dataclass(frozen=True)
class Loaded:
    """What the browser made of a page."""

    dom: str
    console: tuple[str, ...]


def _chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found:
        return found
    if os.environ.get("PRIVMIX_REQUIRE_ALL") == "1":
        pytest.fail("PRIVMIX_REQUIRE_ALL=1 asks for every test, but no Chromium is installed.")
    pytest.skip("no Chromium is installed")


@pytest.fixture(scope="session")
def browse() -> Callable[..., Loaded]:
    """Load a page from disk at a window size."""
    chromium = _chromium()

    def load(path: Path, width: int = 1280, height: int = 900) -> Loaded:
        with tempfile.TemporaryDirectory() as profile:
            command = [
                chromium,
                *FLAGS,
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                path.as_uri(),
            ]
            result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stderr[-2000:]
        return Loaded(result.stdout, tuple(CONSOLE.findall(result.stderr)))

    return load


@pytest.fixture(scope="session")
def page(tmp_path_factory) -> Path:
    """The page of a made-up run."""
    import made_up_run

    root = tmp_path_factory.mktemp("browsed")
    datasets = (made_up_run.CHECKINS, made_up_run.HOMES, made_up_run.SURVEY)
    made_up_run.render(root, made_up_run.write_run(root, datasets))
    return root / "reports/summary.html"
