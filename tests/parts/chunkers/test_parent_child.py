"""Chunks within chunks: what is searched is small, what is handed on is what it stands in, once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.core.spans import parents_of
from ragsweep.core.types import Chunker, Rankings
from ragsweep.evaluation.config_graph import ConfigGraph, chunks_of
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.chunkers import FixedSize, ParentChild, Recursive, SentenceWindow
from ragsweep.parts.ranking import widen
from ragsweep.parts.rerankers import NoReranker
from ragsweep.parts.tokens import count
from ragsweep.stages.executor import Executor
from ragsweep.sweep.running.session import Session
from ragsweep.testing.chunkers import ChunkerContract, assert_lawful
from support.commands import evaluate
from support.parts import LongestFirst, Words, built, cut, untitled, vector

TEXTS = ("red cat one. blue dog two. green cat three. grey fox four.", "red owl five. blue ape six.")


class TestParentChild(ChunkerContract):
    def part(self) -> ParentChild:
        return ParentChild(Recursive(60), FixedSize(20, 5))


class TestParentsThatOverlap(ChunkerContract):
    def part(self) -> ParentChild:
        return ParentChild(FixedSize(50, 20), Recursive(15))


def test_children_are_cut_out_of_each_parent_and_shared_ones_are_one() -> None:
    assert cut(ParentChild(FixedSize(4), FixedSize(3)), "abcdefgh") == ["abc", "d", "efg", "h"]
    assert cut(ParentChild(FixedSize(4, 2), FixedSize(2)), "abcdefgh") == ["ab", "cd", "ef", "gh"]


@given(
    st.lists(st.text("ab \n", max_size=30), min_size=1, max_size=3), st.integers(2, 12), st.integers(1, 12), st.data()
)
def test_every_child_lies_in_its_parent_which_is_the_first_that_does(
    texts: list[str], large: int, small: int, data: st.DataObject
) -> None:
    given_corpus = untitled(*texts)
    parents = FixedSize(large, data.draw(st.integers(0, large - 1))).split(given_corpus)
    nested = ParentChild(FixedSize(large, 0), FixedSize(small)).split(given_corpus)
    assert_lawful(nested, given_corpus)
    children = FixedSize(1).split(given_corpus)  # of any chunking whose chunks some parent holds
    parent_of = parents_of(children, parents)
    for child, parent in enumerate(parent_of.tolist()):
        holding = [
            n
            for n in range(len(parents.document))
            if parents.document[n] == children.document[child]
            and parents.start[n] <= children.start[child]
            and children.end[child] <= parents.end[n]
        ]
        assert parent == holding[0]


def rankings(*rows: list[int]) -> Rankings:
    positions = np.array(rows, dtype=np.int32)
    return Rankings(positions, np.where(positions < 0, -np.inf, -np.arange(positions.shape[1])).astype(np.float32))


@given(st.lists(st.lists(st.integers(-1, 9), min_size=50, max_size=50), min_size=1, max_size=3))
def test_widening_equals_a_plain_loop(rows: list[list[int]]) -> None:
    rows = [sorted(row, key=lambda n: n < 0) for row in rows]  # padding last
    found = widen(rankings(*[[n if p >= 0 else -1 for n, p in enumerate(row)] for row in rows]), np.array(rows))
    for row, positions, scores in zip(rows, found.positions.tolist(), found.scores.tolist(), strict=True):
        once = list(dict.fromkeys(p for p in row if p >= 0))
        assert positions == once + [-1] * (50 - len(once))
        assert scores == [-row.index(p) for p in once] + [-np.inf] * (50 - len(once))


# --- in the pipeline ---------------------------------------------------------------------------------------------


def nested(parent: Chunker, child: Chunker) -> BuiltPart:
    named = {name: Spec(type(part).__name__, "1", vars(part)) for name, part in (("parent", parent), ("child", child))}
    return BuiltPart(ParentChild(parent, child), Spec("ParentChild", "1", named))


def config_graph(
    chunker: BuiltPart, retriever: BuiltPart | None = None, reranker: BuiltPart | None = None
) -> ConfigGraph:
    found, reordered = retriever or built(Words()), reranker or built(NoReranker())
    return graph(Parts(untitled(*TEXTS), chunker, found, reordered, 8, 2))


PARENT, CHILD = SentenceWindow(2, 2), SentenceWindow(1, 1)


@pytest.mark.parametrize("retriever", [built(Words()), vector()], ids=["words", "vector"])
def test_context_holds_parents_once_in_the_order_of_their_best_children(retriever: BuiltPart) -> None:
    config, executor = config_graph(nested(PARENT, CHILD), retriever), Executor()
    queries = ["red cat", "grey fox", "ape"]
    small, large = executor.get(config.reranked, queries), executor.get(config.ranking, queries)
    children, parents = executor.get(config.ranking.inputs[1]), executor.get(config.chunks)
    assert len(children.document) > len(parents.document)
    assert large.chunks == config.chunks.address
    parent_of = parents_of(children, parents)
    for found, handed in zip(small.positions, large.positions, strict=True):
        expected = list(dict.fromkeys(parent_of[found[found >= 0]].tolist()))
        assert handed[handed >= 0].tolist() == expected
        assert len(expected) >= 1
    assert executor.get(config.context, queries).positions.tolist() == large.positions[:, :2].tolist()
    chunks = chunks_of(config, executor.get)
    assert [chunks.text(n).strip() for n in range(3)] == [TEXTS[0][:26], TEXTS[0][27:], TEXTS[1]]
    if retriever.spec.target == "Words":
        assert large.positions[:, 0].tolist() == [0, 1, 2]
    assert executor.get(config.counts)["tokens"].tolist() == [count(chunks.text(n)) for n in range(3)]


def test_parents_are_the_stage_they_are_without_children() -> None:
    alone, together = (
        config_graph(BuiltPart(PARENT, Spec("SentenceWindow", "1", vars(PARENT)))),
        config_graph(nested(PARENT, CHILD)),
    )
    assert together.chunks.address == alone.chunks.address
    assert together.counts.address == alone.counts.address
    assert together.ranking.address != alone.ranking.address


def test_reranker_reads_the_small_chunks() -> None:
    part = LongestFirst(candidates=4)
    config = config_graph(nested(PARENT, CHILD), reranker=built(part, candidates=4))
    Executor().get(config.context, ["red cat"])
    assert [text.count(".") for _, text in part.scored] == [1, 1, 1]


@pytest.mark.nightly
def test_evidence_and_scores_are_reported_before_and_after_reranking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "support")
    overrides = ["retriever=bm25", "chunker=parent_child", "dataset.limit=20", "depth=20"]
    plain = evaluate(Session(), *overrides)
    found = evaluate(Session(), *overrides, "reranker._target_=support.parts.LongestFirst", "+reranker.candidates=5")
    assert found.summaries.first_stage == {name: plain.summaries.metrics[name] for name in found.summaries.first_stage}
    assert plain.summaries.reranking == {}
    # Lengths of small chunks: none of a large one's, and no score of what was not reranked.
    assert 24 <= found.summaries.reranking["score_p0"] <= found.summaries.reranking["score_p100"] <= 450
