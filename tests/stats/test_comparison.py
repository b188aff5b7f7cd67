"""The conclusions of a sweep: better configs, those that may be the best, and the recommendation."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragsweep.report.recommendation import Decision
from ragsweep.report.recommendation import result_facts as facts_of

from ragsweep.core.results import Failure, Result
from ragsweep.report.verdict import against_baseline, change, holdout_use, luck, verdict_lines
from ragsweep.report.verdict_files import verdict_files
from ragsweep.stats.comparison import (
    BASELINE,
    NoComparison,
    SweepComparison,
    compare_configs,
    list_baselines,
    rising_configs,
)
from weighed import METRIC, noisy, scored

SAME = "both configs have the same score on every question"


def result_facts(verdict: SweepComparison | NoComparison) -> dict[str, Any]:
    return facts_of(Decision(verdict))


def judged(*results: Result, failures: tuple[Failure, ...] = ()) -> SweepComparison:
    comparison = compare_configs(results, failures)
    assert isinstance(comparison, SweepComparison), comparison
    return comparison


def said(*results: Result, failures: tuple[Failure, ...] = ()) -> str:
    return written(compare_configs(results, failures))


def written(found: SweepComparison | NoComparison) -> str:
    return "\n".join([*verdict_lines(found), *Decision(found).sentences(), Decision(found).sentence])


def refused(*results: Result) -> str:
    comparison = compare_configs(results)
    assert isinstance(comparison, NoComparison)
    return comparison.why


def test_baselines_without_a_model_are_no_candidates_unless_there_is_nothing_else() -> None:
    plain, good = scored("a", noisy(0.4)), scored("b", noisy(0.6, seed=1))
    expected = replace(scored("expected", noisy(0.9, seed=2)), config={"llm": {"_target_": BASELINE}})
    assert [one.name for one in list_baselines([plain, good, expected])] == ["expected"]
    assert list_baselines([expected]) == []


# --- which is better ----------------------------------------------------------------------------------------------


def test_better_config_is_named_with_its_difference_to_the_first() -> None:
    results = scored("a", noisy(0.4)), scored("b", noisy(0.6, seed=1)), scored("c", noisy(0.4, seed=2))
    found = judged(*results)
    assert found.differences.better.tolist() == [False, True, False]
    assert found.confidence_set.mask.tolist() == [False, True, False]
    assert found.matrix.configs[found.recommendation.config or 0] == "b"
    assert found.differences.estimate[1] == pytest.approx(np.mean(noisy(0.6, seed=1) - noisy(0.4)))
    assert f"{METRIC}: better than a (the first config): b +.192 [" in said(*results)
    assert "The best is b (.59)" in said(*results)
    assert "better: b (.59 [.59, .59]) is shown better than a in ndcg: +.192 [" in said(*results)
    assert "it has the highest mean" in said(*results)


def test_two_configs_are_compared_in_one_sentence() -> None:
    worse, better = scored("worse", noisy(0.3)), scored("better", noisy(0.5, seed=1))
    assert "better is better than worse (the first config): +.192 [" in said(worse, better)
    assert "worse is worse than better (the first config): -.192 [" in said(better, worse)
    assert "twin cannot be told from worse" in said(worse, scored("twin", noisy(0.3, seed=4)))


def test_less_is_better_where_the_metric_says_so() -> None:
    slow, quick = scored("slow", noisy(0.6), direction=False), scored("quick", noisy(0.4, seed=1), direction=False)
    assert judged(slow, quick).differences.better.tolist() == [False, True]
    assert "quick is better than slow (the first config): +.2" in said(slow, quick)
    assert f"{METRIC} (less is better)" in said(slow, quick)


def test_configs_that_nobody_can_tell_apart_are_said_to_be_so_and_luck_is_told() -> None:
    found = judged(*(scored(f"x={n}", noisy(0.5, seed=n)) for n in range(2, 22)))
    told = written(found)
    assert "none of the 19 others is shown to be better than x=2 (the first config)" in told
    assert "Any of the 20 configs may be the best" in told
    assert "The highest of 20 means is" in told
    assert 0.003 < found.selection_bias.optimism < 0.03  # about 1.87 standard errors of .005
    assert found.recommendation.config is None
    assert "none: keep x=2: 100 questions cannot separate these 20 configs; the highest is x=" in told
    assert re.search(r"; about [\d,]+ questions would show a lead as large as that", told)


def test_neighbouring_values_are_a_range_that_holds_the_best() -> None:
    means = [0.4, 0.4, 0.6, 0.6, 0.6, 0.6, 0.4]
    results = [scored(f"retriever=c alpha={n / 10}", noisy(m, seed=n, spread=0.1)) for n, m in enumerate(means)]
    assert "cannot be told from 3 others: retriever=c alpha=0.2 to 0.5" in said(*results)


def test_equal_configs_are_no_winners() -> None:
    one = scored("one", noisy(0.5))
    assert SAME in said(one, replace(one, name="other"))
    assert "none: keep one: all configs have the same score on every question" in said(one, replace(one, name="other"))


def test_difference_that_is_the_same_for_every_question_is_finite_and_told() -> None:
    found = judged(scored("a", [0.5] * 40), scored("b", [0.75] * 40))
    assert (found.differences.low[1], found.differences.high[1]) == (0.25, 0.25)
    assert "b is better than a (the first config): +.250 [.250, .250]" in written(found)


def test_fewer_than_ten_questions_say_nothing() -> None:
    few = scored("a", [0.1] * 9), scored("b", [0.9] * 9)
    assert "no conclusion, there are fewer than 10 independent questions" in said(*few)
    assert "none: keep a: fewer than 10 independent questions" in said(*few)


# --- slices -------------------------------------------------------------------------------------------------------

CATEGORIES = [("how-to", "concept", "concept", "troubleshooting")[n % 4] for n in range(200)]


def test_better_on_average_and_worse_on_troubleshooting_is_said() -> None:
    change = np.where(np.array(CATEGORIES) == "troubleshooting", -0.2, 0.2)
    results = scored("a", noisy(0.5, 200), CATEGORIES), scored("b", noisy(0.5, 200, 1) + change, CATEGORIES)
    assert "b is better on average, worse on troubleshooting: -.2" in said(*results)
    assert "(50 questions)" in said(*results)


def test_a_loss_of_a_slice_that_a_rare_gain_could_undo_is_perhaps_one() -> None:
    change = np.where(np.array(CATEGORIES) == "troubleshooting", -0.01, 0.2)
    base = noisy(0.5, 200)
    told = said(scored("a", base, CATEGORIES), scored("b", base + change + noisy(0, 200, 1) / 100, CATEGORIES))
    assert "b is better on average, perhaps worse on troubleshooting: -.01" in told
    assert "(may be too short: rare losses, so this is not shown) (50 questions)" in told


def test_slice_in_which_a_worse_config_is_worse_is_not_mentioned() -> None:
    results = scored("a", noisy(0.5, 200), CATEGORIES), scored("b", noisy(0.3, 200, 1), CATEGORIES)
    assert any(part.worse[1] for part in judged(*results).slices)
    assert "better on average" not in said(*results)


def test_slices_of_the_baseline_and_the_best_are_looked_at() -> None:
    results = [scored(f"x={n}", noisy(0.2 + n / 40, 200, n), CATEGORIES) for n in range(22)]
    found = judged(*results)
    assert found.sliced == (0, *range(21, 2, -1))
    assert {len(one.estimate) for one in found.slices} == {20}
    assert len(found.differences.estimate) == 22


# --- what is compared ---------------------------------------------------------------------------------------------


def test_reason_is_given_where_nothing_is_compared() -> None:
    assert "one config" in refused(scored("a", noisy(0.5)))
    assert "different questions" in refused(scored("a", noisy(0.4)), scored("b", noisy(0.6), golden="h"))
    undirected = scored("a", noisy(0.4), direction=None), scored("b", noisy(0.6), direction=None)
    assert refused(*undirected) == f"{METRIC} is not compared: neither more nor less of it is better"
    first, second = noisy(0.4), noisy(0.4)
    first[:50] = second[50:] = math.nan
    assert "no question was scored" in refused(scored("a", first), scored("b", second))
    assert "no config was evaluated" in refused(scored("a", noisy(0.5), state="DROPPED"))
    both = [partial(scored(name, noisy(0.5)), METRIC) for name in "ab"]
    assert f"{METRIC} is not compared: too few of its questions could be scored" in refused(*both)


def partial(result: Result, *metrics: str) -> Result:
    """Let too many questions of some metrics have failed, of all that were measured."""
    broken = {name: replace(result.summaries[name], coverage=11 / 12) for name in metrics}
    config = {**result.config, "coverage": 0.98}
    return replace(result, summaries={**result.summaries, **broken}, config=config, state="PARTIAL")


def test_configs_are_compared_by_what_is_complete_though_another_metric_is_not() -> None:
    costs = [{"faithfulness": 0.5, "cost_per_1000": 2.0}, {"faithfulness": 0.6, "cost_per_1000": 1.0}]
    results = [scored("a", noisy(0.4), **costs[0]), scored("b", noisy(0.6, seed=1), **costs[1])]
    whole = judged(*results)
    found = judged(*(partial(result, "faithfulness") for result in results))
    assert found.matrix.configs == ("a", "b")
    assert found.differences.better.tolist() == whole.differences.better.tolist() == [False, True]
    assert set(found.others) == set(whole.others) - {"faithfulness"}
    assert "too few of its questions" in found.skipped["faithfulness"]
    one = judged(results[0], partial(results[1], "faithfulness", "cost_per_1000"))
    assert "faithfulness" in one.skipped
    assert np.isnan(one.costs["cost_per_1000"]).tolist() == [False, True]


def test_first_complete_headline_metric_stands_in_for_an_objective_that_is_not() -> None:
    results = [
        partial(scored(name, noisy(0.4), config={"objective": "faithfulness"}, faithfulness=value), "faithfulness")
        for name, value in (("a", 0.5), ("b", 0.6))
    ]
    found = judged(*results)
    assert found.metric == METRIC
    assert "not by faithfulness: too few of its questions could be scored" in said(*results)


def test_partial_failed_and_unmeasured_configs_are_left_out_and_named() -> None:
    results = (
        partial(scored("broken", noisy(0.9)), METRIC),
        scored("a", noisy(0.4)),
        scored("b", noisy(0.6, seed=1)),
        scored("void", [math.nan] * 100),
    )
    found = judged(*results, failures=(Failure("crashed", (), {}, "error"),))
    assert found.matrix.configs == ("a", "b")
    assert {tuple(one) for one in found.left_out} == {
        ("broken", "PARTIAL"), ("crashed", "failed"), ("void", "not measured")
    }  # fmt: skip
    told = said(*results, failures=(Failure("crashed", (), {}, "error"),))
    assert "better than a (the first that is compared)" in told
    assert "Compared: without 1 PARTIAL (broken); without 1 failed (crashed); without 1 not measured (void)" in told


def test_only_questions_that_all_were_scored_on_are_compared_and_counted() -> None:
    some = noisy(0.6, seed=1)
    some[:30] = math.nan
    found = judged(scored("a", noisy(0.4)), scored("b", some))
    assert (len(found.matrix.questions), found.matrix.asked, found.matrix.coverage) == (70, 100, 0.7)
    assert "Compared: 70 of 100 scored questions" in said(scored("a", noisy(0.4)), scored("b", some))


def test_quantile_is_not_compared_and_the_first_headline_metric_stands_in() -> None:
    """The value of a quantile is not the mean of its column: nothing paired can be said of it."""
    config = {"objective": "latency_p95_ms", "headline": ["latency_p95_ms", METRIC]}
    results = [
        scored(name, noisy(mean, seed=seed), config=config) for name, mean, seed in (("a", 0.4, 0), ("b", 0.6, 1))
    ]
    column = np.linspace(1, 100, 100)
    for result in results:
        slow = replace(result.summaries[METRIC], name="latency_p95_ms", value=95.0, unit="ms", higher_is_better=False)
        result.summaries["latency_p95_ms"] = slow  # type: ignore[index]
        result.outcomes["latency_p95_ms"] = column.tolist()  # type: ignore[index]
    found = judged(*results)
    assert found.metric == METRIC
    assert found.skipped == {"latency_p95_ms": "it is no mean over questions"}
    assert "not by latency_p95_ms: it is no mean over questions" in said(*results)


def test_objective_that_not_every_config_has_is_stood_in_for() -> None:
    config = {"objective": "faithfulness", "headline": [METRIC]}
    results = scored("a", noisy(0.4), config=config), scored("b", noisy(0.6, seed=1), config=config)
    assert judged(*results).metric == METRIC
    assert "not by faithfulness: it was not measured of every config" in said(*results)


def test_headline_metrics_are_compared_too() -> None:
    results = scored("a", noisy(0.4), context_tokens=500.0), scored("b", noisy(0.6, seed=1), context_tokens=900.0)
    matrix, found = judged(*results).others["context_tokens"]
    assert matrix.metric == "context_tokens"
    assert found.estimate.tolist() == [0.0, 400.0]
    assert found.worse.tolist() == [False, True]


# --- what to ship -------------------------------------------------------------------------------------------------


def costly(**limits: float) -> list[Result]:
    config = {"constraints": {"latency_p95_ms": None, **limits}}
    rows = [("a", 0.3, 0, 100.0, 10.0), ("b", 0.6, 1, 900.0, 300.0), ("c", 0.59, 2, 500.0, 900.0)]
    return [
        scored(name, noisy(mean, seed=seed, spread=0.1), config=config, context_tokens=tokens, latency_p95_ms=slow)
        for name, mean, seed, tokens, slow in rows
    ]


def test_highest_mean_within_the_limits_is_recommended_with_its_difference_from_the_highest() -> None:
    assert result_facts(compare_configs(costly()))["recommended"] == "b"
    found = result_facts(compare_configs(costly(latency_p95_ms=800)))
    assert (found["kind"], found["recommended"], found["limits"]) == ("better", "b", {"latency_p95_ms": 800})
    assert "none: keep a: it has the highest mean within latency_p95_ms 200" in said(*costly(latency_p95_ms=200))
    assert "none: keep a: no config is known to be within latency_p95_ms 2" in said(*costly(latency_p95_ms=2))


def twins(cheap: float = 0.5, margin: float | None = None) -> list[Result]:
    config = {"recommend": {"margin": margin}}
    rows = [("today", 0.5, 0, 900.0), ("cheap", cheap, 1, 100.0), ("best", 0.51, 2, 900.0)]
    return [
        scored(name, noisy(mean, 300, seed), config=config, context_tokens=tokens) for name, mean, seed, tokens in rows
    ]


def test_cheaper_config_that_is_shown_as_good_is_recommended_with_the_margin_and_both_costs() -> None:
    found = result_facts(compare_configs(twins()))
    assert (found["kind"], found["recommended"], found["best"]) == ("as_good_and_cheaper", "cheap", "best")
    assert (found["margin"], found["cost"]) == (0.05, "context_tokens")
    assert -0.05 < found["from_best"]["low"] < found["from_best"]["estimate"] < 0
    assert found["from_baseline"]["low"] < found["from_baseline"]["estimate"] < found["from_baseline"]["high"]
    assert found["figures"]["context_tokens"]["value"] == 100
    told = said(*twins())
    assert "as good and cheaper: cheap (.4" in told
    assert "worse than the best, best (margin .050); 100 context tokens against 900, -800 [-800, -800]; from" in told


def test_margin_is_the_users_choice() -> None:
    assert result_facts(compare_configs(twins(margin=0.001)))["kind"] == "none"
    assert result_facts(compare_configs(twins(0.45)))["kind"] == "none"
    assert result_facts(compare_configs(twins(0.45, margin=0.1)))["recommended"] == "cheap"


def test_default_margin_of_a_metric_with_a_unit_is_a_share_of_the_baseline() -> None:
    slow = scored("slow", 400 * noisy(0.5), direction=False)
    found = compare_configs([replace(one, summaries={METRIC: replace(one.summaries[METRIC], unit="ms")})
                   for one in (slow, replace(slow, name="other"))])  # fmt: skip
    assert result_facts(found)["margin"] == pytest.approx(0.05)


def priced(spread: float, ratio: float, questions: int = 100, seed: int = 0) -> list[Result]:
    """Two configs as good as each other; what an answer costs varies as widely as given (sd of the logarithm)."""
    generator = np.random.default_rng(seed)
    money = np.exp(generator.normal(0, spread, (2, questions))) * np.array([[1], [ratio]])
    results = []
    for n, row in enumerate(money):
        one = scored("ab"[n], noisy(0.5, questions, n, 0.02), cost_per_1000=1.0)
        summary = replace(one.summaries["cost_per_1000"], value=float(row.mean()), unit="EUR")
        results.append(replace(one, summaries={**one.summaries, "cost_per_1000": summary},
                               outcomes={**one.outcomes, "cost_per_1000": row.tolist()}))  # fmt: skip
    return results


def test_config_is_called_cheaper_only_where_the_interval_of_the_ratio_excludes_1() -> None:
    """Of equal long-tailed costs one mean is often lower by a tenth: that is no saving."""
    lucky = next(
        results
        for seed in range(50)
        for results in [priced(1.5, 1.0, seed=seed)]
        if results[1].summaries["cost_per_1000"].value < 0.8 * results[0].summaries["cost_per_1000"].value
    )
    told = said(*lucky)
    assert result_facts(compare_configs(lucky))["kind"] == "none"
    assert re.search(
        r"whether b is cheaper cannot be told: money for 1,000 questions, x [\d.]+ \[\d?\.\d+, 1\.\d+\]", told
    )
    cheap = priced(1.0, 0.3)
    assert result_facts(compare_configs(cheap))["recommended"] == "b"
    assert re.search(r"money for 1,000 questions against [\d.]+, x 0\.\d+ \[0\.\d+, 0\.\d+\]; from a", said(*cheap))


# --- amounts ------------------------------------------------------------------------------------------------------


def amounts(*shifts: float, spread: float = 1.0, questions: int = 200, categories: bool = False) -> list[Result]:
    """Make configs whose objective is a lognormal amount, in ms."""
    generator = np.random.default_rng(3)
    shared = generator.normal(5, spread, questions)
    rows = np.exp(shared + generator.normal(0, spread / 2, (len(shifts), questions)) + np.array(shifts)[:, None])
    labels = ["even" if n % 2 else "odd" for n in range(questions)] if categories else ()
    results = [scored(f"c{n}", row, labels, direction=False) for n, row in enumerate(rows)]
    return [replace(one, summaries={METRIC: replace(one.summaries[METRIC], unit="ms")}) for one in results]


def test_one_scale_decides_everything_about_an_amount() -> None:
    """Seconds for milliseconds change no conclusion, and a config's set, slices and power are of ratios as well."""
    results = amounts(0, 0, -0.5, categories=True)
    found = judged(*results)
    seconds = [replace(one, outcomes={**one.outcomes, METRIC: (np.array(one.outcomes[METRIC]) / 1000).tolist()},
                       summaries={METRIC: replace(one.summaries[METRIC], value=one.summaries[METRIC].value / 1000,
                                                  unit="s")}) for one in results]  # fmt: skip
    other = judged(*seconds)
    assert found.differences.better.tolist() == found.may_be_best.tolist() == [False, False, True]
    assert other.probability.tolist() == pytest.approx(found.probability.tolist())
    assert other.power.typical == pytest.approx(found.power.typical)
    assert found.sliced == (0, 2, 1)
    assert [part.better.tolist() for part in found.slices] == [[False, True, False]] * 2
    told = written(found)
    assert re.search(r"a true difference of \d+ % is detected with 80 % power", told)
    assert re.search(r"better: c2 \(.*x 0\.5\d+ \[0\.\d+, 0\.\d+\]", told)


