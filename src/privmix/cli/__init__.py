"""The command `privmix`: browse the data catalog, make a release, and verify one."""

import os
import sys
from collections.abc import Sequence

from privmix.cli.arguments import build_parser
from privmix.pipeline.runner import run_stage


def main(argv: Sequence[str] | None = None) -> None:
    """Run a sub-command. An error that the user can fix ends in one sentence on stderr and exit status 1."""
    arguments = build_parser().parse_args(argv)
    try:
        run_stage(arguments.command, lambda: arguments.call(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (a pager, head) has closed the pipe. Without this, Python reports it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit("\nprivmix: interrupted.")
    except SystemExit as end:
        if not isinstance(end.code, str) or not sys.stderr.isatty():
            raise
        from privmix.cli.terminal import print_error

        print_error(end.code.removeprefix(f"privmix {arguments.command}: "))
        sys.exit(1)
