"""Measure the similarity between a question and its context, without labels or answers."""

from collections.abc import Callable, Sequence

import numpy as np

from ragsweep.core.types import Case, Embedder, EvaluationView, Judgement, PartTraits, Scores
from ragsweep.parts.metrics.bases import Proportion, batches, clamp, judgements, to_scores
from ragsweep.parts.metrics.right_answers import CASES_EMBEDDED, embed_texts
from ragsweep.parts.unit_vectors import unit


class ContextSimilarity(Proportion):
    """Mean, over the chunks of the context, of the cosine between the embeddings of the question and the chunk.

    Conversational questions, and questions with an empty context, are not scored. The embedder may truncate long texts.
    """

    TRAITS = PartTraits(version="1")
    name = "context_similarity"
    needs = ("retrieval", "judge")
    higher_is_better = None
    bounds = (-1.0, 1.0)
    uses = ("question", "contexts")

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge each case by the mean cosine between its question and its chunks; every case must have a chunk."""
        for batch in batches(cases, CASES_EMBEDDED):
            chunks = embed_texts(self.embedder, [text for _, case in batch for text in case.contexts])
            queries = self.embedder.embed_queries([case.question for _, case in batch])
            for (n, case), query in zip(batch, unit(np.asarray(queries, dtype=np.float32)), strict=True):
                done(n, Judgement(float(np.mean([query @ chunks[text] for text in case.contexts]))))

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question: the judged value, clipped to the bounds, or NaN and the judgement's reason."""
        judged = judgements(view, self.name)
        return to_scores([one.reason or clamp(one.value, self.bounds) for one in judged])