def test_one_huge_value_does_not_decide_the_set_of_an_amount() -> None:
    """It decides the mean; the set is of the typical question, as the differences are."""
    results = amounts(0, -0.5)
    column = list(results[1].outcomes[METRIC])
    column[0] *= 10_000
    slow = replace(results[1].summaries[METRIC], value=float(np.mean(column)))
    spoilt = [
        results[0],
        replace(results[1], outcomes={**results[1].outcomes, METRIC: column}, summaries={METRIC: slow}),
    ]
    found = judged(*spoilt)
    assert found.means[1] > found.means[0]
    assert found.differences.better.tolist() == found.may_be_best.tolist() == [False, True]
    assert found.selection_bias.winner == found.recommendation.best == 1
    assert found.probability[1] > 0.95


# --- what can only rise -------------------------------------------------------------------------------------------


def deeper(metric: str = "context_recall", lost: float = 0.0, height: float = 1.0) -> list[Result]:
    """Three lengths of one context: fourteen questions gain, none or one loses."""
    rows = []
    for top_k in (3, 5, 10):
        scores = np.zeros(120)
        scores[: 2 * top_k - 6] = height
        scores[-1] = 0.5 - (lost if top_k == 10 else 0)
        one = scored(f"top_k={top_k}", scores, context_tokens=150.0 * top_k, config={"top_k": top_k})
        rows.append(
            replace(
                one,
                config={**one.config, "objective": metric},
                parameters={"top_k": str(top_k)},
                summaries={**one.summaries, metric: replace(one.summaries[METRIC], name=metric)},
                outcomes={**one.outcomes, metric: one.outcomes[METRIC]},
            )
        )
    return rows


