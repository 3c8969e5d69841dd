"""Columns between Arrow and numpy, over the same memory.

Arrow's own conversions from and to Python import pandas, half a second in each of hundreds of jobs; these do not.
"""

import numpy as np
import pyarrow as pa


def arrow(values: np.ndarray | list[str]) -> pa.Array:
    """Numbers or texts as an Arrow array; rows of several numbers as bytes of fixed length."""
    if isinstance(values, np.ndarray):
        numbers = np.ascontiguousarray(values)
        if numbers.ndim > 1 or numbers.dtype.names:
            width = numbers.nbytes // len(numbers) if len(numbers) else numbers[:0].dtype.itemsize
            return pa.Array.from_buffers(pa.binary(width), len(numbers), [None, pa.py_buffer(numbers)])
        return pa.Array.from_buffers(
            pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)]
        )
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *(len(text) for text in encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def column(table: pa.Table, name: str) -> np.ndarray:
    """A column without missing values, read-only; bytes of fixed length as rows of uint8."""
    values = table[name].combine_chunks()
    if isinstance(values, pa.DictionaryArray):
        values = values.indices
    if isinstance(values, pa.FixedSizeBinaryArray):
        width = values.type.byte_width
        content = np.frombuffer(values.buffers()[1], dtype=np.uint8)
        return content[values.offset * width :][: len(values) * width].reshape(len(values), width)
    return np.from_dlpack(values)
