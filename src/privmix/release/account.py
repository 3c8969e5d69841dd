"""The account: what all releases of the same records have cost, in a file to which entries are only added."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privmix.artefacts.io import atomic_write
from privmix.errors import UserError
from privmix.privacy.accounting import Claim, Theorem, account, claim_distance
from privmix.privacy.composition import ROUNDING, ReleaseCost, total_cost
from privmix.privacy.ledger import Event, from_rows, to_rows


@dataclass(frozen=True)
class SpendingLimit:
    """What all releases together may cost."""

    epsilon: float
    delta: float


class Account:
    """The file of one dataset's content and one unit."""

    def __init__(self, folder: Path, content: str, unit: str) -> None:
        if len(content) != 64:
            raise UserError(
                "the clean file does not say which raw file it was made from; delete it and clean the dataset again."
            )
        self.path = Path(folder) / f"{content[:32]}-{unit}.jsonl"
        self._seal = self.path.with_suffix(".seal")
        self._first = hashlib.sha256(f"privmix {content} {unit}".encode()).hexdigest()
        self._of_persons = None if unit == "person" else Account(folder, content, "person")

    def releases(self) -> list[ReleaseCost]:
        """All releases so far, in their order."""
        with self._locked() as handle:
            return [*_releases(self._read(handle)[0]), *self._protecting_persons()]

    def _protecting_persons(self) -> list[ReleaseCost]:
        """The releases that protect persons, which cost each of their records as much."""
        if self._of_persons is None or not self._of_persons.path.exists():
            return []
        return self._of_persons.releases()

    def begin(self, what: dict[str, Any], spent: ReleaseCost, limit: SpendingLimit) -> str:
        """Write down that a release will spend at most this, unless the sum would exceed the limit; its id.

        When this returns, the line is on the disk.
        """
        with self._locked() as handle:
            entries, end = self._read(handle)
            before = [*_releases(entries), *self._protecting_persons()]
            check_limit(before, spent, limit, self.path)
            number = secrets.token_hex(8)
            entry = {
                "entry": "intent",
                "release": number,
                **what,
                "relation": spent.relation,
                "epsilon": spent.epsilon,
                "delta": spent.delta,
            }
            self._append(handle, entry, entries, end)
        return number

    def finish(self, number: str, epsilon: float, delta: float, events: Sequence[Event]) -> None:
        """Write down what a release has really spent."""
        with self._locked() as handle:
            entries, end = self._read(handle)
            entry = {
                "entry": "done",
                "release": number,
                "epsilon": epsilon,
                "delta": delta,
                "ledger": list(to_rows(events)),
            }
            self._append(handle, entry, entries, end)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UserError(
                f"the account {self.path} cannot be opened ({error.strerror}), and without it nobody knows what was "
                "spent; mend its permissions."
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # given back when the file is closed, however the process ends
            yield handle
        finally:
            os.close(handle)

    def _read(self, handle: int) -> tuple[list[dict[str, Any]], int]:
        """The entries, each with the hash of its line, and where the last whole line ends."""
        content = os.pread(handle, os.fstat(handle).st_size, 0)
        end = content.rfind(b"\n") + 1
        entries, before = [], self._first
        for number, line in enumerate(content[:end].splitlines(), start=1):
            try:
                entry = json.loads(line)
                sound = entry["previous"] == before and entry["entry"] in ("intent", "done")
            except (ValueError, KeyError, TypeError):
                sound = False
            if not sound:
                raise self._altered(f"line {number} does not follow from the one before")
            before = hashlib.sha256(line).hexdigest()
            entries.append({**entry, "hash": before})
        self._check_seal(entries)
        return entries, end

    def _check_seal(self, entries: list[dict[str, Any]]) -> None:
        """The seal may be one line behind, where a release was killed between the two; never ahead."""
        if not self._seal.exists():
            if len(entries) > 1:
                raise self._altered(f"its seal {self._seal.name} is gone")
            return
        try:
            seal = json.loads(self._seal.read_text())
            lines, last = int(seal["lines"]), seal["last"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._altered(f"its seal {self._seal.name} cannot be read") from error
        if not 0 < lines <= len(entries) or entries[lines - 1]["hash"] != last:
            raise self._altered("lines that were there are gone or changed")

    def _altered(self, how: str) -> UserError:
        return UserError(
            f"the account {self.path} was altered: {how}; put it back from a backup. Without it nobody knows what "
            "was spent, so nothing is released."
        )

    def _append(self, handle: int, entry: dict[str, Any], entries: list[dict[str, Any]], end: int) -> None:
        previous = entries[-1]["hash"] if entries else self._first
        line = json.dumps({**entry, "previous": previous}, allow_nan=False).encode()
        os.ftruncate(handle, end)
        try:
            if os.pwrite(handle, line + b"\n", end) != len(line) + 1:
                raise OSError(28, "No space left on device")
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, end)
            raise
        seal = {"lines": len(entries) + 1, "last": hashlib.sha256(line).hexdigest()}
        with atomic_write(self._seal) as temporary:
            temporary.write_text(json.dumps(seal))
        _sync(self.path.parent)


def check_limit(before: Sequence[ReleaseCost], spent: ReleaseCost, limit: SpendingLimit, path: Path) -> None:
    """Refuse a release that would bring the sum above the limit, with the sum and what is left."""
    then = total_cost([*before, spent], limit.delta)
    if then.epsilon <= limit.epsilon * (1 + ROUNDING):
        return
    now = total_cost(before, limit.delta)
    left = max(limit.epsilon - now.epsilon, 0.0)
    raise UserError(
        f"this release would cost ε = {spent.epsilon:.4g}, δ = {spent.delta:.3g} ({spent.relation}), and the "
        f"{now.releases} release(s) of these records so far have cost ε = {now.epsilon:.4g}, δ = {now.delta:.3g}: "
        f"together more than the limit ε = {limit.epsilon:g}, δ = {limit.delta:g}. Left is ε = {left:.4g}. "
        f"Choose a smaller ε, or raise release.limit_epsilon or release.limit_delta in the configuration "
        f"if you can answer for it (the account is {path})."
    )


def _releases(entries: Sequence[dict[str, Any]]) -> list[ReleaseCost]:
    """A release for each intent, by its ledger where there is one."""
    done = {entry["release"]: entry for entry in entries if entry["entry"] == "done"}
    found = []
    for entry in entries:
        if entry["entry"] == "intent":
            end = done.get(entry["release"])
            events = None if end is None else tuple(from_rows(end["ledger"]))
            cost = end or entry
            found.append(ReleaseCost(entry["relation"], cost["epsilon"], cost["delta"], events))
    return found


def epsilon_anywhere(claim: Claim, events: Sequence[Event], theorem: Theorem) -> float:
    """The ε of a release between any two records: more than it claims where that is for nearby places alone."""
    if claim_distance(events) is None:
        return claim.epsilon
    return account(events, claim.delta, theorem).epsilon


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
