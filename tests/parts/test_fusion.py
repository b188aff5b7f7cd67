"""Fusion: hand-computed examples, and a plain Python version that has to agree on random rankings."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.core.ranking import arrange
from ragsweep.core.types import NO_CHUNK, Rankings
from ragsweep.parts.fusion import convex, min_max, reciprocal_rank, theoretical, weights_of, z_score
from ragsweep.testing.rankings import assert_equal, assert_lawful

Row = list[tuple[int, float]]

relaxed = settings(deadline=None, max_examples=60)


def ranking(*rows: Row, depth: int = 4) -> Rankings:
    positions = np.full((len(rows), depth), NO_CHUNK, np.int64)
    scores = np.full((len(rows), depth), -np.inf)
    for n, row in enumerate(rows):
        for place, (position, score) in enumerate(row):
            positions[n, place], scores[n, place] = position, score
    return arrange(positions, scores, depth)


def rows_of(found: Rankings) -> list[Row]:
    pairs = [zip(p.tolist(), s.tolist(), strict=True) for p, s in zip(*found[:2], strict=True)]
    return [[(position, score) for position, score in row if position != NO_CHUNK] for row in pairs]


@st.composite
def legs(draw: st.DrawFn, least: int = 1) -> list[Rankings]:
    """Draw 1 to 4 legs over the same questions, of different depths, with ties and empty lists."""
    questions = draw(st.integers(1, 3))
    score = st.integers(-40, 40).map(lambda n: n / 8)
    made = []
    for _ in range(draw(st.integers(least, 4))):
        depth = draw(st.integers(1, 8))
        row = st.dictionaries(st.integers(0, 12), score, max_size=depth).map(lambda found: list(found.items()))
        made.append(ranking(*draw(st.lists(row, min_size=questions, max_size=questions)), depth=depth))
    return made


weight = st.floats(0, 4, allow_subnormal=False)


def naive(found: Sequence[Rankings], share: Callable[[int, Row], list[float]], depth: int) -> list[Row]:
    """Fuse question by question, in dictionaries; ``share`` gives what each place of a leg's row is worth."""
    result = []
    for rows in zip(*map(rows_of, found), strict=True):
        total: dict[int, float] = {}
        for leg, row in enumerate(rows):
            for (position, _), value in zip(row, share(leg, row), strict=True):
                total[position] = total.get(position, 0.0) + value
        single = {position: float(np.float32(value)) for position, value in total.items()}
        result.append(sorted(single.items(), key=lambda item: (-item[1], item[0]))[:depth])
    return result


def assert_agrees(fused: Rankings, expected: list[Row]) -> None:
    """Compare, but let chunks change places whose scores differ only by the order of a sum."""
    for row, other in zip(rows_of(fused), expected, strict=True):
        assert [score for _, score in row] == pytest.approx([score for _, score in other], rel=1e-6, abs=1e-9)
        values = dict(other)
        for position, score in row:
            assert values.get(position, other[-1][1]) == pytest.approx(score, rel=1e-6, abs=1e-9)


def test_reciprocal_rank_of_a_hand_computed_example() -> None:
    one = ranking([(7, 9.0), (3, 8.0), (5, 1.0)])
    other = ranking([(3, 0.4), (9, 0.3)])
    fused = reciprocal_rank([one, other], k=60, depth=4)
    assert fused.positions.tolist() == [[3, 7, 9, 5]]
    assert fused.scores[0].tolist() == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63])


def test_reciprocal_rank_counts_ranks_from_one_and_multiplies_by_weights() -> None:
    fused = reciprocal_rank([ranking([(1, 5.0)]), ranking([(2, 5.0)])], k=0, weights=[2.0, 0.5], depth=2)
    assert rows_of(fused) == [[(1, 2.0), (2, 0.5)]]


def test_convex_of_a_hand_computed_example() -> None:
    words = ranking([(1, 12.0), (2, 10.0), (3, 2.0)])
    vectors = ranking([(3, 0.75), (1, 0.5), (4, 0.25)])
    fused = convex([words, vectors], [0.4, 0.6], depth=4)
    # words: 1 -> 1, 2 -> .8, 3 -> 0; vectors: 3 -> 1, 1 -> .5, 4 -> 0
    assert fused.positions.tolist() == [[1, 3, 2, 4]]
    assert fused.scores[0].tolist() == pytest.approx([0.4 + 0.3, 0.6, 0.32, 0.0])


def test_chunk_missing_in_a_leg_gets_nothing_from_it() -> None:
    fused = convex([ranking([(1, 2.0), (2, 1.0)]), ranking([])], [0.5, 0.5], depth=3)
    assert rows_of(fused) == [[(1, 0.5), (2, 0.0)]]


def test_equal_scores_are_normalised_to_one() -> None:
    assert min_max(ranking([(1, 3.0), (2, 3.0)], [(5, -7.0)], [])).tolist() == [
        [1, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 0],
    ]


