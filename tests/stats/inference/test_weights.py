"""Weighted questions: means, errors and decisions are those of the traffic that the weights stand for."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.weightstats import DescrStatsW

from ragsweep.stats.choice import Choice, ConfigCosts, choose
from ragsweep.stats.inference import cluster_errors
from ragsweep.stats.inference.best import selection_bias, winner
from ragsweep.stats.inference.cluster_errors import enough_clusters, unequal_clusters
from ragsweep.stats.inference.differences import CONSTANT, all_pairs, compare_amounts, compare_with_baseline
from ragsweep.stats.inference.factorial import effects
from ragsweep.stats.inference.matrix import Matrix, relative, score_matrix
from ragsweep.stats.inference.noninferiority import gate, reaches, sequential_gate
from ragsweep.stats.inference.planning import pilot_variation
from ragsweep.stats.inference.power import estimate_power
from ragsweep.stats.inference.rare_losses import rare_losses
from ragsweep.stats.inference.resampling import cluster_scores, draws, student_quantile
from ragsweep.stats.inference.shrinkage import posterior
from ragsweep.stats.inference.slices import by_slice
from support import nightly
from support.matrices import matrix, weighted
from support.results import METRIC, changed, one_metric


def scores(seed: int, configs: int = 3, questions: int = 60) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.uniform(0, 1, questions) * 0.5 + generator.uniform(0, 0.5, (configs, questions))


def test_intervals_of_weighted_means_hold() -> None:
    """Scores whose mean depends on the weight: 95 % of the intervals hold (90 to 98.5, three Monte Carlo errors)."""
    held = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        heavy = generator.random(80) < 0.25
        weights = np.where(heavy, 4.0, 1.0)
        base = generator.uniform(0.3, 0.5, 80)
        values = np.stack([base, base + generator.normal(np.where(heavy, 0.1, -0.1), 0.2)])
        found = compare_with_baseline(weighted(matrix(values), weights), 0, resamples=400)
        truth = (0.25 * 4 * 0.1 - 0.75 * 0.1) / (0.25 * 4 + 0.75)
        held += bool(found.low[1] <= truth <= found.high[1])
    assert 180 <= held <= 197


def test_few_heavy_questions_are_not_enough() -> None:
    weights = np.where(np.arange(60) < 3, 200.0, 1.0)
    assert not enough_clusters(np.arange(60), relative(weights))
    assert np.isnan(compare_with_baseline(weighted(matrix(scores(3, 2)), weights), 0).low[1])


def test_slices_have_weights_of_their_own() -> None:
    values, weights = scores(6, 2), np.random.default_rng(7).gamma(2, 1, 60)
    labels = [str(n % 2) for n in range(60)]
    found = by_slice(weighted(matrix(values), weights), {"half": labels}, resamples=200)
    for one in found:
        chosen = np.array(labels) == one.value
        assert one.estimate[1] == pytest.approx(np.average((values[1] - values[0])[chosen], weights=weights[chosen]))
        cut = weighted(matrix(values), weights).select_questions(chosen)
        assert cut.scores == pytest.approx(values[:, chosen])
        assert cut.values.mean(axis=1) == pytest.approx(np.average(values[:, chosen], axis=1, weights=weights[chosen]))


def test_bets_are_in_proportion_to_weights() -> None:
    """Questions of hardly any weight change nothing."""
    values, weights = scores(9, 2, 200), np.where(np.arange(200) % 2, 1.0, 1e-9)
    odd = np.arange(200) % 2 == 1
    found, alone = (
        sequential_gate(weighted(matrix(values), weights), 0.1, 1.0),
        sequential_gate(matrix(values[:, odd]), 0.1, 1),
    )
    assert (found.low, found.high) == (pytest.approx(alone.low, abs=1e-6), pytest.approx(alone.high, abs=1e-6))
    turned = replace(weighted(matrix(-values), weights), higher_is_better=False)
    assert sequential_gate(turned, 0.1, 1.0).low == pytest.approx(found.low)


def chosen(one: Matrix, loss: float = 0.005) -> Choice:
    """Choose among the configs of a matrix, each of which takes fewer tokens than the one before."""
    count = len(one.values)
    results = [one_metric(f"c{n}", one.scores[n], context_tokens=float(count - n)) for n in range(count)]
    return choose(posterior(one), ConfigCosts(results), {}, loss, (), 0)


def everything(one: Matrix) -> list[np.ndarray]:
    """All numbers that a verdict, a gate, a plan and effects draw from a matrix."""
    found = compare_with_baseline(one, 0, resamples=300)
    bias, seen, pair = selection_bias(one), estimate_power(one), one.select_configs((0, 1))
    gates = [gate(pair, 0.03), gate(pair, 0.05, relative=True), gate(pair, -0.01), sequential_gate(pair, 0.1, 1.0)]
    slices = by_slice(one, {"half": [str(n % 2) for n in range(len(one.questions))]}, resamples=300)
    grid = effects([{"a": str(n)} for n in range(len(one.values))], one, resamples=300).effects
    beliefs, advice, lost = posterior(one), chosen(one, 0.03), rare_losses(*led(one))
    losses = [[beliefs.expected_loss(row, other) for row in range(3)] for other in range(3)]
    return [
        np.array(numbers, dtype=np.float64)
        for numbers in (
            found.estimate, found.low, found.high, found.effect, found.randomisation, found.wilcoxon,
            [*bias],
            seen.typical, seen.spread, pilot_variation(pair, "k").spreads["k"],
            [[each.slack, each.low, each.high] for each in gates],
            [[each.estimate, each.low, each.high] for each in slices],
            [[each.estimate, each.low, each.high, each.standard_error] for each in grid],
            beliefs.means, losses, [advice.row, advice.best], [lost.survives, lost.share, lost.seen, lost.questions],
            [all_pairs(one, resamples=300).largest], all_pairs(one, resamples=300).may_be_best,
        )
    ]  # fmt: skip


def led(one: Matrix) -> tuple[np.ndarray, np.ndarray, float, np.ndarray | None]:
    """Return what the last config gains on each question over the first."""
    return one.better[-1] - one.better[0] + 0.05, one.clusters, 0.5, one.weights


def measured(values: np.ndarray, weights: np.ndarray | None) -> Matrix:
    """Score questions in pairs on 30 documents as records of a sweep have them."""
    results = [one_metric(f"c{n}", row.tolist()) for n, row in enumerate(values)]
    sources = [f"d{n // 2}" for n in range(values.shape[1])]
    extra = {"source": sources} | ({} if weights is None else {"weight": weights.tolist()})
    return score_matrix([changed(one, extra) for one in results], METRIC)


@settings(max_examples=6)
@given(st.integers(0, 1000), st.floats(0.01, 100))
def test_equal_weights_are_none_in_every_number_to_the_last_bit(seed: int, weight: float) -> None:
    values = scores(seed)
    plain, same = (everything(measured(values, one)) for one in (None, np.full(60, weight)))
    assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(plain, same, strict=True))


@settings(max_examples=6)
@given(st.integers(0, 1000), st.floats(0.01, 100))
def test_scaling_all_weights_changes_no_number(seed: int, factor: float) -> None:
    values, weights = scores(seed), np.random.default_rng(seed).gamma(2, 1, 60) + 0.1
    one, other = (everything(measured(values, given)) for given in (weights, weights * factor))
    for before, after in zip(one, other, strict=True):
        assert after == pytest.approx(before, rel=1e-5, abs=1e-8, nan_ok=True)


@settings(max_examples=15)
@given(st.integers(0, 1000), st.lists(st.integers(1, 4), min_size=60, max_size=60))
def test_a_weight_is_as_many_copies_in_one_cluster(seed: int, copies: list[int]) -> None:
    """In every mean and in the sums that errors are made of; what a spread within clusters shows is another matter."""
    values, weights = scores(seed), np.array(copies, dtype=np.float64)
    repeated = matrix(np.repeat(values, copies, axis=1), np.repeat(np.arange(60), copies))
    one, many = (
        compare_with_baseline(weighted(matrix(values), weights), 0, resamples=50),
        compare_with_baseline(repeated, 0, resamples=50),
    )
    assert one.estimate == pytest.approx(many.estimate)
    assert one.effect == pytest.approx(many.effect, rel=0.03)
    assert one.randomisation == pytest.approx(many.randomisation)
    heavy = weighted(matrix(values), weights)
    assert winner(heavy) == winner(repeated)
    factors = [cluster_scores(each.values, each.clusters, each.weights) for each in (heavy, repeated)]
    assert factors[0].sums * weights.mean() == pytest.approx(factors[1].sums)
    assert factors[0].sizes * weights.mean() == pytest.approx(factors[1].sizes)


def test_a_constant_difference_is_one_whatever_the_weights() -> None:
    values = np.stack([np.full(60, 0.25), np.full(60, 0.5)])
    found = compare_with_baseline(weighted(matrix(values), np.random.default_rng(0).gamma(2, 1, 60) + 0.1), 0)
    assert found.notes[1].startswith(CONSTANT)
    assert np.isnan(found.effect[1])


def test_where_nothing_differs_heavy_questions_leave_more_of_the_traffic_unseen() -> None:
    """The rule of three counts effective clusters: 60 questions of which 12 have most of the traffic are few."""
    values = np.stack([scores(5, 1)[0]] * 2)
    plain, heavy = (
        gate(matrix(values), 0.05),
        gate(weighted(matrix(values), np.where(np.arange(60) < 12, 30.0, 1.0)), 0.05),
    )
    assert heavy.low < 3 * plain.low - 2 * 0.05 < plain.low


@pytest.mark.parametrize("seed", [0, nightly(1), nightly(2)])
def test_many_kinds_of_clusters_are_merged_without_another_result(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = relative(np.random.default_rng(seed).lognormal(size=150))
    merged = unequal_clusters(weights, 0.0, weights**2)
    monkeypatch.setattr(cluster_errors, "KINDS", 400)
    assert unequal_clusters(weights, 0.0, weights**2).degrees == pytest.approx(merged.degrees, rel=0.01)


def error_by_hand(differences: np.ndarray, weights: np.ndarray) -> float:
    """Return CR2's error of a weighted mean of independent questions, by its own formula."""
    share = weights / weights.sum()
    apart = differences - share @ differences
    return float(np.sqrt((np.square(share * apart) / (1 - 2 * share + share @ share)).sum()))


