"""Look for the keywords of a question in its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ragsweep.languages import fold
from ragsweep.metrics.answered import OfAnswers, said
from ragsweep.reasons import CONVERSATIONAL, NO_KEYWORDS, UNANSWERABLE
from ragsweep.types import Answer, Passage, Question


class KeywordCoverage(OfAnswers):
    """Count the keywords that stand in the answer as whole words, of all; case and accents do not count.

    A refusal of an answerable question has none of them; the keywords of an unanswerable one are not looked for.
    """

    VERSION = "1"
    name = "keyword_coverage"
    needs = ("answer", "keywords")

    def lacking(self, question: Question) -> str:
        """There must be keywords, and an answer."""
        if not question.answerable:
            return UNANSWERABLE
        if question.keywords:
            return ""
        return NO_KEYWORDS if question.needs_retrieval else CONVERSATIONAL

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Look for every keyword."""
        return covered(question.keywords, said(answer))


def covered(keywords: Sequence[str], text: str) -> float:
    """Return the share of keywords that stand in a text."""
    folded = fold(text)
    return sum(bool(_pattern(keyword).search(folded)) for keyword in keywords) / len(keywords)


@lru_cache(maxsize=1 << 14)
def _pattern(keyword: str) -> re.Pattern[str]:
    """Find a keyword that is no part of a longer word; a sign at its edge (``-(x+1)``) has no such limit."""
    words = [re.escape(word) for word in fold(keyword).split()]
    pattern = r"\s+".join(words)
    begin = r"(?<!\w)" if re.match(r"\w", fold(keyword).strip()) else ""
    end = r"(?!\w)" if re.search(r"\w$", fold(keyword).strip()) else ""
    return re.compile(f"{begin}{pattern}{end}")
