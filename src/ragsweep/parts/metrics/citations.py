"""Citations of an answer: whether the cited passage exists and supports the claim.

After Gao, Yen, Yu and Chen 2023, "Enabling Large Language Models to Generate Text with Citations", with support decided
by content words instead of a model.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragsweep.core.languages import WORD, content_words, detect_language
from ragsweep.core.missing import ABSTAINED, NO_CITATIONS, NOTHING_SAID
from ragsweep.core.sentences import LIBRARY
from ragsweep.core.types import Answer, Passage, Question
from ragsweep.parts.metrics.answer_metric import (
    CITATIONS,
    AnswerMetric,
    check_threshold,
    is_refusal,
    reason_conversational,
    without_citations,
)
from ragsweep.parts.metrics.grounding import sentences_of, words_of

BEHIND = re.compile(r"([.!?…]+[\"'\u201d\u2019»)]*)((?:\s*\[\d{1,3}(?:\s*,\s*\d{1,3})*\])+)")
"""Citations behind a full stop, which belong to the sentence before it."""


class Claim(NamedTuple):
    """A sentence, or the part of one that ends with citations: its content words and the cited numbers."""

    words: frozenset[str]
    cited: tuple[int, ...]


class _ClaimMetric(AnswerMetric):
    """A metric of claims with a threshold of support."""

    VERSION = "2"
    name: str

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = check_threshold(threshold, self.name)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version of the library that splits sentences."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def skip_reason(self, question: Question) -> str:
        """Leave out conversation."""
        return reason_conversational(question)


class CitationsCorrect(_ClaimMetric):
    """Proportion of the citations whose passage exists and contains the claim's content words.

    A claim is a sentence, or the part of one that ends with citations.

    Args:
        threshold: Proportion of the claim's content words that the passage must contain.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "2"
    name = "citations_correct"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Check every citation."""
        if is_refusal(answer):
            return ABSTAINED
        found = [(claim, n) for claim in claims(answer.text) for n in claim.cited]
        if not found:
            return NO_CITATIONS
        return sum(supports(claim.words, passages, [n], self.threshold) for claim, n in found) / len(found)


class CitationRecall(_ClaimMetric):
    """Proportion of the claims with content words that their cited passages together contain.

    An answer without citations scores 0.

    Args:
        threshold: Proportion of the claim's content words that the passages must contain.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "2"
    name = "citation_recall"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Check every claim."""
        if is_refusal(answer):
            return ABSTAINED
        stating = [claim for claim in claims(answer.text) if claim.words]
        if not stating:
            return NOTHING_SAID
        return sum(supports(claim.words, passages, claim.cited, self.threshold) for claim in stating) / len(stating)


def claims(text: str) -> list[Claim]:
    """Split an answer into claims, each with the numbers of the cited passages, from 1."""
    moved, language = BEHIND.sub(r"\2\1", text), detect_language(without_citations(text))
    return [
        Claim(content_words(without_citations(sentence), language), _cited(sentence))
        for whole in sentences_of(moved, language)
        for sentence in _parts(whole)
    ]


def supports(words: frozenset[str], passages: Sequence[Passage], cited: Sequence[int], threshold: float) -> bool:
    """Return whether the existing cited passages contain enough of the words; without words, whether one exists."""
    known = [words_of(passages[n - 1].text) for n in cited if 1 <= n <= len(passages)]
    return bool(known) and len(words & frozenset().union(*known)) >= threshold * len(words)


def _parts(sentence: str) -> list[str]:
    """Split a sentence behind its groups of citations; the rest belongs to the last part."""
    ends: list[int] = []
    for found in CITATIONS.finditer(sentence):
        if found[2]:
            apart = not ends or WORD.search(sentence[ends[-1] : found.start()])
            ends[len(ends) if apart else -1 :] = [found.end()]
    starts = [0, *ends[:-1]]
    return [sentence[start:end] for start, end in zip(starts, [*starts[1:], len(sentence)], strict=True)]


def _cited(sentence: str) -> tuple[int, ...]:
    numbers = [found[2].split(",") for found in CITATIONS.finditer(sentence) if found[2]]
    return tuple(dict.fromkeys(int(number) for some in numbers for number in some))
