"""Take a picture of the first screen of the report, for the README."""

import argparse
from pathlib import Path

from privmix.artefacts.io import atomic_write
from privmix.pipeline.runner import run_stage
from privmix.report.picture import screenshot


def main() -> None:
    """Take the picture."""
    parser = argparse.ArgumentParser(prog="python -m privmix.pipeline.stages.picture", description=__doc__)
    parser.add_argument("--browser", required=True, help="command that starts Chromium")
    parser.add_argument("--html", type=Path, required=True, help="page to open")
    parser.add_argument("--output", type=Path, required=True, help="picture to write (PNG)")
    arguments = parser.parse_args()
    picture = screenshot(arguments.browser, arguments.html)
    with atomic_write(arguments.output) as temporary:
        temporary.write_bytes(picture)
    print(f"Wrote {arguments.output}")


if __name__ == "__main__":
    run_stage("picture", main)
