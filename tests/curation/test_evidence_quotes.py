"""The quote of an evidence: short, unique, and found again."""

import random

import pytest

from ragsweep.core.types import Corpus
from ragsweep.golden.anchors import resolve
from ragsweep_golden.evidence.quotes import FEWEST_WORDS, Place, quote, shortest_anchor

TREES = "# Trees\n\nThe alder measures 10 metres. It grows beside water, and in wet woods of the north.\n"


def quote_of(text: str, passage: str) -> tuple[str, int | None]:
    start = text.index(passage)
    return shortest_anchor(text, start, start + len(passage))


@pytest.mark.parametrize(
    ("text", "passage", "expected"),
    [
        (TREES, "It grows beside water, and in wet woods of the north.", ("It grows beside water, and", None)),
        (TREES, "10 metres", ("The alder measures 10 metres.", None)),  # and not across the sentence's end
        ("a b c d e f a b c d e g", "a b c d e g", ("b c d e g", None)),
        ("a b c d e\na b c d e", "a b c d e", ("a b c d e", 0)),  # repeated as a whole
        ("a b c d e\na b c d e z", "d", ("b c d e a", None)),
        ("two words", "two", ("two words", None)),
    ],
)
def test_a_quote_is_the_shortest_that_occurs_once(text: str, passage: str, expected: tuple[str, int | None]) -> None:
    assert quote_of(text, passage) == expected


def test_a_quote_of_a_text_without_spaces_is_as_short_as_its_words() -> None:
    text = "".join(chr(0x4E00 + n * n % 4001) for n in range(3000))
    anchor, given = shortest_anchor(text, 2400, 2426)
    assert given is None
    assert len(anchor) == 2 * FEWEST_WORDS
    assert anchor in text[2400:2426]


def test_a_quote_is_found_once_and_within_the_evidence_or_around_it() -> None:
    draw = random.Random(3)
    for _ in range(200):
        words = [draw.choice(["a", "b", "c", "e\u0301", "*d*"]) for _ in range(40)]
        text = "".join(word + draw.choice([" ", "\n", "  ", ". "]) for word in words)
        start = draw.randrange(len(text) - 30)
        end = start + draw.randrange(1, 30)
        if not text[start:end].strip():
            continue
        anchor, given = shortest_anchor(text, start, end)
        ((begin, stop),) = resolve(text, anchor, given)
        assert len(anchor.split()) >= FEWEST_WORDS or given is not None
        assert begin < end
        assert stop > start


@pytest.mark.parametrize(
    ("reference", "anchor"),
    [("10", "It has 10 metres at"), ("no", "It has 10 metres at"), ("2010", "one was built in 2010."), ("米", "十米")],
)
def test_an_answer_is_not_quoted_from_the_inside_of_a_word(reference: str, anchor: str) -> None:
    long = f"Another one was built in 2010. It has 10 metres at least. {'It was old. ' * 9}"
    text = "十米" if reference == "米" else long
    corpus = Corpus(["a"], [""], [text])
    assert quote(Place(0, 0, len(text)), "How many metres has it?", reference, corpus) == (anchor, None)
