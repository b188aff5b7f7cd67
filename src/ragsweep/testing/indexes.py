"""Contract tests for a vector index; to apply them, write ``class TestMine(VectorIndexContract): part = Mine``."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ragsweep.core.types import Arrays, Floats, Rankings, VectorIndex
from ragsweep.testing.contract import RankingContract, assert_equal, assert_lawful


class VectorIndexContract(RankingContract):
    """Contract tests for a vector index: set ``part`` to your class, or to a method that returns an instance.

    Set ``exact = False`` for an approximate index, which may miss neighbours. The scores of such an index must be inner
    products, too.
    """

    exact: ClassVar[bool] = True
    number: ClassVar[int] = 400

    part: Callable[[], VectorIndex]

    def chunks(self) -> Floats:
        """Return ``self.number`` random unit vectors; every tenth vector is a copy of an earlier vector."""
        vectors = np.random.default_rng(0).normal(size=(self.number, 24))
        vectors[9::10] = vectors[:-9:10][: len(vectors[9::10])]
        unit: Floats = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def queries(self) -> Floats:
        """Return query vectors near every twelfth vector: enough of them to make a library use its batch algorithm."""
        near = self.chunks()[::12]
        return near + np.random.default_rng(1).normal(scale=0.1, size=near.shape).astype(np.float32)

    def rank(self, part: VectorIndex, index: Arrays, chunks: Floats, queries: Floats, depth: int) -> Rankings:
        """Return the rankings of the indexed vectors for all queries."""
        return part.search(index, chunks, queries, depth)

    def test_satisfies_the_protocol(self) -> None:
        """Check that the part has all members of the protocol ``VectorIndex``."""
        assert isinstance(self.part(), VectorIndex)

    def test_vectors_may_be_read_only(self) -> None:
        """Check that read-only vectors, such as the vectors of a memory-mapped file, give the same rankings."""
        part, vectors = self.part(), self.chunks()
        vectors.flags.writeable = False
        rankings = part.search(part.build(vectors), vectors, self.queries(), 10)
        assert_equal(rankings, self.rank_anew(self.queries(), 10))

    def test_no_vectors_and_one_are_enough(self) -> None:
        """Check the rankings of an index without vectors, and of an index with one vector."""
        for number in (0, 1):
            part, vectors = self.part(), self.chunks()[:number]
            rankings = part.search(part.build(vectors), vectors, self.queries(), 3)
            assert_lawful(rankings, 3, number)
            assert (rankings.positions[:, :number] == 0).all(), f"{number} vectors: {rankings.positions}"

    def test_a_vector_finds_itself(self) -> None:
        """Check that the nearest neighbour of each vector is the vector itself or a copy of it.

        If the index is not ``exact``, this must hold for over 80 % of the vectors.
        """
        vectors = self.chunks()
        nearest = self.rank_anew(vectors, 1).positions[:, 0]
        share = float(np.mean(np.all(vectors[nearest] == vectors, axis=1)))
        assert share == 1 if self.exact else share > 0.8

    def test_scores_are_inner_products(self) -> None:
        """Check that scores are inner products, and that an exact index finds the largest inner products."""
        rankings = self.rank_anew(self.queries(), 10)
        products = self.queries().astype(np.float64) @ self.chunks().astype(np.float64).T
        for row, (positions, scores) in enumerate(zip(rankings.positions, rankings.scores, strict=True)):
            filled = positions >= 0
            np.testing.assert_allclose(scores[filled], products[row, positions[filled]], rtol=1e-6, atol=1e-7)
        if self.exact:
            np.testing.assert_allclose(rankings.scores, -np.sort(-products, axis=1)[:, :10], rtol=1e-5, atol=1e-6)