def test_lead_that_a_longer_context_gives_by_construction_is_decided_by_what_it_costs() -> None:
    found = result_facts(compare_configs(deeper()))
    assert (found["kind"], found["recommended"], found["decide_by"]) == ("none", None, ["top_k"])
    told = said(*deeper())
    assert (
        "context_recall can only rise with top_k, so it cannot decide: choose top_k by context tokens (450 to 1,500)"
        in told
    )
    assert "keep " not in told


def test_metric_that_fell_on_a_question_is_not_taken_for_one_that_can_only_rise() -> None:
    assert result_facts(compare_configs(deeper(lost=0.1)))["kind"] == "better"
    assert result_facts(compare_configs(deeper("token_f1")))["kind"] == "better"


# --- no line contradicts another ----------------------------------------------------------------------------------


@pytest.mark.nightly
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 14), st.integers(10, 60), st.floats(0.0, 0.1))
def test_config_that_is_shown_worse_than_another_cannot_be_the_best(
    seed: int, configs: int, questions: int, spread: float
) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.normal(0.5, 0.1, questions) + generator.normal(0, 0.1, (configs, questions))
    rows += generator.normal(0, spread, (configs, 1))
    found = judged(*(scored(f"x={n}", row) for n, row in enumerate(rows)))
    told = "\n".join(verdict_lines(found))
    assert found.may_be_best[found.selection_bias.winner]
    assert not (found.may_be_best & found.worse).any()
    assert found.may_be_best[0] == (not found.differences.better.any())
    if found.differences.better.any() or found.worse.any():
        assert f"all {configs} may be it" not in told
    if configs == 2:
        assert found.may_be_best[1] == ("is worse than" not in told)
    if not found.differences.better.any() and found.selection_bias.winner:
        assert "every other config is worse" not in told


