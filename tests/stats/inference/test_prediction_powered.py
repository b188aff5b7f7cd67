"""A judge's scores corrected by people's labels."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ragsweep.stats.inference.prediction_powered import FEWEST_LABELS, prediction_powered
from support import nightly
from support.matrices import matrix, weighted


def drawn(seed: int, *, labels: int = 50, questions: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Two configs, right in 50 and 60 %; a judge that passes nine of ten right answers and three of ten wrong ones."""
    generator = np.random.default_rng(seed)
    people = (generator.random((2, questions)) < [[0.5], [0.6]]).astype(float)
    judged = np.where(people == 1, generator.random(people.shape) < 0.9, generator.random(people.shape) < 0.3)
    chosen = generator.permutation(questions) < labels
    return judged.astype(float), np.where(chosen, people, np.nan)


@pytest.mark.parametrize(("signs", "truth"), [nightly((1, 0), 0.5), ((-1, 1), 0.1)])
def test_intervals_hold_for_a_biased_judge_and_are_narrower(signs: tuple[float, float], truth: float) -> None:
    held, ours, alone = 0, [], []
    for seed in range(400):
        judged, labels = drawn(seed)
        found = prediction_powered(matrix(judged), labels, signs)
        held += found.low <= truth <= found.high
        ours.append(found.high - found.low)
        combined = np.asarray(signs) @ labels
        combined = combined[~np.isnan(combined)]
        alone.append(2 * stats.t.ppf(0.975, 49) * combined.std(ddof=1) / math.sqrt(50))
    assert 0.91 <= held / 400 <= 0.98  # 95 %, three Monte Carlo errors
    theory = {0.5: 0.81, 0.1: 0.84}[truth]  # sqrt(1 - correlation^2 / (1 + labels / questions)), by the rates above
    assert np.mean(ours) / np.mean(alone) == pytest.approx(theory, abs=0.06)


def test_the_weight_is_that_of_the_paper_where_labels_are_apart() -> None:
    """PPI++ with one row: Cov(label, judged) / ((1 + n / N) Var(judged)), from the labelled and the other questions."""
    judged, labels = drawn(1, labels=200, questions=4000)
    found = prediction_powered(matrix(judged[:1]), labels[:1], (1,))
    known = ~np.isnan(labels[0])
    covariance = np.cov(labels[0][known], judged[0][known])
    expected = covariance[0, 1] / covariance[1, 1]
    assert found.weight == pytest.approx(expected, rel=0.05)
    moved = judged[0][known].mean() - judged[0].mean()
    assert found.value == pytest.approx(labels[0][known].mean() - found.weight * moved)
    assert found.judged == pytest.approx(judged[0].mean())


@given(st.integers(0, 200))
def test_right_judge_leaves_the_mean_of_all_and_a_constant_one_that_of_the_labels(seed: int) -> None:
    people = (np.random.default_rng(seed).random((1, 100)) < 0.5).astype(float)
    labels = np.where(np.arange(100) < 30, people, np.nan)
    right = prediction_powered(matrix(people), labels, (1,))
    constant = prediction_powered(matrix(np.ones((1, 100))), labels, (1,))
    assert constant.value == pytest.approx(np.nanmean(labels))
    assert constant.weight == 0
    if right.weight == pytest.approx(1):
        assert right.value == pytest.approx(people.mean())
    assert right.high - right.low <= constant.high - constant.low + 1e-9


def test_copies_of_questions_in_one_cluster_add_nothing() -> None:
    judged, labels = drawn(3, labels=60, questions=200)
    once = prediction_powered(matrix(judged), labels, (-1, 1))
    thrice = matrix(np.repeat(judged, 3, axis=1), np.repeat(np.arange(200), 3))
    copied = prediction_powered(thrice, np.repeat(labels, 3, axis=1), (-1, 1))
    assert (copied.value, copied.low, copied.high) == pytest.approx((once.value, once.low, once.high))


def test_rows_may_be_labelled_on_other_questions() -> None:
    judged, labels = drawn(4, labels=100)
    first, second = labels.copy(), labels.copy()
    known = np.flatnonzero(~np.isnan(labels[0]))
    first[:, known[::2]] = np.nan
    second[:, known[1::2]] = np.nan
    apart = prediction_powered(matrix(judged), np.stack([first[0], second[1]]), (-1, 1))
    single = [prediction_powered(matrix(judged[n : n + 1]), one[n : n + 1], (1,))
              for n, one in enumerate((first, second))]  # fmt: skip
    assert apart.labels == 50
    independent = math.hypot(*(one.high - one.low for one in single))
    assert apart.high - apart.low == pytest.approx(independent, rel=0.1)


def test_too_few_labels_give_no_interval() -> None:
    judged, labels = drawn(5, labels=FEWEST_LABELS - 1)
    found = prediction_powered(matrix(judged), labels, (-1, 1))
    assert np.isnan([found.value, found.low, found.high, found.weight]).all()
    assert found.judged == pytest.approx(judged[1].mean() - judged[0].mean())
    assert found.labels == FEWEST_LABELS - 1


@pytest.mark.parametrize("lowest", [0.0, 1.0])
def test_weighted_labels_without_differences_leave_the_same_doubt_on_every_scale(lowest: float) -> None:
    """At most 1 - .025 ** (1 / 40) of the questions differ, at worst by 4 in each config, with a weight of 5 / 3."""
    scores = np.random.default_rng(0).integers(0, 5, (2, 240)) + lowest
    labels = np.where(np.arange(240) < 40, np.resize([1.0, 2.0], 240) + lowest, np.nan) * np.ones((2, 1))
    found = prediction_powered(weighted(matrix(scores), np.resize([1.0, 5.0, 3.0], 240)), labels, (-1, 1))
    assert (found.value, found.high) == pytest.approx((0, 2 * 4 * 5 / 3 * (1 - 0.025 ** (1 / 40))))
    assert found.low == -found.high


