"""Contract tests for a chunker; to apply them, write ``class TestMine(ChunkerContract): part = Mine``."""

import random
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ragsweep.core.types import Chunker, Corpus, Spans
from ragsweep.testing.contract import Contract

WORDS = ("word", "é", "e\u0301", "漢字", "🙂", "a-long-word" * 9)
GAPS = (" ", "  ", "\n", "\n\n", "\r\n", ". ", "? ", "\t", "\u2028")


def texts(number: int = 60) -> list[str]:
    """Return seven special texts (such as an empty text and a very long word), and ``number`` random texts."""
    chance = random.Random(0)
    mixed = ["".join(chance.choices(WORDS + GAPS, k=chance.randrange(200))) for _ in range(number)]
    return ["", " ", "\n \t\n", "x", "x" * 5000, " " * 3000 + "end", "half \ud800 a character", *mixed]


def assert_lawful(spans: Spans, corpus: Corpus) -> None:
    """Check that spans have the right dtypes, are sorted, distinct and within their texts, and cover non-blank text.

    Only the span of a blank document may be blank, and such a document must be one chunk. Raises AssertionError
    otherwise.
    """
    rows = list(zip(spans.document.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True))
    assert [array.dtype.name for array in spans] == ["int32", "int64", "int64"]
    assert all(span < following for span, following in pairwise(rows)), (
        "spans must be sorted by document, then by start, and none may occur twice"
    )
    for document, text in enumerate(corpus.texts):
        own = [(start, end) for n, start, end in rows if n == document]
        assert all(0 <= start <= end <= len(text) for start, end in own), f"a span is not within its text: {own}"
        if not text.strip():
            assert own == [(0, len(text))], f"a blank document must be one chunk, not {own}"
            continue
        assert all(text[start:end].strip() for start, end in own), f"a chunk is blank: {own}"
        covered = {n for start, end in own for n in range(start, end)}
        lost = [n for n, character in enumerate(text) if not character.isspace() and n not in covered]
        assert not lost, f"characters that are in no chunk: {lost[:10]} of {text[:80]!r}"


class ChunkerContract(Contract):
    """Contract tests for a chunker: set ``part`` to your class, or to a method that returns an instance."""

    part: Callable[[], Chunker]

    def test_no_text_is_lost_and_spans_are_in_order(self) -> None:
        """Check the spans of the documents in :func:`texts` with :func:`assert_lawful`."""
        corpus = _corpus(texts())
        assert_lawful(self.part().split(corpus), corpus)

    def test_a_document_is_split_alike_in_any_corpus(self) -> None:
        """Check that the chunks of a document do not depend on the other documents."""
        corpus = _corpus(texts(10))
        together = self.part().split(corpus)
        for document, text in enumerate(corpus.texts):
            alone = self.part().split(_corpus([text]))
            own = together.document == document
            np.testing.assert_array_equal(alone.start, together.start[own])
            np.testing.assert_array_equal(alone.end, together.end[own])


def _corpus(texts: list[str]) -> Corpus:
    return Corpus([str(n) for n in range(len(texts))], [""] * len(texts), texts)