def test_every_rule_has_the_weighted_mean_and_error() -> None:
    values, weights = scores(11, 2), np.random.default_rng(12).gamma(2, 1, 60) + 0.1
    one, apart = weighted(matrix(values), weights), values[1] - values[0]
    mean, error = float(np.average(apart, weights=weights)), error_by_hand(apart, weights)
    found = compare_with_baseline(one, 0, resamples=200)
    assert (found.estimate[1], found.standard_error[1]) == (pytest.approx(mean), pytest.approx(error))
    assert found.effect[1] == pytest.approx(mean / DescrStatsW(apart, weights).std, rel=0.02)
    assert estimate_power(one).spread[1] == pytest.approx(error * 60**0.5)
    assert pilot_variation(one, "k").spreads["k"] == pytest.approx(error * 60**0.5, rel=0.1)
    decided = gate(one, 0.03)
    quantile = student_quantile(0.95, found.degrees)
    assert decided.low == pytest.approx(mean + 0.03 - quantile * error)
    assert decided.high == pytest.approx(mean + 0.03 + quantile * error)
    (main,) = effects([{"a": "1"}, {"a": "2"}], one, resamples=200).effects
    assert (main.estimate, main.standard_error) == (pytest.approx(mean), pytest.approx(error))
    positive = weighted(matrix(values + 0.1), weights)
    logarithms = np.log((values[1] + 0.1) / (values[0] + 0.1))
    ratio = compare_amounts(positive, 0, "ms", resamples=200)
    assert ratio.estimate[1] == pytest.approx(np.average(logarithms, weights=weights))
    bias = selection_bias(weighted(matrix(np.stack([values[0], values[0] + 0.3])), weights))
    assert (bias.optimism, bias.observed) == (0, pytest.approx(np.average(values[0], weights=weights) + 0.3))
    bound = reaches(replace(one, values=one.values[:1], configs=one.configs[:1]), 0.3)
    own = error_by_hand(values[0], weights)
    assert bound.slack - bound.low == pytest.approx(quantile * own)
    assert bound.slack == pytest.approx(np.average(values[0], weights=weights) - 0.3)
    assert sequential_gate(one, 0.05, 1.0).slack == pytest.approx(mean + 0.05)


