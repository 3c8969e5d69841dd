"""The stages of the pipeline: each reads files, calls the library, and writes files."""

import errno
import sys
import traceback
from collections.abc import Callable

from privmix.errors import UserError
from privmix.stages import usage


def run(stage: str, main: Callable[[], None]) -> None:
    """Run a stage, say what it used; what the user can mend ends in one sentence on stderr and exit status 1."""
    try:
        with usage.said(stage):
            main()
    except UserError as error:
        sys.exit(f"privmix {stage}: {error}")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            raise
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(f"privmix {stage}: {error.strerror}{where}; nothing was written, make room and run again.")
    except MemoryError:
        traceback.print_exc()
        sys.exit(f"privmix {stage}: out of memory; give the job more, or fewer components or records.")
