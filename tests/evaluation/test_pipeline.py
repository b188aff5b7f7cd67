"""The stages of a config: shared where they are equal, and each what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.core.types import Rankings
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.rerankers import NoReranker
from ragsweep.parts.retrievers import HybridConvex, Vector
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import Store
from support.parts import Letters, LongestFirst, Whole, Words, built, corpus, fused, vector

NONE = built(NoReranker())


def hybrid(alpha: float = 0.5) -> BuiltPart:
    return fused({"vector": vector(), "words": built(Words())}, HybridConvex, alpha=alpha)


def lay(retriever: BuiltPart, reranker: BuiltPart = NONE, top_k: int = 2, depth: int = 4) -> ConfigGraph:
    return graph(Parts(corpus(), built(Whole()), retriever, reranker, depth, top_k))


def stages(executor: Executor) -> dict[str, int]:
    return {stage: work.executed for stage, work in executor.work.items()}


def test_alone_or_in_a_hybrid_a_leg_is_one_address() -> None:
    alone, together = lay(vector()), lay(hybrid())
    assert alone.ranking.address in {leg.address for leg in together.ranking.inputs}
    assert lay(built(Words())).ranking.address in {leg.address for leg in together.ranking.inputs}


def test_sweep_of_alpha_and_top_k_executes_the_union_of_stages_and_with_the_store_nothing(tmp_path: Path) -> None:
    configs = [lay(hybrid(alpha / 10), top_k=top_k) for alpha in range(11) for top_k in (1, 2, 3)]
    cold = {"chunk": 1, "embed": 1, "embed_queries": 1, "index": 2, "retrieve": 2, "fuse": 11, "context": 33}
    found = []
    for expected in (cold, {"context": 33}):
        executor = Executor(Store(tmp_path, pytest.fail))
        contexts = [executor.get(one.context, ["cats on the mat", "source code"]) for one in configs]
        found.append([context.positions.tobytes() for context in contexts])
        assert {stage: count for stage, count in stages(executor).items() if count} == expected
    assert found[0] == found[1]


def test_error_of_a_retriever_that_returns_no_rankings_names_its_class_and_the_type() -> None:
    class Pairs(Words):
        def retrieve(self, *given: object) -> tuple[list[int], list[float]]:  # type: ignore[override]
            return [0], [1.0]

    with pytest.raises(ConfigError, match=r"^Pairs: .*\.Rankings, got tuple; create it with ragsweep\..*\.arrange$"):
        Executor().get(lay(built(Pairs())).ranking, ["cats"])


def test_counts_stored_by_the_first_definition_of_a_token_are_not_used(tmp_path: Path) -> None:
    counts, store = lay(vector()).counts, Store(tmp_path, pytest.fail)
    numbers = Executor().get(counts)["tokens"]
    former = replace(counts, spec=replace(counts.spec, version="1"), compute=lambda work, rows: {"tokens": 0 * numbers})
    Executor(store).get(former)
    assert Executor(store).get(counts)["tokens"].tolist() == numbers.tolist()


def test_context_is_the_head_of_the_ranking() -> None:
    laid, executor = lay(hybrid(), top_k=2), Executor()
    queries = ["cats on the mat"]
    ranking, context = executor.get(laid.ranking, queries), executor.get(laid.context, queries)
    assert context.positions.tolist() == ranking.positions[:, :2].tolist()
    assert ranking.chunks == laid.chunks.address


@pytest.mark.parametrize("candidates", [1, 3, 4])
def test_reranker_orders_the_candidates_and_the_rest_keep_their_order(candidates: int) -> None:
    reranker, executor = LongestFirst(candidates), Executor()
    laid = lay(vector(), built(reranker, candidates=candidates))
    before = executor.get(laid.first_stage, ["source code"]).positions[0]
    after = executor.get(laid.ranking, ["source code"]).positions[0]
    lengths = [len(corpus().texts[n]) for n in after[:candidates]]
    assert lengths == sorted(lengths, reverse=True)
    assert sorted(after[:candidates]) == sorted(before[:candidates])
    assert after[candidates:].tolist() == before[candidates:].tolist()


def test_reranker_scores_a_pair_once_however_many_configs_ask() -> None:
    reranker, executor = LongestFirst(4), Executor()
    for top_k in (1, 2, 3):
        for candidates in (2, 4):
            reranker.candidates = candidates
            laid = lay(vector(), built(reranker, candidates=candidates), top_k=top_k)
            executor.get(laid.context, ["source code", "cats"])
    assert len(reranker.scored) == len(set(reranker.scored)) == 8


def test_empty_ranking_is_reranked_to_an_empty_ranking() -> None:
    laid = lay(built(Words()), built(LongestFirst(3), candidates=3))
    found = Executor().get(laid.ranking, ["xylophone"])
    assert (found.positions == -1).all()


@pytest.mark.parametrize("retriever", [vector(), hybrid(), built(Words())], ids=["vector", "hybrid", "words"])
def test_latency_is_probed_for_each_stage_of_a_question(retriever: BuiltPart) -> None:
    laid, executor = lay(retriever, built(LongestFirst(2), candidates=2)), Executor()
    seconds = {stage: executor.get(node, ["cats", "bread"]).seconds for stage, node in laid.latency.items()}
    assert "rerank" in seconds
    assert any(stage.startswith("retrieve") for stage in seconds)
    assert all(len(values) == 2 and (values > 0).all() for values in seconds.values())


def test_embedding_goes_in_shards_that_depend_on_nothing_a_user_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.stages.shards.SHARD", 2)
    retriever = vector()
    executor = Executor()
    vectors = executor.get(lay(retriever).embeddings[0]).vectors
    assert retriever.value.embedder.calls == [2, 2, 1]
    np.testing.assert_array_equal(vectors, Letters().embed_documents(corpus().texts).vectors)


def test_a_query_without_a_direction_is_near_to_nothing() -> None:
    """A vector of zeros has one similarity to all chunks: their order would be that of the files' names."""
    found = Executor().get(lay(vector()).ranking, ["?! 123", "source code"])
    assert (found.positions[0] == -1).all()
    assert not found.failed.any()
    assert (found.positions[1] >= 0).any()


