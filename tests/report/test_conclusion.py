"""The conclusion of a sweep: every kind of result, its numbers, and the same in JSON types."""

import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.results import Result
from ragsweep.report.choice import choice_statements
from ragsweep.report.conclusion_facts import result_facts
from ragsweep.report.evidence import evidence_statements
from ragsweep.report.numbers import likelihood
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.conclude import conclude
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.stats.inference.estimates import RareLosses
from support.results import METRIC, changed, noisy, one_metric

BASE, EQUAL_MEAN, BETTER = noisy(0.4), noisy(0.4, seed=2), noisy(0.6, seed=1)
A, B = one_metric("a", BASE), one_metric("b", BETTER)


def decide(*results: Result, baseline: str | None = None) -> SweepConclusion:
    return conclude(compare_configs(results, baseline=baseline))


def compared(decision: SweepConclusion) -> SweepComparison:
    assert isinstance(decision.deciding, SweepComparison)
    return decision.deciding


def facts(decision: SweepConclusion) -> dict[str, Any]:
    return json.loads(json.dumps(result_facts(decision)))


def sentence(decision: SweepConclusion) -> str:
    return " ".join(one.text for one in choice_statements(decision))


def evidence(decision: SweepConclusion) -> list[str]:
    return [one.text for one in evidence_statements(decision)]


def numbers(text: str) -> list[str]:
    return re.findall(r"[.\d]*\d", text)


def test_a_better_config_has_its_probability_gain_and_loss_against_the_baseline() -> None:
    decision = decide(A, B, baseline="a")
    against = compared(decision).choice.baseline
    assert (decision.kind, decision.chosen) == ("better", "b")
    found = facts(decision)["against_baseline"]
    assert found == {"config": "a", "probability_better": against.probability, "expected_gain": against.gain,
                     "lost_if_wrong": against.lost}  # fmt: skip
    assert f"{against.gain:.3f}"[1:] in numbers(sentence(decision))
    assert f"{likelihood(against.probability)} posterior probability" in sentence(decision)  # of one pair
    assert any("shown better b" in line for line in evidence(decision))


def test_the_measured_gain_stands_beside_the_expected_one() -> None:
    decision = decide(one_metric("a", BASE), one_metric("b", EQUAL_MEAN))
    expected, measured = compared(decision).choice.runner_up.gain, abs(BASE.mean() - EQUAL_MEAN.mean())
    assert expected < measured - 0.001  # means are shrunk towards each other
    shown = re.findall(r"expected gain (\S+) on new questions \((\S+) measured(.*?)\)", sentence(decision))
    assert shown == [(f"{expected:.3f}"[1:], f"{measured:.3f}"[1:], ", inflated by choosing the best")]
    nested = replace(compared(decision), rises_with=("top_k",))  # no score falls with top_k, so the best is known
    assert "inflated" not in sentence(conclude(nested))


def test_the_cause_of_a_lower_expected_gain_is_stated_once_if_the_highest_mean_was_chosen() -> None:
    def causes(loss: float | None, baseline: str | None, scores: dict[str, np.ndarray]) -> tuple[str | None, int, int]:
        config = {"recommend": {"margin": None, "loss": loss}}
        tokens = {"b": 900.0}
        made = [one_metric(key, one, config=config, context_tokens=tokens.get(key, 9.0)) for key, one in scores.items()]
        text = sentence(decision := decide(*made, baseline=baseline))
        return decision.chosen, text.count("expected gain"), text.count("inflated by choosing the best")

    means = {"a": BASE, "b": EQUAL_MEAN + 0.05, "c": noisy(0.43, seed=7), "d": noisy(0.3, seed=8)}
    assert causes(None, "d", means) == ("b", 2, 1)
    assert causes(None, None, means) == ("b", 1, 1)
    means["d"] = noisy(0.38, seed=8)
    assert causes(None, None, means) == ("b", 1, 0)  # the gains differ in the fourth decimal
    assert causes(0.2, "d", means) == ("c", 2, 0)  # the cheaper c has a lower mean
    rng = np.random.default_rng(27)
    shared = rng.normal(0.6, 0.25, 60)
    spreads = {"a": (0, 0.02), "b": (0.03, 0.02), "c": (0.05, 0.02), "d": (0.05, 0.4)}
    drawn = {name: shared + rng.normal(*spread, 60) for name, spread in spreads.items()}
    assert causes(None, None, drawn) == ("c", 1, 0)  # the expected gain is larger


