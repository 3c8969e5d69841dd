"""The command `privmix`: the parts of the project that people call by hand."""

import argparse
import os
import sys
from collections.abc import Sequence

from privmix.cli import catalog, release
from privmix.pipeline.runner import run_stage


def add_schema(commands: argparse._SubParsersAction) -> None:
    """`privmix schema configuration | entry`: the JSON Schema that editors use."""
    parser = commands.add_parser("schema", help="print the JSON Schema of a file that people write")
    parser.add_argument("file", choices=["configuration", "entry"])
    parser.set_defaults(call=lambda arguments: print(schema_text(arguments.file), end=""))


def schema_text(file: str) -> str:
    """The schema of that kind of file."""
    from privmix.cli import schema

    return schema.text(getattr(schema, file)())


def main(argv: Sequence[str] | None = None) -> None:
    """Run the sub-command; what the user can mend ends in one sentence and exit status 1."""
    parser = argparse.ArgumentParser(
        prog="privmix", description="Private Gaussian mixtures: what may be published, at which epsilon?"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    catalog.add_parser(commands)
    release.add_parsers(commands)
    add_schema(commands)
    arguments = parser.parse_args(argv)
    try:
        run_stage(arguments.command, lambda: arguments.call(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (a pager, head) has gone; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit("\nprivmix: interrupted.")
