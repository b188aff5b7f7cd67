"""Check the citations of an answer: is there such a passage, and does it hold what is said there?

After Gao, Yen, Yu and Chen 2023, "Enabling Large Language Models to Generate Text with Citations", with the support of
a sentence told by its words instead of by a model.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragsweep.core.languages import WORD, content_words, tell
from ragsweep.core.reasons import ABSTAINED, NO_CITATIONS, NOTHING_SAID
from ragsweep.core.sentences import LIBRARY
from ragsweep.core.types import Answer, Passage, Question
from ragsweep.parts.metrics.answer_metric import (
    MARKERS,
    AnswerMetric,
    checked,
    conversational,
    refused,
    without_citations,
)
from ragsweep.parts.metrics.grounding import sentences_of, words_of

BEHIND = re.compile(r"([.!?…]+[\"'\u201d\u2019»)]*)((?:\s*\[\d{1,3}(?:\s*,\s*\d{1,3})*\])+)")
"""Citations that stand behind the full stop: they belong to the sentence before it."""


class Claim(NamedTuple):
    """A sentence of an answer, or the part of one that ends with citations: its content words, and what it cites."""

    words: frozenset[str]
    cited: tuple[int, ...]


class OfClaims(AnswerMetric):
    """Hold what metrics of claims have in common: a threshold, and how claims are found."""

    VERSION = "2"
    name: str

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = checked(threshold, self.name)

    def fingerprint(self) -> Mapping[str, str]:
        """Name the version of the library that finds sentences: another one may find others."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def lacking(self, question: Question) -> str:
        """Conversation cites nothing."""
        return conversational(question)


class CitationsCorrect(OfClaims):
    """Count the citations that name a passage which holds the claim's content words, of all citations.

    A claim is a sentence, or the part of one that ends with citations.

    Args:
        threshold: Proportion of the claim's content words that the passage must hold.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "2"
    name = "citations_correct"

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Check every citation."""
        if refused(answer):
            return ABSTAINED
        found = [(claim, n) for claim in claims(answer.text) for n in claim.cited]
        if not found:
            return NO_CITATIONS
        return sum(holds(claim.words, passages, [n], self.threshold) for claim, n in found) / len(found)


class CitationRecall(OfClaims):
    """Count the claims whose content words the passages that they cite hold together, of all that say something.

    An answer without citations has 0: none of its claims can be looked up.

    Args:
        threshold: Proportion of the claim's content words that the passages must hold.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "2"
    name = "citation_recall"

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Check every claim."""
        if refused(answer):
            return ABSTAINED
        told = [claim for claim in claims(answer.text) if claim.words]
        if not told:
            return NOTHING_SAID
        return sum(holds(claim.words, passages, claim.cited, self.threshold) for claim in told) / len(told)


def claims(text: str) -> list[Claim]:
    """Cut an answer into its claims, each with the numbers of the passages that it cites, from 1."""
    moved, language = BEHIND.sub(r"\2\1", text), tell(without_citations(text))
    return [
        Claim(content_words(without_citations(sentence), language), _cited(sentence))
        for whole in sentences_of(moved, language)
        for sentence in _parts(whole)
    ]


def holds(words: frozenset[str], passages: Sequence[Passage], cited: Sequence[int], threshold: float) -> bool:
    """Say whether the cited passages that exist hold enough of the words; what says nothing needs only a passage."""
    known = [words_of(passages[n - 1].text) for n in cited if 1 <= n <= len(passages)]
    return bool(known) and len(words & frozenset().union(*known)) >= threshold * len(words)


def _parts(sentence: str) -> list[str]:
    """Cut a sentence behind its citations, those that stand together kept together; the rest goes with the last."""
    ends: list[int] = []
    for found in MARKERS.finditer(sentence):
        if found[2]:
            apart = not ends or WORD.search(sentence[ends[-1] : found.start()])
            ends[len(ends) if apart else -1 :] = [found.end()]
    starts = [0, *ends[:-1]]
    return [sentence[start:end] for start, end in zip(starts, [*starts[1:], len(sentence)], strict=True)]


def _cited(sentence: str) -> tuple[int, ...]:
    numbers = [found[2].split(",") for found in MARKERS.finditer(sentence) if found[2]]
    return tuple(dict.fromkeys(int(number) for some in numbers for number in some))
