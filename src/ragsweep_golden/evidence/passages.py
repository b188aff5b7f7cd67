"""Locate labels, and compare passages with each other, with answers and with questions by their words."""

import difflib
import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from ragsweep.core.types import Corpus
from ragsweep.core.words import STOPS, is_syllabic, pattern, words
from ragsweep.golden.anchors import Span, composed, resolve
from ragsweep.parts.languages import STOP_WORDS, content_words, fold

SENTENCE_END = re.compile(r"[.!?]\s+|[\u3002\uff01\uff1f]\s*|\n\s*\n")

SHORTEST_WORD = 4  # minimum characters of a searched word of an answer
_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,}).*$", re.MULTILINE)
_REACH = 200  # characters before and after an anchor that are compared
_EDGE = ""  # neighbour of the first and of the last word of a document


class Common(NamedTuple):
    """The numbers of words that two places share around an anchor: in the anchor's sentence, and in all."""

    in_sentence: int
    all: int


NOTHING = Common(-1, -1)


def locate_label(label: Mapping[str, Any], corpus: Corpus) -> tuple[int, int, int] | None:
    """Return a label's document index, start and end (without an anchor, of the whole document); None if not found."""
    position = corpus.position.get(str(label.get("document")))
    if position is None:
        return None
    text, anchor, start = corpus.texts[position], label.get("anchor"), label.get("start")
    if anchor is None:
        return position, 0, len(text)
    found = resolve(text, str(anchor), start if isinstance(start, int) else None)
    return (position, *found[0]) if found else None


def canonical(text: str) -> str:
    """Return a text in composed form with single spaces; differences of encoding and white space are lost."""
    return " ".join(composed(text).split())


def common_words(text: str, span: Span, other: str, place: Span) -> Common:
    """Count the equal words directly before and after an anchor in two texts."""
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
    """Return the words before an anchor, nearest first, and those after it."""
    before, after = text[max(0, span[0] - _REACH) : span[0]], text[span[1] : span[1] + _REACH]
    first = [_EDGE] if span[0] <= _REACH else []
    last = [_EDGE] if span[1] + _REACH >= len(text) else []
    behind, ahead = (pattern("quoted").findall(composed(part)) for part in (before, after))
    return [*behind[::-1], *first], [*ahead, *last]


def sentence_around(text: str, span: Span) -> str:
    """Return the sentence around an anchor, with at most ``_REACH`` characters on either side."""
    before, after = text[max(0, span[0] - _REACH) : span[0]], text[span[1] - 1 : span[1] + _REACH]
    begin = max((match.end() for match in SENTENCE_END.finditer(before)), default=0)
    end = SENTENCE_END.search(after)
    return before[begin:] + text[span[0] : span[1] - 1] + (after[: end.start() + 1] if end else after)


def similarity(one: str, other: str) -> float:
    """Return the share of words, from 0 to 1, that two passages have in common in the same order."""
    mine, theirs = (words(composed(text).lower()) for text in (one, other))
    return difflib.SequenceMatcher(None, mine, theirs, autojunk=False).ratio()


def is_verbatim(answer: str, passage: str) -> bool:
    """Return whether a passage contains each line of an answer verbatim, in the same case; False for a blank answer."""
    lines = [line for line in answer.splitlines() if line.strip()]
    # A chunk may begin or end inside a code block, and then its fences mark the wrong parts.
    unfenced = _FENCE.sub("", passage)
    return bool(lines) and all(resolve(passage, line) or resolve(unfenced, line) for line in lines)


def keyword_coverage(answer: str, passage: str, language: str) -> float:
    """Return the share of an answer's words that a passage contains; 0 if there are no words to compare.

    Words of SHORTEST_WORD or more characters and syllabic words are compared, except stop words.
    """
    said = _words(answer) - set(STOP_WORDS[language])
    wanted = {word for word in said if len(word) >= SHORTEST_WORD or is_syllabic(word)}
    return len(wanted & _words(passage)) / len(wanted) if wanted else 0.0


def numbers(text: str) -> set[str]:
    """Return the numbers in a text; word overlap and embeddings are poor at comparing them."""
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def _words(text: str) -> set[str]:
    return set(words(fold(re.sub(r"[*_`]", " ", text))))


def lexical_overlap(question: str, passage: str, language: str) -> float:
    """Return the share of a question's content words that a passage contains; 0 without content words."""
    asked = content_words(question, language)
    return len(asked & content_words(passage, language)) / len(asked) if asked else 0.0