# --- how it is said -----------------------------------------------------------------------------------------------


def test_uses_of_the_holdout_are_counted_in_words_and_many_configs_are_called_a_search() -> None:
    assert list(holdout_use(0)) == []
    assert [next(holdout_use(n)).split(";")[0] for n in (1, 2, 3)] == [
        "The holdout was used once", "The holdout was used twice", "The holdout was used 3 times"
    ]  # fmt: skip
    assert "no short list" not in next(holdout_use(1, 10))
    assert "11 configs are no short list: choose among them on tune" in next(holdout_use(1, 11))


@settings(max_examples=25)
@given(
    st.integers(1, 12),
    st.integers(1, 40),
    st.floats(0, 0.3),
    st.integers(0, 5),
    st.sampled_from([True, False]),
    st.integers(0, 3),
)
def test_verdict_is_a_few_sentences_without_nan_whatever_the_scores(
    configs: int, questions: int, spread: float, seed: int, direction: bool, unknown: int
) -> None:
    generator = np.random.default_rng(seed)
    scores = np.round(generator.random(questions) + spread * generator.normal(size=(configs, questions)), 1)
    scores[generator.random(scores.shape) < unknown / 10] = math.nan
    categories = [f"c{n % 3}" for n in range(questions)]
    results = [scored(f"x={n}", row, categories, direction=direction) for n, row in enumerate(scores)]
    found = compare_configs(results, [Failure("f", (), {}, "e")])
    sentences = [*Decision(found).sentences(), *verdict_lines(found)]
    assert 1 <= len(set(sentences)) <= 14
    assert all(text.endswith(".") and not text.endswith("..") for text in sentences)
    assert not any(word in text for text in sentences for word in ("nan", "inf ", "None"))
    assert Decision(found).summary(found)


