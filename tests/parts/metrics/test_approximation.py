"""What an index misses: hand-computed, and against faiss's own exact search."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragsweep.core.building import Builder
from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.core.types import (
    Arrays,
    Chunks,
    Dataset,
    EvaluationView,
    Floats,
    GoldenSet,
    IndexComparison,
    PartTraits,
    Question,
    Rankings,
    Spans,
)
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.evidence import cover, view
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.chunkers import NoChunker, ParentChild
from ragsweep.parts.indexes import Flat, Hnsw, Ivf
from ragsweep.parts.metrics import AnnEvidenceLost, AnnRecall, Recall
from ragsweep.parts.ranking import empty_rankings
from ragsweep.parts.rerankers import NoReranker
from ragsweep.stages.executor import Executor
from ragsweep.testing.metrics import example
from support.parts import Whole, Words, built, clustered, corpus, golden


def compared(found: Rankings, exact: Rankings) -> EvaluationView:
    """Make a view of unanswerable questions with these rankings of an approximate index and of exact search."""
    questions = tuple(Question(str(n), "", answerable=False) for n in range(len(found.positions)))
    spans = Spans(np.zeros(1, np.int32), np.zeros(1, np.int64), np.ones(1, np.int64))
    coverage, none = cover(Chunks(corpus(["a"]), spans), GoldenSet(questions)), np.empty(0, np.int64)
    leg = IndexComparison(found, exact, none, none)
    looked = view(coverage, empty_rankings(len(questions), 1), 1)
    return replace(looked, approximate={"vector": leg})


NAN = float("nan")


def test_scores_of_the_example_by_hand() -> None:
    # exact: 0 2 3 | 3 1 0 | 2 3 4 | 1 4 0 | 4 3 1 | 3 4 2 | 0 1 2 | 0 1 2 | 2 4 3 | conversation
    # found: 0 3 1 | 3 1   | 2 3   | 0 1 2 | 4 3 1 | 3 4   |       | 0 1   | 2 4 3 |
    # Evidences stand in the chunks: 0, 3 | 1 (two) | 2, 4 | 4 | 0 (or any of 0, 1, 2) | 3, 4 | 0
    third = 2 / 3
    for metric, expected in (
        (AnnRecall(3), [third, third, third, third, 1, third, 0, third, 1, NAN]),
        (AnnRecall(1), [1, 1, 1, 0, 1, 1, 0, 1, 1, NAN]),
        (AnnEvidenceLost(), [0, 0, 0.5, 1, 0, 0, 1, NAN, NAN, NAN]),
        (AnnEvidenceLost(1), [0, 0, 0, 0, 0, 0, 1, NAN, NAN, NAN]),
    ):
        np.testing.assert_allclose(metric.score(example()).values, expected, atol=1e-12)
    assert AnnRecall(3).score(example()).reasons[-1] == "conversational"
    assert AnnEvidenceLost().score(example()).reasons[7:].tolist() == ["no evidence", "unanswerable", "conversational"]


@pytest.mark.parametrize("metric", [AnnRecall(3), AnnEvidenceLost()])
def test_exact_search_is_not_measured(metric: AnnRecall | AnnEvidenceLost) -> None:
    scores = metric.score(replace(example(), approximate={}))
    assert np.isnan(scores.values).all()
    assert set(scores.reasons) <= {"exact", "no evidence", "unanswerable", "conversational"}
    assert scores.reasons[0] == "exact"


def test_several_legs_are_taken_together() -> None:
    leg = example().approximate["vector"]
    lossless = leg._replace(found=leg.exact, found_rank=leg.exact_rank)
    for legs in ({"a": leg, "b": lossless}, {"a": lossless, "b": leg}):
        both = replace(example(), approximate=legs)
        assert AnnRecall(3).score(both).values[6] == 0.5  # none of three, and all of three
        assert AnnEvidenceLost().score(both).values[6] == 0  # one leg lost it, the other found it


def test_nothing_to_be_found_is_no_score() -> None:
    nothing = compared(empty_rankings(1, 3), empty_rankings(1, 3))
    assert AnnRecall(2).score(nothing).reasons.tolist() == ["nothing retrieved"]


# --- against faiss -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "last"),
    [([Hnsw(4, 20, ef) for ef in (20, 40, 400)], 0.95), ([Ivf(100, probes) for probes in (1, 4, 100)], 1.0)],
)
def test_recall_is_that_of_faiss_and_rises_with_the_effort(parts: list[Any], last: float) -> None:
    import faiss

    vectors, queries = (clustered(number, seed, centres=50, spread=0.7) for number, seed in ((5000, 0), (100, 1)))
    flat = faiss.IndexFlatIP(32)
    flat.add(vectors)
    nearest = flat.search(queries, 10)[1].tolist()
    index, exact = parts[0].build(vectors), Flat().search(Flat().build(vectors), vectors, queries, 20)
    measured = []
    for part in parts:
        found = part.search(index, vectors, queries, 20)
        measured.append(AnnRecall(10).score(compared(found, exact)).values.mean())
        pairs = zip(found.positions[:, :10].tolist(), nearest, strict=True)
        shared = [len(set(ours) & set(theirs)) / 10 for ours, theirs in pairs]
        assert measured[-1] == pytest.approx(np.mean(shared), abs=1e-12)
    assert measured == sorted(set(measured))
    assert measured[0] < 0.95
    assert measured[-1] >= last


# --- in a sweep --------------------------------------------------------------------------------------------------


class HalfBlind:
    """Search every second vector only."""

    TRAITS = PartTraits(version="1")

    def build(self, vectors: Floats) -> Arrays:
        """Build what the exact index does."""
        return Flat().build(vectors)

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return what stands at even positions."""
        found = Flat().search(index, np.ascontiguousarray(vectors[::2]), queries, depth)
        return found._replace(positions=np.where(found.positions >= 0, found.positions * 2, -1).astype(np.int32))


