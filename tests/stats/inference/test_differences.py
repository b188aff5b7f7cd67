"""Every config against one of them, on all questions and apart from clusters that dominate them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ragsweep.stats.inference.best import choices_by_fold, selection_bias
from ragsweep.stats.inference.cluster_errors import FEW
from ragsweep.stats.inference.differences import (
    CONSTANT,
    IDENTICAL,
    MOST,
    REFERENCE,
    compare_amounts,
    compare_parts,
    compare_with_baseline,
    dominating_clusters,
)
from ragsweep.stats.inference.estimates import Differences
from ragsweep.stats.inference.matrix import Matrix, has_ratios
from ragsweep.stats.inference.resampling import bound, cluster_scores
from support.matrices import matrices, matrix, normal, turned, weighted

ARRAYS = ("estimate", "low", "high", "standard_error", "wilcoxon", "randomisation", "wilcoxon_holm",
          "randomisation_holm", "effect", "apart")  # fmt: skip


def equal(one: Differences, other: Differences, order: list[int] | None = None) -> None:
    for name in ARRAYS:
        expected = getattr(other, name) if order is None else getattr(other, name)[order]
        assert getattr(one, name) == pytest.approx(expected, abs=1e-4, nan_ok=True), name


def compared(one: Matrix, baseline: int = 0) -> Differences:
    return compare_with_baseline(one, baseline, resamples=200)


def test_gains_without_a_loss_are_shown_by_their_interval_and_the_tests_alone() -> None:
    """Of 50 questions 20 gain .05 and none loses: rare losses are a matter of the choice, not of a difference."""
    gains = np.where(np.arange(50) < 20, 0.05, 0.0)
    for sign, higher_is_better in ((1, True), (-1, False)):
        rows = 0.6 + np.stack([0 * gains, sign * gains])
        found = compare_with_baseline(matrix(rows, higher_is_better=higher_is_better), 0)
        assert found.better.tolist() == [False, True]


def test_half_the_questions_better_by_one_by_hand() -> None:
    found = compare_with_baseline(matrix([[0.0] * 12, [1.0] * 6 + [0.0] * 6]), 0)
    assert found.estimate.tolist() == [0.0, 0.5]
    assert found.standard_error[1] == pytest.approx(np.sqrt(0.25 * 12 / 11 / 12))
    assert found.effect[1] == pytest.approx(0.5 / np.sqrt(0.25 * 12 / 11))
    assert found.apart.tolist() == [0, 6]
    assert found.wilcoxon[1] == found.randomisation[1] == pytest.approx(2 / 2**6)
    assert found.variants == ("none", "exact")
    assert found.better.tolist() == [False, True]
    assert not found.worse.any()


def test_one_difference_has_the_interval_of_student() -> None:
    one = normal(2, 60, gain=0.05, seed=3)
    found = compare_with_baseline(one, 0)
    theirs = stats.ttest_rel(one.values[1], one.values[0]).confidence_interval(0.95)
    width = theirs.high - theirs.low
    assert [found.low[1], found.high[1]] == pytest.approx([theirs.low, theirs.high], abs=0.03 * width)


def test_more_comparisons_make_wider_intervals_and_fewer_than_bonferroni() -> None:
    few, many = compare_with_baseline(normal(2, 80), 0), compare_with_baseline(normal(40, 80), 0)
    assert few.critical < many.critical < stats.t.ppf(1 - 0.025 / 39, 79) * 1.02


def test_intervals_hold_together() -> None:
    """200 times six equal configs: all intervals hold 0 in 95 % (91 to 99, three Monte Carlo errors)."""
    held = 0
    for seed in range(200):
        one = normal(6, 40, seed=seed)
        bounds = bound(cluster_scores(one.values - one.values[0], one.clusters), resamples=500)
        held += bool(((bounds.low <= 0) & (bounds.high >= 0)).all())
    assert 181 <= held <= 198


def test_what_has_no_spread_is_said_and_nothing_is_infinite() -> None:
    base = np.arange(12) / 10
    found = compared(matrix([base, base, base + 0.3, base[::-1]]))
    assert found.notes == (REFERENCE, IDENTICAL, CONSTANT, "")
    assert found.low[:3] == pytest.approx([0, 0, 0.3])
    assert found.high[:3] == pytest.approx([0, 0, 0.3])
    assert found.standard_error[:3].tolist() == [0, 0, 0]
    assert (found.effect[1], found.randomisation[1], found.apart[1]) == (0, 1, 0)
    assert np.isnan(found.effect[2])
    assert found.wilcoxon[1] == 1
    assert found.wilcoxon[2] == pytest.approx(2 / 2**12)
    assert np.isfinite([found.low, found.high]).all()


def test_fewer_than_ten_have_tests_and_no_interval() -> None:
    found = compared(matrix([[0.0] * 9, [1.0] * 9]))
    assert np.isnan([found.low[1], found.high[1]]).all()
    assert found.notes == (REFERENCE, FEW)
    assert found.wilcoxon[1] == pytest.approx(2 / 2**9)
    assert not found.better.any()
    assert (found.low[0], found.high[0]) == (0, 0)
    nine_sources = compared(matrix(np.random.default_rng(0).random((2, 90)), np.arange(90) % 9))
    assert nine_sources.notes[1] == FEW
    assert np.isnan([nine_sources.low[1], nine_sources.high[1]]).all()
    assert nine_sources.standard_error[1] > 0


@pytest.mark.parametrize("questions", [0, 1, 2])
def test_next_to_no_questions(questions: int) -> None:
    found = compared(matrix(np.ones((3, questions))))
    assert found.wilcoxon.tolist() == [1, 1, 1]
    assert not (found.better | found.worse).any()


def test_one_departure_among_ties_says_nothing() -> None:
    base = np.ones(100)
    other = base.copy()
    other[7] = 0.0
    found = compared(matrix([base, other]))
    assert np.isfinite(found.low).all()
    assert not found.worse.any()
    assert found.wilcoxon[1] == 1.0


@given(matrices(), st.randoms())
def test_permuted_configs_are_permuted_differences(one: Matrix, random: object) -> None:
    order = np.random.default_rng(random.randint(0, 99)).permutation(len(one.values)).tolist()
    equal(compared(one.select_configs(order), order.index(0)), compared(one), order)


@given(matrices(), st.integers(0, 4))
def test_exchanging_baseline_and_config_mirrors_their_interval(one: Matrix, other: int) -> None:
    row = other % len(one.values)
    found, back = (compare_with_baseline(one, base, resamples=200, largest=2.5) for base in (0, row))
    assert [back.low[0], back.high[0]] == pytest.approx([-found.high[row], -found.low[row]], nan_ok=True)
    assert back.better[0] == found.worse[row]


@given(matrices(), st.integers(0, 99), st.sampled_from([-3.0, 0.1, 7.0]))
def test_order_of_questions_and_added_constants_change_nothing(one: Matrix, seed: int, constant: float) -> None:
    order = np.random.default_rng(seed).permutation(one.values.shape[1])
    moved = dataclasses.replace(one, values=one.values[:, order] + constant, clusters=one.clusters[order])
    equal(compared(moved), compared(one))


@given(matrices())
def test_better_is_where_the_metric_says(one: Matrix) -> None:
    found, other = compared(one), compared(turned(one))
    assert found.estimate == pytest.approx(-other.estimate)
    assert (found.better == other.better).all()
    assert (found.worse == other.worse).all()


def test_intervals_of_ratios_hold_for_long_tails() -> None:
    held = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        base = generator.normal(0, 1.5, 60)
        logarithms = np.stack([base, base + generator.normal(0.2, 1.5, 60)])
        found = compare_amounts(matrix(np.exp(logarithms)), 0, "ms", resamples=399)
        assert found.ratios
        held += bool(found.low[1] <= 0.2 <= found.high[1])
    assert held / 200 > 0.91  # .95 less 2.6 standard errors; the mean difference's interval holds in 58 of 100


def test_ratios_do_not_depend_on_the_unit_and_need_amounts_above_0() -> None:
    amounts = np.exp(np.random.default_rng(3).normal(0, 1, (2, 40)))
    amounts[1, :-1] = amounts[0, :-1] * 1.1
    seconds, milliseconds = (compare_amounts(matrix(values), 0, "s") for values in (amounts, 1000 * amounts))
    equal(seconds, milliseconds)
    assert seconds.better.tolist() == milliseconds.better.tolist()
    assert not compare_amounts(matrix(amounts), 0, "").ratios
    amounts[0, 0] = 0.0
    plain = compare_amounts(matrix(amounts), 0, "ms")
    assert not plain.ratios
    assert "assumes no long tail" in plain.notes[1]
    assert plain.low[1] == compare_with_baseline(matrix(amounts), 0).low[1]


def test_a_ratio_that_only_another_config_prevents_has_a_note_on_other_configs() -> None:
    amounts = np.exp(np.random.default_rng(3).normal(0, 1, (3, 40)))
    amounts[2, 0] = 0.0
    others = [
        ["of other configs" in note for note in compare_amounts(matrix(amounts), row, "ms").notes] for row in (0, 2)
    ]
    assert others == [[False, True, False], [False, False, False]]
    assert "some values are 0 or less" in compare_amounts(matrix(amounts), 0, "ms").notes[2]


def test_scores_of_a_scale_with_two_ends_are_no_amounts() -> None:
    above = Matrix(np.array([[40.0, 60.0], [50.0, 90.0]]), np.arange(2), ("a", "b"), ("q0", "q1"))
    assert [has_ratios(above, unit) for unit in ("ms", "%", "points", "")] == [True, False, False, False]


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
