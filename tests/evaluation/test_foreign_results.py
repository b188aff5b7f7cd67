"""An invalid result of someone's own part is an error that names the class and the fault, not a wrong score."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.foreign_results import read_dataset
from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.core.types import (
    NO_CHUNK,
    Arrays,
    Case,
    Corpus,
    Dataset,
    Embeddings,
    Floats,
    GoldenSet,
    PartTraits,
    Passage,
    Question,
    Rankings,
    Request,
    Spans,
    TokenVectors,
)
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.chunkers import ParentChild, Semantic
from ragsweep.parts.generators import Extractive
from ragsweep.parts.metrics import ContextSimilarity, SemanticSimilarity
from ragsweep.parts.rerankers import NoReranker
from ragsweep.parts.retrievers import HybridRrf, Vector
from ragsweep.parts.routers import Similarity
from ragsweep.services.errors import CallFailed
from ragsweep.stages import shards
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import Store
from support.parts import Letters, LongestFirst, Whole, Words, built, corpus, vector

NAN = float("nan")


class Own(Words):
    """Returns given rankings for every query."""

    def __init__(self, positions: Any, scores: Any) -> None:
        self.positions, self.scores = positions, scores

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        return Rankings(np.array(self.positions), np.array(self.scores))


class Cuts(Whole):
    def __init__(self, *spans: Any) -> None:
        self.spans = spans

    def split(self, corpus: Corpus) -> Any:
        return Spans(*map(np.array, zip(*self.spans, strict=True))) if self.spans else None


class Scores(LongestFirst):
    def __init__(self, scores: Any) -> None:
        self.candidates, self.scores = 2, scores

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        return self.scores  # type: ignore[no-any-return]


def rank(retriever: Any, chunker: Any = None, reranker: Any = None) -> Rankings:
    parts = (built(chunker or Whole()), retriever, built(reranker or NoReranker()))
    found: Rankings = Executor().get(graph(Parts(corpus(), *parts, 3, 2)).ranking, ["cats on the mat"])
    return found


@pytest.mark.parametrize(
    ("positions", "scores", "fault"),
    [
        ([[0, -5, 2]], [[3, 2, 1]], "a position is -5"),
        ([[0, 0, 2]], [[3, 2, 1]], "a chunk occurs twice"),
        ([[0, -1, 2]], [[3, -np.inf, 1]], "continues after the position -1"),
        ([[0, 1, 2]], [[3, NAN, 1]], "is not finite"),
        ([[0, 1, 2]], [[1, 2, 3]], "scores rise"),
        ([[0.0, 1.0, 2.0]], [[3, 2, 1]], "must be an array of integers, got float64"),
        ([0, 1, 2], [3, 2, 1], r"shape \(3,\)"),
        ([[0, 1], [0, 1]], [[2, 1], [2, 1]], r"shape \(2, 2\), .*both must be \(1, depth"),
    ],
)
def test_rankings_must_be_valid(positions: Any, scores: Any, fault: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Own: .*{fault}"):
        rank(built(Own(positions, scores)))


@pytest.mark.parametrize(
    ("spans", "fault"),
    [
        ([], r"type ragsweep\.core\.types\.Spans, got NoneType"),
        ([(0, 0, 999)], "the chunk 0 to 999 of document 0 is not within"),
        ([(0, -3, 9)], "the chunk -3 to 9 of document 0"),
        ([(0, 9, 3)], "the chunk 9 to 3 of document 0"),
        ([(9, 0, 3)], "the chunk 0 to 3 of document 9"),
        ([(1, 0, 9), (0, 0, 9)], "sorted by document"),
        ([(0, 0, 9), (0, 0, 9)], "none may occur twice"),
        ([(0.0, 0.0, 9.0)], "document must be an array of integers, got float64"),
    ],
)
def test_chunks_must_be_valid(spans: list[Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Cuts: .*{fault}"):
        rank(built(Words()), Cuts(*spans))


def test_chunks_within_chunks_must_be_within_these() -> None:
    """The first chunk would end within the document, but beyond the large chunk that it is cut from."""
    child, parent = Cuts((0, 0, 15), (1, 0, 5)), Cuts((0, 0, 10), (0, 10, 22))
    specs = {"parent": built(parent).spec, "child": built(child).spec}
    chunker = BuiltPart(ParentChild(parent, child), Spec("ParentChild", "1", specs))
    with pytest.raises(ConfigError, match=r"^Cuts: the chunk 0 to 15 of document 0"):
        Executor().get(graph(Parts(corpus(), chunker, built(Words()), built(NoReranker()), 3, 2)).ranking, ["cats"])


def test_chunks_with_the_same_start_may_have_ends_in_any_order() -> None:
    assert rank(built(Words()), Cuts((0, 0, 22), (0, 0, 7), (1, 0, 9))).positions.shape == (1, 3)


class Cosine:
    """Returns NaN for a query whose vector is zero."""

    TRAITS = PartTraits(version="1")

    def build(self, vectors: Floats) -> Arrays:
        return {}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        with np.errstate(invalid="ignore"):
            scores = queries / np.linalg.norm(queries, axis=1, keepdims=True) @ vectors.T
        order = np.argsort(-scores, axis=1)[:, :depth]
        return Rankings(order, np.take_along_axis(scores, order, axis=1))


def test_scores_of_a_query_without_words_are_not_checked_because_its_ranking_is_emptied() -> None:
    part, own = Vector(Letters(), Cosine(), Cosine()), built(Cosine()).spec
    retriever = BuiltPart(part, Spec("Vector", "1", {"embedder": built(Letters()).spec, "index": own, "exact": own}))
    parts = Parts(corpus(), built(Whole()), retriever, built(NoReranker()), 3, 2)
    found = Executor().get(graph(parts).ranking, ["cats on the mat", "12"])
    assert (found.positions != NO_CHUNK).any(axis=1).tolist() == [True, False]


@pytest.mark.parametrize(
    ("scores", "fault"),
    [
        (None, r"numpy\.ndarray, got NoneType"),
        ([1.0, 2.0], r"numpy\.ndarray, got list"),
        (np.array([1.0, NAN]), "not finite"),
        (np.array([1.0]), r"shape \(1,\); it must have 1 dimensions and 2 rows"),
    ],
)
def test_scores_of_a_reranker_must_be_finite_and_one_per_pair(scores: Any, fault: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Scores: .*{fault}"):
        rank(built(Words()), None, Scores(scores))


EYE, NUMBERS = np.eye(5, dtype=np.float32), np.arange(5)


@pytest.mark.parametrize(
    ("embedded", "fault"),
    [
        ([[1.0, 0.0]] * 5, r"type ragsweep\.core\.types\.Embeddings, got list"),
        (Embeddings(EYE[:4], NUMBERS, NUMBERS), r"shape \(4, 5\); it must have 2 dimensions and 5 rows"),
        (Embeddings(EYE, NUMBERS[:4], NUMBERS), r"tokens has the shape \(4,\); it must be \(5,\)"),
        (Embeddings(EYE, NUMBERS, 30), r"type numpy\.ndarray, got int"),
    ],
)
def test_embeddings_must_have_one_row_per_text(embedded: Any, fault: str) -> None:
    retriever = vector()
    retriever.value.embedder.embed_documents = lambda texts: embedded
    with pytest.raises(ConfigError, match=rf"^Letters: .*{fault}"):
        rank(retriever)


def spoiled(embed: Callable[[Sequence[str]], Embeddings], factor: float) -> Callable[[Sequence[str]], Embeddings]:
    def multiplied(texts: Sequence[str]) -> Embeddings:
        found = embed(texts)
        return found._replace(vectors=found.vectors * factor)

    return multiplied


@pytest.mark.parametrize("side", ["documents", "queries"])
def test_vectors_must_be_finite(side: str) -> None:
    retriever = vector()
    embedder = retriever.value.embedder
    queries = embedder.embed_queries
    if side == "documents":
        embedder.embed_documents = spoiled(embedder.embed_documents, NAN)
    else:
        embedder.embed_queries = lambda texts: queries(texts) * NAN
    with pytest.raises(ConfigError, match=r"^Letters: .*not finite"):
        rank(retriever)


def test_invalid_vectors_are_not_stored(tmp_path: Path) -> None:
    """The part's version need not change once the fault is corrected."""
    for factor in (NAN, 1.0):
        retriever, executor = vector(), Executor()
        embedder = retriever.value.embedder
        embedder.embed_documents = spoiled(embedder.embed_documents, factor)
        executor.store = Store(tmp_path, print)
        parts = Parts(corpus(), built(Whole()), retriever, built(NoReranker()), 3, 2)
        with pytest.raises(ConfigError, match="not finite") if factor != 1.0 else nullcontext():
            assert executor.get(graph(parts).ranking, ["cats"]).lengths.tolist() == [3]