QUESTIONS = golden(("cats in the yard", "d1"), ("source code compiler", "d2"), ("bread", "d4"), ("cat on mat", "d0"))
METRICS = (AnnRecall(2), AnnEvidenceLost(2), Recall(2))


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", f"support,{__name__}")


def lay(index: str, *, compared: bool = True, hybrid: bool = False, chunker: BuiltPart | None = None) -> ConfigGraph:
    vector = {
        "_target_": "ragsweep.parts.retrievers.Vector",
        "embedder": {"_target_": "support.parts.Letters"},
        "index": {"_target_": index},
        "exact": {"_target_": "ragsweep.parts.indexes.Flat"},
    }
    legs = {"vector": vector, "words": {"_target_": "support.parts.Words"}}
    fused = {"_target_": "ragsweep.parts.retrievers.HybridRrf", "legs": legs}
    retriever = Builder().build(fused if hybrid else vector, "retriever")
    return graph(Parts(corpus(), chunker or built(Whole()), retriever, built(NoReranker()), 4, 2, compared))


def prepared(laid: ConfigGraph) -> Experiment:
    return Experiment("n", (), {}, {}, Dataset("toy", corpus(), QUESTIONS), laid, 2, METRICS, 0.5, "s")


def evaluated(laid: ConfigGraph, executor: Executor | None = None) -> Any:
    return Evaluator(executor or Executor()).evaluate(prepared(laid))


BLIND = f"{__name__}.HalfBlind"
FLAT = "ragsweep.parts.indexes.Flat"


def test_exact_retrieval_is_that_of_a_flat_config() -> None:
    beside = lay(BLIND).approximate[""]
    assert beside.found.address == lay(BLIND).ranking.address
    assert beside.exact.address == lay(FLAT).ranking.address
    executor = Executor()
    evaluated(lay(FLAT), executor)
    before = executor.work["retrieve"].executed
    evaluated(lay(BLIND), executor)
    assert executor.work["retrieve"].executed == before + 1


def test_exact_search_runs_only_beside_an_approximate_index_and_where_it_is_asked_for() -> None:
    assert lay(FLAT).approximate == lay(BLIND, compared=False).approximate == {}
    words = graph(Parts(corpus(), built(Whole()), built(Words()), built(NoReranker()), 4, 2, True))
    assert words.approximate == {}
    wanted = {node.address for node in prepared(lay(BLIND)).nodes}
    without = {node.address for node in prepared(lay(BLIND, compared=False)).nodes}
    assert (
        wanted - without
        == {lay(FLAT).ranking.address}
        | {node.address for node in lay(FLAT).ranking.inputs if node.stage == "index"} - without
    )
    assert lay(BLIND).ranking.address == lay(BLIND, compared=False).ranking.address


@pytest.mark.parametrize("hybrid", [False, True])
def test_what_the_index_misses_is_told_apart_from_what_is_found(hybrid: bool) -> None:
    result = evaluated(lay(BLIND, hybrid=hybrid))
    exact = np.array(evaluated(lay(FLAT)).questions["first_evidence_rank"])
    even = np.array([False, True, True, True])  # d1 is the one evidence at an odd position
    had = (exact > 0) & (exact <= 2)
    assert had[0]
    assert result.questions["ann_evidence_lost_at_2"] == (had & ~even).astype(float).tolist()
    assert 0 < result.summaries.metrics["ann_recall_at_2"].value < 1


def test_of_nested_chunks_the_ones_that_are_handed_on_count() -> None:
    children = Builder().build({"_target_": "ragsweep.parts.chunkers.FixedSize", "size": 9, "overlap": 0}, "chunker")
    nested = ParentChild(NoChunker(), children.value)
    spec = Spec("ParentChild", "1", {"parent": Spec("NoChunker", "1"), "child": children.spec})
    laid = lay(BLIND, chunker=BuiltPart(nested, spec))
    result, exact = evaluated(laid), evaluated(lay(FLAT, chunker=BuiltPart(nested, spec)))
    found = {name: np.array(one.questions["first_evidence_rank"]) for name, one in (("a", result), ("e", exact))}
    had, has = ((ranks > 0) & (ranks <= 2) for ranks in (found["e"], found["a"]))
    assert result.questions["ann_evidence_lost_at_2"] == (had & ~has).astype(float).tolist()
    assert 0 < result.summaries.metrics["ann_recall_at_2"].value < 1


def test_config_with_exact_search_says_why_there_is_no_score() -> None:
    summary = evaluated(lay(FLAT)).summaries.metrics["ann_recall_at_2"]
    assert np.isnan(summary.value)
    assert (summary.n_scored, summary.n_skipped, summary.n_failed) == (0, 4, 0)
    assert summary.reasons == {"exact": 4}
