"""Reports in few bytes: the smallest integers, eight yes/no marks to a byte, and blocks that fit in the cache."""

from collections.abc import Iterator

import numpy as np

BLOCK = 1 << 18  # numbers held at a time


def smallest(values: int) -> np.dtype:
    """The smallest unsigned integer that holds 0 ... values - 1."""
    return np.min_scalar_type(values - 1)


def blocks(rows: int, width: int, size: int = BLOCK) -> Iterator[slice]:
    """Slices of rows such that a block of rows x width has about `size` numbers, and at least one row."""
    step = max(1, size // width)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def packed_bytes(categories: int) -> int:
    """How many bytes the marks of one report take."""
    return -(-categories // 8)


def pack(marks: np.ndarray) -> np.ndarray:
    """Rows of yes/no marks, eight to a byte; mark v is bit v mod 8 of byte v // 8."""
    return np.packbits(marks, axis=1, bitorder="little")


def marked(packed: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Whether each row has the mark beside it."""
    byte = packed[np.arange(len(packed)), np.asarray(marks) // 8]
    return (byte >> (np.asarray(marks) % 8).astype(np.uint8)) & 1 == 1


def count_marks(packed: np.ndarray, categories: int) -> np.ndarray:
    """How many rows have each mark."""
    total = np.zeros(categories, dtype=np.int64)
    for block in blocks(len(packed), categories):
        marks = np.unpackbits(packed[block], axis=1, count=categories, bitorder="little")
        total += marks.sum(axis=0, dtype=np.int64)
    return total