def test_z_score_of_a_hand_computed_example() -> None:
    leg = ranking([(1, 8.0), (2, 5.0), (3, 2.0)], [(1, 3.0), (2, 3.0)], [(5, -7.0)], [])
    deviation = 6.0**0.5  # mean 5, squares 9, 0, 9
    assert z_score(leg).tolist() == [
        [pytest.approx(6 / deviation), pytest.approx(3 / deviation), 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]
    ]  # fmt: skip


def test_theoretical_bounds_of_a_hand_computed_example() -> None:
    words = ranking([(1, 12.0), (2, 9.0), (3, 6.0)])
    vectors = ranking([(3, 0.6), (1, 0.2), (4, -0.2)])
    fused = convex([words, vectors], [0.4, 0.6], 4, "theoretical", [0.0, -1.0])
    # words: 1 -> 1, 2 -> .75, 3 -> .5; vectors (1.6 from -1 to .6): 3 -> 1, 1 -> .75, 4 -> .5
    assert fused.positions.tolist() == [[1, 3, 2, 4]]
    assert fused.scores[0].tolist() == pytest.approx([0.4 + 0.45, 0.2 + 0.6, 0.3, 0.3])


def test_theoretical_worth_does_not_depend_on_how_deep_a_leg_searches() -> None:
    shallow, deep = ranking([(1, 12.0), (2, 9.0)]), ranking([(1, 12.0), (2, 9.0), (3, 6.0)])
    np.testing.assert_array_equal(theoretical(shallow, 0.0)[:, :2], theoretical(deep, 0.0)[:, :2])
    assert not np.array_equal(min_max(shallow)[:, :2], min_max(deep)[:, :2])


def test_theoretical_worth_of_equal_and_lowest_scores() -> None:
    leg = ranking([(1, 3.0), (2, 3.0)], [(1, -1.0)], [])
    assert theoretical(leg, -1.0).tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


def test_ties_are_ordered_by_position() -> None:
    fused = reciprocal_rank([ranking([(8, 2.0)]), ranking([(4, 2.0)]), ranking([(6, 2.0)])], depth=3)
    assert fused.positions.tolist() == [[4, 6, 8]]


def test_fused_rankings_keep_the_address_of_the_chunks() -> None:
    assert reciprocal_rank([ranking([(1, 1.0)])._replace(chunks="here")], depth=1).chunks == "here"


def test_legs_over_different_chunkings_are_refused() -> None:
    with pytest.raises(AssertionError, match="same chunks"):
        convex([ranking([])._replace(chunks="one"), ranking([])._replace(chunks="other")], [1, 1], 3)


@relaxed
@given(legs(), st.integers(0, 100), st.data(), st.integers(1, 40))
def test_reciprocal_rank_agrees_with_plain_python(
    found: list[Rankings], k: int, data: st.DataObject, depth: int
) -> None:
    weights = data.draw(st.lists(weight, min_size=len(found), max_size=len(found)))
    fused = reciprocal_rank(found, k, weights, depth)
    assert_lawful(fused, depth, 13)
    assert_agrees(fused, naive(found, lambda leg, row: [weights[leg] / (k + n + 1) for n in range(len(row))], depth))


@relaxed
@given(legs(), st.data(), st.integers(1, 40))
def test_convex_agrees_with_plain_python(found: list[Rankings], data: st.DataObject, depth: int) -> None:
    weights = data.draw(st.lists(weight, min_size=len(found), max_size=len(found)))

    def share(leg: int, row: Row) -> list[float]:
        scores = [score for _, score in row]
        if not scores or max(scores) == min(scores):
            return [weights[leg]] * len(scores)
        return [weights[leg] * (score - min(scores)) / (max(scores) - min(scores)) for score in scores]

    fused = convex(found, weights, depth)
    assert_lawful(fused, depth, 13)
    assert_agrees(fused, naive(found, share, depth))


@relaxed
@given(legs(least=2), st.data())
def test_z_scores_order_chunks_as_counted_from_the_mean_with_missing_ones_at_the_last(
    found: list[Rankings], data: st.DataObject
) -> None:
    weights = data.draw(st.lists(weight, min_size=len(found), max_size=len(found)))

    def share(leg: int, row: Row) -> list[float]:
        """Give the z-score, less that of a chunk that the leg did not find."""
        scores = [score for _, score in row]
        if len(set(scores)) < 2:
            return [weights[leg]] * len(scores)
        z = [(score - statistics.fmean(scores)) / statistics.pstdev(scores) for score in scores]
        return [weights[leg] * (value - min(z)) for value in z]

    fused = convex(found, weights, 20, "z_score")
    assert_lawful(fused, 20, 13)
    assert_agrees(fused, naive(found, share, 20))


