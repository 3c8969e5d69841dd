"""The output files of a stage: write several files all together or not at all."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from privmix.artefacts.io import atomic_write


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write all files. If one cannot be written, for example on a full disk, no file changes.

    All contents are on the disk in temporary files before the first file gets its name, and a rename needs no space.
    """
    with contextlib.ExitStack() as files:
        for path, content in contents.items():
            temporary = files.enter_context(atomic_write(path))
            with temporary.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
