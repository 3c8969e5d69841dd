"""Concurrent and killed releases: the account never states less than was drawn."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from walks_park import ROWS

from privmix.errors import UserError
from privmix.release import account, card, make, page, verify
from privmix.release.account import Account
from privmix.release.charges import Cost, SpendingLimit
from privmix.release.fingerprints import Fingerprints
from privmix.release.folder import CHECKSUMS

EPSILON = 0.01
KILLS = 100


def _forked(work: Callable[[], None]) -> int:
    """Fork a child that does the work; all modules are already loaded."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        work()
        code = 0
    except BaseException as error:
        code = 3 if "would exceed the limit" in str(error) else 2
    finally:
        os._exit(code)


@pytest.mark.slow
def test_after_a_hundred_random_kills_the_account_has_every_release_that_drew_noise(park, monkeypatch):
    """Killed anywhere between the first check and the last rename; after each kill the whole file is read."""
    monkeypatch.setattr(page, "render", card.guarantee)  # pictures take long
    park.release("grid", EPSILON, out="first")  # loads everything, and says how long a release takes
    began = time.perf_counter()
    park.release("grid", EPSILON, out="second")
    patience = 1.1 * (time.perf_counter() - began)
    diary = os.open(park.folder / "drawn", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    original = make.run_central

    def noted(task, records):
        if len(records) == ROWS:  # no rehearsal
            os.write(diary, b"x")  # before any noise
        return original(task, records)

    monkeypatch.setattr(make, "run_central", noted)
    generator = np.random.Generator(np.random.PCG64(7))
    book, before = Account(), 2
    for number in range(KILLS):
        child = _forked(lambda number=number: park.release("grid", EPSILON, out=f"out/{number}"))
        time.sleep(generator.uniform(0, patience))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        releases = book.costs()
        assert len(releases) >= 2 + os.stat(park.folder / "drawn").st_size
        assert before <= len(releases) <= before + 1
        # About as many are killed before their noise as after it, on a busy machine too.
        patience *= 1.1 if len(releases) == before else 0.91
        before = len(releases)
    drawn = os.stat(park.folder / "drawn").st_size
    unfinished = book.unfinished()
    assert sum(release.epsilon for release in book.costs()) >= (2 + drawn) * EPSILON * (1 - 1e-9)
    assert drawn >= 10, "too few children got as far as the noise"
    assert unfinished >= 5, "too few children were killed after the noise"
    placed = [path for path in (park.folder / "out").iterdir() if not path.name.startswith(".")]
    assert len(placed) <= drawn
    assert all((path / CHECKSUMS).is_file() for path in placed)
    for path in placed[:5]:
        verify.verify(path)
    park.release("grid", EPSILON, out="last")  # and life goes on


@pytest.mark.slow
def test_concurrent_releases_do_not_exceed_the_limit(park):
    park.write(config={"release": {"limit_epsilon": 2.5, "limit_delta": 1e-4}})
    park.release("grid", 0.4, out="first")
    children = [_forked(lambda n=number: park.release("grid", 1.0, out=f"out/{n}")) for number in range(5)]
    codes = sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    assert codes == [0, 0, 3, 3, 3]
    assert len(list((park.folder / "out").iterdir())) == 2
    assert sum(release.epsilon for release in Account().costs()) == pytest.approx(2.4)


def test_concurrent_intents_are_all_written_and_do_not_exceed_the_limit(tmp_path: Path, monkeypatch):
    """Eight slow processes try six times each; the limit allows 40 in total."""
    limit, one = SpendingLimit(4.0, 0.0), Cost("one", "record", "replace_one", 0.1, 0.0)
    what = {"dataset": "d", "mechanism": "m", "date": "2026-01-01"}
    rows = Fingerprints(np.empty(0, np.uint64), np.arange(3, dtype=np.uint64), None)
    check = account.charges.statements
    monkeypatch.setattr(
        account.charges, "statements", lambda *arguments: time.sleep(0.01) or check(*arguments)
    )

    def tries():
        for _ in range(6):
            with contextlib.suppress(UserError):
                Account(tmp_path / "account", tmp_path / "head").begin(what, one, rows, limit)

    children = [_forked(tries) for _ in range(8)]
    assert {os.waitpid(child, 0)[1] for child in children} == {0}
    assert len(Account(tmp_path / "account", tmp_path / "head").costs()) == 40