def test_the_luck_of_an_adaptive_search_is_a_lower_bound() -> None:
    """Its configs were chosen by the same questions, which no fold leaves out."""
    results = [scored(f"c{n}", noisy(0.5, seed=n)) for n in range(12)]
    found = compare_configs(results)
    assert isinstance(found, SweepComparison)
    assert "expect" in next(luck(found))
    assert "at least" in next(luck(replace(found, adaptive=True)))


def test_a_lead_that_hardly_any_question_contradicts_is_withheld_with_the_reason() -> None:
    base = [0.6] * 50
    found = compare_configs([scored("a", base), scored("b", [0.65] * 20 + [0.6] * 30)])
    assert isinstance(found, SweepComparison)
    assert result_facts(found)["kind"] == "none"
    assert "nothing is claimed" in against_baseline(found)
    assert re.fullmatch(
        r"none: keep a: b is better in the mean, \+\.02\d \[\.\d+, \.\d+\],"
        " but hardly any question loses, so rare large losses may be unseen, and nothing is claimed",
        result_facts(found)["sentence"],
    )


def test_interval_that_an_unseen_loss_could_undo_carries_a_note_wherever_it_is_printed() -> None:
    """Also beside a config that is shown better, where the reason is not spelt out."""
    generator = np.random.default_rng(5)
    base = 0.4 + 0.05 * generator.random(50)
    seen = base + generator.normal(0.2, 0.2, 50)
    found = judged(
        *(scored(name, row) for name, row in (("a", base), ("b", base + np.repeat([0.01, 0], [30, 20])), ("c", seen)))
    )
    assert found.differences.exposed.tolist() == [False, True, False]
    assert found.differences.better.tolist() == [False, False, True]
    assert change(found, 1).endswith("] (may be too short: rare losses)")
    assert change(found, 2).endswith("]")
    assert "those left out may be as good" in written(found)
    files = verdict_files(found, Decision(found))
    assert b"(may be too short: rare losses)" in files["verdict/verdict.md"]


