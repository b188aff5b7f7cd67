"""Sections of Markdown: cut by hand, and the laws of size and code on documents put together by chance."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.parts.chunkers import Markdown
from ragsweep.testing.chunkers import ChunkerContract, assert_lawful
from support.parts import cut, untitled


class TestMarkdown(ChunkerContract):
    def part(self) -> Markdown:
        return Markdown(size=60)


def test_sections_are_cut_at_the_highest_headings_and_the_small_ones_joined() -> None:
    one, two, three, four = "intro\n\n", "# A\n\naaaa\n\n", "# B\n\nbbbb\n\n", "# C\n\ncccc\n"
    assert cut(Markdown(21), one + two + three + four) == [one + two, three + four]
    assert cut(Markdown(11), one + two + three + four) == [one, two, three, four]


def test_section_is_kept_with_all_below_it_where_that_fits() -> None:
    small = "# A\n\na\n\n## A1\n\naa\n\n### A11\n\nb\n\n"
    large = "# B\n\nb\n\n## B1\n\n" + "b" * 20 + "\n\n## B2\n\n" + "c" * 20 + "\n"
    assert cut(Markdown(40), small + large) == [
        small, "# B\n\nb\n\n## B1\n\n" + "b" * 20 + "\n\n", "## B2\n\n" + "c" * 20 + "\n",
    ]  # fmt: skip


def test_heading_does_not_stand_alone_before_the_section_below_it() -> None:
    first, second = "## First\n\n" + "a" * 20 + "\n\n", "## Second\n\n" + "b" * 20
    for above in ("# Title\n\n", "## Empty\n\n"):
        assert cut(Markdown(45), above + first + second) == [above + first, second]
        assert cut(Markdown(30), above + first + second)[0] == above + first[:10]


def test_heading_inside_a_list_begins_no_section() -> None:
    assert cut(Markdown(24), "- a word\n- # Not a section\n- more") == ["- a word\n- # Not a ", "section\n- more"]


def test_long_section_is_cut_between_paragraphs_then_lines_sentences_words_letters() -> None:
    assert cut(Markdown(30), "# A\n\n" + "first words here\n\n" + "second words\n\n") == [
        "# A\n\nfirst words here\n\n", "second words\n\n",
    ]  # fmt: skip
    assert cut(Markdown(20), "one line is here\nanother one") == ["one line is here\n", "another one"]
    assert cut(Markdown(20), "one long line of words") == ["one long line of ", "words"]
    assert cut(Markdown(20), "Here it ends. Next one is longer.") == ["Here it ends. ", "Next one is longer."]
    assert cut(Markdown(10), "x" * 25) == ["x" * 10, "x" * 10, "x" * 5]


CODE = "```py\n# no heading\n\nx = 1\n```\n"


def test_code_is_never_cut_and_what_looks_like_a_heading_in_it_is_none() -> None:
    text = "## A\n\nbefore it\n\n" + CODE + "\nafter it all comes this\n"
    assert cut(Markdown(20), text) == ["## A\n\nbefore it\n\n", CODE, "\nafter it all comes ", "this\n"]
    assert cut(Markdown(50), text) == ["## A\n\nbefore it\n\n" + CODE + "\n", "after it all comes this\n"]


def test_code_in_a_list_is_not_cut_either() -> None:
    inner = "  ```\n  one\n\n  two\n\n  three\n  ```\n"
    text = "- first item is here\n\n" + inner + "- second item is there\n"
    assert cut(Markdown(32), text) == ["- first item is here\n\n", inner, "- second item is there\n"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_headings_of_every_kind_are_seen_with_any_line_end(end: str) -> None:
    lines = ["First", "=====", "", "a" * 12, "", "Second", "------", "", "b" * 12, "# Third #", "c" * 12]
    found = cut(Markdown(42), end.join(lines))
    assert [chunk.split(end)[0] for chunk in found] == ["First", "Second", "# Third #"]


PARTS = ("# H\n\n", "## H\n\n", "### H\n", "Title\n---\n", "some words here. And more\n\n", "- a\n- b\n", "> quote\n\n",
         CODE, "~~~\n\nopen\n\n~~~\n\n", "    indented\n\n    code\n\n", "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
         "- item\n\n  ```\n  in a list\n\n  ```\n", "<div>\n\n</div>\n", "x" * 70 + "\n", "\r\n",
         "[ref]: http://a.b\n\n")  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.integers(5, 80))
def test_no_text_is_lost_chunks_do_not_overlap_and_only_code_is_longer(parts: list[str], size: int) -> None:
    text = "".join(parts)
    spans = Markdown(size).split(untitled(text))
    assert_lawful(spans, untitled(text))
    assert (spans.start[1:] >= spans.end[:-1]).all()
    for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True):
        chunk = text[start:end]
        assert end - start <= size or re.search(r"```|~~~|    ", chunk) or not text.strip()


@given(st.lists(st.sampled_from([part for part in PARTS if "<div>" not in part]), max_size=8), st.integers(5, 40))
def test_fences_are_in_one_chunk_each(parts: list[str], size: int) -> None:
    text = "".join(["start\n\n", *parts])  # without HTML, in which a fence is none
    assert sum(chunk.count(CODE) for chunk in cut(Markdown(size), text)) == text.count(CODE)
