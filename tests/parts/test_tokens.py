"""The one tokenizer of contexts counts any span as it would count its text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.parts import tokens

TEXTS = st.text(alphabet="ab1é_ .,-\n", max_size=30)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("don't stop: x_1 == 3.5", len(["don", "'", "t", "stop", ":", "x_1", "=", "=", "3", ".", "5"])),
        *(("每位员工可以报销三十天。", 12), ("हिन्दी में", 2), ("com\u00adpany", 1), ("", 0), (" \n\t", 0)),
    ],
)
def test_words_single_punctuation_marks_and_characters_of_scripts_without_spaces_are_tokens(
    text: str, number: int
) -> None:
    assert tokens.count(text) == number


@given(TEXTS)
def test_count_of_every_span_equals_count_of_its_text(text: str) -> None:
    spans = [(start, end) for start in range(len(text) + 1) for end in range(start, len(text) + 1)]
    start, end = np.array(spans, dtype=np.int64).T
    counted = tokens.locate(text).count(start, end)
    assert counted.tolist() == [tokens.count(text[low:high]) for low, high in spans]
