"""Quoting what is most like the question: by vectors that can be computed by hand."""

import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import NO_ANSWERS
from ragsweep.core.types import Embeddings, Floats, Passage, Request
from ragsweep.parts.generators import Extractive, NoGenerator
from ragsweep.testing.contract import collect
from ragsweep.testing.generators import GeneratorContract
from support.parts import Letters

CONF = Path(__file__).parents[3] / "conf" / "llm"


class TestExtractive(GeneratorContract):
    made = Extractive(Letters(), threshold=0.2)

    def part(self) -> Extractive:
        return self.made


class TestNoGenerator(GeneratorContract):
    part = NoGenerator

    def test_it_says_so(self) -> None:
        assert collect(NoGenerator().generate, [Request("?")])[0].failed == NO_ANSWERS


class Angles:
    """Embed "n ..." as the unit vector at n degrees: the cosine of two texts is that of their difference."""

    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        self.read.append(list(texts))
        tokens = np.zeros(len(texts), np.int32)
        return Embeddings(self.embed_queries(texts), tokens, tokens)

    def embed_queries(self, queries: Sequence[str]) -> Floats:
        angles = np.radians([float(query.split()[0]) for query in queries])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32) * 3  # of any length


def quoted(*passages: str, sentences: int = 2, degrees: float = 60, question: str = "0 ?") -> Any:
    part = Extractive(Angles(), sentences, math.cos(math.radians(degrees)))
    return collect(part.generate, [Request(question, tuple(Passage(str(n), text) for n, text in enumerate(passages)))])[
        0
    ]


def test_best_sentences_stand_in_the_order_of_the_context_with_their_passage() -> None:
    answer = quoted("30 is near. 70 is far.", "50 is nearer. 10 is best.")
    assert answer.text == "30 is near. [1] 10 is best. [2]"
    assert answer.support == pytest.approx(math.cos(math.radians(10)), abs=1e-6)
    assert not answer.abstained


def test_sentence_below_the_threshold_is_no_part_of_the_answer() -> None:
    assert quoted("10 one. 61 two.", sentences=3).text == "10 one. [1]"


def test_nothing_above_the_threshold_is_an_abstention_that_says_how_near_it_came() -> None:
    answer = quoted("61 one. 80 two.")
    assert (answer.text, answer.abstained) == ("", True)
    assert answer.support == pytest.approx(math.cos(math.radians(61)), abs=1e-6)


def test_what_two_passages_say_is_said_once_and_of_equals_the_first() -> None:
    assert quoted("10 same.", "10 same. 20 other.").text == "10 same. [1] 20 other. [2]"
    assert quoted("10 one. 10 two. 10 six.").text == "10 one. [1] 10 two. [1]"


class Drawn(Angles):
    """Embed every text as a vector of 384 drawn values, whose products are rounded by where they stand in a matrix."""

    def embed_queries(self, queries: Sequence[str]) -> Floats:
        draws = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=384) for text in queries]
        return np.stack(draws).astype(np.float32)


def test_of_passages_that_say_the_same_the_first_is_named_however_products_are_rounded() -> None:
    part, draw = Extractive(Drawn(), 1, -1.0), np.random.default_rng(0)
    for case in range(200):
        texts = [f"Sentence {case}.{n} is here" for n in range(draw.integers(2, 40))]
        first, second = sorted(draw.choice(len(texts), 2, replace=False).tolist())
        texts[first] = texts[second] = f"Case {case}"
        asked = Request(f"Case {case}", tuple(Passage(str(n), text) for n, text in enumerate(texts)))
        assert collect(part.generate, [asked])[0].text == f"Case {case} [{first + 1}]"


def test_passage_without_words_says_nothing() -> None:
    assert quoted("", "...", "- -").abstained
    assert quoted("", "10 x.").text == "10 x. [2]"


def test_passage_is_read_once_and_by_itself() -> None:
    embedder = Angles()
    part = Extractive(embedder)
    one, two = Passage("a", "10 one. 20 two."), Passage("b", "30 six.")
    collect(part.generate, [Request("0 ?", (one, two)), Request("5 ?", (two, one)), Request("9 ?", (one,))])
    assert embedder.read == [["10 one.", "20 two."], ["30 six."]]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"sentences": 0}, r"^llm\.sentences must be at least 1, got 0"),
        ({"threshold": 1.1}, r"^llm\.threshold must be a cosine between -1 and 1, got 1.1"),
        ({"language": "latin"}, r"^llm\.language is 'latin'.* known:"),
    ],
)
def test_numbers_out_of_range_are_refused(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Extractive(Letters(), **parameters).check()
