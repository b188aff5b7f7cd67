"""The lists: what they find, what changes them, and what they do with damaged bytes."""

from __future__ import annotations

import numpy as np
import pytest
from damage import survives

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.types import Arrays, Floats, Rankings
from ragsweep.parts.indexes import Flat, Ivf
from ragsweep.testing.indexes import VectorIndexContract


class TestIvf(VectorIndexContract):
    part = Ivf
    exact = False


class TestIvfOfFewLists(VectorIndexContract):
    exact = False

    def part(self) -> Ivf:
        return Ivf(nlist=5, nprobe=4)


def clustered(number: int, dimension: int = 32, seed: int = 0) -> Floats:
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(20, dimension))
    vectors = centres[chance.integers(0, 20, number)] + 0.5 * chance.normal(size=(number, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


VECTORS, QUERIES = clustered(4000), clustered(50, seed=1)


def exact() -> Rankings:
    return Flat().search(Flat().build(VECTORS), VECTORS, QUERIES, 10)


def recall(part: Ivf, index: Arrays) -> float:
    found = part.search(index, VECTORS, QUERIES, 10).positions
    return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact().positions, found, strict=True)]))


def test_all_lists_find_what_the_exact_index_finds() -> None:
    part = Ivf(nlist=50, nprobe=50)
    found = part.search(part.build(VECTORS), VECTORS, QUERIES, 10)
    np.testing.assert_array_equal(found.positions, exact().positions)
    np.testing.assert_array_equal(found.scores, exact().scores)


def test_more_lists_searched_find_more_in_the_same_lists() -> None:
    index = Ivf(nlist=50, nprobe=1).build(VECTORS)
    np.testing.assert_array_equal(index["lists"], Ivf(nlist=50, nprobe=8).build(VECTORS)["lists"])
    assert recall(Ivf(nprobe=1), index) < recall(Ivf(nprobe=8), index)


def test_lists_are_the_same_whatever_the_number_of_threads() -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    try:
        built = []
        for threads in (1, 2, 5):
            faiss.omp_set_num_threads(threads)
            built.append(Ivf(nlist=50, train_sample=3000).build(VECTORS)["lists"])
    finally:
        faiss.omp_set_num_threads(before)
    assert all(np.array_equal(built[0], other) for other in built[1:])


def test_a_number_takes_one_byte() -> None:
    assert len(Ivf(nlist=10).build(VECTORS)["lists"]) < VECTORS.nbytes / 2


@pytest.mark.parametrize(("number", "lists"), [(1, 1), (38, 1), (78, 2), (4000, 50)])
def test_small_corpora_get_fewer_lists(number: int, lists: int) -> None:
    import faiss

    index = Ivf(nlist=50, nprobe=50).build(VECTORS[:number])
    assert faiss.deserialize_index(index["lists"]).nlist == lists
    found = Ivf(nlist=50, nprobe=50).search(index, VECTORS[:number], QUERIES[:2], 3)
    assert (found.positions >= 0).sum() == 2 * min(3, number)


def test_a_small_sample_gets_fewer_lists() -> None:
    import faiss

    assert faiss.deserialize_index(Ivf(nlist=50, train_sample=400).build(VECTORS)["lists"]).nlist == 10


def test_no_vectors_are_padding_only() -> None:
    none = VECTORS[:0]
    assert (Ivf().search(Ivf().build(none), none, QUERIES, 3).positions == -1).all()


def test_lists_that_hold_too_few_leave_places_empty() -> None:
    part = Ivf(nlist=50, nprobe=1)
    found = part.search(part.build(VECTORS), VECTORS, QUERIES, 1000).positions
    assert (found[:, -1] == -1).all()
    assert (found[:, 0] >= 0).all()


def test_lists_of_other_vectors_are_refused() -> None:
    index = Ivf(nlist=5).build(VECTORS)
    for vectors in (VECTORS[:-1], VECTORS[:, :-1]):
        with pytest.raises(InputError, match="the stored index is damaged"):
            Ivf().search(index, vectors, QUERIES[:, : vectors.shape[1]], 5)


def test_damaged_bytes_raise_an_error_and_never_end_the_process() -> None:
    survives("Ivf(nlist=4, nprobe=2)", "lists", 60)


@pytest.mark.nightly
def test_two_thousand_damaged_lists_never_end_the_process() -> None:
    survives("Ivf(nlist=4, nprobe=2)", "lists", 2000)


@pytest.mark.parametrize("name", ["nlist", "nprobe", "train_sample"])
def test_wrong_parameters_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"index\.{name} is 0; it must be 1 or more"):
        Ivf(**{name: 0})
