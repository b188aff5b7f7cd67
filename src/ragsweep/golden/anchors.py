"""Find anchors (quotes from a document) in the document's source and in its text rendered as Markdown."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import accumulate, islice

from ragsweep.core.words import SOFT_HYPHEN, pattern, without_soft_hyphens, words
from ragsweep.golden.markdown import Derived, Piece, derive, render

Span = tuple[int, int]

_LONG_RUN = r"\s\s+"
_IGNORED_FIRST = re.compile(r"\A[\s\u00ad]+")
_MARKUP = re.compile(r"[*_`~\[\]<>&\\#|!]|^(?:[-+]|\d+[.)])\s")  # a quote without markup needs no rendering
_LONGEST_MARKUP = 500  # maximum length of markup, such as the target of a link, between the words of a passage
_HIDING = re.compile(r"[\[\]()<>&;`~\"']")  # markup that can hide words
_LETTER = re.compile(r"[^\W\d_]")
_SHOWN = 160  # maximum length of a passage in a message


def resolve(text: str, anchor: str, start: int | None = None) -> list[Span]:
    """Return the spans of all occurrences of an anchor in ``text``, in order.

    With ``start``, return only an occurrence that begins there. Occurrences may overlap. A blank anchor does not occur.

    A run of white space equals one space, and white space at the ends of the anchor is ignored. The text and the anchor
    are compared in Unicode's composed form, without ligatures and soft hyphens (see ``composed``). If no occurrence is
    found, both are rendered as Markdown, and their visible texts (without emphasis, backticks and link targets) are
    compared.

    The normalised and rendered forms of only the latest texts are cached, so a search for many anchors in many
    documents should loop over the documents first.
    """
    quote = canonical(anchor)
    if not quote:
        return []

    blanks = len(anchor) - len(_IGNORED_FIRST.sub("", anchor))  # ``start`` may be before or after these blanks

    def chosen(spans: list[Span]) -> list[Span]:
        return [span for span in spans if start is None or span[0] in (start, start + blanks)]

    if in_source := chosen(_spans(_normal(text), quote)):
        return in_source
    form = render(text)
    normal = _normal(form.text)
    visible = _spans(normal, quote) or _spans(normal, _rendered(quote))
    return chosen([form.source(*span) for span in visible])


def visible_words(anchor: str) -> list[str]:
    """Return the words of an anchor rendered as Markdown, without punctuation."""
    return words(visible_text(anchor))


def visible_text(anchor: str) -> str:
    """Return an anchor rendered as Markdown, in Unicode's composed form, with single spaces between words."""
    return _rendered(canonical(anchor))


def in_order(text: str, wanted: Sequence[str]) -> bool:
    """Return whether the words ``wanted`` occur in ``text`` in this order, with nothing or only markup between them.

    This check is about a thousand times as fast as the rendering in ``resolve``. If the result is False, ``resolve``
    finds no anchor with these words, unless the markup between them is very long. If ``wanted`` is empty, the result is
    True.
    """
    if not wanted or not all(map(text.__contains__, wanted)):
        return not wanted
    reach, longest = 4 * sum(map(len, wanted)) + _LONGEST_MARKUP, max(wanted, key=len)
    windows: list[Span] = []  # the parts of the text near an occurrence of the longest word
    for place in _places(text, longest):
        start = windows.pop()[0] if windows and windows[-1][1] >= place - reach else max(0, place - reach)
        windows.append((start, place + reach))
    return any(_follow(text[start:end], wanted, reach) for start, end in windows)


def _follow(text: str, wanted: Sequence[str], reach: int) -> bool:
    """Return whether the words ``wanted`` are in order (see ``in_order``) within ``reach`` characters of ``text``."""
    if not all(word in text for word in wanted):
        return False
    hiding = [one.start() for one in _HIDING.finditer(text)]
    reached: list[Span] = []  # (a possible end of the words so far, their latest start for this end)
    for n, word in enumerate(wanted):
        places = [(place, place + len(word)) for place in _places(text, word)]
        if n:
            places = [(start, end) for start, end in _continued(text, reached, places, hiding) if end <= start + reach]
        if not places:
            return False
        reached = [(end, start) for start, end in places]
    return True


def _places(text: str, word: str) -> Iterator[int]:
    """Yield the starts of all occurrences of a word or a quote, which may overlap."""
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def _continued(text: str, reached: Sequence[Span], places: Sequence[Span], hiding: Sequence[int]) -> Iterator[Span]:
    """Yield (latest start of the words so far, end of the next word) for the spans in ``places`` that can follow.

    The text between the words must have at most one character, have no letters, or contain a character that can hide
    letters.
    """
    ends, latest = [end for end, _ in reached], list(accumulate((start for _, start in reached), max))
    for place, end in places:
        before = bisect_right(ends, place)
        last_hiding = bisect_left(hiding, place)
        hidden = bisect_right(ends, hiding[last_hiding - 1]) if last_hiding else 0
        if before and (place <= ends[before - 1] + 1 or not _LETTER.search(text, ends[before - 1], place)):
            yield max(reached[before - 1][1], latest[hidden - 1] if hidden else 0), end
        elif hidden:
            yield latest[hidden - 1], end


