"""Few clusters that dominate the questions, and the comparison on the others."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.stats.inference.best import choices_by_fold, selection_bias
from ragsweep.stats.inference.differences import MOST, compare_parts, compare_with_baseline, dominating_clusters
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.resampling import cluster_scores
from support.matrices import normal, weighted

BIG = np.append(np.zeros(40, dtype=np.int64), np.arange(1, 81))
"""A document of 40 questions and 80 documents of one."""


def with_traffic(questions: int, gain: float, seed: int, share: float = 0.2) -> Matrix:
    """Two configs; the first question has a share of the traffic that leaves fewer than ten effective clusters."""
    weights = np.ones(questions)
    weights[0] = share / (1 - share) * (questions - 1)
    return weighted(normal(2, questions, gain, seed), weights)


def test_one_document_with_a_third_of_the_questions_is_compared_by_itself_and_the_rest_is_shown() -> None:
    one = dataclasses.replace(normal(3, 120, 0.1, seed=1), clusters=BIG)
    assert np.isnan(compare_with_baseline(one, 0, resamples=999).low[1:]).all()
    found = compare_parts(one, 0, resamples=999)
    (document,) = found.dominating
    assert (len(document.questions), len(found.rest.questions)) == (40, 80)
    assert document.share == pytest.approx(1 / 3)
    assert found.rest.differences.better.tolist() == [False, False, True]
    assert np.isfinite(document.differences.low).all()  # over its own questions
    whole = one.values.mean(axis=1) - one.values[0].mean()
    parts = (document, found.rest)
    assert sum(part.share * part.differences.estimate for part in parts) == pytest.approx(whole)


@pytest.mark.parametrize("share", [0.2, 0.35, 0.6])
def test_a_question_with_much_of_the_traffic_has_its_own_change_and_the_rest_an_interval(share: float) -> None:
    one = with_traffic(300, 0.15, 1, share)
    found = compare_parts(one, 0, resamples=999)
    (question,) = found.dominating
    assert question.share == pytest.approx(share)
    assert question.questions == one.questions[:1]
    assert question.differences.estimate[1] == pytest.approx(one.scores[1, 0] - one.scores[0, 0])
    assert np.isnan(question.differences.low[1])
    assert found.rest.differences.better[1]


def test_the_rest_is_seldom_called_better_where_nothing_is() -> None:
    """200 pairs of equal configs: at most 2.5 %, and three errors."""
    found = [compare_parts(with_traffic(120, 0.0, seed, 0.4), 0, resamples=499) for seed in range(200)]
    assert sum(bool(one.rest.differences.better[1]) for one in found if one) <= 12
    assert all(found)


@given(st.lists(st.integers(1, 60), min_size=2, max_size=30), st.booleans())
def test_as_few_clusters_as_possible_go_until_degrees_of_freedom_suffice(sizes: list[int], by_weight: bool) -> None:
    counts = np.array(sizes, dtype=float)
    clusters = np.repeat(np.arange(len(sizes)), 1 if by_weight else sizes)
    one = dataclasses.replace(normal(2, len(clusters)), clusters=clusters)
    one = weighted(one, counts) if by_weight else one
    gone = dominating_clusters(one)
    order = np.argsort(-counts, kind="stable").tolist()
    tried = [order[:number] for number in range(min(MOST, len(order) - 1) + 1)]
    usable = [kept for kept in tried if degrees(one, kept) >= 9 - 0.01]
    assert list(gone) == (usable[0] if usable else [])


def degrees(one: Matrix, gone: list[int]) -> float:
    part = one.select_questions(~np.isin(one.clusters, gone))
    return cluster_scores(part.values[1:] - part.values[0], part.clusters, part.weights).degrees


def test_ten_equal_documents_are_enough_and_nine_are_not() -> None:
    for documents, enough in ((10, True), (9, False)):
        one = dataclasses.replace(normal(2, 90), clusters=np.arange(90) % documents)
        assert bool(np.isfinite(compare_with_baseline(one, 0, resamples=99).low[1])) == enough
        assert compare_parts(one, 0) is None
    few_beside_a_large_one = dataclasses.replace(normal(2, 90), clusters=np.minimum(np.arange(90), 4))
    assert compare_parts(few_beside_a_large_one, 0) is None


def test_luck_is_not_estimated_where_one_document_dominates() -> None:
    """A cluster of a third of the questions is a fold of its own, and no other fold can stand for it."""
    one = dataclasses.replace(normal(5, 120, 0.3, seed=2), clusters=BIG)
    found = selection_bias(one)
    assert np.isnan([found.optimism, found.crossfitted]).all()
    assert np.isnan(choices_by_fold(one)).all()
    traffic = with_traffic(60, 0.1, 3, 0.6)
    assert np.isnan(selection_bias(traffic).optimism)
    assert np.isfinite(selection_bias(normal(5, 120)).optimism)
