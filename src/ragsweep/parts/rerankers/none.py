"""The reranker of configs that do not rerank."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ragsweep.core.types import Floats, PartTraits


class NoReranker:
    """A reranker without candidates, which leaves every ranking unchanged."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    candidates = 0

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return zeros. The pipeline does not call this method, because there are no candidates."""
        return np.zeros(len(pairs), dtype=np.float32)
