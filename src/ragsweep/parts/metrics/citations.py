"""Support of an answer's claims by the passages that they cite.

After Gao, Yen, Yu and Chen 2023, "Enabling Large Language Models to Generate Text with Citations", with support decided
by content words instead of a model.
"""

import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragsweep.core.missing import NO_CITATIONS, NOTHING_SAID
from ragsweep.core.types import PartTraits, Passage
from ragsweep.core.words import words
from ragsweep.parts.languages import content_words, detect_language
from ragsweep.parts.metrics.bases import CITATIONS, check_threshold, without_citations
from ragsweep.parts.metrics.grounding import SupportMetric, sentences_of, words_of
from ragsweep.parts.sentences import LIBRARY

CITED_AFTER_STOP = re.compile(r"([.!?…]+[\"'\u201d\u2019»)]*)((?:\s*\[\d{1,3}(?:\s*,\s*\d{1,3})*\])+)")
"""The end of a sentence and the citations after it, which belong to that sentence."""


class CitedClaim(NamedTuple):
    """A claim of an answer, as defined in CitationsCorrect: its content words and the numbers that it cites."""

    words: frozenset[str]
    cited: tuple[int, ...]


class CitationsCorrect(SupportMetric):
    """Proportion of the citations whose passage exists and contains the claim's content words.

    A claim is a sentence; a sentence with several groups of citations is split into claims after each group. At least
    the proportion ``threshold`` of the claim's content words must occur in the passage.
    """

    TRAITS = PartTraits(version="3")
    name = "citations_correct"
    _unscored = NO_CITATIONS

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = check_threshold(threshold, self.name)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version of the library that splits sentences."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def _score_text(self, text: str, passages: Sequence[Passage]) -> float | str:
        checked = self._checked(text)
        if not checked:
            return self._unscored
        return sum(supports(claim, passages, self.threshold) for claim in checked) / len(checked)

    def _checked(self, text: str) -> list[CitedClaim]:
        return [CitedClaim(claim.words, (n,)) for claim in claims(text) for n in claim.cited]


class CitationRecall(CitationsCorrect):
    """Proportion of the claims whose content words occur in the cited passages, taken together.

    Claims, and ``threshold``, are defined as in CitationsCorrect. Claims without content words do not count, and claims
    without citations are not supported.
    """

    TRAITS = PartTraits(version="3")
    name = "citation_recall"
    _unscored = NOTHING_SAID

    def _checked(self, text: str) -> list[CitedClaim]:
        return [claim for claim in claims(text) if claim.words]


def claims(text: str) -> list[CitedClaim]:
    """Split an answer into claims, each with the numbers of the passages that it cites; the first passage is 1."""
    moved, language = CITED_AFTER_STOP.sub(r"\2\1", text), detect_language(without_citations(text))
    result = []
    for sentence in sentences_of(moved, language):
        for part in _split_after_citations(sentence):
            numbers = [n for match in CITATIONS.finditer(part) if match[2] for n in match[2].split(",")]
            cited = tuple(dict.fromkeys(map(int, numbers)))
            result.append(CitedClaim(content_words(without_citations(part), language), cited))
    return result


def supports(claim: CitedClaim, passages: Sequence[Passage], threshold: float) -> bool:
    """Return whether a claim's passages together contain at least the proportion ``threshold`` of its content words.

    Numbers without a passage are ignored; if no cited passage exists, the result is False.
    """
    texts = [words_of(passages[n - 1].text) for n in claim.cited if 1 <= n <= len(passages)]
    return bool(texts) and len(claim.words & frozenset().union(*texts)) >= threshold * len(claim.words)


def _split_after_citations(sentence: str) -> list[str]:
    """Split a sentence after each group of citations; text after the last group belongs to the last part."""
    ends: list[int] = []
    for match in CITATIONS.finditer(sentence):
        if match[2]:
            is_apart = not ends or words(sentence[ends[-1] : match.start()])
            ends[len(ends) if is_apart else -1 :] = [match.end()]
    starts = [0, *ends[:-1]]
    return [sentence[start:end] for start, end in zip(starts, [*starts[1:], len(sentence)], strict=True)]
