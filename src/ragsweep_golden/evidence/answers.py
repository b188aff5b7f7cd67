"""Compare answers and questions with passages by their words."""

from __future__ import annotations

import re

from ragsweep.core.words import is_syllabic, words
from ragsweep.golden.anchors import resolve
from ragsweep.parts.languages import STOP_WORDS, content_words, fold

SHORTEST_WORD = 4  # fewest characters of a word of an answer that is searched for
_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,}).*$", re.MULTILINE)


def is_verbatim(answer: str, passage: str) -> bool:
    """Return whether a passage contains every line of an answer verbatim, case and typography included."""
    lines = [line for line in answer.splitlines() if line.strip()]
    # A chunk may begin or end inside a code block, and then its fences mark the wrong parts.
    unfenced = _FENCE.sub("", passage)
    return bool(lines) and all(resolve(passage, line) or resolve(unfenced, line) for line in lines)


def keyword_coverage(answer: str, passage: str, language: str) -> float:
    """Return the share of an answer's words (4 characters or more, no stop words) in a passage; 0 without any."""
    stop_words = STOP_WORDS[language]
    wanted = {
        word for word in _words(answer) if (len(word) >= SHORTEST_WORD or is_syllabic(word)) and word not in stop_words
    }
    return len(wanted & _words(passage)) / len(wanted) if wanted else 0.0


def numbers(text: str) -> set[str]:
    """Return the numbers of a text, which word overlap and embeddings compare poorly."""
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def _words(text: str) -> set[str]:
    return set(words(fold(re.sub(r"[*_`]", " ", text))))


def lexical_overlap(question: str, passage: str, language: str) -> float:
    """Return the share of a question's content words in a passage; 0 without content words."""
    asked = content_words(question, language)
    return len(asked & content_words(passage, language)) / len(asked) if asked else 0.0
