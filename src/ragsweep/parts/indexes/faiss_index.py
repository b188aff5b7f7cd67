"""Search with a faiss index, and rank its candidates exactly."""

import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from operator import is_not
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError
from ragsweep.core.types import Arrays, Floats, Rankings
from ragsweep.parts.indexes.vectors import rank_candidates
from ragsweep.parts.ranking import empty_rankings


class FaissIndex(ABC):
    """Base class: find candidates with a faiss index, and rank them by the vectors themselves, like the exact index."""

    _opened: tuple[tuple[NDArray[Any], ...], Any] | None = None

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version of the indexing library."""
        return {"faiss-cpu": importlib.metadata.version("faiss-cpu")}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return at most ``depth`` nearby vectors for every query. Raises InputError if the index has a wrong shape."""
        if not len(vectors) or not len(queries):
            return empty_rankings(len(queries), depth)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        candidates = self._candidates(self._open_once(index, vectors), queries, depth)
        return rank_candidates(vectors, queries, candidates, depth)

    @abstractmethod
    def _open(self, index: Arrays, vectors: Floats) -> Any:
        """Build, from the stored arrays, the object that ``_candidates`` searches."""

    @abstractmethod
    def _candidates(self, opened: Any, queries: Floats, depth: int) -> NDArray[np.int64]:
        """Return positions (queries, number) in any order, padded with -1."""

    def _open_once(self, index: Arrays, vectors: Floats) -> Any:
        """Open an index, and cache it for the next call: queries may come one by one."""
        arrays = (*index.values(), vectors)
        if self._opened is None or any(map(is_not, self._opened[0], arrays)):
            self._opened = None  # free the previous one first
            self._opened = (arrays, self._open(index, vectors))
        return self._opened[1]


def library() -> Any:
    """Return the module faiss, untyped because its published types are incomplete."""
    import faiss

    return faiss


def serialise(index: Any, flags: int = 0) -> NDArray[np.uint8]:
    """Return a faiss index as bytes."""
    data: NDArray[np.uint8] = library().serialize_index(index, flags)
    return data


def deserialise(data: NDArray[np.uint8], vectors: Floats) -> Any:
    """Read a faiss index, whose arrays are views of ``data``. Raises InputError if ``vectors`` has another shape."""
    faiss = library()
    data = np.ascontiguousarray(data, dtype=np.uint8)
    index = faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(data), data.nbytes))
    check_shape((index.ntotal, index.d), vectors.shape)
    index.referenced_objects = [data]
    return index


def check_shape(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise InputError unless a stored index has the shape that its vectors imply."""
    if shape != expected:
        raise InputError(
            f"the stored index belongs to other vectors ({shape}, not {expected}); remove the"
            " stored indexes with: ragsweep store evict --stage index"
        )


def lend(index: Any, rows: NDArray[Any]) -> Any:
    """Make a flat faiss index read ``rows`` (contiguous, one per vector) in place, and return it."""
    codes, address = index.codes, library().swig_ptr(np.ndarray(rows.nbytes, np.uint8, rows))
    codes.is_owned = False
    codes.view_data = codes.c_ptr = address
    codes.view_size = codes.c_size = rows.nbytes
    index.ntotal = len(rows)
    index.referenced_objects = [rows]
    return index
