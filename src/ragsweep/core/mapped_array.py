"""Large arrays outside the process's memory, backed by a file whose memory pages the system may evict."""

import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np


def mapped_array(shape: tuple[int, ...], dtype: Any, folder: Path | None = None) -> np.ndarray:
    """Return an uninitialised array, backed by an unlinked temporary file in ``folder``.

    If ``folder`` is None, the file is in the system's folder for temporary files. If the disk is full or the system
    cannot reserve space on it, the array is in memory.
    """
    count = int(np.prod(shape, dtype=np.int64))
    size = max(count * np.dtype(dtype).itemsize, 1)
    if hasattr(os, "posix_fallocate"):  # otherwise a full disk would kill the process on writing
        with suppress(OSError):
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, size)
                mapped = mmap.mmap(file.fileno(), size)
            return np.frombuffer(mapped, dtype, count=count).reshape(shape)
    return np.empty(shape, dtype)