def test_config_left_out_for_a_lead_that_an_unseen_loss_could_undo_may_be_as_good() -> None:
    """Neither of the two is the baseline, which is worse than both beyond doubt."""
    worst = 0.3 + noisy(0.0, 100) * 0.2
    found = judged(scored("worst", worst), scored("b", [0.6] * 100), scored("c", [0.65] * 40 + [0.6] * 60))
    assert found.may_be_best.tolist() == [False, False, True]
    assert not found.differences.exposed.any()
    assert "The best is c (.62): every other config is worse, beyond chance.\nRare losses may be unseen" in written(
        found
    )
    seen = judged(scored("worst", worst), scored("b", [0.6] * 100), scored("c", [0.9] * 60 + [0.6] * 20 + [0.5] * 20))
    assert seen.may_be_best.tolist() == [False, False, True]
    assert not seen.losses_unseen


def test_a_longer_context_alone_can_lose_nothing_that_was_not_seen() -> None:
    """The doubt about unseen losses needs a loss that is possible: by a metric that may fall it is."""
    found, doubted = judged(*deeper()), judged(*deeper("token_f1"))
    assert not judged(*deeper(height=0.05)).losses_unseen
    assert judged(*deeper("token_f1", height=0.05)).confidence_set.exposed
    assert found.differences.better[2]
    assert rising_configs(deeper(), found.matrix) is not None
    assert rising_configs(deeper("token_f1"), doubted.matrix) is None
