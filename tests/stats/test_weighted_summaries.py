"""Weighted summaries: a weight is as many copies of a question, and equal weights are none."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from ragsweep.core.question_texts import REPEATED
from ragsweep.core.results import Result
from ragsweep.core.types import GoldenSet, Question, Scores
from ragsweep.parts.metrics import ContextRecall
from ragsweep.report.holdout import holdout_gap
from ragsweep.stats.answer_outcomes import coverage_curve
from ragsweep.stats.calibration import noise
from ragsweep.stats.comparable import is_mean
from ragsweep.stats.context_effect import compare
from ragsweep.stats.inference.cluster_errors import varying
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.intervals import means_with_intervals, quantile_interval
from ragsweep.stats.repetition import variance_shares
from ragsweep.stats.summaries import collect_scores
from support.results import METRIC, changed, one_metric

NONE = np.array([np.nan])


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 5)), min_size=1, max_size=30))
def test_a_weight_is_as_many_copies(pairs: list[tuple[float, int]]) -> None:
    scores, counts = np.array([one for one, _ in pairs]), np.array([count for _, count in pairs])
    copies, weights = np.repeat(scores, counts), counts.astype(np.float64)
    mean = means_with_intervals(scores[None, :], NONE, NONE, weights)[0][0]
    assert mean == pytest.approx(copies.mean())
    quantile = quantile_interval(scores, 0.95, weights)[0]
    assert quantile == pytest.approx(np.quantile(copies, 0.95, method="inverted_cdf"))


@given(st.permutations(range(30)), st.sampled_from([0.1, 0.3, 0.7]))
@example([1, 5, 9, 11, 12, 13, 14, 16, 21, 25], 0.3)  # whose sum depends on their places among the other weights
def test_ten_scores_of_equal_weight_are_enough_for_a_bootstrap(places: list[int], weight: float) -> None:
    scores, weights = np.full(30, np.nan), np.full(30, 2.0)
    scores[places[:10]], weights[places[:10]] = np.linspace(0, 0.9, 10), weight
    mean, low, high = means_with_intervals(scores[None, :], NONE, NONE, weights)
    assert mean[0] == pytest.approx(0.45)
    assert 0.1 < low[0] < mean[0] < high[0] < 0.8


def test_equal_weights_are_none() -> None:
    assert varying(np.full(9, 0.25)) is None
    plain = tuple(Question(str(n), f"what is {n}?") for n in range(3))
    equal = tuple(Question(str(n), f"what is {n}?", weight=7.0) for n in range(3))
    other = tuple(Question(str(n), f"what is {n}?", weight=1.0 + n) for n in range(3))
    assert GoldenSet(plain).digest == GoldenSet(equal).digest != GoldenSet(other).digest


def test_intervals_of_weighted_means_hold() -> None:
    held = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        heavy = generator.random(80) < 0.25
        scores = generator.normal(np.where(heavy, 0.7, 0.4), 0.1)
        _, low, high = means_with_intervals(scores[None, :], NONE, NONE, np.where(heavy, 4.0, 1.0))
        held += bool(low[0] <= (0.7 + 0.75 * 0.4) / 1.75 <= high[0])
    assert 180 <= held <= 198


def test_few_heavy_questions_are_few() -> None:
    scores, weights = np.random.default_rng(0).uniform(size=50), np.where(np.arange(50) < 3, 500.0, 1.0)
    _, low, high = means_with_intervals(scores[None, :], NONE, NONE, weights)
    assert high[0] - low[0] > 2 * scores[:3].std()


def test_bounds_of_failed_questions_and_means_of_groups_are_weighted() -> None:
    metric = ContextRecall()
    scores = Scores(np.array([1.0, 0.0, np.nan, 0.5]), np.array(["", "", "error: x", ""]))
    table = collect_scores([metric], {metric.name: scores}, np.array([1.0, 2.0, 4.0, 1.0]))
    found = table.summarise()[metric.name]
    assert (found.value, found.low_bound, found.high_bound) == pytest.approx((1.5 / 4, 1.5 / 8, 5.5 / 8))
    assert table.summarise(np.array([1, 3]))[metric.name].value == pytest.approx(0.5 / 3)


def test_intervals_of_a_table_and_of_its_slices_are_those_of_clusters() -> None:
    metric, clusters = ContextRecall(), np.repeat(np.arange(12), 3)
    scores = np.repeat(np.random.default_rng(0).random(12), 3)
    alone = collect_scores([metric], {metric.name: Scores(scores[::3], np.full(12, ""))}).summarise()[metric.name]
    table = collect_scores([metric], {metric.name: Scores(scores, np.full(36, ""))}, clusters=clusters)
    found = table.summarise()[metric.name]
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))
    few = table.summarise(np.arange(9))[metric.name]
    error = stats.sem(scores[:9:3])
    assert (few.low, few.high) == pytest.approx(np.clip(stats.t.interval(0.95, 2, scores[:9].mean(), error), 0, 1))


def test_a_mean_by_weight_is_a_mean() -> None:
    weight = {"weight": [1.0, 3.0]}
    one = one_metric("a", [0.0, 1.0], value=0.75)
    assert is_mean(changed(one, weight), METRIC)
    assert not is_mean(one, METRIC)


def test_the_gap_to_the_holdout_is_one_of_weighted_leads() -> None:
    generator = np.random.default_rng(0)
    weights = generator.gamma(2, 1, 40).tolist()
    base, lead = generator.uniform(0, 1, 40), generator.normal(0.2, 0.1, 40)

    def results(gain: float) -> list[Result]:
        pair = [one_metric("a", base.tolist()), one_metric("b", (base + lead + gain).tolist())]
        return [changed(one, {"weight": weights}, parameters={"top_k": one.name}) for one in pair]

    gap = holdout_gap(results(-0.05), results(0.0), METRIC)
    assert (gap.tune, gap.change) == (pytest.approx(np.average(lead, weights=weights)), pytest.approx(-0.05))
    share = np.array(weights) / sum(weights)
    error = np.sqrt(np.square(share * (lead - share @ lead)).sum())
    assert gap.high - gap.change == pytest.approx(1.96 * 2**0.5 * error, rel=0.05)


def test_the_effect_of_context_risk_and_noise_are_by_weight() -> None:
    ids, weights = ["a", "b", "c"], [1.0, 2.0, 5.0]
    without = {"question_id": ids, "abstained": [False] * 3, "success_rate": [1.0, 0.0, 1.0], "weight": weights}
    found = compare(without, {**without, "success_rate": [0.0, 1.0, 1.0]})
    assert found.gain == pytest.approx((2 - 1) / 8)
    points = coverage_curve([0.9, 0.1, 0.1], [1.0, 0.0, 1.0], [True] * 3, [False] * 3, weights)
    assert [(point.coverage, point.score_answered) for point in points[1:]] == [(1 / 8, 1), (1, pytest.approx(6 / 8))]
    floor = noise([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], weights)
    assert floor.mean_difference == pytest.approx(1 / 8)
    assert floor.of_the_mean > noise([0.0, 0.0, 0.0], [1.0, 0.0, 0.0]).of_the_mean


def test_shares_of_the_variance_are_of_the_weighted_mean() -> None:
    """Of two kinds of questions one alone has noisy answers: with all of the weight nearly all variance is theirs."""
    generator = np.random.default_rng(0)
    noise = generator.normal(0, 0.2, (200, 1)), generator.normal(0, 1, (200, 3))
    scores = 0.5 + noise[0] + noise[1] * (np.arange(200) < 100)[:, None]
    shares = []
    for weight in (None, np.where(np.arange(200) < 100, 1.0, 50.0).tolist()):
        one = one_metric("a", scores.mean(axis=1).tolist())
        rows = [json.dumps({"scores": {METRIC: row}}) for row in scores.tolist()]
        one = changed(one, {REPEATED: rows} | ({"weight": weight} if weight else {}))
        found = variance_shares([one], score_matrix([one], METRIC))
        shares.append(found.answers)
    assert shares[0] > 0.5 > 0.1 > shares[1]
