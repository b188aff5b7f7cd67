"""Chunkers: spans computed by hand, and the contract on texts of all kinds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutting import corpus, cut
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Spans
from ragsweep.parts.chunkers import FixedSize, NoChunker, Recursive
from ragsweep.testing.chunkers import ChunkerContract, assert_lawful


class TestNoChunker(ChunkerContract):
    part = NoChunker


class TestFixedSize(ChunkerContract):
    def part(self) -> FixedSize:
        return FixedSize(size=10, overlap=3)


class TestRecursive(ChunkerContract):
    def part(self) -> Recursive:
        return Recursive(size=60)


def rows(spans: Spans) -> Sequence[tuple[int, int, int]]:
    return list(zip(*(array.tolist() for array in spans), strict=True))


def test_whole_documents_are_one_chunk_each_even_when_empty() -> None:
    assert rows(NoChunker().split(corpus("abc", "", " "))) == [(0, 0, 3), (1, 0, 0), (2, 0, 1)]


def test_windows_of_a_hand_computed_example() -> None:
    assert cut(FixedSize(4), "abcdefghij") == ["abcd", "efgh", "ij"]
    assert cut(FixedSize(4, 1), "abcdefghij") == ["abcd", "defg", "ghij"]
    assert cut(FixedSize(4, 3), "abcde") == ["abcd", "bcde"]
    assert cut(FixedSize(10, 9), "abc") == ["abc"]


def test_blank_windows_are_left_out() -> None:
    assert cut(FixedSize(3), "abc   def") == ["abc", "def"]


def test_recursive_cuts_at_paragraphs_then_sentences_then_words() -> None:
    text = "First paragraph.\n\nA second one. It has sentences. Three.\n\nThird"
    assert [chunk.strip() for chunk in cut(Recursive(20, min_characters=1), text)] == [
        "First paragraph.",
        "A second one.",
        "It has sentences.",
        "Three.",
        "Third",
    ]
    assert cut(Recursive(12, min_characters=1), "one two three four") == ["one two ", "three four"]


def test_recursive_joins_paragraphs_that_fit() -> None:
    assert cut(Recursive(20, min_characters=1), "One.\n\nTwo.\n\nThree is longer") == [
        "One.\n\nTwo.\n\n",
        "Three is longer",
    ]


def test_recursive_keeps_paragraphs_together_where_lines_would_fit_better() -> None:
    assert cut(Recursive(10, min_characters=1), "aa\nbb\n\ncc\ndd") == ["aa\nbb\n\n", "cc\ndd"]


text = st.text(st.sampled_from("ab. ?!\n\t\r é漢🙂\u2028\ud800"), max_size=80)


@settings(deadline=None)
@given(st.lists(text, max_size=4), st.integers(1, 30), st.data())
def test_windows_lose_no_text_and_keep_their_size(texts: list[str], size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    spans = FixedSize(size, overlap).split(corpus(*texts))
    assert_lawful(spans, corpus(*texts))
    for document, start, end in rows(spans):
        blank = not texts[document].strip()
        assert end - start == size or end == len(texts[document]) or blank
        assert start % (size - overlap) == 0


@settings(deadline=None)
@given(st.lists(text, max_size=4), st.integers(1, 30), st.integers(1, 30))
def test_recursive_loses_no_text_and_keeps_its_size(texts: list[str], size: int, least: int) -> None:
    spans = Recursive(size, least).split(corpus(*texts))
    assert_lawful(spans, corpus(*texts))
    for document, start, end in rows(spans):
        assert end - start <= size or not texts[document].strip()
        others = [(a, b) for n, a, b in rows(spans) if n == document and (a, b) != (start, end)]
        assert all(b <= start or end <= a for a, b in others)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedSize(0), r"chunker\.size is 0"),
        (lambda: FixedSize(10, 10), r"chunker\.overlap is 10; .* less than chunker\.size, 10"),
        (lambda: FixedSize(10, -1), r"chunker\.overlap is -1"),
        (lambda: Recursive(0), r"chunker\.size is 0"),
        (lambda: Recursive(10, 0), r"chunker\.min_characters is 0"),
    ],
)
def test_impossible_sizes_are_refused(make: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_splitters_version_is_part_of_what_recursive_is() -> None:
    assert set(Recursive().fingerprint()) == {"chonkie"}
