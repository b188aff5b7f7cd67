"""Choose the vectors that an index is trained on: by a seed, so that it is the same every time."""

from __future__ import annotations

import numpy as np

from ragsweep.core.types import Floats

SEED = 0


def sample(vectors: Floats, size: int) -> Floats:
    """Choose at most ``size`` vectors, in the order of positions."""
    chosen = np.arange(len(vectors))
    if size < len(vectors):
        chosen = np.sort(np.random.default_rng(SEED).choice(len(vectors), size, replace=False))
    return np.ascontiguousarray(vectors[chosen], dtype=np.float32)
