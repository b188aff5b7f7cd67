"""A reranker that compares the token vectors of the question and a chunk, and a placeholder for no reranker."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Floats, PartTraits, TokenVectors
from ragsweep.parts.reordering import REORDERING, ReorderingSettings
from ragsweep.parts.unit_vectors import unit

QUESTIONS = 64
"""Number of questions whose tokens are embedded in one call."""


@dataclass(eq=False)
class LateInteraction(ReorderingSettings):
    """MaxSim: a score is the mean, over the question's tokens, of the cosine to the chunk's most similar token.

    Scores range from -1 to 1. Khattab and Zaharia ("ColBERT", SIGIR 2020, eq. 3) use the sum of the cosines. A sum
    gives the same order but is not comparable between questions. The token vectors come from the embedder's method
    ``embed_tokens``, without special tokens. The tokens of chunks are embedded once per chunking and embedder. Their
    vectors are stored in half precision; this changes a score by less than 0.001.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2", reordering=REORDERING)

    embedder: Any

    def check(self) -> None:
        """Raise ConfigError if the embedder returns no token vectors."""
        if not hasattr(self.embedder, "embed_tokens"):
            raise ConfigError(
                f"{type(self.embedder).__name__} returns no token vectors (it has no method embed_tokens); choose "
                "embedder=minilm, or embedder=sentence_transformer and a transformer as embedder.model, or"
                " reranker=cross_encoder"
            )

    def read(self, texts: Sequence[str]) -> TokenVectors:
        """Return the token vectors of chunks, as unit vectors in half precision."""
        vectors = [unit(tokens).astype(np.float16) for tokens in self.embedder.embed_tokens(texts, "document")]
        start = np.concatenate([[0], np.cumsum([len(tokens) for tokens in vectors])]).astype(np.int64)
        return TokenVectors(np.concatenate(vectors) if vectors else np.empty((0, 0), np.float16), start)

    def score_read(self, chunks: TokenVectors, pairs: Sequence[tuple[str, int]]) -> Floats:
        """Return one score per pair; a pair is a question and the position of a chunk in ``chunks``."""
        scores = np.empty(len(pairs), dtype=np.float32)
        rows_of: dict[str, list[int]] = {}
        for row, (query, _) in enumerate(pairs):
            rows_of.setdefault(query, []).append(row)
        queries = list(rows_of)
        for start in range(0, len(queries), QUESTIONS):
            batch = queries[start : start + QUESTIONS]
            for query, tokens in zip(batch, self.embedder.embed_tokens(batch, "query"), strict=True):
                rows = rows_of[query]
                scores[rows] = max_sim(unit(tokens), chunks, [pairs[row][1] for row in rows])
        return scores

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return one score per pair (question, chunk text); each distinct text is embedded once."""
        position = {text: n for n, text in enumerate(dict.fromkeys(text for _, text in pairs))}
        return self.score_read(self.read(list(position)), [(query, position[text]) for query, text in pairs])


def max_sim(query: Floats, chunks: TokenVectors, positions: Sequence[int]) -> Floats:
    """Return one score per chunk: the mean, over the query's tokens, of the cosine to the chunk's most similar token.

    ``query`` (tokens, dimension) and ``chunks`` contain unit vectors, and ``positions`` selects the chunks to score. A
    chunk without tokens scores -1; if the query has no tokens, every chunk scores -1.
    """
    lengths = chunks.start[1:][positions] - chunks.start[:-1][positions]
    scores = np.full(len(positions), -1, dtype=np.float32)
    nonempty = np.flatnonzero(lengths)
    if not len(query) or not len(nonempty):
        return scores
    # In single precision, the last bits of a product depend on the other chunks, and equal chunks would not tie.
    tokens = np.concatenate([chunks.of(positions[n]) for n in nonempty.tolist()]).astype(np.float64)
    ends = np.cumsum(lengths[nonempty])
    nearest = np.maximum.reduceat(tokens @ query.T.astype(np.float64), ends - lengths[nonempty], axis=0)
    scores[nonempty] = nearest.mean(axis=1)
    return scores


class NoReranker:
    """Placeholder for no reranker: ``candidates`` is 0, so every ranking remains unchanged."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    candidates = 0

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return zeros. The pipeline does not call this method, because ``candidates`` is 0."""
        return np.zeros(len(pairs), dtype=np.float32)
