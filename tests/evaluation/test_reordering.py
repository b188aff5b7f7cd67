"""What is done with a reranker's scores, against plain loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import NO_CHUNK, Chunks, Rankings
from ragsweep.evaluation.evidence import Coverage, cover
from ragsweep.evaluation.scoring import compare
from ragsweep.parts.ranking import arrange
from ragsweep.parts.reordering import Reordering, reorder
from support.parts import Whole, corpus, golden

CHUNKS, DEPTH = 30, 8


@st.composite
def cases(draw: st.DrawFn) -> tuple[Rankings, np.ndarray, int]:
    """Draw rankings of random lengths with ties, scores for their pairs, and a number of candidates."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    questions, candidates = draw(st.integers(1, 4)), draw(st.integers(1, DEPTH))
    positions = np.stack([chance.permutation(CHUNKS)[:DEPTH] for _ in range(questions)])
    positions[np.arange(DEPTH) >= chance.integers(0, DEPTH + 1, questions)[:, None]] = NO_CHUNK
    ranking = arrange(positions, chance.integers(-3, 4, positions.shape) / 2, DEPTH)._replace(chunks="c")
    pairs = int((ranking.positions[:, :candidates] != NO_CHUNK).sum())
    return ranking, (chance.integers(-4, 5, pairs) / 4).astype(np.float32), candidates


def rows(ranking: Rankings) -> list[list[int]]:
    return [[chunk for chunk in row if chunk != NO_CHUNK] for row in ranking.positions.tolist()]


def by_hand(ranking: Rankings, scores: np.ndarray, how: Reordering) -> list[list[int]]:
    """Do the same slowly."""
    left, result = list(scores.tolist()), []
    for chunks, values in zip(rows(ranking), ranking.scores.tolist(), strict=True):
        head = chunks[: how.candidates]
        own = [left.pop(0) for _ in head]

        def share(all_of: list[float], n: int) -> float:
            low, high = min(all_of), max(all_of)
            return 1.0 if high == low else (all_of[n] - low) / (high - low)

        first = values[: len(head)]
        final = [
            (1 - how.mix) * share(own, n) + how.mix * share(first, n) if how.mix else own[n] for n in range(len(head))
        ]
        order = sorted(range(len(head)), key=lambda n, final=final: (-final[n], n))
        if how.min_score is None:
            result.append([head[n] for n in order] + chunks[how.candidates :])
        else:
            result.append([head[n] for n in order if own[n] >= how.min_score])
    return result


@given(cases(), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([None, -0.5, 0.0, 0.75]))
def test_order_is_that_of_plain_loops(
    case: tuple[Rankings, np.ndarray, int], mix: float, min_score: float | None
) -> None:
    ranking, scores, candidates = case
    how = Reordering(candidates, min_score, mix)
    assert rows(reorder(ranking, scores, how)) == by_hand(ranking, scores, how)


@given(cases(), st.sampled_from([None, 0.0]))
def test_result_is_padded_as_a_ranking_is_and_its_head_scores_fall(
    case: tuple[Rankings, np.ndarray, int], min_score: float | None
) -> None:
    ranking, scores, candidates = case
    found = reorder(ranking, scores, Reordering(candidates, min_score))
    assert (found.positions.dtype, found.scores.dtype, found.chunks) == (np.int32, np.float32, "c")
    assert found.positions.shape == ranking.positions.shape
    padding = found.positions == NO_CHUNK
    assert (np.sort(padding, axis=1) == padding).all()  # nothing follows padding
    assert (np.isneginf(found.scores) == padding).all()
    head = found.scores[:, :candidates]
    assert (head[:, 1:] <= head[:, :-1]).all()


def test_least_score_drops_what_was_not_scored_and_may_leave_nothing() -> None:
    ranking = arrange(np.array([[3, 1, 2]]), np.array([[3.0, 2.0, 1.0]]), 3)
    scores = np.array([0.2, 0.9], dtype=np.float32)
    assert rows(reorder(ranking, scores, Reordering(2))) == [[1, 3, 2]]
    assert rows(reorder(ranking, scores, Reordering(2, min_score=0.2))) == [[1, 3]]
    assert rows(reorder(ranking, scores, Reordering(2, min_score=0.5))) == [[1]]
    assert rows(reorder(ranking, scores, Reordering(2, min_score=2.0))) == [[]]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (Reordering(-1), r"reranker\.candidates must be .*, got -1"),
        (Reordering(5, mix=1.5), r"reranker\.mix, .* must be between 0 and 1, got 1\.5"),
        (Reordering(5, mix=math.nan), r"reranker\.mix, .* got nan"),
        (Reordering(5, min_score=math.nan), r"reranker\.min_score is NaN"),
    ],
)
def test_number_out_of_range_is_refused(how: Reordering, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        how.check()


# --- before and after --------------------------------------------------------------------------------------------


def covered(*documents: str | None) -> Coverage:
    texts = corpus()
    spans = Whole().split(texts)
    return cover(Chunks(texts, spans, "c"), golden(*[(f"q{n}", name) for n, name in enumerate(documents)]))


def ranked(*lists: list[int]) -> Rankings:
    depth = 3
    positions = np.array([row + [NO_CHUNK] * (depth - len(row)) for row in lists], dtype=np.int32)
    scores = np.where(positions == NO_CHUNK, -np.inf, [[3.0, 2.0, 1.0]]).astype(np.float32)
    return Rankings(positions, scores, "c")


def test_movement_counts_where_the_evidence_went() -> None:
    coverage = covered("d0", "d1", "d2", "d3", "d4")
    before = ranked([1, 2, 0], [1, 2, 0], [2, 1, 0], [3, 1, 0], [1, 2, 3])
    after = ranked([0, 1, 2], [2, 1, 0], [2, 0, 1], [1, 0], [2, 1, 3])
    found = compare(before, after, coverage, after.first(3))
    assert found["evidences"] == 4  # the last question's is in neither list
    assert [found[name] for name in ("up", "down", "kept", "lost")] == [0.25, 0.25, 0.25, 0.25]
    assert found["mean_change"] == pytest.approx((2 - 1 + 0) / 3)
    assert (found["score_p0"], found["score_p50"], found["score_p100"]) == (1.0, 2.0, 3.0)


def test_movement_of_nothing_is_not_a_number() -> None:
    nothing = ranked([], [])
    found = compare(nothing, nothing, covered("d0", None), nothing)
    assert found.pop("evidences") == 0
    assert all(math.isnan(value) for value in found.values())
