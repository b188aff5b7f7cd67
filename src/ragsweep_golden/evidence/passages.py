"""Locate evidence labels in a corpus, and compare passages, answers and questions by their words."""

import difflib
import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from ragsweep.core.types import Corpus, Evidence
from ragsweep.core.words import STOPS, is_syllabic, pattern, words
from ragsweep.golden import judged_spans
from ragsweep.golden.anchors import Span, composed, resolve
from ragsweep.parts.languages import STOP_WORDS, content_words, fold

SENTENCE_END = re.compile(r"[.!?\u0589\u061f\u06d4\u0964]\s+|[\u3002\uff01\uff1f]\s*|\n\s*\n")
"""Matches a blank line, and the end of a sentence in Latin, Armenian, Arabic, Urdu, Devanagari, Chinese or Japanese."""

SHORTEST_WORD = 4  # minimum length in characters of the words that ``keyword_coverage`` compares
_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,}).*$", re.MULTILINE)
_REACH = 200  # number of characters on either side of an anchor that are compared
_EDGE = ""  # represents the beginning and the end of a document among its words


class Common(NamedTuple):
    """The numbers of words around an anchor that match in two texts: within the anchor's sentence, and in total."""

    in_sentence: int
    all: int


NOTHING = Common(-1, -1)  # less than every result of ``common_words``


def locate_label(label: Mapping[str, Any], corpus: Corpus) -> tuple[int, int, int] | None:
    """Return (document index, start, end) of an entry's label, or None (see ``judged_spans.locate_label``)."""
    return judged_spans.locate_label(Evidence(label["document"], label.get("anchor"), label.get("start")), corpus)


def common_words(text: str, span: Span, other: str, place: Span) -> Common:
    """Return the numbers of words directly before and after an anchor that match in two texts.

    The anchor is at ``span`` in ``text``, and at ``place`` in ``other``. On each side, the count stops at the first
    difference or ``_REACH`` characters from the anchor. The beginning of both documents, or the end of both, counts as
    a matching word.
    """
    mine, theirs = _surroundings(text, span), _surroundings(other, place)
    before, after = (
        [word for word, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False))]
        for one, two in zip(mine, theirs, strict=True)
    )
    ends = [n for n, word in enumerate(after) if word.endswith(STOPS)]
    begins = [n for n, word in enumerate(before) if word.endswith(STOPS)]
    in_sentence = min([*begins, len(before)]) + min([*(n + 1 for n in ends), len(after)])
    return Common(in_sentence, len(before) + len(after))


def _surroundings(text: str, span: Span) -> tuple[list[str], list[str]]:
    """Return the words within ``_REACH`` characters before an anchor, nearest first, and after it, in text order."""
    before, after = text[max(0, span[0] - _REACH) : span[0]], text[span[1] : span[1] + _REACH]
    first = [_EDGE] if span[0] <= _REACH else []
    last = [_EDGE] if span[1] + _REACH >= len(text) else []
    behind, ahead = (pattern("quoted").findall(composed(part)) for part in (before, after))
    return [*behind[::-1], *first], [*ahead, *last]


def sentence_around(text: str, span: Span) -> str:
    """Return the sentence that contains an anchor, cut to ``_REACH`` characters before and after the anchor."""
    before, after = text[max(0, span[0] - _REACH) : span[0]], text[span[1] - 1 : span[1] + _REACH]
    begin = max((match.end() for match in SENTENCE_END.finditer(before)), default=0)
    end = SENTENCE_END.search(after)
    return before[begin:] + text[span[0] : span[1] - 1] + (after[: end.start() + 1] if end else after)


def similarity(one: str, other: str) -> float:
    """Return the share of words, from 0 to 1, that two passages have in common in the same order; case is ignored.

    Two passages without words have the similarity 1.
    """
    mine, theirs = (words(composed(text).lower()) for text in (one, other))
    return difflib.SequenceMatcher(None, mine, theirs, autojunk=False).ratio()


def is_verbatim(answer: str, passage: str) -> bool:
    """Return whether a passage contains every line of an answer verbatim; False for a blank answer.

    Case must match, but differences of white space, Unicode encoding and Markdown markup are ignored (see ``resolve``).
    """
    lines = [line for line in answer.splitlines() if line.strip()]
    # If a chunk begins or ends inside a code block, its fences seem to enclose other lines: also search without them.
    unfenced = _FENCE.sub("", passage)
    return bool(lines) and all(resolve(passage, line) or resolve(unfenced, line) for line in lines)


def keyword_coverage(answer: str, passage: str, language: str) -> float:
    """Return the share of an answer's keywords that a passage contains, from 0 to 1; 0 if the answer has no keywords.

    Keywords are the distinct words of at least SHORTEST_WORD characters, and the characters that count as words (see
    ``is_syllabic``), without the stop words of ``language``. Case and accents are ignored.
    """
    said = _words(answer) - set(STOP_WORDS[language])
    wanted = {word for word in said if len(word) >= SHORTEST_WORD or is_syllabic(word)}
    return len(wanted & _words(passage)) / len(wanted) if wanted else 0.0


def numbers(text: str) -> set[str]:
    """Return the distinct numbers in ``text``, as they are written, such as "3.5".

    Numbers are compared separately, because word overlap and embeddings are unreliable for them.
    """
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def _words(text: str) -> set[str]:
    return set(words(fold(re.sub(r"[*_`]", " ", text))))


def lexical_overlap(question: str, passage: str, language: str) -> float:
    """Return the share of a question's content words that a passage contains; 0 if the question has none."""
    asked = content_words(question, language)
    return len(asked & content_words(passage, language)) / len(asked) if asked else 0.0
