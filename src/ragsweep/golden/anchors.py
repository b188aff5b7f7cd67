"""Find anchor quotes in a document, as they are written there and as they are seen when its Markdown is rendered."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ragsweep.golden.rendered import Derived, Piece, derive, render

Span = tuple[int, int]

_LONG_RUN = r"\s\s+"
_MARKUP = re.compile(r"[*_`~\[\]<>&\\#|!]|^(?:[-+]|\d+[.)])\s")  # without any of it, a quote is seen as it is written
_LONGEST_MARKUP = 500  # characters between the words of one passage, such as the target of a link
_SHOWN = 160  # characters of a passage in a message


def resolve(text: str, anchor: str, start: int | None = None) -> list[Span]:
    """Find all occurrences of an anchor in a document's text.

    Runs of white space, in both, count as one space; those at the anchor's ends do not count. Both are compared in
    Unicode's composed form (NFC). Where the text does not hold the anchor as it is written, both are compared as they
    are seen when they are rendered as Markdown: without emphasis, backticks, the targets of links. Occurrences may
    overlap. The forms of the last 128 texts are remembered: with many anchors and many texts, let the texts be the
    outer loop.

    Args:
        text: The document's text.
        anchor: The quote to find.
        start: Where the quote begins in the text; keeps only the occurrence that begins exactly there.

    Returns:
        Spans of characters in the text as it was given, in their order; none for a blank anchor.
    """
    quote = _plain(anchor)
    if not quote:
        return []
    found = _kept(_spans(_normal(text), quote), start)
    return found or _kept(_seen(text, quote), start)


def seen_words(anchor: str) -> list[str]:
    """Return the words of an anchor as they are seen, without signs."""
    return re.findall(r"\w+", _rendered(_plain(anchor)))


def in_order(text: str, words: Sequence[str]) -> bool:
    """Return whether words occur in a text in order and near together: a cheap check before ``resolve``."""
    reach = 4 * sum(map(len, words)) + _LONGEST_MARKUP
    at = text.find(words[0]) if words else -1
    while at >= 0:
        end = at
        for word in words:
            place = text.find(word, end, at + reach)
            if place < 0:
                break
            end = place + len(word)
        else:
            return True
        at = text.find(words[0], at + 1)
    return not words


def composed(text: str) -> str:
    """Return a text in Unicode's composed form."""
    return unicodedata.normalize("NFC", text)


def nearest_passage(text: str, anchor: str) -> tuple[int, str] | None:
    """Return what of a text shares the longest run of words with an anchor: where it begins, and the words.

    Case and Markdown do not count. None where not even a word of four letters or more is shared.
    """
    form = render(text)
    normal = _normal(form.text)
    haystack = normal.text.lower() if len(normal.text.lower()) == len(normal.text) else normal.text
    words = _rendered(_plain(anchor)).lower().split()
    at, run = _longest_run(haystack, words)
    if len(run) < 4:
        return None
    # as many words before and behind it as the anchor has
    before, behind = (anchor_part.split() for anchor_part in " ".join(words).split(run, 1))
    begin = at - len(_tail(normal.text[:at], len(before)))
    end = at + len(run) + len(_head(normal.text[at + len(run) :], len(behind)))
    first, _ = normal.source(begin, end)
    passage = normal.text[begin:end].strip()
    return form.source(first, first + 1)[0], passage if len(passage) <= _SHOWN else f"{passage[:_SHOWN]}..."


def _longest_run(haystack: str, words: list[str]) -> tuple[int, str]:
    """Find the longest run of words that a text holds; a text with a run of n holds one of n - 1, too."""
    best, low, high = (0, ""), 1, len(words)
    while low <= high:
        length = (low + high) // 2
        runs = (" ".join(words[n : n + length]) for n in range(len(words) - length + 1))
        run = next((run for run in sorted(runs, key=len, reverse=True) if run in haystack), "")
        best, low, high = ((haystack.find(run), run), length + 1, high) if run else (best, low, length - 1)
    return best


def _tail(text: str, count: int) -> str:
    found = re.search(rf"(?:\S+\s*){{0,{count}}}\Z", text[-20 * (count + 1) :]) if count else None
    return found[0] if found else ""


def _head(text: str, count: int) -> str:
    found = re.match(rf"(?:\s*\S+){{0,{count}}}", text[: 20 * (count + 1)]) if count else None
    return found[0] if found else ""


def _seen(text: str, quote: str) -> list[Span]:
    """Find a quote in the visible text."""
    form = render(text)
    normal = _normal(form.text)
    found = _spans(normal, quote) or _spans(normal, _rendered(quote))
    return [form.source(*span) for span in found]


def _rendered(quote: str) -> str:
    return _plain(render(quote).text) if _MARKUP.search(quote) else quote


def _plain(quote: str) -> str:
    return composed(" ".join(quote.split()))


def _kept(spans: list[Span], start: int | None) -> list[Span]:
    return [span for span in spans if start is None or span[0] == start]


def _spans(form: Derived, quote: str) -> list[Span]:
    spans = []
    position = form.text.find(quote) if quote else -1
    while position >= 0:
        spans.append(form.source(position, position + len(quote)))
        position = form.text.find(quote, position + 1)
    return spans


@lru_cache(maxsize=128)
def _normal(text: str) -> Derived:
    """Compose a text's characters, and make every run of white space one space."""
    form = derive(_pieces(text))
    return form._replace(text=re.sub(r"\s", " ", form.text))


def _pieces(text: str) -> Iterator[Piece]:
    end = 0
    for match in re.finditer(_changing(text), text):
        yield Piece(text[end : match.start()], end, match.start())
        run, end = match[0], match.end()
        yield Piece(" " if run.isspace() else composed(run), match.start(), end)
    yield Piece(text[end:], end, len(text))


def _changing(text: str) -> str:
    """Return a pattern of what of a text is another one in its normal form.

    Only marks and the vowels and finals of Hangul (U+1160 to U+11FF) are composed with what is before them.
    """
    if unicodedata.is_normalized("NFC", text):
        return _LONG_RUN
    signs = set(text)
    marks = {sign for sign in signs if unicodedata.category(sign)[0] == "M" or "\u1160" <= sign <= "\u11ff"}
    single = {sign for sign in signs - marks if composed(sign) != sign}
    ways = [_LONG_RUN]
    if marks:
        either = "".join(map(re.escape, sorted(marks)))
        ways.insert(0, f"[^{either}]?[{either}]+")
    if single:
        ways.append(f"[{''.join(map(re.escape, sorted(single)))}]")
    return "|".join(ways)
