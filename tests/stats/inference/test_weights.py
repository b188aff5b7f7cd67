"""Weighted questions: means, errors and decisions are those of the traffic that the weights stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.weightstats import DescrStatsW

from matrices import matrix
from ragsweep.stats.inference.cluster_errors import enough_clusters
from ragsweep.stats.inference.confidence_set import model_confidence_set
from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix, relative
from ragsweep.stats.inference.noninferiority import gate, reaches, sequential_gate
from ragsweep.stats.inference.resampling import cluster_scores
from ragsweep.stats.inference.slices import by_slice


def weighted(values: np.ndarray, weights: np.ndarray, clusters: np.ndarray | None = None) -> Matrix:
    one = matrix(values, clusters)
    return replace(one, values=one.values * relative(weights), weights=relative(weights))


def scores(seed: int, configs: int = 3, questions: int = 60) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.uniform(0, 1, questions) * 0.5 + generator.uniform(0, 0.5, (configs, questions))


@given(st.integers(0, 50), st.floats(0.1, 10))
def test_equal_weights_change_nothing(seed: int, weight: float) -> None:
    values = scores(seed)
    plain, same = matrix(values), weighted(values, np.full(60, weight))
    one, other = compare_with_baseline(plain, 0, resamples=200), compare_with_baseline(same, 0, resamples=200)
    assert other.estimate == pytest.approx(one.estimate)
    assert other.low == pytest.approx(one.low)
    assert other.degrees == pytest.approx(one.degrees)
    assert same.scores == pytest.approx(values)


def test_means_and_errors_are_those_of_a_weighted_mean() -> None:
    """Against the linearised error of a ratio by hand, and the mean of statsmodels."""
    values, weights = scores(1, 2), np.random.default_rng(2).gamma(2, 1, 60)
    found = compare_with_baseline(weighted(values, weights), 0)
    apart = values[1] - values[0]
    mean = DescrStatsW(apart, weights).mean
    assert found.estimate[1] == pytest.approx(mean)
    linear = weights / weights.sum() * (apart - mean)
    assert found.standard_error[1] == pytest.approx(np.sqrt((linear**2).sum()), rel=0.05)


def test_intervals_of_weighted_means_hold() -> None:
    """Scores whose mean depends on the weight: 95 % of the intervals hold (90 to 98.5, three Monte Carlo errors)."""
    held = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        heavy = generator.random(80) < 0.25
        weights = np.where(heavy, 4.0, 1.0)
        base = generator.uniform(0.3, 0.5, 80)
        values = np.stack([base, base + generator.normal(np.where(heavy, 0.1, -0.1), 0.2)])
        found = compare_with_baseline(weighted(values, weights), 0, resamples=400)
        truth = (0.25 * 4 * 0.1 - 0.75 * 0.1) / (0.25 * 4 + 0.75)
        held += bool(found.low[1] <= truth <= found.high[1])
    assert 180 <= held <= 197


def test_a_config_that_wins_where_the_traffic_is_wins() -> None:
    base = np.full(60, 0.5) + np.tile([0.05, -0.05], 30)
    rare, common = np.arange(60) < 40, np.arange(60) >= 40
    candidate = base + np.where(rare, -0.1, 0.6) + np.random.default_rng(0).normal(0, 0.05, 60)
    values, weights = np.stack([base, candidate]), np.where(common, 1.0, 20.0)
    assert compare_with_baseline(matrix(values), 0).better[1]
    assert compare_with_baseline(weighted(values, weights), 0).worse[1]
    assert model_confidence_set(weighted(values, weights)).mask.tolist() == [True, False]
    assert gate(weighted(values, weights), 0.02).decision == "fail"


def test_few_heavy_questions_are_not_enough() -> None:
    weights = np.where(np.arange(60) < 3, 200.0, 1.0)
    assert not enough_clusters(np.arange(60), relative(weights))
    assert np.isnan(compare_with_baseline(weighted(scores(3, 2), weights), 0).low[1])


def test_margins_and_bounds_are_in_the_unit_of_scores() -> None:
    values, weights = scores(4, 2), np.random.default_rng(5).gamma(2, 1, 60)
    one = weighted(values, weights)
    mean = np.average(values[1] - values[0], weights=weights)
    assert gate(one, 0.05).slack == pytest.approx(mean + 0.05)
    assert sequential_gate(one, 0.05, 1.0).slack == pytest.approx(mean + 0.05)
    single = replace(one, values=one.values[:1], configs=one.configs[:1])
    assert reaches(single, 0.3).slack == pytest.approx(np.average(values[0], weights=weights) - 0.3)


def test_slices_have_weights_of_their_own() -> None:
    values, weights = scores(6, 2), np.random.default_rng(7).gamma(2, 1, 60)
    labels = [str(n % 2) for n in range(60)]
    found = by_slice(weighted(values, weights), {"half": labels}, resamples=200)
    for one in found:
        chosen = np.array(labels) == one.value
        assert one.estimate[1] == pytest.approx(np.average((values[1] - values[0])[chosen], weights=weights[chosen]))
        cut = weighted(values, weights).select_questions(chosen)
        assert cut.scores == pytest.approx(values[:, chosen])
        assert cut.values.mean(axis=1) == pytest.approx(np.average(values[:, chosen], axis=1, weights=weights[chosen]))


def test_a_cluster_counts_by_its_weights() -> None:
    """Three questions in one cluster with a third of the weight each are one question."""
    values = scores(8, 2, 40)
    tripled = np.repeat(values, 3, axis=1)
    once = cluster_scores(values, np.arange(40))
    many = cluster_scores(tripled, np.repeat(np.arange(40), 3), np.ones(120))
    assert many.errors == pytest.approx(once.errors)


def test_bets_are_in_proportion_to_weights() -> None:
    """Questions of hardly any weight change nothing."""
    values, weights = scores(9, 2, 200), np.where(np.arange(200) % 2, 1.0, 1e-9)
    odd = np.arange(200) % 2 == 1
    found, alone = sequential_gate(weighted(values, weights), 0.1, 1.0), sequential_gate(matrix(values[:, odd]), 0.1, 1)
    assert (found.low, found.high) == (pytest.approx(alone.low, abs=1e-6), pytest.approx(alone.high, abs=1e-6))
    turned = replace(weighted(-values, weights), higher_is_better=False)
    assert sequential_gate(turned, 0.1, 1.0).low == pytest.approx(found.low)