@pytest.mark.parametrize("leg", [(None, None), built(Whole())])
def test_leg_that_is_no_retriever_is_refused_by_its_key(leg: tuple[object, object]) -> None:
    with pytest.raises(ConfigError, match=r"^retriever\.legs\.odd: (must be a retriever.*~retriever|Whole lacks)"):
        lay(fused({"words": built(Words()), "odd": BuiltPart(*leg)}))


def test_order_in_which_legs_are_written_changes_nothing() -> None:
    turned = fused({"words": built(Words()), "vector": vector()}, HybridConvex, alpha=0.5)
    assert list(turned.value.legs) != list(hybrid().value.legs)
    assert lay(turned).ranking.address == lay(hybrid()).ranking.address


class Counting(Words):
    """Remember how many queries came together."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def retrieve(self, index: Mapping[str, np.ndarray], queries: Sequence[str], depth: int) -> Rankings:
        self.asked.append(len(queries))
        return super().retrieve(index, queries, depth)


def test_probe_asks_one_question_at_a_time_after_a_warm_one() -> None:
    retriever = Counting()
    laid = lay(built(retriever))
    Executor().get(laid.latency["retrieve"], ["cats", "bread", "source"])
    assert retriever.asked == [3, 1, 1, 1, 1]  # the results themselves, one to warm up, three timed


def filtered(least: float | None) -> BuiltPart:
    leg = vector()
    part = Vector(leg.value.embedder, leg.value.index, leg.value.exact, least)
    return BuiltPart(part, Spec(leg.spec.target, "1", {**leg.spec.parameters, "min_score": least}))


def test_least_score_of_a_leg_drops_candidates_and_searches_nothing_anew() -> None:
    executor, asked = Executor(), ["cats on the mat", "source code"]
    whole, kept = (executor.get(lay(filtered(least)).ranking, asked) for least in (None, 0.7))
    assert {stage: stages(executor)[stage] for stage in ("index", "retrieve", "drop")} == {
        "index": 1, "retrieve": 1, "drop": 1,
    }  # fmt: skip
    stays = whole.scores >= np.float32(0.7)
    assert 0 < stays.sum() < stays.size
    np.testing.assert_array_equal(kept.positions, np.where(stays, whole.positions, -1))
    assert lay(filtered(None)).ranking.address == lay(vector()).ranking.address
    assert len({lay(filtered(least)).ranking.address for least in (None, 0.7, 0.8)}) == 3


@pytest.mark.parametrize("retriever", [vector(), built(Words()), hybrid()], ids=["vector", "words", "hybrid"])
def test_an_excluded_document_leaves_the_rankings_of_its_text_and_the_others_move_up(retriever: BuiltPart) -> None:
    asked, documents, executor = ["cats on the mat", "source code"], corpus(), Executor()
    parts = Parts(documents, built(Whole()), retriever, NONE, 4, 2)
    out = documents.ids[0]
    configs = (parts, replace(parts, excluded={asked[0]: [out]}))
    whole, kept = (executor.get(graph(one).ranking, asked) for one in configs)
    left = [position for position in whole.positions[0].tolist() if position != 0]
    assert kept.positions[0].tolist()[: len(left)] == left
    assert 0 not in kept.positions[0]
    np.testing.assert_array_equal(kept.positions[1], whole.positions[1])
    others = [replace(parts, excluded=one) for one in ({}, {asked[0]: [out]}, {asked[1]: [out]})]
    assert len({graph(one).ranking.address for one in others}) == 3


def test_parameter_called_min_score_is_the_parts_own_business_unless_it_says_otherwise() -> None:
    class Own(Words):
        min_score = 0.7

    laid = lay(BuiltPart(Own(), Spec("Own", "1", {"min_score": 0.7})))
    assert laid.ranking.stage == "retrieve"
    assert laid.ranking.spec.parameters["min_score"] == 0.7
