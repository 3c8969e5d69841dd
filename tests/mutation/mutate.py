"""Apply each defect of `changes` to a copy of the package and report which test catches it.

    python tests/mutation/mutate.py [part of a name ...]

A test catches a defect if it fails. A change that breaks the import or the test collection proves nothing and is an
error. The same tests must pass on an unchanged copy.
"""

import functools
import importlib.util
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

import pytest
from changes import CHANGES
from changes.change import Change

ROOT = Path(__file__).parents[2]
AT_ONCE = 2
TESTS_FAILED = 1  # exit code of pytest
ANOTHER_COPY = 77  # not an exit code of pytest
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PRELOADED = (
    "numpy", "scipy.stats", "scipy.optimize", "pyarrow.parquet", "pandas", "numba", "pydantic", "hypothesis",
    "sklearn.mixture", "dp_accounting.pld", "opendp.prelude", "pytest",
)  # fmt: skip


class Unusable(Exception):
    """A change or a test run that proves nothing."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a change: the first test that failed, or None if all passed."""

    change: Change
    caught_by: str | None
    seconds: float

    def __str__(self) -> str:
        fate = f"caught by {self.caught_by}" if self.caught_by else "SURVIVES"
        return f"{self.change.name}: {fate} ({self.seconds:.0f} s)"


def copied(change: Change | None, folder: Path) -> Path:
    """Copy src/, including cached machine code of compiled loops, and apply the change."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.pyc", "*.egg-info"))
    for edit in change.edits if change else ():
        path = source / "privmix" / edit.path
        if not path.is_file():
            raise Unusable(
                f"change {change.name!r}: there is no file {edit.path}; adapt the change to the sources."
            )
        text = path.read_text()
        if edit.before not in text:
            raise Unusable(
                f"change {change.name!r}: {edit.path} does not contain {edit.before!r}; "
                "adapt the change to the sources."
            )
        path.write_text(text.replace(edit.before, edit.after))
    return source


def tested(source: Path, tests: Sequence[str], name: str) -> str | None:
    """Return the first of these tests that fails on the copy of the package, or None."""
    said = source.parent / "pytest.log"
    process = _fresh().Process(target=_pytest, args=(source, said, tests))
    process.start()
    process.join()
    output = said.read_text() if said.exists() else ""
    ended = _ended(source)
    code = int(ended.read_text()) if ended.exists() else process.exitcode
    if code == 0:
        return None
    if code == ANOTHER_COPY:
        raise Unusable(f"{name}: the tests do not import the copy in {source}.")
    failed = re.search(r"^FAILED (.+?)(?: - |$)", output, re.MULTILINE)
    erred = re.search(
        r"^ERROR (\S+::.+?)(?: - |$)", output, re.MULTILINE
    )  # a fixture, which also runs the package
    if code != TESTS_FAILED or not (failed or erred):
        raise Unusable(f"{name}: pytest ended with {code}.\n{output[-4000:]}")
    return (failed or erred)[1]


@functools.cache
def _fresh() -> multiprocessing.context.ForkServerContext:
    """Return a context for new processes, with the dependencies of the package preloaded but not the package."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    with mock.patch.dict(os.environ, ONE_THREAD):  # a process with threads cannot be forked
        forkserver.ensure_running()
    return context


def _pytest(source: Path, said: Path, tests: Sequence[str]) -> None:
    """Run the tests on the copy, in a new process."""
    with said.open("w") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    os.chdir(ROOT)
    os.environ |= {
        **ONE_THREAD,
        "PYTHONPATH": str(source),  # for processes that tests start
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(source.parent / "hypothesis"),
    }
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(source))
    if "privmix" in sys.modules or not Path(importlib.util.find_spec("privmix").origin).is_relative_to(
        source
    ):
        sys.exit(ANOTHER_COPY)
    code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests]))
    _ended(source).write_text(str(code))
    sys.exit(code)


def _ended(source: Path) -> Path:
    """Return the file of pytest's exit code. A fork server may lose the code of a process and report 255."""
    return source.parent / "exit-code"


def mutate(changes: Sequence[Change], folder: Path, *, unchanged: bool = True) -> list[Outcome]:
    """Check that the tests pass on unchanged copies, then return the outcome of each change.

    All copies are made first, so a change that does not fit the sources fails immediately. With `unchanged=False`, the
    tests do not run on unchanged copies, because the caller runs them anyway.
    """
    every = sorted({test for change in changes for test in change.tests}) if unchanged else []
    parts = [part for part in (every[start::AT_ONCE] for start in range(AT_ONCE)) if part]
    plain = [copied(None, folder / f"unchanged-{number}") for number in range(len(parts))]
    sources = [copied(change, folder / str(number)) for number, change in enumerate(changes)]

    def outcome(change: Change, source: Path) -> Outcome:
        started = time.monotonic()
        caught_by = tested(source, change.tests, f"change {change.name!r}")
        return Outcome(change, caught_by, time.monotonic() - started)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for failed in pool.map(tested, plain, parts, ["unchanged"] * len(parts)):
            if failed:
                raise Unusable(
                    f"{failed} fails on the unchanged package, so it cannot catch a change; fix it first."
                )
        return list(pool.map(outcome, changes, sources))


def main() -> int:
    """Test the changes whose names contain one of the arguments, or all changes."""
    wanted = [
        change for change in CHANGES if not sys.argv[1:] or any(part in change.name for part in sys.argv[1:])
    ]
    with tempfile.TemporaryDirectory() as folder:
        outcomes = mutate(wanted, Path(folder))
    print(*outcomes, sep="\n")
    survivors = sum(outcome.caught_by is None for outcome in outcomes)
    print(f"{len(outcomes) - survivors} of {len(outcomes)} caught")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
