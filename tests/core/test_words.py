"""What the words of a text are, in every script."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.words import is_question, is_unsegmented, pattern, search_form, search_terms, word_count, words

ASCII = st.text(st.characters(max_codepoint=127))


def searched(text: str) -> list[str]:
    return pattern("search").findall(search_form(text))


@given(ASCII)
def test_words_of_ascii_are_runs_of_letters_and_digits(text: str) -> None:
    assert words(text) == search_terms(text) == re.findall(r"\w+", text)
    assert searched(text) == re.findall(r"\b\w\w+\b", text)
    assert word_count(text) == len(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("L'été naïf", ["L", "été", "naïf"]),
        ("हिन्दी में", ["हिन्दी", "में"]),  # vowel signs belong to the word
        ("三十天。", ["三", "十", "天"]),
        ("第30天", ["第", "30", "天"]),
        ("が", ["が"]),
        ("か\u3099", ["か\u3099"]),
        ("한국", ["한", "국"]),
        ("\u1112\u1161\u11ab", ["\u1112\u1161\u11ab"]),  # one syllable, decomposed
        ("กำ ๑๒", ["ก", "ำ", "๑๒"]),
    ],
)
def test_words_of_other_scripts(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_search_terms_are_pairs_of_characters_and_words_of_one_letter() -> None:
    assert search_terms("C 东西南 กา of\ufb01ce हिन्दी") == ["C", "东西", "西南", "กา", "office", "हिन्दी"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("of\ufb01ce \ufb02ight", ["office", "flight"]),
        ("com\u00adpany re\u00adim\u00adbursed", ["company", "reimbursed"]),
        ("com\u00ad\n  pany", ["company"]),
        ("\uff46\uff55\uff4c\uff4c", ["full"]),
        ("东西南", ["东西", "西南"]),
        ("第30天", ["第", "30", "天"]),
        ("हिन्दी", ["हिन्दी"]),
    ],
)
def test_searched_words(text: str, expected: list[str]) -> None:
    assert searched(text) == expected


def test_question_marks_of_every_script_count_also_within_quotes() -> None:
    latin = ("a?", "Où ?", "a?»", "(is it?)", "a?!", '"a?"')
    others = ("什么\uff1f", "ما هذا\u061f", "τι\u037e", "τι;", "「何\uff1f」", "Ի՞նչ է")
    assert [text for text in (*latin, *others) if not is_question(text)] == []
    assert [text for text in ("", "a", "a;", "a? b", "\u00bfa", "a? Yes.") if is_question(text)] == []


def test_scripts_that_need_a_dictionary_are_recognised() -> None:
    assert is_unsegmented("พนักงานได้รับเงิน")
    assert not is_unsegmented("可以报销")
    assert not is_unsegmented("plain")
