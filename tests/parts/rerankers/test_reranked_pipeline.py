"""Reranking in the pipeline: what only reorders recomputes no score, and what is read is read once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.identity import BuiltPart
from ragsweep.core.types import NO_CHUNK, PartTraits
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.rerankers import LateInteraction
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import Wanted, plan
from ragsweep.stages.store import open_store
from support.parts import Whole, Words, built, corpus, vector

CONF = Path(__file__).parents[3] / "conf"
QUERIES = ["cats on the mat", "source code", "bread and water"]


class Overlap:
    """Score by shared words; records the pairs it scored."""

    TRAITS = PartTraits(version="1", reordering=frozenset({"candidates", "min_score", "mix"}))

    def __init__(self, candidates: int = 4, min_score: float | None = None, mix: float = 0.0) -> None:
        self.candidates = candidates
        self.min_score = min_score
        self.mix = mix
        self.scored: list[tuple[str, str]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Count the words of the query that the text has not, negatively."""
        self.scored.extend(pairs)
        return np.array([-len(set(query.split()) - set(text.split())) for query, text in pairs], dtype=np.float32)


class Unnamed(Overlap):
    """Has a parameter of the same name that changes its scores, and is not among ``reordering``."""

    TRAITS = PartTraits(reordering=frozenset())


class Letters:
    """Give one token a word, by its letters; records what it embedded."""

    def __init__(self) -> None:
        self.documents: list[str] = []

    def embed_tokens(self, texts: Sequence[str], kind: str) -> list[np.ndarray]:
        """Count the letters of every word."""
        if kind == "document":
            self.documents.extend(texts)
        return [
            np.array([[word.count(chr(97 + n)) for n in range(26)] for word in text.split()], np.float32).reshape(
                -1, 26
            )
            for text in texts
        ]


def config_graph(part: Any, retriever: BuiltPart | None = None, **parameters: Any) -> ConfigGraph:
    for name, value in parameters.items():
        setattr(part, name, value)
    kept = {name: getattr(part, name) for name in ("candidates", "min_score", "mix")}
    return graph(Parts(corpus(), built(Whole()), retriever or vector(), built(part, **kept), 5, 2))


SWEEP = [
    {"candidates": candidates, "min_score": min_score, "mix": mix}
    for candidates in (5, 2, 4)
    for min_score in (None, -1.0, 0.0)
    for mix in (0.0, 0.5, 1.0)
]


def test_sweep_of_what_only_reorders_scores_every_pair_once() -> None:
    executor, part = Executor(), Overlap()
    config = [config_graph(part, **parameters) for parameters in SWEEP]
    for one in config:
        executor.get(one.context, QUERIES)
    assert executor.work["rerank"].executed == 1
    assert len(part.scored) == len(set(part.scored)) == 5 * len(QUERIES)
    assert executor.work["reorder"].executed == len({one.ranking.address for one in config}) == len(SWEEP)
    assert len({one.ranking.inputs[1].address for one in config}) == 1


def test_a_plan_counts_pairs_and_knows_the_stored_ones() -> None:
    """Another retriever may find other candidates, so its pairs are added until its ranking is known."""
    part, executor = Overlap(), Executor()

    def planned(*configs: ConfigGraph) -> int:
        found = plan([[Wanted(one.context, QUERIES)] for one in configs], executor)
        assert configs[0].ranking.inputs[1].stage == "rerank"
        return len(found.missing.get(configs[0].ranking.inputs[1].address, ()))

    few, many = config_graph(part, candidates=2), config_graph(part, candidates=4)
    assert (planned(few), planned(many), planned(few, many)) == (2 * len(QUERIES), 4 * len(QUERIES), 4 * len(QUERIES))
    other = config_graph(part, vector(2.0), candidates=4)
    assert planned(few, many, other) == 8 * len(QUERIES)
    executor.get(many.context, QUERIES)
    assert len(part.scored) == 4 * len(QUERIES)
    mixed = config_graph(part, candidates=4, mix=0.5)
    assert (planned(many), planned(few), planned(mixed), planned(other)) == (0, 0, 0, 4 * len(QUERIES))
    executor.get(other.first_stage, QUERIES)
    assert planned(other) == 0  # it finds the same candidates
    executor.get(other.context, QUERIES)
    assert len(part.scored) == 4 * len(QUERIES)


def test_parameter_that_is_not_named_is_in_the_address_and_reorders_nothing() -> None:
    part = Unnamed()
    plain, mixed = config_graph(part, mix=0.0, min_score=None), config_graph(part, mix=1.0, min_score=99.0)
    assert plain.ranking.inputs[1].address != mixed.ranking.inputs[1].address
    one, other = (Executor().get(config.ranking, QUERIES) for config in (plain, mixed))
    np.testing.assert_array_equal(one.positions, other.positions)


def test_least_score_shortens_the_context() -> None:
    found = Executor().get(
        config_graph(Overlap(), min_score=-1.0).context, ["cats in the park", "xylophone lessons here"]
    )
    assert (found.positions != NO_CHUNK).sum(axis=1).tolist() == [1, 0]


def test_latency_of_reranking_depends_on_the_candidates_and_on_nothing_else_that_reorders() -> None:
    part = Overlap()
    probes = {config_graph(part, **parameters).latency["rerank"].address for parameters in SWEEP}
    assert len(probes) == len({parameters["candidates"] for parameters in SWEEP})


# --- what is read before any query -------------------------------------------------------------------


def test_chunks_are_read_once_whatever_is_reranked() -> None:
    executor, part = Executor(), LateInteraction(Letters())
    for retriever in (vector(), built(Words())):
        for candidates in (2, 4):
            executor.get(config_graph(part, retriever, candidates=candidates).context, QUERIES)
    assert sorted(part.embedder.documents) == sorted(corpus().texts)
    assert executor.work["embed_tokens"].executed == 1


@pytest.mark.parametrize("shard", [2, 3, 64])
def test_scores_of_read_chunks_are_those_of_their_texts(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.stages.shards.SHARD", shard)
    part = LateInteraction(Letters())
    config = config_graph(part, candidates=5)
    ranked = Executor().get(config.ranking, QUERIES)
    for query, positions, scores in zip(QUERIES, ranked.positions, ranked.scores, strict=True):
        texts = [corpus().texts[n] for n in positions]
        np.testing.assert_allclose(scores, part.score([(query, text) for text in texts]), atol=1e-6)
        assert sorted(scores, reverse=True) == scores.tolist()


def test_chunks_that_were_read_are_found_in_the_store(tmp_path: Path) -> None:
    def rerank() -> tuple[np.ndarray, list[str]]:
        part = LateInteraction(Letters())
        executor = Executor(open_store(tmp_path, print))
        return executor.get(config_graph(part, candidates=5).ranking, QUERIES[:1]).scores, part.embedder.documents

    cold, read = rerank()
    assert len(read) == len(corpus().texts)
    part = LateInteraction(Letters())
    executor = Executor(open_store(tmp_path, print))
    executor.get(config_graph(part, candidates=5).ranking, QUERIES[1:])  # new pairs of known chunks
    assert part.embedder.documents == []
    warm, read = rerank()
    assert read == []
    np.testing.assert_array_equal(warm, cold)


def test_corpus_without_chunks_is_reranked_to_nothing() -> None:
    empty = graph(Parts(corpus([]), built(Whole()), built(Words()), built(LateInteraction(Letters())), 3, 1))
    assert (Executor().get(empty.ranking, QUERIES).positions == NO_CHUNK).all()
