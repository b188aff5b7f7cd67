"""The one tokenizer of contexts counts any span as it would count its text."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.parts import tokens

TEXTS = st.text(alphabet="ab1é_ .,-\n", max_size=30)


def test_words_and_single_punctuation_marks_are_tokens() -> None:
    assert tokens.count("don't stop: x_1 == 3.5") == len(["don", "'", "t", "stop", ":", "x_1", "=", "=", "3", ".", "5"])


def test_characters_of_scripts_without_spaces_are_tokens() -> None:
    assert tokens.count("每位员工可以报销三十天。") == 12
    assert tokens.count("हिन्दी में") == 2
    assert tokens.count("com\u00adpany") == 1


def test_empty_and_blank_texts_have_no_tokens() -> None:
    assert tokens.count("") == tokens.count(" \n\t") == 0


@given(TEXTS)
def test_count_of_every_span_equals_count_of_its_text(text: str) -> None:
    spans = [(start, end) for start in range(len(text) + 1) for end in range(start, len(text) + 1)]
    start, end = np.array(spans, dtype=np.int64).T
    counted = tokens.locate(text).count(start, end)
    assert counted.tolist() == [tokens.count(text[low:high]) for low, high in spans]