def test_questions_about_few_documents_are_counted_where_nothing_can_be_shown() -> None:
    source = {"source": [f"document {n % 4}" for n in range(len(BASE))]}
    assert evidence(decide(changed(A, source), changed(B, source))) == [
        "No difference can be shown: fewer than 10 independent questions"
        f" ({len(BASE)} questions in 4 clusters, by document)."
    ]


@pytest.mark.parametrize(("factor", "rising", "gain"), [(0.5, False, 0.5), (2.0, True, 1.0)])
def test_gains_and_losses_of_an_amount_are_shares_of_the_other_config(factor: float, rising: bool, gain: float) -> None:
    """Half the time is a reduction by 50 %, twice the speed an increase by 100 %; no config loses all speed."""

    def amount(name: str, scores: np.ndarray) -> Result:
        return one_metric(name, scores, direction=rising, unit="x")

    near = 100 * factor * np.exp(np.random.default_rng(0).normal(0, 0.01, 100))
    clear = decide(amount("a", np.full(100, 100.0)), amount("b", near), baseline="a")
    assert facts(clear)["against_baseline"]["expected_gain"] == pytest.approx(gain, rel=0.05)
    assert float(re.findall(r"expected gain (\d+) %", sentence(clear))[0]) == pytest.approx(100 * gain, rel=0.05)
    noise = np.exp(np.random.default_rng(1).normal(0.2 if rising else -0.2, 1.5, 100))
    open_ = decide(amount("a", np.full(100, 100.0)), amount("b", 100 * noise), baseline="a")
    against, found = compared(open_).choice.runner_up, facts(open_)["against_runner_up"]
    assert against.lost > 0
    lost = 1 - math.exp(-against.lost) if rising else math.exp(against.lost) - 1
    assert found["lost_if_wrong"] == pytest.approx(lost)
    assert float(re.findall(r"worse, then by ([\d.]+) % on", sentence(open_))[-1]) == pytest.approx(
        100 * lost, rel=0.06
    )


def test_the_baseline_is_kept_where_no_config_is_expected_to_be_better() -> None:
    decision = decide(one_metric("a", BETTER), one_metric("b", BASE), baseline="a")
    assert (decision.kind, decision.chosen, facts(decision)["against_baseline"]) == ("keep", "a", None)
    assert sentence(decision).startswith("Keep a")
    assert any("shown worse b" in line for line in evidence(decision))


@pytest.mark.parametrize(
    ("score", "ending"),
    [(0.0, "score .00 on every question. Before comparing them again,"), (0.5, "have the same score on every")],
)
def test_equal_scores_do_not_decide_and_a_floor_is_named(score: float, ending: str) -> None:
    same = np.full(len(BASE), score)
    said = sentence(decide(one_metric("a", same), one_metric("b", same)))
    assert f"{METRIC} cannot decide, because both configs {ending}" in said


def with_tokens(one: Result, tokens: np.ndarray) -> Result:
    mean = {"value": float(tokens.mean())}
    return changed(one, {"context_tokens": tokens.tolist()}, measured={"context_tokens": mean})


def test_a_cost_is_stated_in_its_currency() -> None:
    same = [one_metric(name, BASE, cost_per_1000=cost) for name, cost in (("a", 2.0), ("b", 1.0))]
    priced = [changed(one, measured={"cost_per_1000": {"unit": "EUR"}}) for one in same]
    assert "the cheapest, with a cost of 1.0 EUR per 1,000 questions" in sentence(decide(*priced))
    both = "as a, with a cost of 1.0 EUR per 1,000 questions instead of 2.0 EUR."
    assert both in sentence(
        decide(
            *priced,
            changed(one_metric("c", BASE - 0.1, cost_per_1000=3.0), measured={"cost_per_1000": {"unit": "EUR"}}),
        )
    )


