"""The spending account: the cost of all releases of a project, and the fingerprints of their records.

`releases/.spending/` holds the secret key, `account.jsonl` with a line before and after each release, and one file of
fingerprints for each set of records. Only their owner can read them. Each line has a keyed hash (HMAC-SHA256) of itself
and the hash of the line before it, so without the key no line can be changed, added or moved. `data/.spending-head` has
the number of lines and a keyed hash of it and of the last line, so a missing last line or an older copy of the folder
is noticed. An older head alone is not: a killed release leaves one too, and no sum depends on it. This finds mistakes
and edits by hand. Whoever can read the key can still forge the account.
"""

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from privmix.clean.persons import KEY_BYTES, load_or_create_key
from privmix.errors import UserError
from privmix.privacy.accounting import Claim, Theorem, account, claim_distance
from privmix.privacy.ledger import Event
from privmix.release import charges
from privmix.release.charges import Cost, SpendingLimit
from privmix.release.fingerprints import Fingerprints, derive_key

FOLDER = Path("releases/.spending")
HEAD = Path("data/.spending-head")
WRITTEN = ".written"  # suffix of a fingerprint file before its line is on the disk

LIMITS = (
    "It adds up the releases of one project folder that share a person id or the values of a record, for one replaced "
    "record or person, and refuses a release above the limit that the curator has set.",
    "It does not notice models that were fitted without `privmix release`, releases on another machine, in another "
    "working directory or in another copy of the project, or account files that are deleted together, replaced by "
    "older copies together or forged with their key.",
    "If no person id stayed the same, it takes records for new ones if their values were changed (rounded, moved, in "
    "other units), or if another file has them with fewer, more or other declared columns (an identifier is none), "
    "unless the coordinates or all number columns are the same.",
    "It takes persons for new ones if a release has other records of them, and its catalog entry does not declare the "
    "column of their ids as an identifier.",
    "Copies of a record within one file count as one record, unless person ids show whose they are. It takes two files "
    "with ids for the same records if all persons have records with the same values of all declared columns in both.",
    "If only some releases have person ids, or they use different ids for the same persons, the sum per person can be "
    "too small.",
    "It charges too much if different records have the same values, different persons (or "
    "other things with an identifier) have the same id, persons have more records in one release than in another, "
    "or a release shares different records with each of several others.",
    "For a release without ids, the sum per person adds up the records of a person in all linked files with ids. It "
    "charges too much if the same records are in several of these files, and the files differ in a row, a value, a "
    "declared column or the column of person ids. Files that differ only in their bytes (blank lines, compression, "
    "order, format) count once.",
)


@dataclass(frozen=True)
class Booking:
    """A release in the account: its id, its cost, and the earlier releases that share records or persons with it."""

    release: str
    cost: Cost
    earlier: tuple[Cost, ...]


