"""Late interaction: the formula by plain loops, the contract on a tiny model, and the model that comes with us."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.parts.datasets import PythonReference
from ragsweep.parts.embedders import SentenceTransformerEmbedder
from ragsweep.parts.rerankers import LateInteraction
from ragsweep.testing.rerankers import ReadingRerankerContract


class TokensOfLetters:
    """A token is a letter, its vector points along the letter's axis, with a length that must not matter."""

    def __init__(self) -> None:
        self.embedded: list[tuple[str, str]] = []

    def embed_tokens(self, texts: Sequence[str], kind: str) -> list[np.ndarray]:
        self.embedded += [(kind, text) for text in texts]
        axes = np.eye(26, dtype=np.float32)
        return [
            np.array([axes[ord(c) - 97] * (n + 1) for n, c in enumerate(text)], np.float32).reshape(-1, 26)
            for text in texts
        ]


TEXTS = st.text("abcd", max_size=5)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=8))
def test_score_is_the_mean_of_each_query_tokens_best_cosine(pairs: list[tuple[str, str]]) -> None:
    scores = LateInteraction(TokensOfLetters()).score(pairs)
    for (query, text), score in zip(pairs, scores, strict=True):
        expected = np.mean([letter in text for letter in query]) if query and text else -1
        assert score == pytest.approx(expected, abs=1e-6)


def test_each_text_and_each_query_is_embedded_once() -> None:
    part = LateInteraction(TokensOfLetters())
    part.score([("ab", "abc"), ("ab", "d"), ("c", "abc"), ("ab", "abc")])
    assert sorted(part.embedder.embedded) == [("document", "abc"), ("document", "d"), ("query", "ab"), ("query", "c")]


def test_score_depends_neither_on_the_other_questions_nor_on_the_other_chunks() -> None:
    part = LateInteraction(SentenceTransformerEmbedder("bundled", device="cpu", dtype="float32"))
    dataset = PythonReference(limit=4, seed=0).load()
    chunks = part.read(dataset.corpus.texts[:8])
    pairs = [(question.text, n) for question in dataset.golden.questions for n in range(8)]
    alone = [part.score_read(chunks, [pair])[0] for pair in pairs]
    np.testing.assert_array_equal(part.score_read(chunks, pairs), alone)


def test_embedder_without_token_vectors_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"object returns no token vectors .* reranker=cross_encoder"):
        LateInteraction(object()).check()


def embedder(folder: Path, **parameters: object) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(str(folder), **{"device": "cpu", "dtype": "float32", **parameters})


class TestLateInteraction(ReadingRerankerContract):
    dtype, tolerance = "float32", 5e-4  # half precision of the stored tokens

    @pytest.fixture(autouse=True)
    def _model(self, tiny_embedder: Path) -> None:
        self.embedder = embedder(tiny_embedder, batch_size=2, dtype=self.dtype)

    def part(self) -> LateInteraction:
        return LateInteraction(self.embedder)


class TestLateInteractionInHalfPrecision(TestLateInteraction):
    dtype, tolerance = "bfloat16", 0.03


def test_tokens_are_those_of_the_text_without_what_the_tokenizer_adds(tiny_embedder: Path) -> None:
    part, texts = embedder(tiny_embedder, document_prompt="query "), ["the cat", "", "unheard-of", "cat " * 30]
    found = part.embed_tokens(texts, "document")
    assert [len(tokens) for tokens in found] == [3, 1, 4, 22]  # the model reads 24, two of them special
    assert [len(tokens) for tokens in part.embed_tokens(texts, "query")] == [2, 0, 3, 22]
    assert all(tokens.dtype == np.float32 and tokens.shape[1] == 32 for tokens in found)
    assert part.embed_tokens([], "document") == []


def test_tokens_are_what_the_model_pools(tiny_embedder: Path) -> None:
    part = embedder(tiny_embedder, normalize=False, batch_size=2)
    texts = ["the cat sat", "moons", "stars and planets on the mat"]
    everything = part._model.encode(texts, output_value="token_embeddings")
    for tokens, whole, vector in zip(
        part.embed_tokens(texts, "document"), everything, part.embed_documents(texts).vectors, strict=True
    ):
        np.testing.assert_allclose(tokens, whole.numpy()[1:-1], atol=1e-5)
        np.testing.assert_allclose(whole.numpy().mean(axis=0), vector, atol=1e-5)
