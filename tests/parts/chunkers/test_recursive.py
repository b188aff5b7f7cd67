"""Recursive splitting: chunks cut by hand, and the laws of size."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.parts.chunkers import Recursive
from ragsweep.testing.chunkers import ChunkerContract, assert_lawful
from support.parts import cut, untitled


class TestRecursive(ChunkerContract):
    def part(self) -> Recursive:
        return Recursive(size=60)


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


@pytest.mark.parametrize(
    "sentences",
    [
        ["这是第一个句子。", "它很重要吗\uff1f", "是的它很重要\uff01"],
        ["यह पहला वाक्य है। ", "यह दूसरा वाक्य है। "],
        ["هل هذا مهم جدا\u061f ", "لا هو كذلك هنا. "],
        ["یہ پہلا جملہ ہے\u06d4 ", "یہ دوسرا جملہ ہے\u06d4 "],
    ],
)
def test_recursive_cuts_at_sentences_in_every_script(sentences: list[str]) -> None:
    size = max(map(len, sentences)) + 4
    assert cut(Recursive(size, min_characters=1), "".join(sentences)) == sentences


def test_recursive_keeps_paragraphs_together_where_lines_would_fit_better() -> None:
    assert cut(Recursive(10, min_characters=1), "aa\nbb\n\ncc\ndd") == ["aa\nbb\n\n", "cc\ndd"]


def test_recursive_keeps_paragraphs_together_in_texts_with_crlf() -> None:
    assert cut(Recursive(14, min_characters=1), "aa\r\nbb\r\n\r\ncc\r\ndd") == ["aa\r\nbb\r\n\r\n", "cc\r\ndd"]


TEXTS = st.lists(st.text(st.sampled_from("ab. ?!\n\t\r é漢。🙂\u2028\ud800"), max_size=80), max_size=4)


@given(TEXTS, st.integers(1, 30), st.integers(1, 30))
def test_recursive_loses_no_text_and_chunks_keep_their_size_apart(texts: list[str], size: int, least: int) -> None:
    spans = Recursive(size, least).split(untitled(*texts))
    assert_lawful(spans, untitled(*texts))
    rows = list(zip(*spans, strict=True))
    assert all(end - start <= size or not texts[document].strip() for document, start, end in rows)
    assert all(one[0] != other[0] or one[2] <= other[1] for one, other in pairwise(rows))