@pytest.mark.parametrize(
    ("signs", "value", "half"),
    [((0, 1), 0.5697941193843779, 0.0527111130), ((-1, 1), 0.1121735195749391, 0.0769752926)],
)
def test_estimates_and_widths_are_those_of_ppi_python(signs: tuple[float, float], value: float, half: float) -> None:
    """ppi-python 0.2.3 (its authors'), the same data and weight; its interval is normal, ours Student's, and n - 1.

    ``ppi_mean_ci(labels, judged[chosen], judged[~chosen], alpha=0.05, lam=weight * 450 / 500)``, of a difference with
    the differences of each question: it compares with the other questions' mean, ours with that of all.
    """
    generator = np.random.default_rng(7)
    people = (generator.random((2, 500)) < [[0.5], [0.6]]).astype(float)
    judged = np.where(people == 1, generator.random((2, 500)) < 0.9, generator.random((2, 500)) < 0.3).astype(float)
    chosen = np.isin(np.arange(500), generator.permutation(500)[:50])
    graded = (people + judged) / 2 * 0.8 + 0.1 * generator.random((2, 500))
    found = prediction_powered(matrix(judged), np.where(chosen, graded, np.nan), signs)
    student = stats.t.ppf(0.975, 49) / stats.norm.ppf(0.975) * math.sqrt(50 / 49)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert (found.high - found.low) / 2 == pytest.approx(half * student, rel=2e-3)


def marks(share: float, agreement: float, labels: int, questions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw whether two configs are right (the second more often by a half of what is wrong), and a judge's marks."""
    generator = np.random.default_rng([seed, labels])
    chance = generator.random(questions)
    people = np.stack([chance < share, chance < (1 + share) / 2]).astype(float)
    judged = np.where(generator.random(people.shape) < agreement, people, 1 - people)
    return judged, np.where(generator.permutation(questions) < labels, people, np.nan)


@pytest.mark.parametrize("agreement", [0.7, nightly(0.95)])
@pytest.mark.parametrize(
    ("labels", "questions", "share"), [(10, 100, 0.9), nightly(15, 300, 0.85), nightly(25, 300, 0.95), (40, 300, 0.6)]
)
def test_intervals_of_few_marks_hold(labels: int, questions: int, share: float, agreement: float) -> None:
    """400 times each: at least 93 %, less two Monte Carlo errors (a t interval: down to 81)."""
    held = np.zeros(2)
    for seed in range(400):
        judged, known = marks(share, agreement, labels, questions, seed)
        for n, (signs, truth) in enumerate((((1.0,), share), ((-1.0, 1.0), (1 - share) / 2))):
            found = prediction_powered(matrix(judged[: n + 1]), known[: n + 1], signs)
            held[n] += found.low <= truth <= found.high
    assert (held >= 0.905 * 400).all()


@pytest.mark.parametrize("agreement", [0.9, 1.0])
@pytest.mark.parametrize("right", [0.0, 1.0])
def test_ten_equal_marks_are_no_certainty(right: float, agreement: float) -> None:
    """The exact bound of ten of ten is .69 (Clopper-Pearson, two-sided); the difference between two configs is open."""
    labels = np.where(np.arange(100) < 10, right, np.nan)
    judged = np.where(np.random.default_rng(0).random((2, 100)) < agreement, right, 1 - right)
    mean = prediction_powered(matrix(judged[:1]), labels[None, :], (1,))
    assert mean.value == right
    width = mean.high - mean.low
    assert (mean.high if right else mean.low) == right
    assert 0.2 <= width <= 0.4
    difference = prediction_powered(matrix(judged), np.stack([labels, labels]), (-1, 1))
    assert difference.low <= -0.15
    assert difference.high >= 0.15


@given(
    st.integers(10, 40), st.integers(0, 10**6), st.sampled_from([0.5, 0.9, 0.98]), st.sampled_from([0.8, 0.95, 0.999])
)
def test_intervals_of_marks_are_bounded_and_widen(labels: int, seed: int, share: float, level: float) -> None:
    judged, known = marks(share, 0.8, labels, 80, seed)
    for rows, signs, bounds in ((1, (1.0,), (0.0, 1.0)), (2, (-1.0, 1.0), (-1.0, 1.0))):
        found = prediction_powered(matrix(judged[:rows]), known[:rows], signs, level)
        wider = prediction_powered(matrix(judged[:rows]), known[:rows], signs, (1 + level) / 2)
        assert found.low <= found.value <= found.high
        assert found.low < found.high
        assert found.low >= min(bounds[0], found.value)
        assert found.high <= max(bounds[1], found.value)
        assert wider.low <= found.low + 1e-12
        assert wider.high >= found.high - 1e-12
        turned = prediction_powered(matrix(1 - judged[:rows]), 1 - known[:rows], signs, level)
        shift = sum(signs)
        assert (turned.low, turned.high) == pytest.approx((shift - found.high, shift - found.low))


def test_weighted_marks_count_by_their_weights() -> None:
    judged, known = marks(0.7, 0.9, 30, 200, 3)
    weights = np.tile([0.5, 1.5], 100)
    one = dataclasses.replace(matrix(judged * weights), weights=weights)
    found = prediction_powered(one, known, (-1, 1))
    assert -1 < found.low < found.value < found.high < 1
    assert found.judged == pytest.approx(np.average(judged[1] - judged[0], weights=weights))
