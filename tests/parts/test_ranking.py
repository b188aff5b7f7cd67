"""Ordering: against Python's own sort."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.parts.ranking import (
    arrange,
    best_chunks,
    cut_to_budget,
    drop_below,
    drop_documents,
    empty_rankings,
    mark_failed,
    widen,
)
from ragsweep.parts.reordering import Reordering, reorder
from ragsweep.testing.contract import assert_lawful

scores = st.lists(st.sampled_from([-1e30, -2.5, -1e-30, -0.0, 0.0, 1e-30, 1.0, 1 + 1e-9, 3.0, 1e30]), max_size=12)


@settings(deadline=None)
@given(st.lists(scores, min_size=1, max_size=4), st.integers(1, 15), st.randoms())
def test_arranged_rows_are_those_of_pythons_sort(rows: list[list[float]], depth: int, chance: object) -> None:
    width = max(map(len, rows))
    positions = np.full((len(rows), width), -1)
    values = np.full((len(rows), width), np.nan)
    for n, row in enumerate(rows):
        places = chance.sample(range(width), len(row))  # padding may stand anywhere
        positions[n, places] = chance.sample(range(50), len(row))
        values[n, places] = row
    found = arrange(positions, values, depth)
    assert_lawful(found, depth, 50)
    for n in range(len(rows)):
        pairs = [(p, np.float32(s)) for p, s in zip(positions[n].tolist(), values[n], strict=True) if p >= 0]
        expected = [p for p, _ in sorted(pairs, key=lambda pair: (-pair[1], pair[0]))][:depth]
        assert found.positions[n].tolist() == expected + [-1] * (depth - len(expected))


@settings(deadline=None)
@given(scores, st.integers(1, 15))
def test_best_of_dense_scores_are_those_of_pythons_sort(row: list[float], depth: int) -> None:
    positions, values = best_chunks(np.array(row, dtype=np.float64), depth)
    pairs = [(n, np.float32(score)) for n, score in enumerate(row) if np.float32(score) > 0]
    expected = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:depth]
    assert list(zip(positions.tolist(), values.tolist(), strict=True)) == expected


def test_nothing_is_all_padding() -> None:
    assert_lawful(empty_rankings(2, 3), 3, 0)


@settings(deadline=None)
@given(scores, st.sampled_from([-np.inf, -2.5, 0.0, 1.0, 2.0, np.inf]))
def test_at_least_drops_the_end_of_a_ranking_and_keeps_its_shape(row: list[float], least: float) -> None:
    whole = arrange(np.arange(len(row))[None], np.array(row)[None], 15)._replace(chunks="here")
    kept = drop_below(whole, least)
    assert_lawful(kept, 15, 15)
    length = sum(np.float32(score) >= least for score in row)
    assert kept.positions[0].tolist() == whole.positions[0, :length].tolist() + [-1] * (15 - length)
    assert kept.scores[0, :length].tolist() == whole.scores[0, :length].tolist()
    assert kept.chunks == "here"


@settings(deadline=None)
@given(st.lists(scores, min_size=1, max_size=4), st.data())
def test_dropped_documents_are_gone_and_the_others_move_up_in_their_order(
    rows: list[list[float]], data: st.DataObject
) -> None:
    document = np.array(data.draw(st.lists(st.integers(0, 3), min_size=12, max_size=12)))
    dropped = data.draw(st.lists(st.sets(st.integers(0, 4)).map(sorted), min_size=len(rows), max_size=len(rows)))
    width = max(map(len, rows))
    values = np.array([row + [-np.inf] * (width - len(row)) for row in rows]).reshape(len(rows), width)
    positions = np.where(np.isfinite(values), np.arange(width), -1)
    whole = arrange(positions, values, 13)._replace(chunks="here")
    kept = drop_documents(whole, document, dropped)
    assert_lawful(kept, 13, 12)
    assert kept.chunks == "here"
    for n, documents in enumerate(dropped):
        pairs = zip(whole.positions[n].tolist(), whole.scores[n].tolist(), strict=True)
        expected = [(p, s) for p, s in pairs if p >= 0 and document[p] not in documents]
        assert list(zip(kept.positions[n].tolist(), kept.scores[n].tolist(), strict=True))[: len(expected)] == expected
        assert set(kept.positions[n, len(expected) :].tolist()) <= {-1}


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=5), st.integers(2, 6), st.randoms())
def test_failed_ranking_stays_failed_in_every_step_and_changes_no_other(
    failed: list[bool], depth: int, chance: object
) -> None:
    positions = np.array([chance.sample(range(8), depth) for _ in failed])
    clean = arrange(positions, np.array([[chance.random() for _ in range(depth)] for _ in failed]), depth)
    given_rankings = mark_failed(clean, np.array(failed))
    tokens, how = np.full(8, 2), Reordering(2, min_score=0.1)
    pairs = np.array([0.5, 0.05] * len(failed), dtype=np.float32)
    kept = np.repeat(~np.array(failed), 2)
    steps = {
        "first": lambda one, scores: one.first(1),
        "drop": lambda one, scores: drop_below(one, 0.5),
        "exclude": lambda one, scores: drop_documents(one, np.arange(8, dtype=np.int32), [[0, 1]] * len(failed)),
        "budget": lambda one, scores: cut_to_budget(one, tokens, 1),
        "widen": lambda one, scores: widen(one, np.where(one.positions < 0, -1, one.positions // 2).astype(np.int64)),
        "reorder": lambda one, scores: reorder(one, scores, how),
    }
    for name, step in steps.items():
        found, expected = step(given_rankings, pairs[kept]), step(clean, pairs)
        assert found.failed.tolist() == failed, name
        assert not expected.failed.any()
        np.testing.assert_array_equal(found.positions[~found.failed], expected.positions[~found.failed])
        assert (found.positions[found.failed] == -1).all()
