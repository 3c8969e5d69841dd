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

from privmix.artefacts.clean import read_clean_info
from privmix.errors import UserError
from privmix.privacy.composition import ReleaseCost, total_cost
from privmix.release import account, card, make, page, verify
from privmix.release.account import Account, SpendingLimit
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
        code = 3 if "more than the limit" in str(error) else 2
    finally:
        os._exit(code)


def _account(park) -> Account:
    """The account of the park's records, as a release finds it."""
    [path] = park.accounts
    return Account(
        path.parent, read_clean_info(park.folder / "data/clean/walks.parquet").raw_sha256, "record"
    )


@pytest.mark.slow
def test_after_a_hundred_random_kills_the_account_has_every_release_that_drew_noise(park, monkeypatch):
    """Killed anywhere between the first check and the last rename; after each kill the whole file is read."""
    monkeypatch.setattr(
        page, "render", lambda model: page.Page(card.guarantee(model), "", None)
    )  # pictures take long
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
    book, before = _account(park), 2
    for number in range(KILLS):
        child = _forked(lambda number=number: park.release("grid", EPSILON, out=f"out/{number}"))
        time.sleep(generator.uniform(0, patience))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        releases = book.releases()
        assert len(releases) >= 2 + os.stat(park.folder / "drawn").st_size
        assert before <= len(releases) <= before + 1
        # About as many are killed before their noise as after it, on a busy machine too.
        patience *= 1.1 if len(releases) == before else 0.91
        before = len(releases)
    drawn = os.stat(park.folder / "drawn").st_size
    unfinished = sum(release.events is None for release in book.releases())
    assert total_cost(book.releases(), 0.9).epsilon > 0
    assert sum(release.epsilon for release in book.releases()) >= (2 + drawn) * EPSILON * (1 - 1e-9)
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
    assert total_cost(_account(park).releases(), 1e-4).epsilon == pytest.approx(2.4, rel=0.05)


def test_concurrent_intents_are_all_written_and_do_not_exceed_the_limit(tmp_path: Path, monkeypatch):
    """Eight slow processes try six times each; the limit allows 40 in total."""
    limit, one = SpendingLimit(4.0, 0.0), ReleaseCost("replace_one", 0.1, 0.0)
    check = account.check_limit
    monkeypatch.setattr(account, "check_limit", lambda *arguments: time.sleep(0.01) or check(*arguments))

    def tries():
        for _ in range(6):
            with contextlib.suppress(UserError):
                Account(tmp_path, "ab" * 32, "record").begin({}, one, limit)

    children = [_forked(tries) for _ in range(8)]
    assert {os.waitpid(child, 0)[1] for child in children} == {0}
    assert len(Account(tmp_path, "ab" * 32, "record").releases()) == 40
