"""`ragsweep power`: what a golden set can see."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from ragsweep.commands.power import power
from ragsweep.records.ledger import Ledger, Sweep
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.comparison import FIELD_OF_CASE, SweepComparison
from ragsweep.stats.inference.planning import CORRELATION
from ragsweep.stats.inference.power import estimate_power
from support import output, printed_json
from support.results import FACTS, break_constraints, changed, drawn, record, record_sweep, refuse, scored, table_rows


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, list[dict[str, Any]]]:
    found = printed_json(capsys, power, *arguments)
    return found, table_rows(found["table"])


def test_two_runs_show_what_differences_can_be_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, gains = drawn(0.5, 200), drawn(0.1, 200, 0.2, 5)
    after = [one + more for one, more in zip(before, gains, strict=True)]
    runs = record(tmp_path, scored({"ndcg": before}), scored({"ndcg": after}, parameters={"top_k": "9"}))
    found, (row,) = told(capsys, *runs, "--path", str(tmp_path))
    spread = float(np.std(gains, ddof=1))
    exact = TTestPower().solve_power(nobs=200, power=0.8, alpha=0.05) * spread
    assert row["detectable"] == pytest.approx(exact, rel=0.01)
    assert row["spread"] == pytest.approx(spread)
    needed = TTestPower().solve_power(effect_size=0.02 / spread, power=0.8, alpha=0.05)
    assert row["questions_needed"] == pytest.approx(needed, abs=2)
    assert (row["effect"], row["questions"], found["assumed_correlation"]) == (0.02, 200, None)


def test_configs_of_an_untracked_sweep_share_its_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = [scored({"ndcg": drawn(0.5, 200, seed=n)}, name=f"k={n}", parameters={"k": f"{n}"}) for n in range(4)]
    ledger = Ledger(tmp_path)
    names = tuple(one.name for one in results)
    sweep = ledger.open_sweep("f" * 32, Sweep("", "sweep", "f" * 32, ((),) * 4, names)).id
    for n, result in enumerate(results):
        ledger.write(sweep, n, result)
    found, (row,) = told(capsys, f"{sweep}#1", f"{sweep}#2", "--path", str(tmp_path))
    assert found["configs"] == 3
    (alone,) = told(capsys, f"{sweep}#1", f"{sweep}#2", "--configs", "1", "--path", str(tmp_path))[1]
    assert row["detectable"] > 1.1 * alone["detectable"]


def test_sizes_of_an_amount_have_their_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = drawn(10, spread=1), drawn(12, spread=1, seed=1)
    runs = record(tmp_path, *(scored({"latency_ms": one}, parameters={"k": f"{n}"}) for n, one in enumerate(columns)))
    for more in ([], ["--questions", "50"]):
        printed = output(capsys, power, *runs, "--effect", "0.5", "--path", str(tmp_path), *more)
        assert re.search(r"to (detect|show) 0\.50 ms: ", printed)
    assert re.search(r"shows differences of [0-9.]+ % or more", printed)


@pytest.mark.parametrize("declared", [None, "2", "record 1"])
def test_a_sweep_and_its_configs_detect_the_same_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], declared: str | None
) -> None:
    """Without a baseline, all pairs are compared; a baseline from elsewhere is one more config."""
    before = scored({"ndcg": drawn(0.5, seed=9)}, name="k=9", parameters={"k": "9"})
    record(tmp_path, before)
    config = {"baseline": declared}
    rows = {f"#{n} k={n}": drawn(0.5, seed=n) for n in range(1, 5)}
    results = [scored({"ndcg": row}, name=name, config=config) for name, row in rows.items()]
    record_sweep(tmp_path, "a" * 32, *(changed(one, name=one.name[3:]) for one in results))
    reference = {None: None, "2": results[1].name, "record 1": "record 1 k=9"}[declared]
    beside = [before.renamed(reference)] if declared == "record 1" else []
    verdict = compare_configs([*results, *beside], baseline=reference)
    assert isinstance(verdict, SweepComparison)
    (row,) = told(capsys, "aaaa#1", "aaaa#2", "--path", str(tmp_path))[1]
    expected = estimate_power(verdict.matrix.select_configs([0, 1]), level=verdict.power.level).typical
    assert row["detectable"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["not scored", "for reference", "outside the constraints", "dropped"])
def test_configs_that_the_sweep_does_not_compare_have_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """A sweep of six configs, of which it compares the first three, can show what a sweep of only these can show."""
    results = [scored({"ndcg": drawn(0.5, seed=n)}, name=f"k={n}", parameters={"k": f"{n}"}) for n in range(6)]
    record_sweep(tmp_path / "three", "a" * 32, *results[:3])
    config = {"llm": {"_target_": FIELD_OF_CASE}} if kind == "for reference" else {}
    rows = [[math.nan] * 40 if kind == "not scored" else drawn(0.5, seed=n) for n in range(3, 6)]
    state = "DROPPED" if kind == "dropped" else "COMPLETE"
    others = [
        scored({"ndcg": row}, name=f"k={n}", parameters={"k": f"{n}"}, config=config, state=state)
        for n, row in enumerate(rows, 3)
    ]
    record_sweep(tmp_path / "six", "a" * 32, *results[:3], *others)
    if kind == "outside the constraints":
        break_constraints(tmp_path / "six", 3, 4, 5)
    three, six = (told(capsys, "aaaa#1", "aaaa#2", "--path", str(tmp_path / of)) for of in ("three", "six"))
    assert six == three
    assert six[0]["configs"] == 2
    power(["aaaa#1", "aaaa#2", "--path", str(tmp_path / "six")])
    assert "among the 3 configs of the sweep" in capsys.readouterr().out


def test_what_can_be_seen_of_an_amount_is_in_per_cent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = (100 * np.exp(np.random.default_rng(0).normal(0, 1.5, 200))).tolist()
    other = (np.array(slow) * np.exp(np.random.default_rng(1).normal(0, 0.2, 200))).tolist()
    runs = record(tmp_path, scored({"latency_ms": slow}), scored({"latency_ms": other}, parameters={"a": "9"}))
    (row,) = told(capsys, *runs, "--path", str(tmp_path))[1]
    exact = TTestPower().solve_power(nobs=200, power=0.8, alpha=0.05) * row["spread"]
    assert (row["spread"], row["detectable"]) == (pytest.approx(0.2, rel=0.1), pytest.approx(np.expm1(exact), rel=0.01))


def test_with_one_run_it_is_said_what_is_assumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = drawn(0.5)
    (run,) = record(tmp_path, scored({"ndcg": scores}))
    found, (row,) = told(capsys, run, "--path", str(tmp_path))
    assert found["assumed_correlation"] == CORRELATION
    assert row["spread"] == pytest.approx(np.std(scores, ddof=1) * math.sqrt(2 * (1 - CORRELATION)))


def test_an_effect_on_an_amount_is_a_share_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = record(tmp_path, scored({"latency_ms": drawn(50)}))
    assert told(capsys, run, "--path", str(tmp_path))[1][0]["effect"] == pytest.approx(1.0)


def test_repetitions_give_the_noise_floor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, again = drawn(0.5), drawn(0.5, seed=4)
    one = scored({"ndcg": first}, parameters={"judge.replicate": "0"}, usage={"judge": {"calls": 9.0}})
    two = changed(scored({"ndcg": again}), parameters={"judge.replicate": "1"})
    runs = record(tmp_path, one, two, scored({"ndcg": drawn(0.6, seed=2)}, parameters={"top_k": "9"}))
    spread = float(np.std(np.array(again) - np.array(first), ddof=1))
    floor = 1.96 * spread / math.sqrt(40)
    path = ["--path", str(tmp_path)]
    for arguments in ([runs[0], runs[1]], [runs[0], runs[2], "--repeat", runs[1]]):
        assert told(capsys, *arguments, *path)[1][0]["noise_floor"] == pytest.approx(floor, rel=1e-3)
    assert "--repeat" in output(capsys, power, runs[0], *path)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [({"top_k": "3"}, False), ({"judge.replicate": "1"}, True), ({"llm.extra.random_seed": "7"}, True)],
)
def test_what_is_no_repetition_is_said(
    parameters: dict[str, str], said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same config without another replicate has the same scores; another config differs by more than chance."""
    one = scored(
        {"ndcg": drawn(0.5)}, parameters={"top_k": "3", "judge.replicate": "0"}, usage={"judge": {"calls": 9.0}}
    )
    other = changed(one, parameters={**one.run.parameters, "top_k": "9"})
    again = changed(one, parameters={**one.run.parameters, **parameters})
    runs = record(tmp_path, one, other, again)
    for repeat, expected in ((runs[1], False), (runs[2], said)):
        options = [runs[0], "--repeat", repeat, "--path", str(tmp_path)]
        assert ("is not a repetition" not in " ".join(output(capsys, power, *options).split())) == expected
        assert (told(capsys, *options)[0]["warnings"] == []) == expected