def test_vectors_of_queries_and_chunks_must_have_one_dimension() -> None:
    retriever = vector()
    retriever.value.embedder.embed_queries = lambda texts: np.ones((len(texts), 3), np.float32)
    with pytest.raises(ConfigError, match=r"^Letters: vectors have 26 and 3 dimensions"):
        rank(retriever)


def test_vectors_of_all_shards_must_have_one_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD", 3)
    retriever = vector()
    widths = iter((3, 2))
    retriever.value.embedder.embed_documents = lambda texts: Embeddings(
        np.ones((len(texts), next(widths)), np.float32), np.arange(len(texts)), np.arange(len(texts))
    )
    with pytest.raises(ConfigError, match=r"^Letters: vectors have 3 and 2 dimensions"):
        rank(retriever)


class Tokens(LongestFirst):
    """Returns given token vectors for every shard."""

    def __init__(self, *tokens: Any) -> None:
        self.candidates, self.tokens = 2, iter(tokens)

    def read(self, texts: Sequence[str]) -> TokenVectors:
        return next(self.tokens)  # type: ignore[no-any-return]

    def score_read(self, chunks: TokenVectors, pairs: Sequence[tuple[str, int]]) -> Floats:
        return np.array([float(len(chunks.of(position))) for _, position in pairs])


