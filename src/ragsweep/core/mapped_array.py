"""Large arrays outside of the process's memory, backed by a file whose pages the system may write out and drop."""

import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np


def mapped_array(shape: tuple[int, ...], dtype: Any, folder: Path | None = None) -> np.ndarray:
    """Allocate an array backed by an unlinked temporary file.

    It is an array in memory where the disk has no space, or the system cannot reserve it.

    Args:
        shape: Of the array.
        dtype: Of the array.
        folder: Where the file is made; None: where temporary files are.
    """
    count = int(np.prod(shape, dtype=np.int64))
    size = max(count * np.dtype(dtype).itemsize, 1)
    if hasattr(os, "posix_fallocate"):  # without it a full disk would kill the process on writing
        with suppress(OSError):
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, size)
                mapped = mmap.mmap(file.fileno(), size)
            return np.frombuffer(mapped, dtype, count=count).reshape(shape)
    return np.empty(shape, dtype)
