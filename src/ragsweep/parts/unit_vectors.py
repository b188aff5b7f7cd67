"""Unit vectors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def unit(vectors: NDArray[Any]) -> NDArray[Any]:
    """Scale each row (rows, dimension) to a unit vector; zero rows stay zero, and float32 and float64 are kept."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[Any] = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled
