"""What a raw file holds once unpacked: the size and sha256 by which the catalog knows it."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 1 << 20


class CorruptError(Exception):
    """A packed file that cannot be unpacked to its end; the text says why."""


@dataclass(frozen=True)
class Content:
    """Size and hash of the unpacked content."""

    bytes: int
    sha256: str


def measure(path: Path) -> Content:
    """Read the file once, unpacking gzip (known by its first two bytes) on the way."""
    with Path(path).open("rb") as raw:
        packed = raw.read(2) == GZIP_MAGIC
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        digest, size = hashlib.sha256(), 0
        try:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise CorruptError(
                f"its gzip data is damaged or cut short after {size:,} bytes ({error})"
            ) from error
    return Content(size, digest.hexdigest())


def mismatch(found: Content, size: int | None, sha256: str | None) -> str | None:
    """How the content differs from what the catalog expects, or None."""
    differences = []
    if size is not None and found.bytes != size:
        differences.append(f"expected {size:,} bytes unpacked, got {found.bytes:,}")
    if sha256 is not None and found.sha256 != sha256:
        differences.append(f"expected sha256 {sha256}, got {found.sha256}")
    return "; ".join(differences) or None
