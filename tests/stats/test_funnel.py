"""Planted faults: each is attributed to the stage that has it, and repairing it gives the number that was foretold."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.core.question_texts import from_texts, to_texts
from ragsweep.core.results import Result
from ragsweep.core.types import (
    Arrays,
    Corpus,
    Dataset,
    Evidence,
    Floats,
    GoldenSet,
    PartTraits,
    Question,
    Rankings,
    Spans,
)
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.indexes import Flat
from ragsweep.parts.metrics import ContextRecall
from ragsweep.parts.rerankers import NoReranker
from ragsweep.parts.retrievers import Vector
from ragsweep.report.evidence_losses import funnel_rows, funnel_sentences
from ragsweep.stats import funnel as stages
from ragsweep.stats.funnel import INDEX, RERANKING, Counterfactual, Funnel, funnel
from support.parts import Letters, LongestFirst, Whole, Words, built, corpus, fused, padded
from support.results import changed

DOCUMENTS = corpus(["one two three", "two three four", "one two three four five"])
"""The evidence is d2; "one two three four" shares most words with it."""


class Cut:
    """Chunks of so many words."""

    TRAITS = PartTraits(version="1")

    def __init__(self, words: int) -> None:
        self.words = words

    def split(self, corpus: Corpus) -> Spans:
        rows = []
        for document, text in enumerate(corpus.texts):
            starts = [0, *(n + 1 for n, letter in enumerate(text) if letter == " ")][:: self.words]
            rows += [(document, low, high) for low, high in zip(starts, [*starts[1:], len(text)], strict=True)]
        return Spans(*np.array(rows, dtype=np.int64).T)


class Listed:
    """Rank the same documents for every query."""

    TRAITS = PartTraits(version="1")

    def __init__(self, order: Sequence[int]) -> None:
        self.order = order

    def build(self, texts: Sequence[str]) -> Arrays:
        return {"texts": np.array([len(texts)])}

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        scores = np.arange(len(self.order), 0, -1, dtype=np.float32)
        return padded(
            np.tile(np.array(self.order, np.int32), (len(queries), 1)), np.tile(scores, (len(queries), 1)), depth
        )


class Forgetful(Flat):
    """An index that never finds d2."""

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        found = super().search(index, vectors, queries, depth)
        kept = found.positions[found.positions != 2].reshape(len(queries), -1)
        return padded(kept, found.scores[:, : kept.shape[1]], depth)


class Shortest(LongestFirst):
    """A reranker that likes short chunks; one that likes long ones is perfect for these documents."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        return -super().score(pairs)


def listed(*order: int) -> BuiltPart:
    return built(Listed(order), order=order)


def search_by_letters(index: Any, min_score: float | None = None) -> BuiltPart:
    exact = Spec("Flat", "1")
    spec = {"embedder": Spec("Letters", "1"), "index": Spec(type(index).__name__, "1"), "exact": exact}
    return BuiltPart(Vector(Letters(), index, Flat(), min_score), Spec("Vector", "1", spec))


def run(top_k: int = 1, threshold: float = 0.9, **given: Any) -> Result:
    """Run the pipeline on one question, whose evidence is the anchor of d2."""
    question = Question("q", "one two three four", evidence=(Evidence("d2", "two three four five"),))
    reranker = given.pop("reranker", built(NoReranker()))
    known = {"chunker": built(Whole()), "retriever": built(Words()), "depth": 3, "compared": True, **given}
    parts = Parts(corpus=DOCUMENTS, reranker=reranker, top_k=top_k, **known)
    config = {"objective": "context_recall", "top_k": top_k, "reranker": {"candidates": reranker.value.candidates}}
    asked = Experiment("made", (), config, {}, Dataset("toy", DOCUMENTS, GoldenSet((question,))), graph(parts), top_k,
                       (ContextRecall(),), threshold, "s")  # fmt: skip
    return Evaluator().evaluate(asked)


def lost(result: Result) -> tuple[str, Funnel]:
    found = funnel(result)
    ((fate,),) = found.fates.values()
    assert found.lost_by == {"q": fate}
    assert sum(stage.lost for stage in found.stages) == (fate != "")
    assert found.stages[-1].left == (fate == "")
    return fate, found