def test_where_a_winner_leads_is_where_the_traffic_is() -> None:
    """Clear by traffic one way, by questions the other: the likely best, luck, effects' test of interactions."""
    weights = np.where(np.arange(90) < 30, 20.0, 1.0)
    noise = np.random.default_rng(3).normal(0, 0.05, (2, 90))
    values = 0.5 + noise + np.stack([np.zeros(90), np.where(np.arange(90) < 30, 0.15, -0.3)])
    one = weighted(matrix(values), weights)
    assert winner(one) == selection_bias(one).winner == 1
    assert compare_with_baseline(one, 0).better[1]
    assert compare_with_baseline(matrix(values), 0).worse[1]
    assert all_pairs(one).may_be_best.tolist() == [False, True]
    assert [gate(each, 0.02).decision for each in (one, matrix(values))] == ["pass", "fail"]
    assert selection_bias(one).optimism == pytest.approx(0, abs=0.01)
    assert (chosen(one).row, chosen(matrix(values)).row) == (1, 0)
    assert posterior(one).probability_better(1, 0) > 0.9 > 0.1 > posterior(matrix(values)).probability_better(1, 0)
    even = weighted(matrix(np.stack([values[0], values[0] + np.where(np.arange(90) < 30, -0.0005, -0.02)])), weights)
    assert (chosen(even).row, chosen(even).best, chosen(even).cost) == (1, 0, "context_tokens")
    assert chosen(matrix(even.scores)).row == 0