def test_few_questions_and_equal_scores_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = scored({"ndcg": [0.0, 1.0, 0.5]})
    same = scored({"ndcg": drawn(0.5)}, dataset=replace(FACTS, golden_digest="e" * 64))
    runs = record(tmp_path, few, same, same)
    for chosen, said in ((runs[:1], "fewer than 10"), (runs[1:], "no config differs")):
        _, (row,) = told(capsys, *chosen, "--path", str(tmp_path))
        assert (row["detectable"], row["questions_needed"]) == (None, None)
        assert said in row["note"]


def test_a_set_is_planned_before_it_is_annotated(capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["--questions", "200", "--clusters", "50", "--configs", "12", "--metric", "ndcg"]
    plan += ["--cost-per-question", "2.5"]
    found, rows = told(capsys, *plan)
    assert (found["configs"], [row["change"] for row in rows]) == (12, ["a parameter", "another retriever"])
    for row in rows:
        assert (row["metric"], row["cost"]) == ("ndcg_at_10", 500)
        assert row["cost_needed"] == 2.5 * row["questions_needed"]
        assert row["questions_needed"] == 4 * row["clusters_needed"]


def test_a_pilot_plans_by_its_own_variance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = drawn(0.5, 200), drawn(0.6, 200, seed=1)
    runs = record(tmp_path, scored({"ndcg": before}), scored({"ndcg": after}, parameters={"top_k": "9"}))
    (row,) = told(capsys, *runs, "--questions", "200", "--path", str(tmp_path))[1]
    seen = told(capsys, *runs, "--path", str(tmp_path))[1][0]["detectable"]  # simulated
    assert row["detectable"] <= seen <= 1.1 * row["detectable"]
    found, (alone,) = told(capsys, runs[0], "--questions", "40", "--path", str(tmp_path))
    assert alone["spread"] == pytest.approx(np.std(before, ddof=1) * math.sqrt(2 * (1 - CORRELATION)))
    assert found["assumed_correlation"] == CORRELATION


@pytest.mark.parametrize(("metric", "more"), [("tokens", 0), ("ndcg", 0.1)])  # + 0.1 is inexact: rounding varies
def test_a_pilot_whose_differences_do_not_vary_plans_nothing(
    metric: str, more: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = [n / 30 for n in range(1, 31)]
    pair = (scored({metric: [one + gain for one in scores]}, parameters={"k": f"{gain}"}) for gain in (0, more))
    runs = record(tmp_path, *pair)
    plan = [*runs, "--questions", "100", "--clusters", "50", "--path", str(tmp_path)]
    (row,) = told(capsys, *plan)[1]
    assert (row["detectable"], row["questions_needed"]) == (None, None)
    assert power(plan) == 0
    assert "clusters" not in capsys.readouterr().out


def test_a_plan_compares_amounts_as_their_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = 100 * np.exp(np.random.default_rng(0).normal(0, 1.5, 200))
    other = slow * np.exp(np.random.default_rng(1).normal(0, 0.2, 200))
    columns = enumerate((slow.tolist(), other.tolist()))
    runs = record(tmp_path, *(scored({"latency_ms": one}, parameters={"k": f"{n}"}) for n, one in columns))
    (seen,) = told(capsys, *runs, "--path", str(tmp_path))[1]
    (row,) = told(capsys, *runs, "--questions", "200", "--path", str(tmp_path))[1]
    assert row["spread"] == pytest.approx(seen["spread"])
    assert row["detectable"] == pytest.approx(seen["detectable"], rel=0.02)
    assert row["questions_needed"] == pytest.approx(seen["questions_needed"], rel=0.02)
    assert row["ratios"]


def test_wrong_options_are_one_clear_line(tmp_path: Path) -> None:
    one = scored({"ndcg": drawn(0.5)})
    runs = record(tmp_path, one, changed(one, dataset=replace(FACTS, corpus_digest="e" * 64)), one)
    refuse(power, {
        "--effect: must be above 0": [runs[0], "--effect", "0"],
        "invalid float": [runs[0], "--effect", "much"],
        "--configs: must be at least 1": [runs[0], "--configs", "0"],
        "one or two runs": runs,
        'did you mean "ndcg"': [runs[0], "--metric", "ndgc"],
        "specify a RUN, or --questions": [],
        "describe a plan": [runs[0], "--clusters", "20"],
        "must be at least 10, got 9": ["--questions", "200", "--clusters", "9"],
        "cannot be combined with --questions": [runs[0], "--questions", "40", "--repeat", runs[0]],
        "rebaseline": runs[:2],
    }, "--path", str(tmp_path))  # fmt: skip


def test_power_of_a_sweep_in_which_nothing_simulated_is_detected_is_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draws = np.random.default_rng(3).beta(0.3, 0.3, (6, 10)).tolist()
    results = [scored({"ndcg": one}, name=f"#{n} k={n}", parameters={"k": f"{n}"}) for n, one in enumerate(draws, 1)]
    record_sweep(tmp_path, "a" * 32, *results)
    runs = ["aaaa#1", "aaaa#2", "--path", str(tmp_path)]
    _, (row,) = told(capsys, *runs)
    assert (row["detectable"], row["note"]) == (None, "")
    assert "detects no simulated difference among the 6 configs" in " ".join(output(capsys, power, *runs).split())