@pytest.mark.parametrize("baseline", [None, "a"])
@pytest.mark.parametrize("known", [False, True])
def test_of_equal_scores_the_choice_is_called_the_cheapest_only_if_it_is(known: bool, baseline: str | None) -> None:
    """A cost that is lower by 15 % on average may be so by chance, or on every question."""
    spread = np.random.default_rng(0).exponential(1.0, (2, len(BASE)))
    costs = spread / spread.mean(axis=1, keepdims=True) * [[1000.0], [850.0]]
    costs[1] = costs[0] * 0.85 if known else costs[1]
    same = [one_metric(name, BASE, context_tokens=1.0) for name in "ab"]
    decision = decide(*map(with_tokens, same, costs), baseline=baseline)
    cheapest = baseline is None or known  # without a baseline, the mean cost decides between equal means
    assert decision.chosen == ("b" if cheapest else "a")
    said = sentence(decision)
    assert ("the cheapest, with 850 context tokens" in said) == known
    assert ("no config is shown to be cheaper" in said) != known
    assert said.startswith("Keep a, the baseline: no config") == (not cheapest)


@pytest.mark.parametrize(("slow", "rival_ms"), [(1.0, 300.0), (1.0, 20.0), (3.0, 300.0)])
def test_a_latency_is_compared_with_that_of_the_named_config_and_a_busy_machine_is_marked(
    slow: float, rival_ms: float
) -> None:
    """That of a runner-up which is about as fast is not mentioned. Load makes a ratio of latencies meaningless."""
    work = {"work_mean_ms": slow, "work_p95_ms": slow, "work_quiet_ms": 1.0}
    base, choice, rival = (
        changed(
            one_metric(name, scores, latency_p95_ms=ms), latency={"retrieve": {"mean_ms": ms, "p95_ms": ms, **work}}
        )
        for name, scores, ms in (("a", BASE, 2.0), ("b", BETTER, 400.0), ("c", BETTER - 0.01, rival_ms))
    )
    said = sentence(decide(base, choice, rival, baseline="a"))
    assert "Against the runner-up, c, it is" in said
    mark = "measured while the machine was busy" if slow > 2 else "x 200"
    assert f"Against the baseline, it has a latency of 400 ms at p95 instead of 2.0 ms ({mark})." in said
    assert ("Against the runner-up, it has a latency of 400 ms at p95 instead of 20 ms (x 20)." in said) == (
        rival_ms < 300
    )
    assert said.count("it has a latency of") == 1 + (rival_ms < 300)


@pytest.mark.parametrize(("ms", "mentioned"), [(60.0, False), (80.0, False), (93.0, True), (40.0, False), (2.0, True)])
def test_a_choice_that_is_slower_by_less_than_the_machine_varies_is_stated_as_uncertain(
    ms: float, mentioned: bool
) -> None:
    """A difference in the choice's favour, or a small one, is mentioned only if it is beyond the variation."""
    work = {"work_mean_ms": 1.0, "work_p95_ms": 1.0, "work_quiet_ms": 1.0}
    rival, choice = (
        changed(
            one_metric(name, scores, latency_p95_ms=p95 / 2),  # the summary is a quantile, not the mean of the column
            measured={"latency_p95_ms": {"value": p95, "low": p95, "high": p95}},
            latency={"retrieve": {"mean_ms": p95 / 2, "p95_ms": p95, **work}},
        )
        for name, scores, p95 in (("a", BASE, 60.0), ("b", BETTER, ms))
    )
    said = sentence(decide(rival, choice))
    assert ("it has a latency of" in said) == mentioned
    uncertain = "a latency of 93 ms at p95 instead of 60 ms (x 1.6, not certain: the speed of the machine varies)."
    assert (uncertain in said) == (ms == 93)


def test_a_baseline_is_not_kept_for_want_of_a_cheaper_config_where_it_is_the_cheaper() -> None:
    results = [one_metric("a", BASE, context_tokens=100.0), one_metric("b", BASE + 0.002, context_tokens=900.0)]
    said = sentence(decide(*results, baseline="a"))
    assert said.startswith("Keep a, the baseline: it is shown to be cheaper than the best config (")


