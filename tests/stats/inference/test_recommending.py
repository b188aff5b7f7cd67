"""What is recommended: better than the baseline, or as good as the best and cheaper, or none; within limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragsweep.stats.inference.recommending import ConfigCost, ContextLength, Pairs, Recommendation, recommend

from matrices import matrix, turned
from ragsweep.core.errors import InputError
from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix

MARGIN = 0.05


def scores(*means: float, questions: int = 200, spread: float = 0.1, seed: int = 0) -> Matrix:
    """Draw correlated scores whose means are exactly these, so that a test states what follows from them."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(0, 0.3, questions) + generator.normal(0, spread, (len(means), questions))
    return matrix(rows - rows.mean(axis=1, keepdims=True) + np.array(means)[:, None])


def costs(*tokens: float, name: str = "context_tokens", noise: float = 0.0) -> dict[str, ConfigCost]:
    values = np.array(tokens, dtype=np.float64)
    return {name: ConfigCost(values, values + noise < values[0] - noise, values - noise > values[0] + noise)}


def found(
    drawn: Matrix,
    known: dict[str, ConfigCost] | None = None,
    lengths: ContextLength | None = None,
    **limits: float | None,
) -> Recommendation:
    return recommend(Pairs(drawn), compare_with_baseline(drawn, 0, resamples=999), known or {}, limits, MARGIN, lengths)


# --- better -------------------------------------------------------------------------------------------------------


def test_highest_mean_is_recommended_where_it_is_shown_better_than_the_baseline() -> None:
    one = found(scores(0.5, 0.6, 0.62), costs(100, 10, 900))
    assert (one.kind, one.config, one.best, one.from_best) == ("better", 2, 2, None)
    assert found(turned(scores(0.5, 0.6, 0.62))).config == 2


def test_cheapest_that_cannot_be_told_from_the_best_is_not_recommended_for_being_cheap() -> None:
    """With 30 questions a config that is worse by .08 cannot be told from the baseline: no evidence of equality."""
    drawn = scores(0.5, 0.42, 0.51, questions=30, spread=0.2)
    one = found(drawn, costs(900, 10, 900))
    assert (one.kind, one.config, one.best) == ("none", None, 2)


def test_limits_leave_the_highest_mean_within_them_and_say_how_far_it_is_from_the_baseline_and_the_best() -> None:
    drawn = scores(0.5, 0.6, 0.7)
    one = found(drawn, costs(100, 500, 900), context_tokens=500)
    assert (one.kind, one.config, one.best, one.within) == ("better", 1, 1, 2)
    unknown = found(drawn, costs(100, np.nan, 900), context_tokens=500)
    assert (unknown.kind, unknown.within) == ("none", 1)
    assert found(drawn, {}, latency_p95_ms=5).within == 0
    assert found(drawn, costs(100, 500, 900), context_tokens=None).config == 2


def test_limit_on_what_is_no_cost_is_refused() -> None:
    with pytest.raises(InputError, match=r'"latency_p95".*latency_p95_ms'):
        found(scores(0.5, 0.6), latency_p95=3)


# --- as good and cheaper ------------------------------------------------------------------------------------------


def test_cheapest_that_is_shown_as_good_as_the_best_is_recommended_with_the_bound_that_showed_it() -> None:
    one = found(scores(0.5, 0.5, 0.5, 0.51), costs(900, 100, 300, 900))
    assert (one.kind, one.config, one.best, one.cost) == ("as_good_and_cheaper", 1, 3, "context_tokens")
    assert one.from_best is not None
    assert one.from_best.estimate == pytest.approx(-0.01)
    assert -MARGIN < one.from_best.low < one.from_best.estimate < one.from_best.high


def test_cheaper_one_that_is_surely_worse_than_the_margin_allows_is_passed_over() -> None:
    assert found(scores(0.5, 0.4, 0.5), costs(900, 100, 300)).config == 2


def test_baseline_is_kept_where_it_is_shown_as_good_and_the_best_costs_more() -> None:
    one = found(scores(0.5, 0.505), costs(100, 900))
    assert (one.kind, one.config) == ("as_good_and_cheaper", 0)
    assert found(scores(0.5, 0.505), costs(100, 900, noise=450)).kind == "none"  # it may be chance that it costs more


@pytest.mark.parametrize(
    "known",
    [
        {},
        costs(900, 850, 820),  # less than a tenth cheaper
        costs(900, np.nan, 300),  # not known of all
        costs(10, 8, 8, name="latency_p95_ms", noise=2),  # within the noise of the measurement
        {"latency_p95_ms": costs(0.16, 0.13, 0.13)["context_tokens"]._replace(least=1.0)},  # nobody waits for less
    ],
)
def test_nothing_is_recommended_for_being_cheaper_that_is_not_known_to_be(known: dict[str, ConfigCost]) -> None:
    assert found(scores(0.5, 0.5, 0.501), known).kind == "none"


