"""The graph: what it finds, what changes it, and what it does with damaged bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from damage import survives
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.types import Floats
from ragsweep.parts.indexes import Flat, Hnsw
from ragsweep.testing.indexes import VectorIndexContract


class TestHnsw(VectorIndexContract):
    part = Hnsw
    exact = False


def clustered(number: int, dimension: int = 32, seed: int = 0) -> Floats:
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(20, dimension))
    vectors = centres[chance.integers(0, 20, number)] + 0.5 * chance.normal(size=(number, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


VECTORS, QUERIES = clustered(3000), clustered(50, seed=1)


def recall(part: Hnsw, index: Mapping[str, NDArray[np.uint8]]) -> float:
    exact = Flat().search(Flat().build(VECTORS), VECTORS, QUERIES, 10).positions
    found = part.search(index, VECTORS, QUERIES, 10).positions
    return float(np.mean([len(set(one) & set(other)) / 10 for one, other in zip(exact, found, strict=True)]))


def test_nearly_all_neighbours_are_found_and_scored_as_the_exact_index_does() -> None:
    index = Hnsw().build(VECTORS)
    assert recall(Hnsw(), index) > 0.98
    found = Hnsw().search(index, VECTORS, QUERIES, 10)
    exact = Flat().search(Flat().build(VECTORS), VECTORS, QUERIES, 10)
    same = found.positions == exact.positions
    assert same.mean() > 0.9
    np.testing.assert_array_equal(found.scores[same], exact.scores[same])


def test_effort_of_a_search_needs_no_other_graph_and_finds_more() -> None:
    index = Hnsw(m=4, ef_construction=16).build(VECTORS)
    np.testing.assert_array_equal(index["graph"], Hnsw(4, 16, ef_search=500).build(VECTORS)["graph"])
    assert recall(Hnsw(4, 16, ef_search=1), index) < recall(Hnsw(4, 16, ef_search=500), index)


def test_ef_search_acts_below_the_depth_of_a_ranking_too() -> None:
    """A ranking of a hundred must not widen in silence what searches for ten."""
    index = Hnsw(m=4, ef_construction=16).build(VECTORS)
    found = {ef: Hnsw(4, 16, ef_search=ef).search(index, VECTORS, QUERIES, 100) for ef in (10, 40, 100, 400)}
    assert [(one.positions >= 0).sum(axis=1).max() for one in found.values()] == [10, 40, 100, 100]
    exact = Flat().search(Flat().build(VECTORS), VECTORS, QUERIES, 10).positions
    shares = [
        np.mean([len({*a} & {*b[:10]}) for a, b in zip(exact, one.positions, strict=True)]) for one in found.values()
    ]
    assert shares[0] < shares[1] < shares[3]


def test_graph_is_the_same_whatever_the_number_of_threads() -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    try:
        built = []
        for threads in (1, 2, 5):
            faiss.omp_set_num_threads(threads)
            built.append(Hnsw(m=8, ef_construction=32).build(VECTORS)["graph"])
    finally:
        faiss.omp_set_num_threads(before)
    assert all(np.array_equal(built[0], other) for other in built[1:])


def test_graph_holds_no_vectors() -> None:
    graph = Hnsw(m=8).build(VECTORS)["graph"]
    assert graph.dtype == np.uint8
    assert len(graph) < VECTORS.nbytes


def test_equal_vectors_stand_in_the_order_of_positions() -> None:
    vectors = np.tile(clustered(1), (50, 1))
    found = Hnsw().search(Hnsw().build(vectors), vectors, vectors[:2], 30)
    np.testing.assert_array_equal(found.positions, np.sort(found.positions, axis=1))
    assert found.positions.min() >= 0


def test_mapped_vectors_are_searched_where_they_lie(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", VECTORS)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = Hnsw().build(mapped)
    one, other = Hnsw().search(index, mapped, QUERIES, 10), Hnsw().search(index, VECTORS, QUERIES, 10)
    np.testing.assert_array_equal(one.positions, other.positions)


def test_few_vectors_or_none_are_enough() -> None:
    for number in (0, 1, 2):
        vectors = clustered(number)
        found = Hnsw().search(Hnsw().build(vectors), vectors, QUERIES[:3], 4).positions
        assert sorted(found[0].tolist()) == [-1] * (4 - number) + list(range(number))


def test_a_graph_of_other_vectors_is_refused() -> None:
    index = Hnsw(m=8).build(VECTORS)
    for part, vectors in ((Hnsw(m=8), VECTORS[:-1]), (Hnsw(m=8), VECTORS[:, :-1]), (Hnsw(m=9), VECTORS)):
        with pytest.raises(InputError, match="the stored index is damaged"):
            part.search(index, vectors, QUERIES[:, : vectors.shape[1]], 5)


def test_damaged_bytes_raise_an_error_and_never_end_the_process() -> None:
    survives("Hnsw(m=4, ef_construction=20, ef_search=20)", "graph", 60)


@pytest.mark.nightly
def test_two_thousand_damaged_graphs_never_end_the_process() -> None:
    survives("Hnsw(m=4, ef_construction=20, ef_search=20)", "graph", 2000)


@pytest.mark.parametrize("arguments", [{"m": 1}, {"ef_construction": 0}, {"ef_search": 0}])
def test_wrong_parameters_are_refused(arguments: dict[str, int]) -> None:
    name = next(iter(arguments))
    with pytest.raises(ConfigError, match=rf"index\.{name} is {arguments[name]}; it must be"):
        Hnsw(**arguments)