@pytest.mark.parametrize("gain", [0.0, 0.002])
def test_a_choice_that_is_only_cheaper_than_the_baseline_is_called_cheaper(gain: float) -> None:
    better = BASE + gain + np.random.default_rng(2).normal(0, 0.05, len(BASE)) * (gain > 0)
    results = [
        one_metric("a", BASE, context_tokens=100.0),
        one_metric("b", better - (better.mean() - BASE.mean() - gain), context_tokens=80.0),
        one_metric("c", BASE - 0.3, context_tokens=100.0),
    ]
    decision = decide(*results, baseline="a")
    assert decision.chosen == "b"
    said = sentence(decision)
    assert "but it is shown to be cheaper" in said
    assert (
        ("the same score on every question" in said) == ("probability" not in said.partition("shown")[0]) == (gain == 0)
    )


def test_a_choice_that_is_cheaper_than_configs_with_its_scores_is_so_called() -> None:
    rows = ("a", BASE, 100.0), ("b", BETTER, 900.0), ("c", BETTER, 500.0), ("d", BETTER, 700.0)
    decision = decide(*(one_metric(name, row, context_tokens=cost) for name, row, cost in rows))
    assert decision.chosen == "c"
    same = "It has the same score on every question as d, with 500 context tokens instead of 700."
    assert same in sentence(decision)
    declared = decide(*(one_metric(name, row, context_tokens=cost) for name, row, cost in rows[:3]), baseline="b")
    assert "same score on every question as" not in sentence(declared)  # the headline compares with the baseline
    costs_as_much = decide(*(one_metric(name, row, context_tokens=500.0) for name, row, _ in rows))
    assert "same score" not in sentence(costs_as_much)