def foretold(found: Funnel, change: str, to: str) -> Counterfactual:
    (one,) = (one for one in found.counterfactuals if (one.change, one.to) == (change, to))
    return one


FAULTS: Mapping[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "split by chunking": (
        stages.CHUNKING, "whole", {"chunker": built(Cut(2), words=2)}, {"chunker": built(Cut(9), words=9)},
    ),
    "lost by the index": (
        stages.INDEX, "", {"retriever": search_by_letters(Forgetful()), "top_k": 3},
        {"retriever": search_by_letters(Flat()), "top_k": 3},
    ),
    "demoted by fusion": (
        stages.FUSION, "a", {"retriever": fused({"a": listed(2, 1, 0), "b": listed(0, 1, 2), "c": listed(0, 1)})},
        {"retriever": listed(2, 1, 0)},
    ),
    "demoted by the reranker": (
        stages.RERANKING, "none", {"reranker": built(Shortest(), candidates=3)}, {},
    ),
    "cut by top_k": (stages.TOP_K, "2", {"retriever": listed(0, 2, 1)}, {"retriever": listed(0, 2, 1), "top_k": 2}),
    "cut by the budget": (
        stages.BUDGET, "none", {"retriever": listed(0, 2), "top_k": 2, "context_budget": 5},
        {"retriever": listed(0, 2), "top_k": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_its_repair_foretold(fault: str) -> None:
    stage, to, broken, repaired = FAULTS[fault]
    before, after = run(**broken), run(**repaired)
    fate, found = lost(before)
    assert fate == stage
    assert found.recall == before.summaries.metrics["context_recall"].value == 0
    one = foretold(found, stage, to)
    assert (one.recovered, one.gain) == (1, 1)
    assert one.recall == after.summaries.metrics["context_recall"].value == 1
    assert lost(after)[0] == ""


def test_a_change_of_a_context_with_a_budget_is_bounded_because_the_budget_may_undo_it() -> None:
    given = {"retriever": listed(0, 2), "context_budget": 5}  # d0 has 3 tokens, d2 has 5: the budget excludes d2
    before, after = run(**given), run(**given, top_k=2)
    one = foretold(funnel(before), stages.TOP_K, "2")
    assert (one.gain, one.bound) == (1, True)
    assert after.summaries.metrics["context_recall"].value == before.summaries.metrics["context_recall"].value == 0
    sentence = "top_k=2 would recover at most 1 piece of evidence: recall at most +1.000."
    assert sentence in funnel_sentences(funnel(before))


def test_without_the_reranker_at_most_the_evidence_in_its_first_chunks_enters_a_context_with_a_budget() -> None:
    """The reranker puts d2 second, the budget excludes it; without the reranker, d2 is first."""
    given = {"retriever": listed(2, 0), "top_k": 2, "context_budget": 5}
    before, after = run(reranker=built(Shortest(), candidates=3), **given), run(**given)
    one = foretold(funnel(before), RERANKING, "none")
    assert (one.gain, one.bound) == (after.summaries.metrics["context_recall"].value, True) == (1, True)
    sentence = "Without the reranker, at most 1 piece of evidence would enter the context: at most +1.000 recall@2."
    assert sentence in funnel_sentences(funnel(before))


def test_the_index_lost_what_exact_search_has_among_its_candidates() -> None:
    fate, found = lost(run(retriever=search_by_letters(Forgetful())))
    assert fate == stages.INDEX
    assert [one for one in found.counterfactuals if one.change == stages.INDEX] == []  # it is second there


def test_exact_search_drops_the_scores_and_documents_that_the_retriever_drops() -> None:
    dropped = search_by_letters(Forgetful(), min_score=2.0)  # no cosine reaches 2
    for retriever in (dropped, fused({"vector": dropped, "words": listed(0)})):
        fate, found = lost(run(retriever=retriever))
        assert fate == stages.RETRIEVAL
        assert [one for one in found.counterfactuals if one.change == stages.INDEX] == []
    excluded = {"one two three four": ["d1"]}  # the document that exact search ranks before d2
    before, exact = (run(retriever=search_by_letters(one), excluded=excluded) for one in (Forgetful(), Flat()))
    one = foretold(lost(before)[1], stages.INDEX, "")
    assert one.recall == exact.summaries.metrics["context_recall"].value == 1


def test_what_no_leg_finds_was_lost_by_retrieval() -> None:
    fate, found = lost(run(retriever=fused({"a": listed(0, 1), "b": listed(1)})))
    assert fate == stages.RETRIEVAL
    assert not found.counterfactuals  # no rank says what another retriever would do


def test_a_perfect_reranker_reaches_its_bound_among_the_candidates_alone() -> None:
    _, found = lost(run(retriever=listed(0, 1, 2)))
    bound = foretold(found, stages.RERANKING, "perfect")
    perfect = run(retriever=listed(0, 1, 2), reranker=built(LongestFirst(), candidates=3))
    assert bound.recall == perfect.summaries.metrics["context_recall"].value == 1
    too_few = lost(run(retriever=listed(0, 1, 2), reranker=built(LongestFirst(2), candidates=2)))[1]
    assert [one for one in too_few.counterfactuals if one.change == stages.RERANKING] == []


def test_records_without_paths_and_questions_without_evidence_have_no_funnel() -> None:
    result = run()
    assert to_texts(result.questions)["evidence_trace"] == ['{"held":[1],"ranked":[1]}']
    assert funnel(changed(result, questions=replace(result.questions, evidence=None))) is None
    assert funnel(changed(result, {"evidence_trace": ["{}"]})) is None


def test_evidence_in_the_context_of_a_wrong_answer_was_lost_by_the_answer() -> None:
    result = run()
    for score, fate in ((0.0, stages.ANSWER), (1.0, "")):
        found = funnel(changed(result, {"answer": ["a"], "success_rate": [score]}))
        assert found.lost_by == {"q": fate}
        assert funnel_rows(found)[-1][0] == "solved, of 1 questions with all evidence"


def test_the_highest_scores_of_irrelevant_first_chunks_are_listed() -> None:
    result = run(reranker=built(LongestFirst(), candidates=3))
    tops = ((1, 0.5), (2, 0.9), (0, 0.4), (1, 0.7))
    rows = [{"held": [1], "first": [1], "ranked": [rank], "top": top} for rank, top in tops]
    columns = {"question_id": list("abcd"), "context": [["x"], ["y"], ["z"], ["w"]],
               "evidence_trace": list(map(json.dumps, rows))}  # fmt: skip
    found = funnel(changed(result, questions=from_texts(columns)))
    assert [(one.question, one.chunk, one.usual) for one in found.phantoms] == [("b", "y", 0.6)]
    assert any("1 irrelevant chunk first" in sentence for sentence in funnel_sentences(found))
    assert json.dumps(asdict(found))


def test_sentences_state_the_evidence_that_would_leave_because_the_gain_is_net_of_it() -> None:
    """9 of 159 pieces are a recall of .057, but 4 leave: 5 of 159 are .031."""

    def sentence(change: str, to: str, dropped: int) -> str:
        found = Counterfactual(change, to, 5, 9, dropped, 0.9, (9 - dropped) / 159)
        return next(iter(funnel_sentences(Funnel("a", 5, 53, 159, 0.8, (), {}, {}, 0, counterfactuals=(found,)))))

    perfect = "A perfect reranker would bring 9 pieces of evidence into the context"
    assert sentence(RERANKING, "perfect", 4) == f"{perfect}, and 4 would leave the context: at most +.031 recall@5."
    assert sentence(RERANKING, "perfect", 0) == f"{perfect}: at most +.057 recall@5."
    exact = "Exact search would bring 9 pieces of evidence into the first 5 of the retriever"
    assert sentence(INDEX, "", 4) == f"{exact}, and 4 would leave them: +.031 recall@5."
    assert sentence(INDEX, "", 0) == f"{exact}: +.057 recall@5."
