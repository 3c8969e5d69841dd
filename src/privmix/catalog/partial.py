"""What has come of a download so far: `<target>.partial`, and beside it where it came from."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from privmix.artefacts.writing import replacing


class Partial:
    """The unfinished file of one target. Only `publish` makes it the target."""

    def __init__(self, target: Path) -> None:
        self.target = Path(target)
        self.path = self.target.with_name(f"{self.target.name}.partial")
        self._origin = self.target.with_name(f"{self.target.name}.partial.json")

    def size(self) -> int:
        """Bytes that are there."""
        return self.path.stat().st_size if self.path.exists() else 0

    def resumable(self, url: str) -> tuple[int, str]:
        """Bytes that may be continued from `url`, and the validator to send; (0, "") when none may."""
        origin = self._read_origin()
        if origin.get("url") == url and origin.get("validator"):
            return self.size(), origin["validator"]
        return 0, ""

    def order(self, urls: Iterable[str]) -> list[str]:
        """The URLs in their order, but first the one from which an earlier run got some way."""
        url = self._read_origin().get("url") if self.size() else None
        return sorted(urls, key=lambda candidate: candidate != url)

    def begin(self, url: str, validator: str) -> None:
        """Start over. Old bytes go before the new origin is written, so the two never mix after a kill."""
        self.discard()
        with replacing(self._origin) as temporary:
            temporary.write_text(json.dumps({"url": url, "validator": validator}), encoding="utf-8")

    def discard(self) -> None:
        """Delete the bytes and their origin."""
        self.path.unlink(missing_ok=True)
        self._origin.unlink(missing_ok=True)

    def publish(self) -> None:
        """Move the bytes, which must have been checked, to the target."""
        with self.path.open("rb+") as stream:
            os.fsync(stream.fileno())
        self.path.replace(self.target)
        self._origin.unlink(missing_ok=True)

    def _read_origin(self) -> dict[str, str]:
        try:
            return dict(json.loads(self._origin.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError):
            return {}
