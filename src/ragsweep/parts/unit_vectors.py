"""Vectors of length one."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.float32, np.float64)


def unit(vectors: NDArray[Number]) -> NDArray[Number]:
    """Scale each row (rows, dimension) to length one; zeros stay zeros."""
    lengths: NDArray[Number] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
