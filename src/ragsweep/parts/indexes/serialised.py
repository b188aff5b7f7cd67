"""Hand faiss indexes to and from arrays of bytes, without copies, and without trust in the bytes."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError
from ragsweep.core.types import Floats


def library() -> Any:
    """Import faiss, whose published types lack much of what is used here."""
    import faiss

    return faiss


def version() -> Mapping[str, str]:
    """Name the version of faiss, as a fact of the parts that it builds."""
    return {"faiss-cpu": importlib.metadata.version("faiss-cpu")}


def pack(index: Any, flags: int = 0) -> NDArray[np.uint8]:
    """Serialise a faiss index."""
    data: NDArray[np.uint8] = library().serialize_index(index, flags)
    return data


def unpack(data: NDArray[np.uint8]) -> Any:
    """Read a faiss index whose large arrays are views of ``data``, which must outlive it.

    No vector or loop in the bytes may claim to be longer than the bytes are. Raises InputError for what faiss refuses;
    what it reads may still be wrong, and is the caller's to check.
    """
    faiss = library()
    given = np.ascontiguousarray(data, dtype=np.uint8)
    try:
        with _limited(max(given.nbytes, 1)):
            return faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(given), given.nbytes))
    except (RuntimeError, MemoryError, ValueError) as fault:
        raise damaged(str(fault).rsplit("Error: ", 1)[-1].strip() or type(fault).__name__) from fault


def damaged(fact: str) -> InputError:
    """Make the error for a stored index that cannot be what was stored."""
    return InputError(f"the stored index is damaged ({fact}); delete it, and it is built anew")


def require(holds: bool, fact: str) -> None:
    """Raise the error for a damaged index unless ``holds``."""
    if not holds:
        raise damaged(fact)


def view(vectors: Floats) -> Any:
    """Make a faiss index that reads ``vectors`` (contiguous float32) where they lie; they must outlive it."""
    index = library().IndexFlatIP(vectors.shape[1])
    lend(index, vectors)
    return index


def lend(index: Any, rows: NDArray[Any]) -> None:
    """Let a faiss index of codes read ``rows`` (contiguous, one a vector) where they lie; they must outlive it."""
    codes, address = index.codes, library().swig_ptr(np.ndarray(rows.nbytes, np.uint8, rows))
    codes.is_owned = False
    codes.view_data = codes.c_ptr = address
    codes.view_size = codes.c_size = rows.nbytes
    index.ntotal = len(rows)


class LastOpened:
    """Keep what was last made of some arrays: queries may come one by one."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Any, ...], Any] | None = None

    def get(self, arrays: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return what ``make`` makes of these very arrays."""
        if self._kept is None or any(one is not other for one, other in zip(self._kept[0], arrays, strict=True)):
            self._kept = None  # free the old one first
            self._kept = (arrays, make())
        return self._kept[1]


@contextmanager
def _limited(size: int) -> Iterator[None]:
    faiss = library()
    before = faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()
    faiss.set_deserialization_vector_byte_limit(size)
    faiss.set_deserialization_loop_limit(size)
    try:
        yield
    finally:
        faiss.set_deserialization_vector_byte_limit(before[0])
        faiss.set_deserialization_loop_limit(before[1])
