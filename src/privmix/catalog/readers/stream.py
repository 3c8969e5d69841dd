"""The bytes of a raw file, plain or gzip alike, in blocks; what is wrong with them is a sentence."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from privmix.catalog.content import GZIP_MAGIC
from privmix.errors import UserError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A stream over the unpacked content of `path`."""
    if not Path(path).is_file():
        raise UserError(f"{path} is not a file; download the dataset, or mend the path.")
    with Path(path).open("rb") as stream:
        if stream.peek(1) == b"":
            raise UserError(f"{path} is empty; a header or rows were expected, download it again.")
        if stream.peek(2)[:2] != GZIP_MAGIC:
            yield stream
            return
        try:
            with gzip.open(stream) as unpacked:
                yield unpacked
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(
                f"{path} is a broken gzip file ({error}); it is likely cut short, download it again."
            ) from error


def check_utf8(block: bytes, path: Path, offset: int, line: int) -> None:
    """Raise with byte offset and line unless `block`, which starts at `offset` in `line`, is UTF-8."""
    if block.isascii():
        return
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        line += block.count(b"\n", 0, error.start)
        raise UserError(
            f"{path} is not UTF-8 text: byte 0x{block[error.start]:02x} at offset {offset + error.start}, "
            f"line {line}; save the file as UTF-8."
        ) from error
