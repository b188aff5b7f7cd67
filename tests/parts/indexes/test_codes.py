"""Codes in the place of vectors: what they find, how small they are, and that they are the same every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.types import Arrays, Floats
from ragsweep.parts.indexes import Flat, Pq, Sq, codes, pq
from ragsweep.parts.indexes.sampling import sample
from ragsweep.testing.indexes import VectorIndexContract


class TestSq(VectorIndexContract):
    part = Sq
    exact = False


class TestSqOfFourBits(VectorIndexContract):
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


def clustered(number: int, dimension: int = 32, seed: int = 0) -> Floats:
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(20, dimension))
    vectors = centres[chance.integers(0, 20, number)] + 0.5 * chance.normal(size=(number, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


VECTORS, QUERIES = clustered(1500), clustered(40, seed=1)
Part = Sq | Pq
PARTS: Mapping[str, Callable[[], Part]] = {
    **{f"sq{bits}": lambda bits=bits: Sq(bits) for bits in (4, 6, 8, 16)},
    **{f"pq{bits}": lambda bits=bits: Pq(16, bits) for bits in (4, 5)},
}
every_part = pytest.mark.parametrize("name", PARTS)


@cache
def built(name: str) -> Arrays:
    return PARTS[name]().build(VECTORS)


def recall(part: Part, index: Arrays) -> float:
    exact = Flat().search(Flat().build(VECTORS), VECTORS, QUERIES, 10).positions
    found = part.search(index, VECTORS, QUERIES, 10).positions
    return float(np.mean([len(set(one) & set(other)) / 10 for one, other in zip(exact, found, strict=True)]))


def size(index: Arrays) -> int:
    return sum(array.nbytes for array in index.values())


@pytest.mark.parametrize(("name", "most"), [("sq4", 17), ("sq6", 25), ("sq8", 33), ("sq16", 65)])
def test_numbers_take_their_bits(name: str, most: int) -> None:
    assert size(built(name)) <= most * len(VECTORS)


def test_pieces_take_their_bits() -> None:
    assert built("pq4")["codes"].shape == (1500, 8)
    assert built("pq5")["codes"].shape == (1500, 10)
    assert built("pq5")["means"].shape == (16, 32, 2)


@every_part
def test_far_more_candidates_find_what_the_exact_index_finds(name: str) -> None:
    part = PARTS[name]()
    part.oversampling = 150
    found = part.search(built(name), VECTORS, QUERIES, 10)
    exact = Flat().search(Flat().build(VECTORS), VECTORS, QUERIES, 10)
    np.testing.assert_array_equal(found.positions, exact.positions)
    np.testing.assert_array_equal(found.scores, exact.scores)


def test_more_bits_and_more_candidates_find_more() -> None:
    for parts in ([Sq(4, 1), Sq(4, 2), Sq(8, 2)], [Pq(4, 4, 1), Pq(4, 6, 1), Pq(16, 6, 1), Pq(16, 6, 8)]):
        found = [recall(part, part.build(VECTORS)) for part in parts]
        assert found == sorted(found)
        assert found[0] < 0.95 < found[-1]


def test_candidates_are_those_that_faiss_finds_by_its_own_index() -> None:
    import faiss

    for own, part in ((faiss.IndexScalarQuantizer(32, 1, 0), Sq(4, 1)), (faiss.IndexPQ(32, 8, 5, 0), Pq(8, 5, 1))):
        own.train(VECTORS)
        own.add(VECTORS)
        expected = own.search(QUERIES, 10)[1]
        found = part.search(part.build(VECTORS), VECTORS, QUERIES, 10).positions
        assert [set(row) for row in found.tolist()] == [set(row) for row in expected.tolist()]


@every_part
def test_codes_do_not_depend_on_threads_or_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import faiss

    before, made = faiss.omp_get_max_threads(), []
    try:
        for threads, block in ((1, 65_536), (2, 65_536), (5, 999)):
            faiss.omp_set_num_threads(threads)
            monkeypatch.setattr(codes, "BLOCK", block)
            made.append(PARTS[name]().build(VECTORS))
    finally:
        faiss.omp_set_num_threads(before)
    for other in made[1:]:
        assert {key: array.tobytes() for key, array in other.items()} == {
            key: array.tobytes() for key, array in made[0].items()
        }


@every_part
@pytest.mark.parametrize("number", [0, 1, 2, 3, 300])
def test_small_corpora_are_searched_too(name: str, number: int) -> None:
    part, vectors = PARTS[name](), VECTORS[:number]
    found = part.search(part.build(vectors), vectors, QUERIES[:3], 4).positions
    assert [(row >= 0).sum() for row in found] == [min(number, 4)] * 3


def test_a_large_corpus_is_sampled_by_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pq, "A_MEAN", 39)  # 624 of 1500
    one, other = (Pq(8, 4).build(VECTORS)["means"] for _ in range(2))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, Pq(8, 4).build(sample(VECTORS, 624))["means"])


@every_part
def test_codes_of_other_vectors_or_parameters_are_refused(name: str) -> None:
    part, index = PARTS[name](), built(name)
    narrow = {key: array[..., :-1] for key, array in index.items()}
    short = {**index, "codes": index["codes"][:-1]}
    for given, vectors in ((index, VECTORS[:-1]), (index, VECTORS[:, :-1]), (narrow, VECTORS), (short, VECTORS)):
        with pytest.raises(InputError, match="the stored index is damaged"):
            part.search(given, vectors, QUERIES[:, : vectors.shape[1]], 5)


def test_means_of_other_parameters_are_refused() -> None:
    index = built("pq5")
    for part in (Pq(8, 5), Pq(16, 4)):
        with pytest.raises(InputError, match="the stored index is damaged"):
            part.search(index, VECTORS, QUERIES, 5)


def test_vectors_that_cannot_be_cut_are_refused_with_what_can_be_done() -> None:
    with pytest.raises(ConfigError, match=r"index\.m is 48; vectors of 32 numbers can be cut into 1, 2, 4, 8, 16, 32"):
        Pq().build(VECTORS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sq(bits=5), r"index\.bits is 5; it must be one of 4, 6, 8, 16"),
        (lambda: Sq(oversampling=0), r"index\.oversampling is 0"),
        (lambda: Pq(m=0), r"index\.m is 0"),
        (lambda: Pq(nbits=9), r"index\.nbits is 9; it must lie between 4 and 8"),
        (lambda: Pq(oversampling=0), r"index\.oversampling is 0"),
    ],
)
def test_wrong_parameters_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
