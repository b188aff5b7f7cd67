"""Metrics of citations: whether the claims of an answer are supported by the passages that they cite.

The metrics follow Gao, Yen, Yu and Chen 2023, "Enabling Large Language Models to Generate Text with Citations", except
that shared content words, not a model, decide whether a passage supports a claim.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ragsweep.core.missing import NO_CITATIONS, NOTHING_SAID
from ragsweep.core.types import PartTraits, Passage
from ragsweep.core.words import words
from ragsweep.parts.languages import content_words, detect_language
from ragsweep.parts.metrics.bases import CITATIONS, check_threshold, without_citations
from ragsweep.parts.metrics.grounding import SupportMetric, sentences_of, words_of
from ragsweep.parts.sentences import SentenceSplitter

CITED_AFTER_STOP = re.compile(r"([.!?…]+[\"'\u201d\u2019»)*_~]*)((?:\s*\[\d{1,3}(?:\s*,\s*\d{1,3})*\])+)")
"""Matches the punctuation that ends a sentence, with Markdown emphasis (group 1), and the citations after it (group 2).

The citations belong to the sentence that the punctuation ends.
"""


class CitedClaim(NamedTuple):
    """A claim (see CitationsCorrect): its content words, and the distinct numbers of the passages that it cites."""

    words: frozenset[str]
    cited: tuple[int, ...]


class CitationsCorrect(SentenceSplitter, SupportMetric):
    """Proportion of the answer's citations whose passage exists and contains the content words of the citing claim.

    A claim is a sentence, or a part of a sentence: a sentence with several groups of citations is split after each
    group. The passage must contain at least the proportion ``threshold`` of the claim's content words; if the claim has
    no content words, it is enough that the passage exists. An answer without citations, a refusal, and the answer to a
    conversational question are not scored.
    """

    TRAITS = PartTraits(version="5")
    name = "citations_correct"
    _unscored = NO_CITATIONS

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = check_threshold(threshold, self.name)

    def _score_text(self, text: str, passages: Sequence[Passage]) -> float | str:
        checked = self._checked(text)
        if not checked:
            return self._unscored
        return sum(supports(claim, passages, self.threshold) for claim in checked) / len(checked)

    def _checked(self, text: str) -> list[CitedClaim]:
        return [CitedClaim(claim.words, (n,)) for claim in claims(text) for n in claim.cited]


class CitationRecall(CitationsCorrect):
    """Proportion of the answer's claims whose content words occur in the passages that they cite.

    Claims and ``threshold`` are defined as in CitationsCorrect, but the passages that a claim cites are taken together.
    Claims without content words are ignored; an answer in which all claims are ignored is not scored. Claims without
    citations count as unsupported.
    """

    TRAITS = PartTraits(version="5")
    name = "citation_recall"
    _unscored = NOTHING_SAID

    def _checked(self, text: str) -> list[CitedClaim]:
        return [claim for claim in claims(text) if claim.words]


def claims(text: str) -> list[CitedClaim]:
    """Return the claims of an answer in order, each with the numbers of the passages that it cites, from 1."""
    moved, language = CITED_AFTER_STOP.sub(r"\2\1", text), detect_language(without_citations(text))
    result = []
    for sentence in sentences_of(moved, language):
        for part in _split_after_citations(sentence):
            numbers = [n for match in CITATIONS.finditer(part) if match[2] for n in match[2].split(",")]
            cited = tuple(dict.fromkeys(map(int, numbers)))
            result.append(CitedClaim(content_words(without_citations(part), language), cited))
    return result


def supports(claim: CitedClaim, passages: Sequence[Passage], threshold: float) -> bool:
    """Return whether the cited passages contain at least the proportion ``threshold`` of the claim's content words.

    The passages are taken together. Numbers without a passage are ignored; if no cited passage exists, return False.
    Otherwise a claim without content words counts as supported.
    """
    texts = [words_of(passages[n - 1].text) for n in claim.cited if 1 <= n <= len(passages)]
    return bool(texts) and len(claim.words & frozenset().union(*texts)) >= threshold * len(claim.words)


def _split_after_citations(sentence: str) -> list[str]:
    """Split a sentence after each group of citations, and add the text after the last group to the last part.

    Citations without words between them form one group. A sentence without citations is returned whole.
    """
    ends: list[int] = []
    for match in CITATIONS.finditer(sentence):
        if match[2]:
            is_apart = not ends or words(sentence[ends[-1] : match.start()])
            ends[len(ends) if is_apart else -1 :] = [match.end()]
    starts = [0, *ends[:-1]]
    return [sentence[start:end] for start, end in zip(starts, [*starts[1:], len(sentence)], strict=True)]
