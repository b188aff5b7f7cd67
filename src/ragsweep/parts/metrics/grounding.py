"""Support of an answer by the passages given to its generator: by words, and by embeddings of sentences."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from ragsweep.core.languages import WORD, content_words, fold
from ragsweep.core.missing import ABSTAINED, NOTHING_SAID
from ragsweep.core.sentences import LIBRARY, sentences
from ragsweep.core.types import Answer, Case, Embedder, Judgement, Passage, Question
from ragsweep.parts.metrics.answer_metric import (
    AnswerMetric,
    JudgedAnswerMetric,
    batches,
    check_threshold,
    is_refusal,
    reason_conversational,
    without_citations,
)
from ragsweep.parts.metrics.similarity import TOGETHER, Vectors, vectors


class GroundingLexical(AnswerMetric):
    """Proportion of the answer's distinct content words that occur in its passages.

    Stop words of the answer's language (detected), case and accents are ignored. An answer without passages scores 0.
    """

    VERSION = "1"
    name = "grounding_lexical"

    def skip_reason(self, question: Question) -> str:
        """Leave out conversation."""
        return reason_conversational(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Look up every content word."""
        if is_refusal(answer):
            return ABSTAINED
        words = content_words(without_citations(answer.text))
        if not words:
            return NOTHING_SAID
        return len(words & frozenset().union(*(words_of(passage.text) for passage in passages))) / len(words)


class GroundingSemantic(JudgedAnswerMetric):
    """Proportion of the answer's sentences with a similar sentence in the context.

    An answer without passages scores 0. Of a sentence longer than the model's window the beginning is compared.

    Args:
        embedder: Embeds sentences as documents.
        threshold: Cosine from which two sentences are similar.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "1"
    name = "grounding_semantic"
    uses = ("answer", "contexts")

    def __init__(self, embedder: Embedder, threshold: float = 0.7) -> None:
        self.embedder = embedder
        self.threshold = check_threshold(threshold, self.name)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version of the library that splits sentences."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Compare every sentence of an answer with every sentence of its context."""
        for some in batches(cases, TOGETHER):
            stated = {n: sentences_of(without_citations(case.answer)) for n, case in some}
            context = {n: [one for text in case.contexts for one in sentences_of(text)] for n, case in some}
            known = vectors(self.embedder, [text for n in stated for text in (*stated[n], *context[n])])
            for n in stated:
                done(n, self._judge_case(stated[n], context[n], known))

    def skip_reason(self, question: Question) -> str:
        """Leave out conversation."""
        return reason_conversational(question)

    def unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score answers without passages 0."""
        return ABSTAINED if is_refusal(answer) else "" if passages else 0.0

    def _judge_case(self, stated: Sequence[str], context: Sequence[str], known: Vectors) -> Judgement:
        if not stated:
            return Judgement(reason=NOTHING_SAID)
        if not context:
            return Judgement(0.0)
        cosines = np.stack([known[one] for one in stated]) @ np.stack([known[one] for one in context]).T
        return Judgement(float(np.mean(cosines.max(axis=1) >= self.threshold)))


@lru_cache(maxsize=1 << 12)
def words_of(text: str) -> frozenset[str]:
    """Return the folded words of a text."""
    return frozenset(WORD.findall(fold(text)))


def sentences_of(text: str, language: str = "") -> list[str]:
    """Split a text into sentences with a word, stripped; by English rules, except for French."""
    pieces = sentences(text, "french" if language == "fr" else "english")
    return [text[start:end].strip() for start, end in pieces if WORD.search(text[start:end])]
