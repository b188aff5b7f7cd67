"""What the contracts share: their base classes, and checks of rankings and of requests."""

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import NO_CHUNK, Arrays, Rankings, Request

_ADVICE = {
    "part": "set part = YourClass, or define a method part that returns an instance",
    "metric": "set metric = YourMetric(), an instance",
}


class Contract:
    """Base of the contracts; subclasses set ``part`` or ``metric``, and a value of the wrong kind raises TypeError."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Check the ``part`` or ``metric`` that a class sets; a fixture of that name is not checked."""
        super().__init_subclass__(**arguments)
        part, metric = vars(cls).get("part"), vars(cls).get("metric")
        if part is not None and not callable(part) and not hasattr(type(part), "__get__"):
            raise TypeError(f"{cls.__name__}: part is an instance of {type(part).__name__}; {_ADVICE['part']}")
        if isinstance(metric, type):
            raise TypeError(f"{cls.__name__}: metric is a class; an instance is needed: metric = {metric.__name__}()")

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError for a missing attribute, with advice for ``part`` and ``metric``."""
            advice = _ADVICE.get(name, "the class neither sets nor inherits it")
            raise AttributeError(f"{type(self).__name__}.{name} is missing: {advice}", name=name, obj=self)


Result = TypeVar("Result")


def collect(
    method: Callable[[Sequence[Request], Callable[[int, Result], None]], None], requests: Sequence[Request]
) -> list[Result]:
    """Return the result of each request, in order; raises AssertionError unless each has exactly one."""
    results: dict[int, Result] = {}

    def done(number: int, result: Result) -> None:
        assert number not in results, f"request {number} has two results"
        results[number] = result

    method(requests, done)
    assert set(results) == set(range(len(requests))), "every request, and no other number, needs a result"
    return [results[number] for number in range(len(requests))]


def assert_lawful(rankings: Rankings, depth: int, chunks: int) -> None:
    """Check shapes and dtypes, and that each row is sorted (ties by position), unique, in range, padded at its end."""
    positions, scores = rankings.positions, rankings.scores
    assert positions.dtype == np.int32, f"positions are int32, not {positions.dtype}"
    assert scores.dtype == np.float32, f"scores are float32, not {scores.dtype}"
    expected = (len(positions), depth)
    assert positions.shape == scores.shape == expected, f"{positions.shape} and {scores.shape}, not {expected}"
    for ranking, score in zip(positions.tolist(), scores.tolist(), strict=True):
        length = ranking.index(NO_CHUNK) if NO_CHUNK in ranking else depth
        ranked = ranking[:length]
        assert set(ranking[length:]) <= {NO_CHUNK}, f"a ranking continues after its padding: {ranking}"
        assert all(value == -np.inf for value in score[length:]), f"padding must score minus infinity: {score}"
        assert len(set(ranked)) == length, f"a chunk is ranked twice: {ranking}"
        assert all(0 <= chunk < chunks for chunk in ranked), f"there are {chunks} chunks: {ranking}"
        assert np.isfinite(score[:length]).all(), f"scores are finite: {score}"
        keys = [(-value, chunk) for value, chunk in zip(score[:length], ranked, strict=True)]
        assert keys == sorted(keys), f"order is by falling score, ties by position: {ranking}, {score}"


def assert_equal(actual: Rankings, expected: Rankings) -> None:
    """Check that two rankings have equal positions, and scores that differ by at most a relative 1e-6."""
    np.testing.assert_array_equal(actual.positions, expected.positions)
    np.testing.assert_allclose(actual.scores, expected.scores, rtol=1e-6)


def store_and_load(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Write arrays to bytes and read them back without pickle, as the store does with a built index."""
    assert isinstance(arrays, Mapping), f"a built index is a mapping of names to arrays, not {type(arrays).__name__}"
    for name, array in arrays.items():
        assert isinstance(name, str), f"arrays are named by strings, not {name!r}"
        assert isinstance(array, np.ndarray), f"{name} is not an array but of type {type(array).__name__}"
        assert not array.dtype.hasobject, f"{name} holds Python objects, which only pickle could store"
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **dict(arrays))
    file.seek(0)
    with np.load(file, allow_pickle=False) as read:
        return {name: read[name] for name in read.files}


class RankingContract(Contract, ABC):
    """The contract of a part that builds an index of chunks and ranks them; the chunks are texts or vectors."""

    part: Any

    @abstractmethod
    def chunks(self) -> Any:
        """Return the chunks to index."""

    @abstractmethod
    def queries(self) -> Any:
        """Return the queries to rank the chunks for."""

    @abstractmethod
    def rank(self, part: Any, index: Arrays, chunks: Any, queries: Any, depth: int) -> Rankings:
        """Rank the chunks of an index for each query."""

    def rank_anew(self, queries: Any, depth: int) -> Rankings:
        """Rank with a new instance and a new index."""
        part = self.part()
        return self.rank(part, part.build(self.chunks()), self.chunks(), queries, depth)

    def test_rankings_are_sorted_unique_and_padded(self) -> None:
        """Check the rankings at several depths, one of them above the number of chunks."""
        number = len(self.chunks())
        for depth in (1, 3, number, 3 * number):
            assert_lawful(self.rank_anew(self.queries(), depth), depth, number)

    def test_no_queries_give_no_rankings(self) -> None:
        """Check an empty batch, whose result has no rows, but as many columns as the depth."""
        assert self.rank_anew(self.queries()[:0], 5).positions.shape == (0, 5)

    def test_a_query_is_ranked_alike_in_any_batch(self) -> None:
        """Check that each query alone is ranked as in the whole batch, because rows are stored one by one."""
        part, queries = self.part(), self.queries()
        index = part.build(self.chunks())
        together = self.rank(part, index, self.chunks(), queries, 5)
        for row in range(len(queries)):
            alone = self.rank(part, index, self.chunks(), queries[row : row + 1], 5)
            assert_equal(alone, Rankings(together.positions[row : row + 1], together.scores[row : row + 1]))

    def test_a_stored_index_serves_another_instance(self) -> None:
        """Check that ``build`` returns everything needed for ranking, as named arrays."""
        index = store_and_load(self.part().build(self.chunks()))
        assert_equal(self.rank(self.part(), index, self.chunks(), self.queries(), 5), self.rank_anew(self.queries(), 5))

    def test_an_instance_serves_two_indexes(self) -> None:
        """Check that one instance can serve several chunkings."""
        part, chunks, reverse = self.part(), self.chunks(), self.chunks()[::-1]
        index, reverse_index = part.build(chunks), part.build(reverse)
        self.rank(part, reverse_index, reverse, self.queries(), 5)
        assert_equal(self.rank(part, index, chunks, self.queries(), 5), self.rank_anew(self.queries(), 5))
