"""Cosine similarity of an answer and the right one by an embedding model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ragsweep.core.types import Answer, Case, Embedder, Floats, Judgement, Passage, Question
from ragsweep.parts.metrics.answer_metric import (
    JudgedAnswerMetric,
    batches,
    is_refusal,
    reason_conversational,
    reason_incomparable,
    without_citations,
)

Vectors = Mapping[str, Floats]

TOGETHER = 32
"""Number of cases embedded at once; judgements are stored after each batch."""


class SemanticSimilarity(JudgedAnswerMetric):
    """Cosine between the embeddings of the answer and of the first right answer.

    A refusal of an answerable question scores 0; unanswerable questions and conversation are not scored. Of a text
    longer than the model's window the beginning is compared.

    Args:
        embedder: Embeds both texts as documents.
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

    def skip_reason(self, question: Question) -> str:
        """Leave out conversation and questions without a right answer."""
        return reason_conversational(question) or reason_incomparable(question)

    def unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score refusals 0."""
        return 0.0 if is_refusal(answer) else ""


def vectors(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Embed distinct texts and normalise the vectors to length 1."""
    distinct = sorted(set(texts))
    if not distinct:
        return {}
    found = np.asarray(embedder.embed_documents(distinct).vectors, dtype=np.float32)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return dict(zip(distinct, found / np.maximum(lengths, np.finfo(np.float32).tiny), strict=True))
