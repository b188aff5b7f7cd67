"""Exact search: ties, boundaries, and the independence of a row."""

from pathlib import Path

import numpy as np

from ragsweep.core.types import Rankings
from ragsweep.parts.indexes import Flat
from ragsweep.testing.indexes import VectorIndexContract
from support.parts import drawn


class TestFlat(VectorIndexContract):
    part = Flat


def search(vectors: object, queries: object, depth: int) -> Rankings:
    part, given = Flat(), np.array(vectors, dtype=np.float32)
    return part.search(part.build(given), given, np.array(queries, dtype=np.float32), depth)


def test_inner_products_of_a_hand_computed_example() -> None:
    found = search([[1, 0], [0, 1], [0.5, 0.5]], [[1, 0.5], [-1, 0]], 3)
    assert found.positions.tolist() == [[0, 2, 1], [1, 2, 0]]
    assert found.scores.tolist() == [[1.0, 0.75, 0.5], [0.0, -0.5, -1.0]]


def test_of_a_thousand_equal_vectors_the_first_are_found() -> None:
    vectors = np.tile(drawn(1, seed=3, dimension=48), (1000, 1))
    vectors[0] = -vectors[0]
    for queries in (vectors[1:2], vectors[1:41]):
        assert (search(vectors, queries, 10).positions == np.arange(1, 11)).all()


def test_ranking_equals_that_of_all_products_in_float64() -> None:
    vectors, queries = drawn(700, dimension=48), drawn(50, seed=1, dimension=48)
    products = (queries.astype(np.float64) @ vectors.astype(np.float64).T).astype(np.float32)
    expected = np.argsort(-products, axis=1, kind="stable")[:, :30]
    np.testing.assert_array_equal(search(vectors, queries, 30).positions, expected)


def test_in_a_crowd_of_nearly_equal_vectors_the_order_is_that_of_float64() -> None:
    chance = np.random.default_rng(0)
    vectors = (drawn(1, dimension=384) + chance.normal(scale=1e-8, size=(2000, 384))).astype(np.float32)
    queries = np.concatenate([drawn(30, seed=1, dimension=384), vectors[:10]])
    products = (queries.astype(np.float64) @ vectors.astype(np.float64).T).astype(np.float32)
    expected = np.argsort(-products, axis=1, kind="stable")[:, :20]
    np.testing.assert_array_equal(search(vectors, queries, 20).positions, expected)
    np.testing.assert_array_equal(search(vectors, queries[:1], 20).positions, expected[:1])


def test_ranking_does_not_depend_on_the_queries_beside_it() -> None:
    vectors, queries = drawn(700, dimension=48), drawn(50, seed=1, dimension=48)
    vectors[300:340] = vectors[3]
    queries[7] = vectors[3]
    whole = search(vectors, queries, 30)
    for together in (1, 3, 49):
        for start in range(0, 50, together):
            part = search(vectors, queries[start : start + together], 30)
            np.testing.assert_array_equal(part.positions, whole.positions[start : start + together])
            np.testing.assert_array_equal(part.scores, whole.scores[start : start + together])


def test_faiss_keeps_its_own_setting() -> None:
    import faiss

    before = faiss.cvar.distance_compute_blas_threshold
    search(drawn(50, dimension=48), drawn(3, seed=1, dimension=48), 5)
    assert faiss.cvar.distance_compute_blas_threshold == before > 0


def test_index_holds_no_vectors_and_mapped_ones_are_searched_where_they_lie(tmp_path: Path) -> None:
    vectors, queries = drawn(500, dimension=48), drawn(5, seed=1, dimension=48)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = Flat().build(mapped)
    assert sum(array.nbytes for array in index.values()) < 100
    found = Flat().search(index, mapped, queries, 9)
    np.testing.assert_array_equal(found.positions, search(vectors, queries, 9).positions)