@pytest.mark.parametrize(
    ("tokens", "fault"),
    [
        ([[1.0]], r"type ragsweep\.core\.types\.TokenVectors, got list"),
        (TokenVectors(EYE * NAN, np.arange(6)), "not finite"),
        (TokenVectors(EYE[0], np.arange(6)), r"shape \(5,\); it must have 2 dimensions"),
        (TokenVectors(EYE, np.arange(5)), "start must rise from 0 to 5, the number of vectors, in 5 steps"),
        (TokenVectors(EYE, np.arange(6) * 2), "start must rise"),
        (TokenVectors(EYE, np.array([0, 2, 1, 3, 4, 5])), "start must rise"),
        (TokenVectors(EYE, np.arange(6) / 1.0), "start must be an array of integers"),
    ],
)
def test_token_vectors_must_be_valid(tokens: Any, fault: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Tokens: .*{fault}"):
        rank(built(Words()), None, Tokens(tokens))


def test_token_vectors_of_all_shards_must_have_one_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD", 3)
    parts = TokenVectors(EYE[:3], np.arange(4)), TokenVectors(EYE[:2, :4], np.arange(3))
    with pytest.raises(ConfigError, match=r"^Tokens: vectors have 5 and 4 dimensions"):
        rank(built(Words()), None, Tokens(*parts))


class Reads:
    def __init__(self, ids: Any, texts: Any, *questions: Any) -> None:
        self.dataset = Dataset("own", Corpus(ids, [""] * len(ids), texts), GoldenSet(questions))

    def load(self) -> Dataset:
        return self.dataset


ONE, TWO = Question("q1", "first"), Question("q2", "second")


@pytest.mark.parametrize(
    ("reader", "fault"),
    [
        (Reads(["a", "b", "b"], ["x", "y", "z"], ONE), "the document id 'b' occurs 2 times"),
        (Reads(["a"], ["x"], ONE, TWO, ONE), "the question id 'q1' occurs 2 times"),
        (Reads(["a", "b"], ["x"], ONE), "one id, one title and one text per document"),
        (Reads([1], ["x"], ONE), "must be strings, got 1"),
        (Reads(["a"], [None], ONE), "must be strings, got None"),
        (Reads(["a"], ["x"], {"id": "q1"}), r"type ragsweep\.core\.types\.Question, got dict"),
    ],
)
def test_datasets_must_have_texts_and_unique_ids(reader: Reads, fault: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Reads: .*{fault}"):
        read_dataset(reader)


def test_valid_dataset_is_returned() -> None:
    reader = Reads(["a", "b"], ["x", "y"], ONE, TWO)
    assert read_dataset(reader) is reader.dataset


class Takes(Words):
    """Removes the queries from the list as it answers them."""

    def retrieve(self, index: Any, queries: Any, depth: int) -> Rankings:
        found = super().retrieve(index, queries, depth)
        queries.clear()
        return found


def test_a_retriever_may_change_its_list_of_queries() -> None:
    assert np.array_equal(rank(built(Takes())).positions, rank(built(Words())).positions)


class Down(Words):
    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        raise CallFailed("down")


class Removes(HybridRrf):
    """Removes a leg from the mapping as it fuses the rankings."""

    def fuse(self, legs: Mapping[str, Rankings], depth: int) -> Rankings:
        assert isinstance(legs, dict)
        legs.pop("down")
        return super().fuse(legs, depth)


def test_a_search_has_failed_even_if_a_hybrid_removes_its_leg() -> None:
    legs = {"down": built(Down()), "words": built(Words())}
    part = Removes({name: leg.value for name, leg in legs.items()})
    specs = {"legs": {name: leg.spec for name, leg in legs.items()}}
    assert rank(BuiltPart(part, Spec("Removes", "1", specs))).failed.tolist() == [True]


REQUEST = Request("a cat", (Passage("d0", "One cat sat. Two dogs ran."),))
CASE = Case("a cat", "One cat.", ("One cat sat.",), "A cat.")


@pytest.mark.parametrize(
    ("use", "method"),
    [
        (lambda own: Semantic(own).split(corpus(["One cat. Two dogs. A hen."])), "embed_documents"),
        (lambda own: Similarity(own, ["hello"], []).route([REQUEST], print), "embed_queries"),
        (lambda own: Extractive(own).generate([REQUEST], print), "embed_documents"),
        (lambda own: Extractive(own).generate([REQUEST], print), "embed_queries"),
        (lambda own: SemanticSimilarity(own).judge([CASE], print), "embed_documents"),
        (lambda own: ContextSimilarity(own).judge([CASE], print), "embed_queries"),
    ],
)
def test_vectors_are_checked_wherever_an_embedder_is_used(use: Callable[[Any], None], method: str) -> None:
    own = Letters()
    found = {"embed_documents": Embeddings(EYE * NAN, NUMBERS, NUMBERS), "embed_queries": EYE * NAN}[method]
    setattr(own, method, lambda texts: found)
    with pytest.raises(ConfigError, match=r"^Letters: an array"):
        use(own)
