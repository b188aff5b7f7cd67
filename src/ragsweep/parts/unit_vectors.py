"""Scale vectors to length 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def unit(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return ``vectors`` with rows scaled to length 1, in the same dtype (float32 for float16); zero rows stay 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny))