class Account:
    """The spending account of a project."""

    def __init__(self, folder: Path = FOLDER, head: Path = HEAD) -> None:
        self.folder, self.head = Path(folder), Path(head)
        self.path = self.folder / "account.jsonl"

    @property
    def key(self) -> bytes:
        """The secret key, created at first use."""
        path = self.folder / "key"
        used = self.head.exists() or (self.path.exists() and self.path.stat().st_size > 0)
        with self._explained():
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
            missing, size = not path.exists(), path.stat().st_size if path.exists() else KEY_BYTES
            if (used and missing) or size != KEY_BYTES:
                raise self._altered("its key is missing" if missing else "its key has the wrong size")
            return load_or_create_key(path)

    def costs(self) -> list[Cost]:
        """Return the cost of every release so far, in order."""
        with self._locked() as handle:
            return [cost for cost, _ in _releases(self._read(handle)[0])]

    def unfinished(self) -> int:
        """Return the number of releases that were begun and did not finish."""
        with self._locked() as handle:
            kinds = [entry["entry"] for entry in self._read(handle)[0]]
        return kinds.count("intent") - kinds.count("done")

    def begin(
        self, what: dict[str, str], cost: Cost, fingerprints: Fingerprints, limit: SpendingLimit
    ) -> Booking:
        """Record that a release will spend at most this. Refuse it if the limit does not allow it.

        Fingerprints and line are on the disk when this returns.
        """
        content = fingerprints.to_bytes()
        digest = _digest(content)
        cost = replace(cost, source=fingerprints.pairs or digest)
        with self._locked() as handle:
            entries, end = self._read(handle)
            if not entries:
                self._open()
            earlier = tuple(self._overlapping(entries, fingerprints))
            if not all(each.fits(limit) for each in charges.statements(earlier, cost)):
                raise UserError(charges.refusal(earlier, cost, limit, str(self.path)))
            release = secrets.token_hex(8)
            self._store(content, digest)
            entry = {
                "entry": "intent",
                "release": release,
                **what,
                "unit": cost.unit,
                "relation": cost.relation,
                "epsilon": cost.epsilon,
                "delta": cost.delta,
                "nearby": cost.nearby,
                "most": fingerprints.most,
                "pairs": fingerprints.pairs,
                "fingerprints": digest,
            }
            self._append(handle, entry, entries, end)
            self._find_fingerprints(digest)
        return Booking(release, cost, earlier)

    def finish(self, booking: Booking, epsilon: float, delta: float) -> None:
        """Record that a release is complete, and its claim. Its charge stays the most that it was allowed to spend."""
        with self._locked() as handle:
            entries, end = self._read(handle)
            if not any(entry["release"] == booking.release for entry in entries):
                raise self._altered("the line of this release is missing")
            entry = {"entry": "done", "release": booking.release, "epsilon": epsilon, "delta": delta}
            self._append(handle, entry, entries, end)

    # Fingerprint files

    def _store(self, content: bytes, digest: str) -> None:
        """Write a fingerprint file, unless it is there. Its name is the hash of its content.

        The file gets its name after its line is on the disk. So a fingerprint file without a line shows that lines are
        missing.
        """
        path = self._fingerprint_path(digest)
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _write_secret(path.with_suffix(WRITTEN), content)

    def _fingerprint_path(self, digest: str) -> Path:
        return self.folder / "fingerprints" / digest

    def _find_fingerprints(self, digest: str) -> Path:
        """Return the path of a fingerprint file whose line exists. Give it its name, if that did not happen yet."""
        path = self._fingerprint_path(digest)
        if not path.exists() and path.with_suffix(WRITTEN).exists():
            path.with_suffix(WRITTEN).replace(path)
            _sync(path.parent)
        return path

    def _fingerprint_names(self) -> set[str]:
        return {path.name for path in (self.folder / "fingerprints").glob("*") if not path.suffix}

    def _overlapping(self, entries: Sequence[dict[str, Any]], new: Fingerprints) -> Iterator[Cost]:
        """Yield the cost of every earlier release that shares a record or a person with the new one.

        If only some releases have person ids, a release is also linked through others: a row with an id in one release
        may be without an id in the next.
        """
        releases = list(_releases(entries))
        linked: set[str] = set()
        apart = {digest for _, digest in releases}
        mixed = len({cost.most is None for cost, _ in releases} | {new.most is None}) > 1
        found = [new]
        while found:
            one = found.pop()
            near = {digest for digest in apart if self._load(digest).overlaps(one)}
            apart, linked = apart - near, linked | near
            if mixed:
                found += [self._load(digest) for digest in near]
        yield from (cost for cost, digest in releases if digest in linked)

    def _load(self, digest: str) -> Fingerprints:
        path = self._find_fingerprints(digest)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise self._altered(f"the fingerprints {path} cannot be read ({error.strerror})") from error
        if _digest(content) != digest:
            raise self._altered(f"the fingerprints {path} were changed")
        return Fingerprints.from_bytes(content)

    # The chain of lines

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the account and lock it. The system releases the lock when the process ends."""
        self._chain = derive_key(self.key, b"chain", 32)
        with self._explained():
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with self._explained():
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(
                f"the spending account {self.path} cannot be opened or locked ({error.strerror}); fix its "
                "permissions, or put the project on a file system with locks. Nothing is released without the account."
            ) from error

    def _mac(self, previous: str, body: str) -> str:
        return hmac.digest(self._chain, f"{previous} {body}".encode(), "sha256").hex()

    def _read(self, handle: int) -> tuple[list[dict[str, Any]], int]:
        """Return the entries, and the end of the last complete line."""
        content = os.pread(handle, os.fstat(handle).st_size, 0)
        end = content.rfind(b"\n") + 1
        entries: list[dict[str, Any]] = []
        before = self._mac("", "")
        for count, line in enumerate(content[:end].splitlines(), start=1):
            try:
                entry = json.loads(line)
                stated = entry.pop("mac")
                expected = self._mac(before, json.dumps(entry))
                whole = json.dumps({**entry, "mac": stated}).encode() == line
                sound = whole and hmac.compare_digest(stated, expected)
            except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
                sound = False
            if not sound:
                raise self._altered(f"line {count} or the key was changed")
            before = stated
            entries.append({**entry, "mac": stated})
        self._check_head(entries)
        missing = self._fingerprint_names() - {entry.get("fingerprints") for entry in entries}
        if missing and entries:
            raise self._altered("it has fingerprints without a line, so lines are missing")
        return entries, end

    def _check_head(self, entries: Sequence[dict[str, Any]]) -> None:
        """Check the head. It may be behind, if a release was killed between both writes, but never ahead."""
        if not self.head.exists():
            if entries:
                raise self._altered(f"{self.head}, which holds its number of lines, is missing")
            return
        try:
            head = self.head.read_text()
            lines = int(json.loads(head)["lines"])
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
            raise self._altered(f"{self.head}, which holds its number of lines, cannot be read") from error
        if not 0 <= lines <= len(entries):
            raise self._altered(f"it has {len(entries)} lines instead of {lines}, so lines are missing")
        last = entries[lines - 1]["mac"] if lines else self._mac("", "")
        if not hmac.compare_digest(head.encode(), self._head_text(lines, last).encode()):
            raise self._altered(f"{self.head} was changed, or belongs to another account")

    def _altered(self, how: str) -> UserError:
        return UserError(
            f"the spending account {self.path} was altered: {how}. Restore {self.folder} and {self.head} from the same "
            "backup, the newest one. Nothing is released until then."
        )

    def _open(self) -> None:
        """Write the head of a new account."""
        if any(self._fingerprint_names()):
            raise self._altered("its lines are missing")
        old = sorted(path.name for path in self.folder.glob("*-*.jsonl"))
        if old:
            raise UserError(
                f"{self.folder / old[0]} is a spending account of an earlier version of Privmix. Move it out of "
                f"{self.folder}, and reduce release.limit_epsilon and release.limit_delta by what it has spent."
            )
        self._write_head(0, self._mac("", ""))

    def _append(
        self, handle: int, entry: dict[str, Any], entries: Sequence[dict[str, Any]], end: int
    ) -> None:
        previous = entries[-1]["mac"] if entries else self._mac("", "")
        mac = self._mac(previous, json.dumps(entry, allow_nan=False))
        line = json.dumps({**entry, "mac": mac}).encode() + b"\n"
        os.ftruncate(handle, end)
        try:
            if os.pwrite(handle, line, end) != len(line):
                raise OSError(28, "No space left on device")
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, end)
            raise
        _sync(self.folder)
        self._write_head(len(entries) + 1, mac)

    def _write_head(self, lines: int, mac: str) -> None:
        _write_secret(self.head, self._head_text(lines, mac).encode())

    def _head_text(self, lines: int, mac: str) -> str:
        """Return the head: the number of lines, and a keyed hash of it and of the last line."""
        return json.dumps({"lines": lines, "mac": self._mac(f"head {lines}", mac)})


def _releases(entries: Sequence[dict[str, Any]]) -> Iterator[tuple[Cost, str]]:
    """Yield the cost of each release and the hash of its fingerprints.

    A claim below the allowed cost does not lower the charge: a filter needs costs that are fixed before the noise.
    """
    done = {entry["release"]: entry for entry in entries if entry["entry"] == "done"}
    for entry in entries:
        if entry["entry"] == "intent":
            claim = done.get(entry["release"], entry)
            larger = {name: max(entry[name], claim[name]) for name in ("epsilon", "delta")}
            yield _cost({**entry, **larger}), entry["fingerprints"]


def _cost(entry: dict[str, Any]) -> Cost:
    return Cost(
        label=f"{entry['dataset']}, {entry['mechanism']}, {entry['date']}",
        unit=entry["unit"],
        relation=entry["relation"],
        epsilon=entry["epsilon"],
        delta=entry["delta"],
        most=entry.get("most"),
        nearby=entry.get("nearby"),
        source=entry.get("pairs") or entry["fingerprints"],  # lines of earlier versions have no `pairs`
    )


def epsilon_anywhere(claim: Claim, events: Sequence[Event], theorem: Theorem) -> float:
    """Return ε between any two records. It exceeds the claim if the claim holds only for nearby places."""
    if claim_distance(events) is None:
        return claim.epsilon
    return account(events, claim.delta, theorem).epsilon


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def _write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, completely or not at all. It is on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
        _sync(path.parent)
    finally:
        Path(name).unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
