"""Coverage of a question's keywords by its answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Literal, cast

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.languages import code_of, detect_language, fold
from ragsweep.core.missing import CONVERSATIONAL, NO_KEYWORDS, UNANSWERABLE
from ragsweep.core.types import Answer, Passage, Question
from ragsweep.parts.metrics.answer_metric import AnswerMetric, answer_text

Match = Literal["word", "substring", "stem"]
MATCHES = ("word", "substring", "stem")

_STEMMERS = {"en": "english", "fr": "french", "de": "german", "es": "spanish", "it": "italian", "nl": "dutch",
             "pt": "portuguese"}  # fmt: skip
_TOKEN = re.compile(r"\w+|[^\w\s]")


class KeywordCoverage(AnswerMetric):
    """Proportion of the keywords found in the answer, ignoring case and accents.

    A refusal of an answerable question scores 0; unanswerable questions are not scored.

    Args:
        match: "word": as whole words; "substring": also within longer words (``gratuit`` in ``gratuites``); "stem":
            as words with the same Snowball stem (``gratuite`` in ``gratuits``).
        language: Language of the stems; "label": the question's label ``language``, else detected, else English.

    Raises:
        ConfigError: ``match`` or ``language`` is unknown.
    """

    VERSION = "1"
    name = "keyword_coverage"
    needs = ("answer", "keywords")

    def __init__(self, match: Match = "word", language: str = "label") -> None:
        self.match = check_match(match, self.name)
        self.language = language
        if language != "label" and not code_of(language):
            known = nearest(language, ["label", *_STEMMERS.values()])
            raise ConfigError(f"metrics.{self.name}.language is {language!r}{known}")

    def skip_reason(self, question: Question) -> str:
        """Leave out unanswerable questions and those without keywords."""
        if not question.answerable:
            return UNANSWERABLE
        if question.keywords:
            return ""
        return NO_KEYWORDS if question.needs_retrieval else CONVERSATIONAL

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the proportion of keywords found."""
        return keyword_coverage(question, answer_text(answer), self.match, self.language)


def check_match(match: str, metric: str) -> Match:
    """Return a kind of match; raise ConfigError where it is unknown."""
    if match not in MATCHES:
        raise ConfigError(f"metrics.{metric}.match is {match!r}{nearest(str(match), MATCHES)}")
    return cast(Match, match)


def keyword_coverage(question: Question, text: str, match: Match, language: str) -> float:
    """Return the proportion of a question's keywords found in a text; see KeywordCoverage for ``match``."""
    keywords = question.keywords
    if match == "stem":
        code = code_of(question.labels.get("language", "") if language == "label" else language)
        code = code or detect_language(" ".join([question.text, *question.expected])) or "en"
        stems = _stems(text, code)
        return sum(_stems(keyword, code) in stems for keyword in keywords) / len(keywords)
    folded = fold(text)
    return sum(bool(_pattern(keyword, match).search(folded)) for keyword in keywords) / len(keywords)


@lru_cache(maxsize=1 << 14)
def _stems(text: str, code: str) -> str:
    """Return the folded stems of a text's words, and its signs, each between spaces."""
    tokens = _TOKEN.findall(unicodedata.normalize("NFC", text).lower())
    return f" {' '.join(fold(stem) for stem in _stemmer(code).stemWords(tokens))} "


@cache
def _stemmer(code: str) -> Any:
    import Stemmer

    return Stemmer.Stemmer(_STEMMERS[code])


@lru_cache(maxsize=1 << 14)
def _pattern(keyword: str, match: Match) -> re.Pattern[str]:
    """Compile the pattern of a keyword; a whole word is bounded, a sign at its edge (``-(x+1)``) is not."""
    words = [re.escape(word) for word in fold(keyword).split()]
    pattern = r"\s+".join(words)
    if match == "substring":
        return re.compile(pattern)
    begin = r"(?<!\w)" if re.match(r"\w", fold(keyword).strip()) else ""
    end = r"(?!\w)" if re.search(r"\w$", fold(keyword).strip()) else ""
    return re.compile(f"{begin}{pattern}{end}")
