"""Cuts where the subject changes: by an embedder of letters, whose distances are plain to see."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.parts.chunkers import Semantic
from ragsweep.testing.chunkers import ChunkerContract, assert_lawful
from support.parts import Letters, cut, untitled

CATS = "Cats act. A cat acts at Cat. Act, cats! "
DOGS = "Good dogs dug. Dogs do good. Dig, dog! "


class TestSemantic(ChunkerContract):
    def part(self) -> Semantic:
        return Semantic(Letters(), percentile=70, size=80)


def test_cut_is_where_the_subject_changes() -> None:
    assert cut(Semantic(Letters(), percentile=90), CATS + DOGS) == [CATS, DOGS]
    assert cut(Semantic(Letters(), percentile=75), CATS + DOGS + CATS) == [CATS, DOGS, CATS]


def test_what_is_too_long_is_cut_where_it_is_least_alike() -> None:
    assert cut(Semantic(Letters(), percentile=100, size=60), CATS + DOGS) == [CATS, DOGS]


def test_sentence_that_is_too_long_is_cut_between_words() -> None:
    assert cut(Semantic(Letters(), size=12), "many words are in this") == ["many words ", "are in this"]
    assert max(map(len, cut(Semantic(Letters(), size=30), CATS + "cat " * 40 + ". Dogs."))) <= 30


def test_lengths_of_vectors_do_not_matter() -> None:
    for percentile in (0, 25, 50, 75):
        one, other = (cut(Semantic(Stretched(by), percentile), CATS + DOGS + CATS) for by in (1.0, 9.0))
        assert one == other


class Stretched(Letters):
    """Give every third vector another length."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        vectors = super()._vectors(texts)
        vectors[::3] *= self.by
        return vectors


def test_every_sentence_is_embedded_once_beside_those_of_its_document_alone() -> None:
    embedder = Letters()
    Semantic(embedder).split(untitled(CATS, DOGS + DOGS, "Alone."))
    assert embedder.calls == [3, 6]  # one sentence has no neighbour


@given(st.lists(st.text(st.sampled_from("abc. \n!"), max_size=60), max_size=3), st.integers(1, 40), st.integers(0, 100))
def test_no_text_is_lost_and_no_chunk_is_longer_than_its_size(texts: list[str], size: int, percentile: int) -> None:
    spans = Semantic(Letters(), percentile, size).split(untitled(*texts))
    assert_lawful(spans, untitled(*texts))
    for document, start, end in zip(*(column.tolist() for column in spans), strict=True):
        assert end - start <= size or not texts[document].strip()
