"""A reranker for benchmarks/watch.py, with a fixed time: 10 ms per question, times ``WordOverlap.slowed``."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ragsweep.core.types import PartTraits
from ragsweep.parts.languages import content_words


@dataclass(eq=False)
class WordOverlap:
    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    slowed: ClassVar[float] = 1.0

    candidates: int = 10

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return the share of each question's words that its chunk has."""
        begin = time.perf_counter()
        words = [(content_words(query, "en"), content_words(text, "en")) for query, text in pairs]
        scores = np.array([len(one & other) / max(len(one), 1) for one, other in words], dtype=np.float32)
        needed = 0.01 * WordOverlap.slowed * len(pairs) / self.candidates
        time.sleep(max(needed - (time.perf_counter() - begin), 0.0))
        return scores
