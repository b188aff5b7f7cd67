"""How much of an answer stands in the passages that its generator was given: by words, and by sentences' meaning."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from ragsweep.core.languages import WORD, content_words, fold
from ragsweep.core.reasons import ABSTAINED, NOTHING_SAID
from ragsweep.core.sentences import LIBRARY, sentences
from ragsweep.core.types import Answer, Case, Embedder, Judgement, Passage, Question
from ragsweep.parts.metrics.answer_metric import (
    AnswerMetric,
    JudgedAnswerMetric,
    batches,
    checked,
    conversational,
    refused,
    without_citations,
)
from ragsweep.parts.metrics.similarity import TOGETHER, Vectors, vectors


class GroundingLexical(AnswerMetric):
    """Count the distinct content words of the answer that stand in its passages, of all.

    Small words of the answer's language (told from its text) do not count, nor do case and accents. An answer that was
    given without any passage has 0: nothing supports it.
    """

    VERSION = "1"
    name = "grounding_lexical"

    def lacking(self, question: Question) -> str:
        """Conversation is grounded in nothing."""
        return conversational(question)

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Look up every word."""
        if refused(answer):
            return ABSTAINED
        words = content_words(without_citations(answer.text))
        if not words:
            return NOTHING_SAID
        return len(words & frozenset().union(*(words_of(passage.text) for passage in passages))) / len(words)


class GroundingSemantic(JudgedAnswerMetric):
    """Count the sentences of the answer to which some sentence of the context is similar enough, of all.

    An answer that was given without any passage has 0. A sentence longer than the embedding model's window is compared
    by its beginning.

    Args:
        embedder: Turns sentences into vectors.
        threshold: Cosine from which on two sentences say the same.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "1"
    name = "grounding_semantic"
    uses = ("answer", "contexts")

    def __init__(self, embedder: Embedder, threshold: float = 0.7) -> None:
        self.embedder = embedder
        self.threshold = checked(threshold, self.name)

    def fingerprint(self) -> Mapping[str, str]:
        """Name the version of the library that finds sentences: another one may find others."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Compare every sentence of an answer with every sentence of its context."""
        for some in batches(cases, TOGETHER):
            said = {n: sentences_of(without_citations(case.answer)) for n, case in some}
            read = {n: [one for text in case.contexts for one in sentences_of(text)] for n, case in some}
            known = vectors(self.embedder, [text for n in said for text in (*said[n], *read[n])])
            for n in said:
                done(n, self._judge_case(said[n], read[n], known))

    def lacking(self, question: Question) -> str:
        """Conversation is grounded in nothing."""
        return conversational(question)

    def unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score what was said without any passage."""
        return ABSTAINED if refused(answer) else "" if passages else 0.0

    def _judge_case(self, said: Sequence[str], read: Sequence[str], known: Vectors) -> Judgement:
        if not said:
            return Judgement(reason=NOTHING_SAID)
        if not read:
            return Judgement(0.0)
        cosines = np.stack([known[one] for one in said]) @ np.stack([known[one] for one in read]).T
        return Judgement(float(np.mean(cosines.max(axis=1) >= self.threshold)))


@lru_cache(maxsize=1 << 12)
def words_of(text: str) -> frozenset[str]:
    """Return all words of a text, folded."""
    return frozenset(WORD.findall(fold(text)))


def sentences_of(text: str, language: str = "") -> list[str]:
    """Cut a text into sentences that hold a word, without the white space around them; English rules but in French."""
    pieces = sentences(text, "french" if language == "fr" else "english")
    return [text[start:end].strip() for start, end in pieces if WORD.search(text[start:end])]
