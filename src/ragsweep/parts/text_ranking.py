"""Rank texts for queries by BM25."""

from collections.abc import Sequence

from ragsweep.core.types import NO_CHUNK
from ragsweep.parts.retrievers.bm25 import Bm25

STEMMED = {"en": "english", "fr": "french"}
"""Languages whose words are stemmed and whose stop words are left out; neither is done in other languages."""


def rank_texts(queries: Sequence[str], texts: Sequence[str], code: str, depth: int) -> list[list[int]]:
    """Return the indices of each query's best texts, at most ``depth``, best first; ``code`` is two letters ("en")."""
    retriever = Bm25(language=STEMMED.get(code, "none"))
    found = retriever.retrieve(retriever.build(texts), queries, depth).positions
    return [[int(one) for one in row if one != NO_CHUNK] for row in found]
