"""The first screen of the page as a picture, by headless Chromium: what the README shows."""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from privmix.artefacts.io import atomic_write
from privmix.errors import UserError
from privmix.pipeline.runner import run_stage

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH, HEIGHT = 1280, 1320
SECONDS = 120
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1",
    "--virtual-time-budget=4000", f"--window-size={WIDTH},{HEIGHT}",
)  # fmt: skip


def browser() -> str:
    """Where Chromium is, or a sentence."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise UserError(
            f"a picture of the page needs Chromium, and none of {', '.join(BROWSERS)} is installed; install it "
            "(Debian: apt-get install chromium), or leave docs/report.png as it is."
        )
    return found


def photograph(chromium: str, html: Path) -> bytes:
    """The first screen of a page as PNG."""
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
            raise UserError(f"Chromium needed more than {SECONDS} s for {html}; run it again.") from error
        if not picture.exists():
            raise UserError(f"Chromium made no picture of {html}; it said: {' '.join(said.split())[-300:]}")
        return picture.read_bytes()


def main() -> None:
    """Take the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", required=True, help="the command of Chromium")
    parser.add_argument("--html", type=Path, required=True, help="the page")
    parser.add_argument("--output", type=Path, required=True, help="its first screen as PNG")
    arguments = parser.parse_args()
    picture = photograph(arguments.browser, arguments.html)
    with atomic_write(arguments.output) as temporary:
        temporary.write_bytes(picture)
    print(f"The picture is {arguments.output}")


if __name__ == "__main__":
    run_stage("picture", main)
