"""The base classes of contract tests, and the checks of rankings and requests that several of the classes share."""

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
    """The base class of contract tests; subclasses set ``part`` or ``metric``.

    Defining a subclass raises TypeError if ``part`` is an instance instead of a class or method, or if ``metric`` is a
    class instead of an instance.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Check the ``part`` or ``metric`` that a subclass sets; a pytest fixture of this name is not checked."""
        super().__init_subclass__(**arguments)
        part, metric = vars(cls).get("part"), vars(cls).get("metric")
        if part is not None and not callable(part) and not hasattr(type(part), "__get__"):
            raise TypeError(f"{cls.__name__}: part is an instance of {type(part).__name__}; {_ADVICE['part']}")
        if isinstance(metric, type):
            raise TypeError(f"{cls.__name__}: metric is a class; an instance is needed: metric = {metric.__name__}()")

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError for a missing attribute, with a remedy for ``part`` and ``metric``."""
            advice = _ADVICE.get(name, "the class neither sets nor inherits it")
            raise AttributeError(f"{type(self).__name__}.{name} is missing: {advice}", name=name, obj=self)


Result = TypeVar("Result")


def collect(
    method: Callable[[Sequence[Request], Callable[[int, Result], None]], None], requests: Sequence[Request]
) -> list[Result]:
    """Return the result of each request, in order; raise AssertionError unless each request has exactly one result."""
    results: dict[int, Result] = {}

    def done(number: int, result: Result) -> None:
        assert number not in results, f"request {number} has two results"
        results[number] = result

    method(requests, done)
    assert set(results) == set(range(len(requests))), "there must be one result per request, and no other result"
    return [results[number] for number in range(len(requests))]


def assert_lawful(rankings: Rankings, depth: int, chunks: int) -> None:
    """Check the shapes and dtypes of rankings over ``chunks`` chunks, and the order of each row.

    A row must be sorted by descending score, then by position. Its positions must be distinct and in range, its scores
    must be finite, and padding must be at its end, with the score -inf. Raises AssertionError otherwise.
    """
    assert isinstance(rankings, Rankings), f"must be Rankings (see ragsweep.parts.ranking.arrange), not {rankings!r}"
    positions, scores = rankings.positions, rankings.scores
    assert positions.dtype == np.int32, f"positions must be int32, not {positions.dtype}"
    assert scores.dtype == np.float32, f"scores must be float32, not {scores.dtype}"
    expected = (len(positions), depth)
    assert positions.shape == scores.shape == expected, f"shapes are {positions.shape}, {scores.shape}, not {expected}"
    for ranking, score in zip(positions.tolist(), scores.tolist(), strict=True):
        length = ranking.index(NO_CHUNK) if NO_CHUNK in ranking else depth
        ranked = ranking[:length]
        assert set(ranking[length:]) <= {NO_CHUNK}, f"a ranking continues after its padding: {ranking}"
        assert all(value == -np.inf for value in score[length:]), f"padding must score minus infinity: {score}"
        assert len(set(ranked)) == length, f"a chunk is ranked twice: {ranking}"
        assert all(0 <= chunk < chunks for chunk in ranked), f"positions must be from 0 to {chunks - 1}: {ranking}"
        assert np.isfinite(score[:length]).all(), f"scores must be finite: {score}"
        keys = [(-value, chunk) for value, chunk in zip(score[:length], ranked, strict=True)]
        assert keys == sorted(keys), f"sort by descending score, then by position: {ranking}, {score}"


def assert_equal(actual: Rankings, expected: Rankings) -> None:
    """Check that rankings have equal positions, and scores that differ by at most 1e-6 of the expected score."""
    np.testing.assert_array_equal(actual.positions, expected.positions)
    np.testing.assert_allclose(actual.scores, expected.scores, rtol=1e-6)


def store_and_load(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Write named arrays and read them back, both without pickle, as the store does with an index.

    Raises AssertionError unless ``arrays`` maps strings to arrays that contain no Python objects.
    """
    assert isinstance(arrays, Mapping), f"an index must be a mapping of names to arrays, not {type(arrays).__name__}"
    for name, array in arrays.items():
        assert isinstance(name, str), f"names of arrays must be strings, not {name!r}"
        assert isinstance(array, np.ndarray), f"{name} is not an array but of type {type(array).__name__}"
        assert not array.dtype.hasobject, f"{name} contains Python objects, which only pickle could store"
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **dict(arrays))
    file.seek(0)
    with np.load(file, allow_pickle=False) as read:
        return {name: read[name] for name in read.files}


class RankingContract(Contract, ABC):
    """Contract tests for a part that builds an index of chunks (texts or vectors) and ranks the chunks."""

    part: Any

    @abstractmethod
    def chunks(self) -> Any:
        """Return the chunks to index."""

    @abstractmethod
    def queries(self) -> Any:
        """Return the queries for which the chunks are ranked."""

    @abstractmethod
    def rank(self, part: Any, index: Arrays, chunks: Any, queries: Any, depth: int) -> Rankings:
        """Return the rankings of ``chunks``, from which ``index`` was built, for all queries."""

    def rank_anew(self, queries: Any, depth: int) -> Rankings:
        """Return the rankings of ``chunks()`` for ``queries`` by a new instance of the part with a new index."""
        part = self.part()
        return self.rank(part, part.build(self.chunks()), self.chunks(), queries, depth)

    def test_rankings_are_sorted_unique_and_padded(self) -> None:
        """Check the rankings at several depths, one of them above the number of chunks (see ``assert_lawful``)."""
        number = len(self.chunks())
        for depth in (1, 3, number, 3 * number):
            assert_lawful(self.rank_anew(self.queries(), depth), depth, number)

    def test_no_queries_give_no_rankings(self) -> None:
        """Check that the result of an empty batch has no rows and ``depth`` columns."""
        assert self.rank_anew(self.queries()[:0], 5).positions.shape == (0, 5)

    def test_a_query_is_ranked_alike_in_any_batch(self) -> None:
        """Check that each query has the same ranking alone as in the batch, because rankings are stored by query."""
        part, queries = self.part(), self.queries()
        index = part.build(self.chunks())
        together = self.rank(part, index, self.chunks(), queries, 5)
        for row in range(len(queries)):
            alone = self.rank(part, index, self.chunks(), queries[row : row + 1], 5)
            assert_equal(alone, Rankings(together.positions[row : row + 1], together.scores[row : row + 1]))

    def test_a_stored_index_serves_another_instance(self) -> None:
        """Check that another instance can rank with the named arrays that ``build`` returns."""
        index = store_and_load(self.part().build(self.chunks()))
        assert_equal(self.rank(self.part(), index, self.chunks(), self.queries(), 5), self.rank_anew(self.queries(), 5))

    def test_an_instance_serves_two_indexes(self) -> None:
        """Check that one instance can build and use several indexes, as for several chunkers."""
        part, chunks, reverse = self.part(), self.chunks(), self.chunks()[::-1]
        index, reverse_index = part.build(chunks), part.build(reverse)
        self.rank(part, reverse_index, reverse, self.queries(), 5)
        assert_equal(self.rank(part, index, chunks, self.queries(), 5), self.rank_anew(self.queries(), 5))
