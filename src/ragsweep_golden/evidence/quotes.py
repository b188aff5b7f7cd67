"""Locate texts in a corpus, and quote them as evidence with the shortest run of words that is unique in a document."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ragsweep.core.types import Corpus
from ragsweep.core.words import STOPS, pattern, search_terms, word_count
from ragsweep.golden.anchors import composed, in_order, nearest_passage, resolve, visible_text, visible_words
from ragsweep.parts.languages import detect_language, usual_language
from ragsweep.parts.retrievers.bm25 import rank_texts
from ragsweep.parts.sentences import sentences
from ragsweep_golden.sets.entries import LANGUAGES

FEWEST_WORDS = 5
"""Minimum number of words of a quote: a shorter quote may be unique only until the next edit of the document.

Two characters of a script without spaces count as one word.
"""

_MOST_WORDS = 40  # maximum number of words of a quote that is longer than its evidence
_BREAK = re.compile(r"[.!?:;]\s|[\u3002\uff01\uff1a\uff1b\uff1f]|\n")  # a place where a chunker is likely to cut

_HEADING = re.compile(r"#{1,6}\s[^\n]*|[^\n]+\n *(?:=+|-+)")
_FULL_WIDTH_STOPS = tuple(stop for stop in STOPS if not stop.isascii())


def shortest_anchor(text: str, start: int, end: int) -> tuple[str, int | None]:
    """Return an anchor (a quote) for the evidence from ``start`` to ``end`` in a text, and the anchor's start or None.

    The anchor is the shortest quote that occurs exactly once in the text; its start is then None. The quote has at
    least FEWEST_WORDS words, or all words of a shorter text. The quote is part of the evidence or, if the evidence has
    fewer words, contains the evidence and has at most _MOST_WORDS words. A word that ``start`` or ``end`` cuts counts
    as evidence. If no such quote occurs exactly once, the anchor is the whole evidence, and its start is returned.
    """
    words = _words(text)
    first = bisect_right(words, start, key=lambda word: word[1])
    last = bisect_left(words, end, key=lambda word: word[0])

    def quote(begin: int, stop: int) -> str:
        return text[words[begin][0] : words[stop - 1][1]]

    whole, count = quote(first, last), len(words)
    enough = min(FEWEST_WORDS, word_count(text))
    if word_count(whole) < FEWEST_WORDS:
        lengths = range(max(min(FEWEST_WORDS, count), last - first), min(_MOST_WORDS, count) + 1)
    else:
        lengths = range(FEWEST_WORDS, last - first + 1 if len(resolve(text, whole)) == 1 else 0)
    for length in lengths:
        low, high = sorted((first, last - length))
        quotes = [quote(n, n + length) for n in range(max(low, 0), min(high, count - length) + 1)]
        # among quotes of equal length, first try the quote that a chunker is least likely to cut
        for one in sorted(quotes, key=lambda one: len(_BREAK.findall(one))):
            if word_count(one) >= enough and len(resolve(text, one)) == 1:
                return " ".join(one.split()), None
    return " ".join(whole.split()), words[first][0]


def best_sentence(question: str, text: str, place: tuple[int, int], code: str) -> tuple[int, int] | None:
    """Return the span of the sentence in a passage that matches a question best by BM25; None if there is no sentence.

    ``place`` is the span of the passage in ``text``, and ``code`` is the code of the language. Headings, and sentences
    of fewer than FEWEST_WORDS words without a full-width stop, are considered only if the passage has no other
    sentences. If no sentence matches, the first is returned.
    """
    begin, end = place
    found = sentences(text[begin:end], LANGUAGES.get(code, "english"))
    inside = [(begin + start, begin + stop) for start, stop in found]
    inside = [one for one in inside if not is_heading(text[slice(*one)])] or inside
    inside = [one for one in inside if _is_long(text[slice(*one)])] or inside
    (ranked,) = rank_texts([question], [text[start:stop] for start, stop in inside], code, 1)
    return inside[ranked[0] if ranked else 0] if inside else None


def is_heading(sentence: str) -> bool:
    """Return whether a sentence is a Markdown heading, which may resemble a question but answers none."""
    return _HEADING.fullmatch(sentence.strip()) is not None


def _is_long(sentence: str) -> bool:
    return word_count(sentence) >= FEWEST_WORDS or sentence.rstrip().endswith(_FULL_WIDTH_STOPS)


def rank_by_language(
    questions: Sequence[str], codes: Sequence[str], texts: Sequence[str], depth: int
) -> list[list[int]]:
    """Return, for each question, the indices of at most ``depth`` texts that match it by BM25, best first.

    ``codes`` are the language codes of the questions.
    """
    ranked: list[list[int]] = [[] for _ in questions]
    for code in dict.fromkeys(codes):
        rows = [n for n, one in enumerate(codes) if one == code]
        for n, best in zip(rows, rank_texts([questions[n] for n in rows], texts, code, depth), strict=True):
            ranked[n] = best
    return ranked


@lru_cache(maxsize=16)
def _words(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in pattern("quoted").finditer(text)]


LEAST_SHARED = 0.6  # minimum share of a text's words that the nearest passage must contain
_CANDIDATES = 5  # number of documents, the best by BM25, that are searched for the nearest passage
_LONG = 30  # maximum number of words of a passage that is quoted as a whole


class GivenText(NamedTuple):
    """A text to locate in a corpus. ``document``: id of its document, if known; ``exact``: require a verbatim match."""

    text: str
    document: str | None = None
    exact: bool = False


class Place(NamedTuple):
    """The place of a text in a corpus: the index of a document, and the start and end of the text in it.

    ``shared`` is the share of the text's words that the place contains, 1 for a verbatim match. ``others`` is the
    number of other documents that contain the text verbatim.
    """

    document: int
    start: int
    end: int
    shared: float = 1.0
    others: int = 0


def locate(given: Sequence[GivenText], corpus: Corpus) -> dict[GivenText, Place]:
    """Return the place of each text that is found in a corpus; texts that are not found are omitted.

    The place is the first verbatim match. If there is no such match, and the text is not ``exact``, the place is the
    nearest passage that contains at least LEAST_SHARED of the text's words. If the document of a text is known, only
    this document is searched.
    """
    found: dict[GivenText, Place] = {}
    words = {one: visible_words(one.text) for one in given}
    for number, (identifier, text) in enumerate(zip(corpus.ids, corpus.texts, strict=True)):
        normal = composed(text)
        for one in words:
            if one.document in (None, identifier) and words[one] and in_order(normal, words[one]):
                places = resolve(text, one.text)
                if places and one in found:
                    found[one] = found[one]._replace(others=found[one].others + 1)
                elif places:
                    found[one] = Place(number, *places[0])
    left = [one for one in words if one not in found and not one.exact and words[one]]
    return found | _locate_nearest(left, corpus)


def _locate_nearest(given: Sequence[GivenText], corpus: Corpus) -> dict[GivenText, Place]:
    if not given:
        return {}
    code = usual_language(one.text for one in given)
    ranked = rank_texts([one.text for one in given], corpus.texts, code, _CANDIDATES)
    found = {}
    for one, candidates in zip(given, ranked, strict=True):
        if one.document is not None:
            candidates = [corpus.position[one.document]] if one.document in corpus.position else []
        near = [place for number in candidates if (place := _nearest(one.text, number, corpus.texts[number]))]
        if near and (best := max(near, key=lambda place: place.shared)).shared >= LEAST_SHARED:
            found[one] = best
    return found


def _nearest(text: str, number: int, document: str) -> Place | None:
    passage = nearest_passage(document, text)
    if passage is None:
        return None
    start = passage[0]
    end = min(len(document), start + len(text))
    wanted, present = (set(search_terms(visible_text(part).casefold())) for part in (text, document[start:end]))
    return Place(number, start, end, len(wanted & present) / len(wanted)) if wanted else None


def quote(place: Place, question: str, reference: str, corpus: Corpus) -> tuple[str, int | None]:
    """Return an anchor (a quote) from the passage ``place``, and the anchor's start or None (see ``shortest_anchor``).

    If the passage contains the right answer (``reference``) exactly once, and not within a word, the evidence is that
    answer. Otherwise, the evidence is the whole passage or, if the passage has more than _LONG words, its best sentence
    by BM25 for the question and the answer.
    """
    text = corpus.texts[place.document]
    start, end = place.start, place.end
    passage = text[start:end]
    if len(found := whole_words(passage, reference.strip())) == 1:
        start, end = start + found[0][0], start + found[0][1]
    elif word_count(passage) > _LONG:
        code = detect_language(question) or detect_language(passage)
        start, end = best_sentence(f"{question} {reference}", text, (start, end), code) or (start, end)
    return shortest_anchor(text, start, end)


def whole_words(text: str, answer: str) -> list[tuple[int, int]]:
    """Return the spans of an answer in a text, as whole words ("no" is not in "another"); [] for a blank answer."""
    letter = pattern("letter")
    begin = rf"(?<!{letter.pattern})" if letter.match(answer) else ""
    end = rf"(?!{letter.pattern})" if letter.fullmatch(answer[-1:]) else ""
    return [found.span() for found in re.finditer(f"{begin}{re.escape(answer)}{end}", text)] if answer else []
