"""What the contracts of everything that ranks chunks share."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import NO_CHUNK, Arrays, Rankings


def assert_lawful(rankings: Rankings, depth: int, chunks: int) -> None:
    """Check shapes and types, and that rows are sorted, unique, in range, tied by position, padded at their ends."""
    positions, scores = rankings.positions, rankings.scores
    assert positions.dtype == np.int32, f"positions are int32, not {positions.dtype}"
    assert scores.dtype == np.float32, f"scores are float32, not {scores.dtype}"
    expected = (len(positions), depth)
    assert positions.shape == scores.shape == expected, f"{positions.shape} and {scores.shape}, not {expected}"
    for place, score in zip(positions.tolist(), scores.tolist(), strict=True):
        length = place.index(NO_CHUNK) if NO_CHUNK in place else depth
        found = place[:length]
        assert set(place[length:]) <= {NO_CHUNK}, f"a ranking goes on after its padding: {place}"
        assert all(value == -np.inf for value in score[length:]), f"padding must score minus infinity: {score}"
        assert len(set(found)) == length, f"a chunk is ranked twice: {place}"
        assert all(0 <= chunk < chunks for chunk in found), f"there are {chunks} chunks: {place}"
        assert np.isfinite(score[:length]).all(), f"scores are finite: {score}"
        keys = [(-value, chunk) for value, chunk in zip(score[:length], found, strict=True)]
        assert keys == sorted(keys), f"order is by falling score, ties by position: {place}, {score}"


def assert_equal(one: Rankings, other: Rankings) -> None:
    """Check that two rankings agree, scores to a relative 1e-6."""
    np.testing.assert_array_equal(one.positions, other.positions)
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6)


def stored(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Write arrays to bytes and read them back without pickle, as the store does with a built index."""
    assert isinstance(arrays, Mapping), f"a built index is a mapping of names to arrays, not {type(arrays).__name__}"
    for name, array in arrays.items():
        assert isinstance(name, str), f"arrays are named by strings, not {name!r}"
        assert isinstance(array, np.ndarray), f"{name} is no array but {type(array).__name__}"
        assert not array.dtype.hasobject, f"{name} holds Python objects, which only pickle could store"
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **dict(arrays))
    file.seek(0)
    with np.load(file, allow_pickle=False) as read:
        return {name: read[name] for name in read.files}


class RankingContract(ABC):
    """Laws of a part that builds an index of chunks and ranks them by it: of texts for a retriever, else of vectors."""

    part: Any

    @abstractmethod
    def chunks(self) -> Any:
        """Return some chunks."""

    @abstractmethod
    def queries(self) -> Any:
        """Return some queries."""

    @abstractmethod
    def rank(self, part: Any, index: Arrays, chunks: Any, queries: Any, depth: int) -> Rankings:
        """Rank the chunks of an index."""

    def found(self, queries: Any, depth: int) -> Rankings:
        """Rank with a new instance and a new index."""
        part = self.part()
        return self.rank(part, part.build(self.chunks()), self.chunks(), queries, depth)

    def test_rankings_are_sorted_unique_and_padded(self) -> None:
        """For every query and depth."""
        number = len(self.chunks())
        for depth in (1, 3, number, 3 * number):
            assert_lawful(self.found(self.queries(), depth), depth, number)

    def test_no_queries_give_no_rankings(self) -> None:
        """The result still has its depth."""
        assert self.found(self.queries()[:0], 5).positions.shape == (0, 5)

    def test_a_query_is_ranked_alike_in_any_batch(self) -> None:
        """Rows are stored one by one and read in any batch."""
        part, queries = self.part(), self.queries()
        index = part.build(self.chunks())
        together = self.rank(part, index, self.chunks(), queries, 5)
        for row in range(len(queries)):
            alone = self.rank(part, index, self.chunks(), queries[row : row + 1], 5)
            assert_equal(alone, Rankings(together.positions[row : row + 1], together.scores[row : row + 1]))

    def test_a_stored_index_serves_another_instance(self) -> None:
        """Everything that ranking needs is in what ``build`` returned, as named arrays."""
        index = stored(self.part().build(self.chunks()))
        assert_equal(self.rank(self.part(), index, self.chunks(), self.queries(), 5), self.found(self.queries(), 5))

    def test_an_instance_serves_two_indexes(self) -> None:
        """One instance may serve several chunkings."""
        part, chunks, turned = self.part(), self.chunks(), self.chunks()[::-1]
        one, other = part.build(chunks), part.build(turned)
        self.rank(part, other, turned, self.queries(), 5)
        assert_equal(self.rank(part, one, chunks, self.queries(), 5), self.found(self.queries(), 5))