def test_the_correlation_inside_of_clusters_is_one_of_scores() -> None:
    """Scores that are equal within each cluster are correlated by 1, however unequal their weights."""
    clusters, weights = np.arange(60) // 3, relative(np.array([4.0, 4.0, 4.0] * 10 + [1.0, 2.0, 9.0] * 10))
    values = np.repeat(np.random.default_rng(0).uniform(size=(1, 20)), 3, axis=1)
    found = cluster_scores(values * weights, clusters, weights)
    sizes, squares = np.bincount(clusters, weights), np.bincount(clusters, weights**2)
    assert found.factors == pytest.approx(unequal_clusters(sizes, 1.0, squares).factors)


def test_all_pairs_draw_weighted_deviations() -> None:
    """By hand, of two configs: deviations times weights, resampled, in standard errors of the draws."""
    values, weights = scores(13, 2), relative(np.random.default_rng(14).gamma(0.5, 1, 60) + 0.1)
    one = weighted(matrix(values), weights)
    apart = weights * (values[1] - values[0] - compare_with_baseline(one, 0, resamples=200).estimate[1])
    drawn = np.abs(np.concatenate(list(draws(60, 2000))).astype(np.float64) @ apart) / np.sqrt(apart @ apart)
    assert all_pairs(one, resamples=2000).largest == pytest.approx(np.sort(drawn)[math.ceil(2001 * 0.95) - 1], rel=1e-5)