def test_money_decides_before_tokens_and_tokens_where_money_is_the_same() -> None:
    drawn, tokens = scores(0.5, 0.5, 0.5), costs(900, 100, 300)
    assert found(drawn, tokens | costs(2, 2, 1, name="cost_per_1000")).config == 2
    assert found(drawn, tokens | costs(2, 2, 2, name="cost_per_1000")).config == 1


def test_losses_too_rare_to_have_been_seen_are_allowed_for() -> None:
    """One question in 60 lost to the cheap one: its rate may be three times that."""
    values = np.ones((2, 60))
    values[1, 0] = 0
    assert found(matrix(values), costs(900, 100)).kind == "none"
    assert found(matrix(np.tile(values, 20)), costs(900, 100)).kind == "as_good_and_cheaper"


def test_fewer_than_ten_questions_recommend_nothing() -> None:
    one = found(matrix([[0.1] * 9, [0.9] * 9]), costs(900, 100))
    assert (one.kind, one.note) == ("none", "fewer than 10 independent questions")


# --- what can only rise -------------------------------------------------------------------------------------------

LONGER = ContextLength(("top_k",), np.array([False, True, True]), np.array([False, True, True]))
MIXED = ContextLength(("top_k",), np.array([False, False, True, True]), np.array([False, False, True, False]))


def test_lead_of_a_longer_context_alone_is_no_reason_to_choose_it() -> None:
    drawn = scores(0.5, 0.6, 0.7)
    one = found(drawn, costs(100, 300, 900), LONGER)
    assert (one.kind, one.config, one.best, one.decide_by) == ("none", None, 2, ("top_k",))


def test_limit_on_a_cost_decides_how_long_the_context_is() -> None:
    one = found(scores(0.5, 0.6, 0.7), costs(100, 300, 900), LONGER, context_tokens=500)
    assert (one.kind, one.config) == ("better", 1)


def test_lead_at_the_same_length_is_recommended_before_a_longer_context() -> None:
    one = found(scores(0.5, 0.6, 0.7, 0.8), None, MIXED)
    assert (one.kind, one.config, one.decide_by) == ("better", 1, ("top_k",))
    assert found(scores(0.5, 0.5, 0.7, 0.8), None, MIXED).config == 3  # differs in more than its length


# --- laws ---------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(10, 60), st.floats(0.01, 0.2))
def test_recommendation_is_within_the_limits_and_has_the_evidence_that_its_kind_names(
    seed: int, configs: int, questions: int, spread: float
) -> None:
    generator = np.random.default_rng(seed)
    drawn = matrix(generator.normal(0, 0.3, questions) + generator.normal(0, spread, (configs, questions)))
    known = costs(*generator.integers(1, 9, configs).tolist())
    one = found(drawn, known, context_tokens=6)
    cost, differences = known["context_tokens"].value, compare_with_baseline(drawn, 0, resamples=999)
    assert (one.config is None) == (one.kind == "none")
    if one.kind == "better":
        assert differences.better[one.config or 0]
    if one.kind == "as_good_and_cheaper":
        assert not differences.better[cost <= 6].any()
        assert one.from_best is None or one.from_best.low >= -MARGIN
        assert cost[one.config or 0] < max(cost[0], cost[one.best])
    if one.config is not None:
        assert cost[one.config] <= 6


CASES = [(np.linspace(0, 0.1, 12), 5), (np.zeros(12), 5), (np.linspace(0, 0.1, 12), 11)]


@pytest.mark.parametrize(
    ("means", "base", "questions"),
    [(*CASES[0], 50), *(pytest.param(*case, n, marks=pytest.mark.nightly) for case in CASES for n in (50, 200))],
)
def test_recommended_config_is_truly_worse_than_the_baseline_in_one_sweep_of_twenty_at_most(
    means: np.ndarray, base: int, questions: int
) -> None:
    """Quality rises with cost, or is flat; benchmarks/planted.py has more of these, and counts how much is found."""
    order = [base, *(n for n in range(12) if n != base)]
    worse = 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        shared = generator.normal(0.5, 0.36, questions)
        values = shared + generator.normal(0, 0.18, (12, questions)) + means[:, None]
        one = found(matrix(values[order]), costs(*(float(n + 1) for n in order)))
        worse += one.config is not None and means[order[one.config]] < means[base]
    assert worse <= 10  # 5 % would be exceeded by chance in 1.1 % of such tests