def composed(text: str) -> str:
    """Return ``text`` in Unicode's composed form (NFC), with plain letters in place of ligatures and letter variants.

    Soft hyphens are removed, with the line breaks after them. Variants of other characters, such as superscript digits,
    are kept, because replacing them (as NFKC does) can change the meaning.
    """
    if text.isascii():
        return text
    letters = {ord(letter): one for letter in set(text) if (one := _plain_letters(letter)) != letter}
    plain = without_soft_hyphens(text)
    return unicodedata.normalize("NFC", plain.translate(letters) if letters else plain)  # `translate` is slow


def canonical(text: str) -> str:
    """Return ``text`` in composed form with single spaces, for comparisons that ignore how characters are encoded."""
    return " ".join(composed(text).split())


@cache
def _plain_letters(letter: str) -> str:
    plain = unicodedata.normalize("NFKC", letter)
    return plain if letter.isalpha() and plain.isalpha() else letter


def nearest_passage(text: str, anchor: str) -> tuple[int, str] | None:
    """Return the start and the text of the passage that shares the longest run of words with an anchor.

    Case and Markdown markup are ignored. The passage is cut after 160 characters. Returns None if the longest run has
    fewer than four characters.
    """
    form = render(text)
    normal = _normal(form.text)
    lower = normal.text.lower()
    haystack = lower if len(lower) == len(normal.text) else normal.text
    quote = visible_text(anchor).lower()
    at, run = _longest_run(haystack, quote)
    if len(run) < 4:
        return None
    # context on each side: as many units as the anchor has before and after the run
    before, after = (len(pattern("quoted").findall(part)) for part in quote.split(run, 1))
    head, tail = normal.text[:at][-20 * (before + 1) :], normal.text[at + len(run) :][: 20 * (after + 1)]
    starts = [match.start() for match in pattern("quoted").finditer(head)][-before:] if before else []
    stops = [match.end() for match in pattern("quoted").finditer(tail)][:after]
    begin = at - len(head) + (starts[0] if starts else len(head))
    end = at + len(run) + (stops[-1] if stops else 0)
    first, _ = normal.source(begin, end)
    passage = normal.text[begin:end].strip()
    return form.source(first, first + 1)[0], passage if len(passage) <= _SHOWN else f"{passage[:_SHOWN]}..."


MOST_WORDS = 1000
"""Maximum number of leading words of an anchor among which the longest run is sought, to limit the time."""


def _longest_run(haystack: str, quote: str) -> tuple[int, str]:
    """Return the position and the text of the longest run of a quote's words in ``haystack``, or (0, "").

    The length of the run is found by bisection: if a run of n words occurs, so does a run of n - 1 words.
    """
    places = [match.span() for match in islice(pattern("quoted").finditer(quote), MOST_WORDS)]
    best, low, high = (0, ""), 1, len(places)
    while low <= high:
        length = (low + high) // 2
        windows = zip(places, places[length - 1 :], strict=False)
        runs = (quote[first[0] : last[1]] for first, last in windows)
        run = next((run for run in sorted(runs, key=len, reverse=True) if run in haystack), "")
        best, low, high = ((haystack.find(run), run), length + 1, high) if run else (best, low, length - 1)
    return best


def _rendered(quote: str) -> str:
    return canonical(render(quote).text) if _MARKUP.search(quote) else quote


def _spans(form: Derived, quote: str) -> list[Span]:
    return [form.source(place, place + len(quote)) for place in _places(form.text, quote)] if quote else []


@lru_cache(maxsize=128)
def _normal(text: str) -> Derived:
    """Return ``text`` in composed form (see ``composed``), with a single space for every run of white space."""
    form = derive(_pieces(text))
    return form._replace(text=re.sub(r"\s", " ", form.text))


def _pieces(text: str) -> Iterator[Piece]:
    end = 0
    for match in re.finditer(_changing(text), text):
        yield Piece(text[end : match.start()], end, match.start())
        run, end = match[0], match.end()
        plain = composed(run)
        yield Piece(" " if plain.isspace() else plain, match.start(), end)
    yield Piece(text[end:], end, len(text))


def _changing(text: str) -> str:
    """Return a regular expression that matches the parts of ``text`` that normalisation changes.

    Only marks, and the vowels and finals of Hangul (U+1160 to U+11FF), combine with the preceding character. A soft
    hyphen does not interrupt a combination or a run of white space.
    """
    if composed(text) == text:
        return _LONG_RUN
    signs = set(text)
    hangul = {sign for sign in signs if "\u1160" <= _plain_letters(sign) < "\u1200"}
    marks = hangul | {sign for sign in signs if unicodedata.category(sign)[0] == "M"}
    single = {sign for sign in signs - marks if composed(sign) != sign}
    patterns, hyphens = [_LONG_RUN], ""
    if "\u00ad" in signs:
        hyphens = f"(?:{SOFT_HYPHEN.pattern})*"
        patterns = [f"(?:{SOFT_HYPHEN.pattern})+", r"\s[\s\u00ad]+"]  # whole runs, so that each is scanned once
    if marks:
        either = "".join(map(re.escape, sorted(marks)))
        patterns.insert(0, f"[^{either}\u00ad]?(?:{hyphens}[{either}])+")
    if single:
        patterns.append(f"[{''.join(map(re.escape, sorted(single)))}]")
    return "|".join(patterns)
