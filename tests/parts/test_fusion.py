"""Fusion: hand-computed examples, and a plain Python version that has to agree on random rankings."""

import itertools
import statistics
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.types import NO_CHUNK, Rankings
from ragsweep.parts.fusion import convex, min_max, reciprocal_rank, theoretical, z_score
from ragsweep.parts.ranking import arrange
from ragsweep.testing.contract import assert_equal, assert_lawful

Row = list[tuple[int, float]]


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


def naive(
    found: Sequence[Rankings], weights: Sequence[float], share: Callable[[int, Row], list[float]], depth: int
) -> list[Row]:
    """Fuse question by question, in dictionaries; ``share`` gives what each place of a leg's row is worth."""
    result = []
    for rows in zip(*map(rows_of, found), strict=True):
        total: dict[int, float] = {}
        for leg, row in enumerate(rows):
            if not weights[leg]:
                continue
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


def test_convex_of_a_hand_computed_example() -> None:
    words = ranking([(1, 12.0), (2, 10.0), (3, 2.0)])
    vectors = ranking([(3, 0.75), (1, 0.5), (4, 0.25)])
    fused = convex([words, vectors], [0.4, 0.6], depth=4)
    # words: 1 -> 1, 2 -> .8, 3 -> 0; vectors: 3 -> 1, 1 -> .5, 4 -> 0
    assert fused.positions.tolist() == [[1, 3, 2, 4]]
    assert fused.scores[0].tolist() == pytest.approx([0.4 + 0.3, 0.6, 0.32, 0.0])


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


def test_fused_rankings_keep_the_address_of_the_chunks() -> None:
    assert reciprocal_rank([ranking([(1, 1.0)])._replace(chunks="here")], depth=1).chunks == "here"


def test_legs_over_different_chunkings_are_refused() -> None:
    with pytest.raises(AssertionError, match="same chunks"):
        convex([ranking([])._replace(chunks="one"), ranking([])._replace(chunks="other")], [1, 1], 3)


def weights_for(data: st.DataObject, found: list[Rankings]) -> list[float]:
    return data.draw(st.lists(weight, min_size=len(found), max_size=len(found)))


@given(legs(), st.integers(0, 100), st.data(), st.integers(1, 40))
def test_reciprocal_rank_agrees_with_plain_python(
    found: list[Rankings], k: int, data: st.DataObject, depth: int
) -> None:
    weights = weights_for(data, found)
    fused = reciprocal_rank(found, k, weights, depth)
    assert_lawful(fused, depth, 13)

    def share(leg: int, row: Row) -> list[float]:
        return [weights[leg] / (k + n + 1) for n in range(len(row))]

    assert_agrees(fused, naive(found, weights, share, depth))


def by_min_max(scores: list[float], lowest: float) -> list[float]:
    return [(score - min(scores)) / (max(scores) - min(scores)) for score in scores]


def by_z_score(scores: list[float], lowest: float) -> list[float]:
    """Return z-scores, less that of a chunk that the leg did not find."""
    z = [(score - statistics.fmean(scores)) / statistics.pstdev(scores) for score in scores]
    return [value - min(z) for value in z]


def by_bounds(scores: list[float], lowest: float) -> list[float]:
    return [(score - lowest) / (max(scores) - lowest) for score in scores]


@pytest.mark.parametrize("rule", [by_min_max, by_z_score, by_bounds])
@given(found=legs(), data=st.data(), depth=st.integers(1, 40))
def test_convex_agrees_with_plain_python(
    rule: Callable[[list[float], float], list[float]], found: list[Rankings], data: st.DataObject, depth: int
) -> None:
    weights = weights_for(data, found)
    lowest = data.draw(st.lists(st.sampled_from([-6.0, -5.0]), min_size=len(found), max_size=len(found)))
    name = {by_min_max: "min_max", by_z_score: "z_score", by_bounds: "theoretical"}[rule]

    def share(leg: int, row: Row) -> list[float]:
        scores = [score for _, score in row]
        flat = len(set(scores)) < 2 if rule is not by_bounds else not scores or max(scores) == lowest[leg]
        return [weights[leg] * one for one in ([1.0] * len(scores) if flat else rule(scores, lowest[leg]))]

    fused = convex(found, weights, depth, name, lowest)
    assert_lawful(fused, depth, 13)
    assert_agrees(fused, naive(found, weights, share, depth))


@pytest.mark.parametrize("normalisation", ["rank", "min_max", "z_score", "theoretical"])
@given(found=legs(least=2), data=st.data(), depth=st.integers(1, 40))
def test_a_leg_of_weight_0_adds_no_chunks(
    normalisation: str, found: list[Rankings], data: st.DataObject, depth: int
) -> None:
    def fuse(legs: list[Rankings], weights: list[float]) -> Rankings:
        if normalisation == "rank":
            return reciprocal_rank(legs, 60, weights, depth)
        return convex(legs, weights, depth, normalisation, [-6.0] * len(legs))

    chosen = data.draw(st.integers(0, len(found) - 1))
    alone = fuse([found[chosen]], [1.0])
    assert_equal(fuse(found, [float(n == chosen) for n in range(len(found))]), alone)
    length = min(depth, found[chosen].positions.shape[1])
    np.testing.assert_array_equal(alone.positions[:, :length], found[chosen].positions[:, :length])


@given(legs(least=2), st.data())
def test_the_order_of_the_legs_changes_nothing(found: list[Rankings], data: st.DataObject) -> None:
    weights = weights_for(data, found)
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
