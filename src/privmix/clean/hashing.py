"""64-bit hashes of texts, each distinct text hashed once."""

import hashlib

import numpy as np
import pyarrow as pa


def hash64(texts: pa.Array, state: "hashlib.blake2b") -> np.ndarray:
    """The (n,) uint64 hashes of `texts` under `state`: a BLAKE2b of 8 bytes that has its key and prefix."""
    encoded = texts.dictionary_encode()
    digests = []
    for text in encoded.dictionary.to_pylist():
        hashed = state.copy()
        hashed.update(text.encode())
        digests.append(hashed.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[encoded.indices.to_numpy()]