@pytest.mark.parametrize("tokens", [100.0, 900.0])
@pytest.mark.parametrize("baseline", [None, "a"])
def test_the_config_that_leads_is_no_runner_up(tokens: float, baseline: str | None) -> None:
    """A choice may have a lower expected mean than another config: it is the baseline, or costs less."""
    ahead = BASE + np.tile([0.033, -0.027], len(BASE) // 2)
    rows = ("a", BASE, tokens), ("b", ahead, 900.0), ("c", BASE - 0.1, 900.0)
    decision = decide(*(one_metric(name, row, context_tokens=cost) for name, row, cost in rows), baseline=baseline)
    lead = "runner-up" if decision.chosen == facts(decision)["best"] else "best config"
    assert lead == ("best config" if tokens < 900 or baseline else "runner-up")
    assert f"Against the {lead}, {'b' if decision.chosen == 'a' else 'a'}, it is" in sentence(decision)


@pytest.mark.parametrize("limits", [{}, {"cost_per_1000": 1}])
def test_choice_by_another_metric_than_the_objective_has_the_reason_in_it(limits: dict[str, float]) -> None:
    config = {"objective": "faithfulness", "headline": [METRIC], "constraints": limits}
    costs = {"cost_per_1000": 2.0}
    results = one_metric("a", BASE, config=config, **costs), one_metric("b", BETTER, config=config, **costs)
    decision = decide(*results)
    assert decision.chosen == (None if limits else "b")
    why = f"it was not measured for every config; {METRIC} replaces it"
    assert f"The objective, faithfulness, does not decide: {why}." in sentence(decision)
    assert "does not decide" not in sentence(decide(A, B))


def test_a_lead_that_is_not_enough_is_open_and_has_the_questions_that_would_show_it() -> None:
    rng = np.random.default_rng(3)
    base = rng.random(60)
    other = np.clip(base + rng.normal(0.02, 0.2, 60), 0, 1)
    decision = decide(one_metric("a", base), one_metric("b", other), baseline="a")
    against = compared(decision).choice.baseline
    assert (decision.kind, decision.chosen) == ("open", "b")
    assert 0.5 < against.probability < 0.9
    assert f"{likelihood(against.probability)} posterior probability" in sentence(decision)  # of one pair
    needed = [line for line in evidence(decision) if "takes about" in line]
    assert [int(numbers(line.replace(",", ""))[-1]) > 60 for line in needed] == [True]


def test_a_choice_with_a_lower_mean_has_no_lead_that_more_questions_would_show() -> None:
    behind = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        base = rng.normal(0.6, 0.25, 100)
        others = [one_metric(name, base + rng.normal(0, 0.2, 100)) for name in "bcdef"]
        decision = decide(one_metric("a", base), *others, baseline="a")
        found, over = compared(decision), decision.evidence.over
        against = found.choice.runner_up
        assert found.choice.row is not None
        assert against is not None
        behind += found.ranked[found.choice.row] < found.ranked[against.row]
        assert over is None or found.ranked[found.choice.row] > found.ranked[over]
        assert any("takes about" in line for line in evidence(decision)) == (over is not None)
    assert behind


def test_without_a_baseline_there_is_a_choice_whatever_the_order() -> None:
    results = [A, B, one_metric("c", EQUAL_MEAN)]
    for some in (results, results[::-1]):
        decision = decide(*some)
        found = facts(decision)
        assert (decision.kind, decision.chosen, found["baseline"], found["reference"]) == ("choice", "b", None, "b")
        assert "Keep" not in sentence(decision)
        assert any("shown worse" in line for line in evidence(decision))


@given(st.permutations(range(4)))
def test_no_word_of_the_conclusion_depends_on_the_order_of_configs(order: list[int]) -> None:
    results = [one_metric("abcd"[n], noisy(mean, seed=n)) for n, mean in enumerate((0.4, 0.42, 0.41, 0.43))]
    first, other = decide(*results), decide(*(results[n] for n in order))
    assert (other.kind, other.chosen) == (first.kind, first.chosen)
    assert numbers(sentence(other))[0] == numbers(sentence(first))[0]
    rows = map(compared(other).matrix.configs.index, "abcd")
    assert [compared(other).verdicts[row].kind for row in rows] == [one.kind for one in compared(first).verdicts]


@pytest.mark.parametrize("baseline", [None, "a"])
def test_equal_configs_are_so_called_and_nothing_is_shown(baseline: str | None) -> None:
    decision = decide(A, one_metric("b", BASE), one_metric("c", BASE), baseline=baseline)
    assert decision.chosen is not None
    assert "3 configs" in sentence(decision)
    assert list(evidence(decision)) == []


def test_rare_losses_that_are_not_excluded_are_a_caveat_with_numbers() -> None:
    decision = decide(A, B, baseline="a")
    verdict = compared(decision)
    losses = RareLosses(size=0.5, share=0.07, seen=0, questions=36, survives=False)
    doubted = conclude(replace(verdict, choice=replace(verdict.choice, losses=losses)))
    assert (doubted.kind, doubted.chosen) == ("open", "b")
    assert numbers(list(evidence(doubted))[-1]) == [".50", "7", "0", "36"]
    assert facts(doubted)["rare_losses"]["share"] == 0.07
    excluded = conclude(replace(verdict, choice=replace(verdict.choice, losses=replace(losses, survives=True))))
    assert excluded.kind == "better"
    assert list(evidence(excluded)) == list(evidence(decision))


def test_rare_losses_are_no_doubt_where_the_baseline_has_nothing_to_lose() -> None:
    """The interval of five hits in twenty questions excludes 0, but their probability is below 90 %."""
    hits, misses = np.repeat([1.0, 0.0], [5, 15]), np.zeros(20)
    decision = decide(*(one_metric(*one) for one in (("a", misses), ("b", hits), ("c", misses))), baseline="a")
    found = compared(decision)
    assert (found.verdicts[1].kind, found.choice.losses.survives) == ("likely better", True)
    assert found.verdicts[1].probability < 0.9
    assert "; not enough to call it better." in sentence(decision)
    assert "rare" not in sentence(decision)


@pytest.mark.parametrize(("rising", "share"), [(True, 0.75), (False, 3.0)])
def test_a_rare_loss_of_an_amount_is_a_share(rising: bool, share: float) -> None:
    """The logarithm of a fourfold amount is no number in its unit: speed falls by 75 %, time rises by 300 %."""
    found = [one_metric(name, np.exp(row), direction=rising, unit="x") for name, row in (("a", BASE), ("b", BETTER))]
    verdict = compared(decide(*(found if rising else found[::-1]), baseline="a" if rising else "b"))
    losses = RareLosses(size=math.log(4), share=0.07, seen=0, questions=36, survives=False)
    doubted = conclude(replace(verdict, choice=replace(verdict.choice, losses=losses)))
    assert f"Losses of {100 * share:.0f} % on up to 7 % of questions" in evidence(doubted)[-1]
    assert facts(doubted)["rare_losses"]["size"] == pytest.approx(share)


def test_the_baseline_is_kept_for_the_doubt_about_the_best_even_if_another_config_is_shown_better() -> None:
    """The best mean is .004 above the baseline's with much noise, another one .003 with little."""
    noise = np.random.default_rng(0).normal(0, [[0.1], [0.005]], (2, len(BASE)))
    rows = BASE + noise - noise.mean(axis=1, keepdims=True) + [[0.004], [0.003]]
    decision = decide(A, one_metric("b", rows[0]), one_metric("c", rows[1]), baseline="a")
    assert compared(decision).verdicts[2].kind == "shown better"
    kept = "it loses less than .005 on average against the best config, b, which is neither better with more than 90 %"
    assert f"Keep a, the baseline: {kept} probability nor shown to be cheaper (" in sentence(decision)


def test_no_config_within_the_limits_is_no_choice() -> None:
    limited = {"constraints": {"context_tokens": 1_048_576}}
    results = [one_metric(name, row, context_tokens=2e6, config=limited) for name, row in (("a", BASE), ("b", BETTER))]
    decision = decide(*results)
    assert (decision.kind, decision.chosen, facts(decision)["best"]) == ("none", None, "b")
    assert "context_tokens 1048576" in sentence(decision)


@pytest.mark.parametrize("tokens", [900.0, 100.0])
def test_a_baseline_beyond_the_limits_is_so_called(tokens: float) -> None:
    limited = {"constraints": {"context_tokens": 500}}
    results = [("a", BETTER, tokens), ("b", BASE, 100.0), ("c", BETTER + 0.1, 100.0)]
    base, worse, better = (one_metric(name, row, context_tokens=cost, config=limited) for name, row, cost in results)
    decision = decide(base, worse if tokens > 500 else better, baseline="a")
    assert decision.chosen == ("b" if tokens > 500 else "c")
    assert ("a, the baseline, which is not known to be within context_tokens 500, " in sentence(decision)) == (
        tokens > 500
    )


def test_what_cannot_be_compared_is_no_choice_with_a_reason() -> None:
    decision = decide(A)
    empty = {"kind": "none", "choice": None, "evidence": [], "where": ""}
    assert facts(decision) == {**empty, "sentence": sentence(decision)}


@pytest.mark.parametrize(("gain", "loses"), [(0.0001, "it loses .0"), (0.0049, "it loses almost .005, with ")])
def test_a_cheaper_choice_has_its_saving_and_what_it_loses(gain: float, loses: str) -> None:
    near = noisy(0.4) + np.random.default_rng(8).normal(0, 0.0004, 100)
    decision = decide(
        one_metric("dear", near + gain, context_tokens=900.0), one_metric("cheap", BASE, context_tokens=100.0)
    )
    assert "that lose less than .005 on average" in sentence(decision)
    assert loses in sentence(decision)
    found = facts(decision)
    assert (decision.chosen, found["best"], found["cost"]) == ("cheap", "dear", "context_tokens")
    assert {"100", "900"} <= set(numbers(sentence(decision)))
    assert found["against_best"]["config"] == "dear"


@pytest.mark.parametrize(
    ("probability", "text"), [(0.5, "50 %"), (0.714, "71 %"), (0.994, "99.4 %"), (0.9995, "more than 99.9 %")]
)
def test_probabilities_have_as_many_digits_as_they_need(probability: float, text: str) -> None:
    assert likelihood(probability) == text


@given(st.floats(0, 1))
def test_no_probability_is_written_as_certain(probability: float) -> None:
    assert "100" not in likelihood(probability)
    assert math.isfinite(float(numbers(likelihood(probability))[0]))
