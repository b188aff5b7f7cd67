"""What only a search reads is no part of what a built index is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ragsweep.core.building import Builder
from ragsweep.core.identity import Node
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.rerankers import NoReranker
from ragsweep.stages.executor import Executor
from toys import Letters, Whole, built, corpus

VECTOR = "ragsweep.parts.retrievers.Vector"


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "toys")


def lay(index: str, **parameters: int) -> ConfigGraph:
    part: dict[str, Any] = {"_target_": f"ragsweep.parts.indexes.{index}", **parameters}
    node = {"_target_": VECTOR, "embedder": {"_target_": "toys.Letters"}, "index": part, "exact": part}
    retriever = Builder().build(node, "retriever")
    assert isinstance(retriever.value.embedder, Letters)
    return graph(Parts(corpus(), built(Whole()), retriever, built(NoReranker()), 4, 2))


def index_node(laid: ConfigGraph) -> Node:
    return next(node for node in laid.ranking.inputs if node.stage == "index")


@pytest.mark.parametrize(
    ("index", "searched", "made"),
    [("Hnsw", "ef_search", {"m": 5}), ("Ivf", "nprobe", {"nlist": 5}), ("Sq", "oversampling", {"bits": 6})],
)
def test_a_parameter_of_the_search_ranks_anew_and_builds_nothing(
    index: str, searched: str, made: dict[str, int]
) -> None:
    one, other = lay(index, **{searched: 3}), lay(index, **{searched: 4})
    assert index_node(one).address == index_node(other).address
    assert one.ranking.address != other.ranking.address
    assert index_node(lay(index, **made)).address != index_node(one).address
    executor = Executor()
    for laid in (one, other):
        assert executor.get(laid.ranking, ["cats on the mat"]).positions.shape == (1, 4)
    assert {stage: executor.work[stage].executed for stage in ("embed", "index", "retrieve")} == {
        "embed": 1, "index": 1, "retrieve": 2,
    }  # fmt: skip


def test_all_indexes_find_the_same_among_few_chunks() -> None:
    asked, indexes = ["cats on the mat", "source code"], ("Flat", "Hnsw", "Ivf", "Sq")
    found = [Executor().get(lay(index).ranking, asked) for index in indexes]
    for other in found[1:]:
        np.testing.assert_array_equal(other.positions, found[0].positions)
        np.testing.assert_array_equal(other.scores, found[0].scores)
