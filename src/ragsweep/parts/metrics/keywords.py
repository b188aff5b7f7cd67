"""Look for the keywords of a question in its answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Literal, cast

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.languages import code_of, fold, tell
from ragsweep.core.reasons import CONVERSATIONAL, NO_KEYWORDS, UNANSWERABLE
from ragsweep.core.types import Answer, Passage, Question
from ragsweep.parts.metrics.answer_metric import AnswerMetric, said

Match = Literal["word", "substring", "stem"]
MATCHES = ("word", "substring", "stem")

_STEMMERS = {
    "en": "english",
    "fr": "french",
    "de": "german",
    "es": "spanish",
    "it": "italian",
    "nl": "dutch",
    "pt": "portuguese",
}
_TOKEN = re.compile(r"\w+|[^\w\s]")


class KeywordCoverage(AnswerMetric):
    """Count the keywords that stand in the answer, of all; case and accents do not count.

    A refusal of an answerable question has none of them; the keywords of an unanswerable one are not looked for.

    Args:
        match: "word": as whole words; "substring": within longer words, too (``gratuit`` in ``gratuites``); "stem": as
            words with the same stem by Snowball (``gratuite`` in ``gratuits``).
        language: Whose stems; "label": that of the question's label ``language``, else that of its words, else English.

    Raises:
        ConfigError: ``match`` or ``language`` is none of those known.
    """

    VERSION = "1"
    name = "keyword_coverage"
    needs = ("answer", "keywords")

    def __init__(self, match: Match = "word", language: str = "label") -> None:
        self.match = checked_match(match, self.name)
        self.language = language
        if language != "label" and not code_of(language):
            known = nearest(language, ["label", *_STEMMERS.values()])
            raise ConfigError(f"metrics.{self.name}.language is {language!r}{known}")

    def lacking(self, question: Question) -> str:
        """There must be keywords, and an answer."""
        if not question.answerable:
            return UNANSWERABLE
        if question.keywords:
            return ""
        return NO_KEYWORDS if question.needs_retrieval else CONVERSATIONAL

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Look for every keyword."""
        return covered(question, said(answer), self.match, self.language)


def checked_match(match: str, metric: str) -> Match:
    """Return how keywords are looked for; raise ConfigError where nobody knows it."""
    if match not in MATCHES:
        raise ConfigError(f"metrics.{metric}.match is {match!r}{nearest(str(match), MATCHES)}")
    return cast(Match, match)


def covered(question: Question, text: str, match: Match, language: str) -> float:
    """Return the share of a question's keywords that stand in a text; see KeywordCoverage for ``match``."""
    keywords = question.keywords
    if match == "stem":
        code = code_of(question.labels.get("language", "") if language == "label" else language)
        code = code or tell(" ".join([question.text, *question.expected])) or "en"
        stems = _stems(text, code)
        return sum(_stems(keyword, code) in stems for keyword in keywords) / len(keywords)
    folded = fold(text)
    return sum(bool(_pattern(keyword, match).search(folded)) for keyword in keywords) / len(keywords)


@lru_cache(maxsize=1 << 14)
def _stems(text: str, code: str) -> str:
    """Return the stems of a text's words and its signs, folded, each between spaces."""
    tokens = _TOKEN.findall(unicodedata.normalize("NFC", text).lower())
    return f" {' '.join(fold(stem) for stem in _stemmer(code).stemWords(tokens))} "


@cache
def _stemmer(code: str) -> Any:
    import Stemmer

    return Stemmer.Stemmer(_STEMMERS[code])


@lru_cache(maxsize=1 << 14)
def _pattern(keyword: str, match: Match) -> re.Pattern[str]:
    """Find a keyword; a whole word is no part of a longer one, a sign at its edge (``-(x+1)``) has no such limit."""
    words = [re.escape(word) for word in fold(keyword).split()]
    pattern = r"\s+".join(words)
    if match == "substring":
        return re.compile(pattern)
    begin = r"(?<!\w)" if re.match(r"\w", fold(keyword).strip()) else ""
    end = r"(?!\w)" if re.search(r"\w$", fold(keyword).strip()) else ""
    return re.compile(f"{begin}{pattern}{end}")
