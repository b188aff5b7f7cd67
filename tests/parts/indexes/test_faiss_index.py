"""The indexes made by faiss: what they find, how small they are, and that they are the same every time."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import faiss
import numpy as np
import pytest

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.types import Arrays
from ragsweep.parts.indexes import Hnsw, Ivf, Pq, Sq, approximate, vectors
from ragsweep.testing.indexes import VectorIndexContract
from support.parts import clustered, exact, recall


class TestHnsw(VectorIndexContract):
    part = Hnsw
    exact = False


class TestIvf(VectorIndexContract):
    part = Ivf
    exact = False


class TestIvfOfFewLists(VectorIndexContract):
    exact = False

    def part(self) -> Ivf:
        return Ivf(nlist=5, nprobe=4)


class TestSq(VectorIndexContract):
    exact = False

    def part(self) -> Sq:
        return Sq(bits=4, oversampling=4)


class TestPq(VectorIndexContract):
    exact = False

    def part(self) -> Pq:
        return Pq(m=8, nbits=5)


class TestPqOfLongPieces(VectorIndexContract):
    """faiss computes with pieces of 16 numbers and more by matrices, for many queries at once."""

    exact = False

    def part(self) -> Pq:
        return Pq(m=1, nbits=5, oversampling=20)


VECTORS, QUERIES = clustered(1500), clustered(40, seed=1)
Part = Hnsw | Ivf | Sq | Pq
PARTS: Mapping[str, Callable[[], Part]] = {
    "hnsw": lambda: Hnsw(8, 64, ef_search=1500),
    "ivf": lambda: Ivf(nlist=30, nprobe=30, train_sample=1200),
    "sq": lambda: Sq(4, oversampling=150),
    "sq16": lambda: Sq(16, oversampling=150),
    "pq": lambda: Pq(16, 5, oversampling=150),
}
"""One of every kind, each with the effort that finds everything."""

every_part = pytest.mark.parametrize("name", PARTS)


@cache
def index_of(name: str) -> Arrays:
    return PARTS[name]().build(VECTORS)


@every_part
def test_enough_effort_finds_and_scores_what_the_exact_index_does(name: str) -> None:
    found = PARTS[name]().search(index_of(name), VECTORS, QUERIES, 10)
    ideal = exact(VECTORS, QUERIES)
    np.testing.assert_array_equal(found.positions, ideal.positions)
    np.testing.assert_array_equal(found.scores, ideal.scores)


@pytest.mark.parametrize(
    "parts",
    [
        [Hnsw(4, 16, ef_search=1), Hnsw(4, 16, ef_search=40), Hnsw(4, 16, ef_search=500)],
        [Ivf(30, nprobe=1), Ivf(30, nprobe=8)],
        [Sq(4, 1), Sq(4, 2), Sq(8, 2)],
        [Pq(4, 4, 1), Pq(4, 6, 1), Pq(16, 6, 1), Pq(16, 6, 8)],
    ],
)
def test_more_effort_finds_more(parts: list[Part]) -> None:
    ideal = exact(VECTORS, QUERIES)
    found = [recall(part.search(part.build(VECTORS), VECTORS, QUERIES, 10), ideal) for part in parts]
    assert found == sorted(found)
    assert found[0] < 0.95 < found[-1]


def test_candidates_are_those_that_faiss_finds_by_its_own_index() -> None:
    for own, part in ((faiss.IndexScalarQuantizer(32, 1, 0), Sq(4, 1)), (faiss.IndexPQ(32, 8, 5, 0), Pq(8, 5, 1))):
        own.train(VECTORS)
        own.add(VECTORS)
        expected = own.search(QUERIES, 10)[1]
        found = part.search(part.build(VECTORS), VECTORS, QUERIES, 10).positions
        assert [set(row) for row in found.tolist()] == [set(row) for row in expected.tolist()]


@every_part
def test_an_index_does_not_depend_on_threads_or_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = faiss.omp_get_max_threads()
    try:
        for threads, block in ((1, 65_536), (5, 999)):
            faiss.omp_set_num_threads(threads)
            monkeypatch.setattr(vectors, "BLOCK", block)
            made = PARTS[name]().build(VECTORS)
            assert {key: array.tobytes() for key, array in made.items()} == {
                key: array.tobytes() for key, array in index_of(name).items()
            }
    finally:
        faiss.omp_set_num_threads(before)


@pytest.mark.parametrize(
    ("part", "most"), [(Sq(4), 17), (Sq(6), 25), (Sq(8), 33), (Sq(16), 65), (Ivf(nlist=10), 64), (Hnsw(m=8), 128)]
)
def test_an_index_is_no_larger_than_its_codes_or_links(part: Part, most: int) -> None:
    assert sum(array.nbytes for array in part.build(VECTORS).values()) <= most * len(VECTORS)


@every_part
@pytest.mark.parametrize("number", [0, 1, 2, 3, 300])
def test_small_corpora_are_searched_too(name: str, number: int) -> None:
    part, few = PARTS[name](), VECTORS[:number]
    found = part.search(part.build(few), few, QUERIES[:3], 4).positions
    assert [(row >= 0).sum() for row in found] == [min(number, 4)] * 3


@pytest.mark.parametrize(("number", "lists"), [(1, 1), (38, 1), (78, 2), (1500, 30)])
def test_small_corpora_get_fewer_lists(number: int, lists: int) -> None:
    assert faiss.deserialize_index(Ivf(nlist=30).build(VECTORS[:number])["lists"]).nlist == lists
    assert faiss.deserialize_index(Ivf(nlist=30, train_sample=400).build(VECTORS)["lists"]).nlist == 10


def test_a_large_corpus_is_sampled_by_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "A_MEAN", 39)  # 624 of 1500
    means = Pq(8, 4).build(VECTORS)["means"]
    np.testing.assert_array_equal(means, Pq(8, 4).build(vectors.sample(VECTORS, 624))["means"])


def test_ef_search_limits_the_length_of_a_ranking() -> None:
    index = index_of("hnsw")
    for effort, length in ((10, 10), (40, 40), (400, 100)):
        found = Hnsw(8, 64, effort).search(index, VECTORS, QUERIES, 100)
        assert (found.positions >= 0).sum(axis=1).max() == length


def test_lists_that_hold_too_few_leave_places_empty() -> None:
    found = Ivf(nlist=30, nprobe=1).search(index_of("ivf"), VECTORS, QUERIES, 1000).positions
    assert (found[:, -1] == -1).all()
    assert (found[:, 0] >= 0).all()


@every_part
def test_an_index_of_other_vectors_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="the stored index was built from different vectors"):
        PARTS[name]().search(index_of(name), VECTORS[:-1], QUERIES, 5)


def build(name: str, **parameters: Any) -> Any:
    return Builder().build({"_target_": f"ragsweep.parts.indexes.{name}", **parameters}, "index")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hnsw(m=1), r"index\.m must be at least 2, got 1"),
        (lambda: Hnsw(ef_construction=0), r"index\.ef_construction must be .*, got 0"),
        (lambda: Hnsw(ef_search=0), r"index\.ef_search must be .*, got 0"),
        (lambda: Ivf(nlist=0), r"index\.nlist must be at least 1, got 0"),
        (lambda: Ivf(nprobe=0), r"index\.nprobe must be .*, got 0"),
        (lambda: Ivf(train_sample=0), r"index\.train_sample must be .*, got 0"),
        (lambda: build("Sq", bits=5), r"index\.bits: must be 4 or 6 or 8 or 16, got 5"),
        (lambda: Sq(oversampling=0), r"index\.oversampling must be .*, got 0"),
        (lambda: Pq(m=0), r"index\.m must be .*, got 0"),
        (lambda: Pq(nbits=9), r"index\.nbits must be between 4 and 8, got 9"),
        (lambda: Pq(oversampling=0), r"index\.oversampling must be .*, got 0"),
        (
            lambda: Pq(m=48).build(VECTORS),
            r"the index's m is 48; for vectors of 32 values, it must be one of 1, 2, 4, 8, 16, 32",
        ),
    ],
)
def test_wrong_parameters_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
