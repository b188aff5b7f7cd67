"""Compare the meaning of an answer with that of the right one, by an embedding model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ragsweep.core.types import Answer, Case, Embedder, Floats, Judgement, Passage, Question
from ragsweep.parts.metrics.answer_metric import (
    JudgedAnswerMetric,
    batches,
    conversational,
    refused,
    unanswerable,
    without_citations,
)

Vectors = Mapping[str, Floats]

TOGETHER = 32
"""How many cases are embedded at once; judgements are kept after each such batch."""


class SemanticSimilarity(JudgedAnswerMetric):
    """Take the cosine between the embeddings of the answer and of the right one, the first where there are several.

    A refusal of an answerable question has 0; an unanswerable one is not compared, nor is conversation. A text longer
    than the embedding model's window is compared by its beginning.

    Args:
        embedder: Turns both texts into vectors, as it does documents.
    """

    VERSION = "1"
    name = "semantic_similarity"
    needs = ("answer", "reference")
    bounds = (-1.0, 1.0)
    uses = ("answer", "reference")

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Embed both texts of every case."""
        for some in batches(cases, TOGETHER):
            pairs = {n: (without_citations(case.answer), case.reference) for n, case in some}
            known = vectors(self.embedder, [text for pair in pairs.values() for text in pair])
            for n, (answer, reference) in pairs.items():
                done(n, Judgement(float(known[answer] @ known[reference])))

    def lacking(self, question: Question) -> str:
        """There must be a right answer."""
        return conversational(question) or unanswerable(question)

    def unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score refusals."""
        return 0.0 if refused(answer) else ""


def vectors(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Embed texts, each once, and scale the vectors to length 1."""
    distinct = sorted(set(texts))
    if not distinct:
        return {}
    found = np.asarray(embedder.embed_documents(distinct).vectors, dtype=np.float32)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return dict(zip(distinct, found / np.maximum(lengths, np.finfo(np.float32).tiny), strict=True))
