"""The contract of a vector index, as tests: ``class TestMine(VectorIndexContract): part = Mine``."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ragsweep.core.types import Floats, Rankings, VectorIndex
from ragsweep.testing.rankings import assert_equal, assert_lawful, stored


class VectorIndexContract:
    """Inherit, and set ``part`` to your class, or override it with a method that returns an instance.

    Set ``exact = False`` for an index that may miss neighbours. Scores are inner products in any case.
    """

    exact: ClassVar[bool] = True
    number: ClassVar[int] = 400

    part: Callable[[], VectorIndex]

    def test_satisfies_the_protocol(self) -> None:
        """The pipeline recognises it by its methods."""
        assert isinstance(self.part(), VectorIndex)

    def test_rankings_are_sorted_unique_and_padded(self) -> None:
        """For every query and depth."""
        for depth in (1, 10, self.number, self.number + 5):
            assert_lawful(self._search(self._queries(), depth), depth, self.number)

    def test_no_queries_give_no_rankings(self) -> None:
        """The result still has its depth."""
        assert self._search(self._queries()[:0], 5).positions.shape == (0, 5)

    def test_a_query_is_ranked_alike_in_any_batch(self) -> None:
        """Rows are stored one by one and read in any batch."""
        queries = self._queries()
        together = self._search(queries, 20)
        for row in range(len(queries)):
            alone = self._search(queries[row : row + 1], 20)
            assert_equal(alone, Rankings(together.positions[row : row + 1], together.scores[row : row + 1]))

    def test_a_stored_index_serves_another_instance(self) -> None:
        """Everything that searching needs is in what ``build`` returned, as named arrays."""
        index = stored(self.part().build(self._vectors()))
        found = self.part().search(index, self._vectors(), self._queries(), 10)
        assert_equal(found, self._search(self._queries(), 10))

    def test_an_instance_serves_two_indexes(self) -> None:
        """One instance may serve several chunkings."""
        part, vectors = self.part(), self._vectors()
        turned = np.ascontiguousarray(vectors[::-1])
        one, other = part.build(vectors), part.build(turned)
        expected = self.part().search(other, turned, self._queries(), 10)
        part.search(one, vectors, self._queries(), 10)
        assert_equal(part.search(other, turned, self._queries(), 10), expected)

    def test_vectors_may_be_read_only(self) -> None:
        """They may be a memory-mapped file."""
        part, vectors = self.part(), self._vectors()
        vectors.flags.writeable = False
        found = part.search(part.build(vectors), vectors, self._queries(), 10)
        assert_equal(found, self._search(self._queries(), 10))

    def test_no_vectors_and_one_are_enough(self) -> None:
        """A corpus may be that small, or have no text."""
        for number in (0, 1):
            part, vectors = self.part(), self._vectors()[:number]
            found = part.search(part.build(vectors), vectors, self._queries(), 3)
            assert_lawful(found, 3, number)
            assert (found.positions[:, :number] == 0).all(), f"{number} vectors: {found.positions}"

    def test_a_vector_finds_itself(self) -> None:
        """Of vectors of one length none is nearer than the vector itself, or its first copy."""
        vectors = self._vectors()
        found = self._search(vectors, 1).positions[:, 0]
        share = float(np.mean(np.all(vectors[found] == vectors, axis=1)))
        assert share == 1 if self.exact else share > 0.8

    def test_scores_are_inner_products(self) -> None:
        """The scores of two indexes are comparable."""
        found = self._search(self._queries(), 10)
        for query, places, scores in zip(self._queries(), found.positions, found.scores, strict=True):
            products = self._vectors()[places[places >= 0]].astype(np.float64) @ query.astype(np.float64)
            np.testing.assert_allclose(scores[places >= 0], products, rtol=1e-6, atol=1e-7)

    def test_an_exact_index_finds_the_largest_inner_products(self) -> None:
        """Ties are ordered by position."""
        if not self.exact:
            return
        found = self._search(self._queries(), 10)
        products = (self._queries().astype(np.float64) @ self._vectors().astype(np.float64).T).astype(np.float32)
        expected = -np.sort(-products, axis=1)[:, :10]
        np.testing.assert_allclose(found.scores, expected, rtol=1e-5, atol=1e-6)

    def _vectors(self) -> Floats:
        """Make vectors of length 1; every tenth is a copy of one before."""
        vectors = np.random.default_rng(0).normal(size=(self.number, 24))
        vectors[9::10] = vectors[:-9:10][: len(vectors[9::10])]
        unit: Floats = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def _queries(self) -> Floats:
        """Make enough queries for a library to switch to its batch algorithm."""
        near = self._vectors()[::12]
        return near + np.random.default_rng(1).normal(scale=0.1, size=near.shape).astype(np.float32)

    def _search(self, queries: Floats, depth: int) -> Rankings:
        part = self.part()
        return part.search(part.build(self._vectors()), self._vectors(), queries, depth)