@relaxed
@given(legs(), st.data())
def test_theoretical_bounds_agree_with_plain_python(found: list[Rankings], data: st.DataObject) -> None:
    weights = data.draw(st.lists(weight, min_size=len(found), max_size=len(found)))
    lowest = data.draw(st.lists(st.sampled_from([-6.0, -5.0]), min_size=len(found), max_size=len(found)))

    def share(leg: int, row: Row) -> list[float]:
        scores = [score for _, score in row]
        if scores and max(scores) == lowest[leg]:
            return [weights[leg]] * len(scores)
        return [weights[leg] * (score - lowest[leg]) / (max(scores) - lowest[leg]) for score in scores]

    assert_agrees(convex(found, weights, 20, "theoretical", lowest), naive(found, share, 20))


@relaxed
@given(legs(least=2), st.data())
def test_the_order_of_the_legs_changes_nothing(found: list[Rankings], data: st.DataObject) -> None:
    weights = data.draw(st.lists(weight, min_size=len(found), max_size=len(found)))
    order = data.draw(st.permutations(range(len(found))))
    turned, turned_weights = [found[n] for n in order], [weights[n] for n in order]
    for one, other in (
        *((convex(found, weights, 20, by), convex(turned, turned_weights, 20, by)) for by in ("min_max", "z_score")),
        (reciprocal_rank(found, 60, weights, 20), reciprocal_rank(turned, 60, turned_weights, 20)),
    ):
        np.testing.assert_array_equal(one.positions, other.positions)
        np.testing.assert_array_equal(one.scores, other.scores)


def test_sum_of_three_terms_does_not_depend_on_their_order() -> None:
    # 2 ** 24 + 1 lies halfway between two float32; in float64 two terms of 2 ** -29 tip it over only if added first.
    weights = [2.0**24 + 1, 2.0**-29, 2.0**-29]
    leg = ranking([(1, 1.0)])
    sums = {
        float(reciprocal_rank([leg] * 3, 0, [weights[n] for n in order], 1).scores[0, 0])
        for order in itertools.permutations(range(3))
    }
    assert len(sums) == 1


@relaxed
@given(legs(), st.sampled_from([0.25, 2.0, 64.0]), st.sampled_from([-8.0, 0.0, 16.0]))
def test_convex_does_not_see_the_scale_of_a_leg(found: list[Rankings], factor: float, offset: float) -> None:
    weights = [1.0] * len(found)
    scaled = [Rankings(leg.positions, (leg.scores * factor + offset).astype(np.float32)) for leg in found]
    assert_equal(convex(scaled, weights, 20), convex(found, weights, 20))


@relaxed
@given(legs(), st.integers(1, 60))
def test_reciprocal_rank_does_not_see_scores(found: list[Rankings], k: int) -> None:
    flat = [Rankings(leg.positions, np.zeros_like(leg.scores)) for leg in found]
    assert_equal(reciprocal_rank(flat, k, None, 20), reciprocal_rank(found, k, None, 20))


@relaxed
@given(legs(), st.integers(1, 60), st.integers(1, 10))
def test_a_shorter_depth_is_the_beginning_of_a_longer_one(found: list[Rankings], k: int, depth: int) -> None:
    assert_equal(reciprocal_rank(found, k, None, depth), reciprocal_rank(found, k, None, 40).first(depth))


@relaxed
@given(legs(least=2))
def test_chunk_that_rises_in_one_leg_does_not_fall_in_the_fused_ranking(found: list[Rankings]) -> None:
    first = found[0]
    if first.positions.shape[1] < 2 or NO_CHUNK in first.positions[:, :2]:
        return
    turned = first.positions.copy()
    turned[:, [0, 1]] = turned[:, [1, 0]]
    before = reciprocal_rank(found, 60, None, 60).positions
    after = reciprocal_rank([first._replace(positions=turned), *found[1:]], 60, None, 60).positions
    for row, risen in enumerate(first.positions[:, 1]):
        assert after[row].tolist().index(risen) <= before[row].tolist().index(risen)


def test_one_leg_alone_keeps_its_order() -> None:
    leg = ranking([(5, 3.0), (1, 2.0), (9, 2.0), (0, -1.0)], [(2, 1.0)])
    for fused in (reciprocal_rank([leg], depth=4), convex([leg], [1.0], 4)):
        np.testing.assert_array_equal(fused.positions, leg.positions)


def test_weights_must_name_the_legs() -> None:
    assert weights_of({"a": 0, "b": 0}, {"b": 2, "a": 1}) == {"a": 1.0, "b": 2.0}
    for weights in ({"a": 1.0}, {"a": 1.0, "c": 1.0}, {"a": -1.0, "b": 1.0}, {"a": 0.0, "b": 0.0}):
        with pytest.raises(ConfigError, match=r"retriever\.weights"):
            weights_of({"a": 0, "b": 0}, weights)
    with pytest.raises(ConfigError, match="at least one leg"):
        weights_of({}, {})
