"""A reimplementation of the RAGAS metrics that compare the context with labelled evidence, without a judge."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from ragsweep.core.missing import NO_ANSWERS, NO_QUOTES, NOTHING_RETRIEVED, score_with_evidence
from ragsweep.core.types import NO_CHUNK, EvaluationView, PartTraits, Passage, Question, Scores
from ragsweep.parts.limits import check_between
from ragsweep.parts.metrics.bases import Proportion, to_scores, withhold
from ragsweep.parts.metrics.context import ContextPrecision, ContextRecall


class RagasIdBasedContextPrecision(Proportion):
    """Proportion of the context's chunks that cover a relevant piece of evidence; an empty context is not scored.

    This is ragas' IDBasedContextPrecision, if the relevant ids are the ids of the chunks that cover evidence.
    """

    TRAITS = PartTraits(version="2")
    name = "ragas_id_based_context_precision"

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason for a question that is not scored."""
        is_empty = (view.context == NO_CHUNK).all(axis=1)
        return withhold(ContextPrecision().score(view), is_empty, NOTHING_RETRIEVED)


class RagasIdBasedContextRecall(ContextRecall):
    """Proportion of the relevant pieces of evidence that the context covers, as in ContextRecall.

    This is ragas' IDBasedContextRecall.
    """

    TRAITS = PartTraits(version="1")
    name = "ragas_id_based_context_recall"


class _ByText(Proportion):
    """A metric that compares the context's chunks with quotes of the evidence by edit distance.

    A chunk matches a quote if their similarity is at least ``threshold`` (for precision) or above ``threshold`` (for
    recall). Quotes are compared with whole chunks, so a phrase is not similar to a page that contains it. A question is
    not scored if it has no relevant evidence, if any relevant evidence is a whole document (without a quote), or if the
    context is empty. No question is scored if the config computes no answers, because the texts of the context are kept
    only with answers.
    """

    needs: tuple[str, ...] = ("evidence", "passages")
    name: str

    def __init__(self, threshold: float = 0.5) -> None:
        check_between(f"metrics.{self.name}", 0, 1, threshold=threshold)
        self.threshold = threshold

    def score(self, view: EvaluationView) -> Scores:
        if view.answers is None:
            scores = to_scores([NO_ANSWERS] * len(view.questions))
        else:
            rows = zip(view.questions, view.answers.passages, strict=True)
            scores = to_scores([self._score(*row) for row in rows])
        return withhold(score_with_evidence(view, scores.values), scores.reasons != "", scores.reasons)

    def _score(self, question: Question, passages: Sequence[Passage]) -> float | str:
        quotes = evidence_quotes(question)
        if not quotes:
            return NO_QUOTES
        return self._measure([passage.text for passage in passages], quotes) if passages else NOTHING_RETRIEVED

    @abstractmethod
    def _measure(self, texts: Sequence[str], quotes: Sequence[str]) -> float:
        """Return the score of a context's texts, compared with a question's quotes; neither list is empty."""


class RagasNonLlmContextPrecision(_ByText):
    """Average precision of the context; a chunk counts as relevant if it is similar to a quote of the evidence.

    This is ragas' NonLLMContextPrecisionWithReference. If no chunk is relevant, the score is 0.
    """

    TRAITS = PartTraits(version="1")
    name = "ragas_non_llm_context_precision"

    def _measure(self, texts: Sequence[str], quotes: Sequence[str]) -> float:
        similar = np.array([max(similarity(text, quote) for quote in quotes) >= self.threshold for text in texts])
        at_rank = np.cumsum(similar) / np.arange(1, len(similar) + 1)
        return float((at_rank * similar).sum() / (similar.sum() + 1e-10))


class RagasNonLlmContextRecall(_ByText):
    """Proportion of the quotes of the evidence that are similar to a chunk of the context.

    This is ragas' NonLLMContextRecall.
    """

    TRAITS = PartTraits(version="1")
    name = "ragas_non_llm_context_recall"

    def _measure(self, texts: Sequence[str], quotes: Sequence[str]) -> float:
        return float(np.mean([max(similarity(text, quote) for text in texts) > self.threshold for quote in quotes]))


def evidence_quotes(question: Question) -> list[str]:
    """Return the quotes of a question's relevant evidence; [] if there is none, or if a piece has no quote."""
    relevant = [evidence.anchor for evidence in question.relevant]
    return [anchor for anchor in relevant if anchor] if all(relevant) else []


def similarity(left: str, right: str) -> float:
    """Return 1 - d / n, with the Levenshtein distance d and the length n of the longer string; 1 if both are empty.

    The algorithm is bit-parallel and stores a column of the distance matrix in the bits of an integer: Hyyrö, "A
    bit-vector algorithm for computing Levenshtein and Damerau edit distances" (2003).
    """
    shorter, longer = sorted((left, right), key=len)
    if not shorter:
        return 1.0 if not longer else 0.0
    positions: dict[str, int] = {}
    for position, character in enumerate(shorter):
        positions[character] = positions.get(character, 0) | 1 << position
    mask, last = (1 << len(shorter)) - 1, 1 << len(shorter) - 1
    up, down, distance = mask, 0, len(shorter)
    for character in longer:
        equal = positions.get(character, 0)
        level = (((equal & up) + up) ^ up) | equal | down
        plus, minus = down | ~(level | up) & mask, up & level
        distance += bool(plus & last) - bool(minus & last)
        plus = plus << 1 & mask | 1
        up = minus << 1 & mask | ~(level | plus) & mask
        down = plus & level
    return 1 - distance / len(longer)
