"""Headless Chromium: from the command line to dump a page's DOM, or with Playwright to interact with the page."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/report"), str(ROOT / "tests/catalog")]
AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--enable-logging=stderr", "--v=0",
    "--virtual-time-budget=4000", "--dump-dom",
)  # fmt: skip
CONSOLE = re.compile(r'CONSOLE[^"]*\] "(?P<message>.*)", source:')


@dataclass(frozen=True)
class Loaded:
    """DOM and console messages of a loaded page."""

    dom: str
    console: tuple[str, ...]


def _chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return found or _missing("no Chromium is installed")


def _missing(reason: str) -> NoReturn:
    """Skip the test, or fail if PRIVMIX_REQUIRE_ALL is set."""
    if os.environ.get("PRIVMIX_REQUIRE_ALL") == "1":
        pytest.fail(f"PRIVMIX_REQUIRE_ALL=1 asks for every test, but {reason}.")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browse() -> Callable[..., Loaded]:
    """Return a function that loads a page from disk at a window size."""
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


@dataclass(frozen=True)
class Visit:
    """An open page, with its console messages and requests."""

    page: Any  # a Playwright page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def chromium_window() -> Iterator[Any]:
    """Yield a Playwright browser for one module: no other test of this process can run an event loop meanwhile."""
    chromium = _chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium_window: Any) -> Iterator[Callable[..., Visit]]:
    """Yield a function that opens a page from disk; its options are fragment, width, colour scheme and JavaScript."""
    contexts = []

    def opened(
        path: Path, fragment: str = "", width: int = 1280, scheme: str = "light", script: bool = True
    ) -> Visit:
        context = chromium_window.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        contexts.append(context)
        seen = Visit(context.new_page())
        seen.page.on("console", lambda message: seen.console.append(message.text))
        seen.page.on("pageerror", lambda error: seen.console.append(str(error)))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(path.as_uri() + fragment)
        return seen

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def violations() -> Callable[[Any], list[str]]:
    """Return a function that lists the serious and critical problems that axe-core finds on an open page."""
    if not AXE.is_file():
        _missing("axe-core is not installed (tests/browser/install-axe)")

    def found(page: Any) -> list[str]:
        page.evaluate(AXE.read_text(encoding="utf-8"))
        result = page.evaluate("axe.run()")
        assert len(result["passes"]) > 5, "axe-core has looked at the page"
        return [
            f"{problem['id']}: {node['target']} {node['failureSummary']}"
            for problem in result["violations"]
            if problem["impact"] in ("serious", "critical")
            for node in problem["nodes"]
        ]

    return found


@pytest.fixture(scope="session")
def catalog(tmp_path_factory) -> Path:
    """Return the page of the project's catalog with two more entries: an odd one and a broken one."""
    import odd_entry
    import yaml

    from privmix.pipeline.catalog import write_catalog

    root = tmp_path_factory.mktemp("catalog")
    shutil.copytree(ROOT / "data/catalog", root / "data/catalog")
    odd_entry.write_odd_entry(root / "data/catalog")
    (root / "data/catalog/broken.yaml").write_text("name: broken\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        configuration = yaml.safe_load((ROOT / "config/config.yaml").read_text())
        write_catalog(configuration, None, Path("reports/catalog.html"), Path("data/datapackage.json"))
    return root / "reports/catalog.html"


@pytest.fixture(scope="session")
def page(tmp_path_factory) -> Path:
    """Return the page of a made-up run."""
    import made_up_run

    root = tmp_path_factory.mktemp("browsed")
    datasets = (made_up_run.CHECKINS, made_up_run.HOMES, made_up_run.SURVEY)
    made_up_run.render(root, made_up_run.write_run(root, datasets))
    return root / "reports/summary.html"
