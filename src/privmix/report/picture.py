"""A picture of the first screen of a page, taken with headless Chromium."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from privmix.errors import UserError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH, HEIGHT = 1280, 1320
SECONDS = 120
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1",
    "--virtual-time-budget=4000", f"--window-size={WIDTH},{HEIGHT}",
)  # fmt: skip


def find_browser() -> str:
    """Return the path of Chromium; raise `UserError` if it is not installed."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise UserError(
            f"a picture of the page needs Chromium, but none of {', '.join(BROWSERS)} is installed. Install it "
            "(Debian: apt-get install chromium), or keep the current docs/report.png."
        )
    return found


def screenshot(chromium: str, html: Path) -> bytes:
    """Return the first screen of a page as PNG."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "page.png"
        command = [
            chromium,
            *FLAGS,
            f"--user-data-dir={folder}/profile",
            f"--screenshot={picture}",
            html.resolve().as_uri(),
        ]
        try:
            said = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False
            ).stderr
        except subprocess.TimeoutExpired as error:
            raise UserError(f"Chromium took more than {SECONDS} s for {html}. Run it again.") from error
        if not picture.exists():
            raise UserError(
                f"Chromium made no picture of {html}. Its message: {' '.join(said.split())[-300:]}"
            )
        return picture.read_bytes()
