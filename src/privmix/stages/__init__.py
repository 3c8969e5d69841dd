"""The stages of the pipeline: each reads files, calls the library, and writes files."""

import errno
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext

from privmix.errors import UserError
from privmix.stages import usage


def run(stage: str, main: Callable[[], None]) -> None:
    """Run a stage; what the user can mend ends in one sentence on stderr and exit status 1.

    In a SLURM job it says what it uses: there nobody else would know.
    """
    try:
        with usage.said(stage) if "SLURM_JOB_ID" in os.environ else nullcontext():
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
