"""Picture: the first screen of the report as PNG, for the README."""

import argparse
from pathlib import Path

from privmix.artefacts.io import atomic_write
from privmix.pipeline.runner import run_stage
from privmix.report.picture import screenshot


def main() -> None:
    """Take the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", required=True, help="the command of Chromium")
    parser.add_argument("--html", type=Path, required=True, help="the page")
    parser.add_argument("--output", type=Path, required=True, help="its first screen as PNG")
    arguments = parser.parse_args()
    picture = screenshot(arguments.browser, arguments.html)
    with atomic_write(arguments.output) as temporary:
        temporary.write_bytes(picture)
    print(f"The picture is {arguments.output}")


if __name__ == "__main__":
    run_stage("picture", main)
