"""Targets judge by the side that is better, and say what they could not judge and what chance could turn."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result, Summary, TargetResult
from ragsweep.parts.targets import Drop, Target, count_met, evaluate_targets, misses_target
from ragsweep.report.page.details import targets
from ragsweep.report.sweep_document import target_lines
from ragsweep.sweep.running.session import Session
from support import commands as configs
from support.commands import prepare
from support.results import a_result, changed

ROOT = Path(__file__).parents[2]
SHARES = st.floats(0, 1)


def measured(value: float, low: float = math.nan, high: float = math.nan, better: bool = True) -> Summary:
    return Summary("m", value, low, high, 9, 9, 0, 0, higher_is_better=better)


@pytest.mark.parametrize(
    ("value", "verdict", "band"),
    [(0.9, "pass", "good"), (0.8, "pass", "fair"), (0.7, "fail", "fair"), (0.5, "fail", "poor")],
)
def test_threshold_passes_and_bands_are_named(value: float, verdict: str, band: str) -> None:
    found = Target(0.8, good=0.85, fair=0.6, action="act").evaluate(measured(value))
    assert (found.verdict, found.band, found.action) == (verdict, band, "" if band == "good" else "act")


@pytest.mark.parametrize("better", [True, False])
def test_mean_that_misses_a_limit_only_by_rounding_reaches_it(better: bool) -> None:
    sign = 1 if better else -1
    mean = float(np.mean(np.full(20, sign * 0.7)))
    assert sign * mean < 0.7
    found = Target(sign * 0.7).evaluate(measured(mean, mean, mean, better))
    assert (found.verdict, found.band, found.sure) == ("pass", "good", True)
    assert Target(sign * 0.7001).evaluate(measured(mean, better=better)).verdict == "fail"


@given(SHARES, SHARES, SHARES)
def test_what_is_better_when_low_is_judged_as_its_mirror_image(value: float, one: float, other: float) -> None:
    fair, good = sorted((one, other))
    up = Target(good, fair=fair).evaluate(measured(value))
    down = Target(-good, fair=-fair).evaluate(measured(-value, better=False))
    assert (up.verdict, up.band) == (down.verdict, down.band)


@given(st.lists(SHARES, min_size=3, max_size=3).map(sorted), SHARES)
def test_verdict_is_sure_when_the_whole_interval_has_it(ends: list[float], threshold: float) -> None:
    low, value, high = ends
    found = Target(threshold).evaluate(measured(value, low, high))
    verdicts = {Target(threshold).evaluate(measured(end)).verdict for end in (low, high)}
    assert found.sure == (verdicts == {found.verdict})


def test_warning_is_no_failure() -> None:
    assert Target(0.05, warn=True).evaluate(measured(0.2, better=False)).verdict == "warn"


def test_drop_compares_with_a_reference_and_judges_nothing_without_one() -> None:
    assert Drop(0.2, reference=0.5).evaluate(measured(0.4)).verdict == "pass"
    assert Drop(0.2, reference=0.5).evaluate(measured(0.39)).verdict == "warn"
    assert Drop(0.2).evaluate(measured(0.1)).verdict == "not judged"
    assert Drop(0.2, reference=0.5).evaluate(measured(0.6, better=False)).verdict == "pass"
    assert Drop(0.2, reference=0.5).evaluate(measured(0.61, better=False)).verdict == "warn"


def test_what_was_not_measured_is_not_judged_and_not_counted() -> None:
    targets = {"m": Target(0.5), "other": Target(0.5), "lost": Target(0.5)}
    found = evaluate_targets(
        targets, {"m": measured(0.6), "lost": dataclasses.replace(measured(math.nan), name="lost")}
    )
    assert [(one.metric, one.verdict) for one in found] == [
        ("m", "pass"), ("other", "not judged"), ("lost", "not judged")
    ]  # fmt: skip
    assert count_met(found) == (1, 1)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["targets.enforce=maybe"], "targets.enforce: must be true or false, got 'maybe'"),
        (
            ["+targets.mrr.bands={fine:high}"],
            "targets.mrr: bands.fine, the limit of a band, must be a finite number, got 'high'",
        ),
        (["targets.top_score.share=2"], "targets.top_score: share must be above 0 and below 1, got 2"),
        (["targets.top_score.reference=nan"], "targets.top_score: reference must be a finite number or null, got nan"),
        (["targets.top_score.reference=inf"], "targets.top_score: reference must be a finite number or null, got inf"),
        (["targets.mrr.threshold=high"], "targets.mrr.threshold: must be a number, got 'high'"),
        (["targets.mrr.threshold=nan"], "targets.mrr: threshold must be a finite number, got nan"),
    ],
)
def test_target_that_means_nothing_is_refused_with_its_key(lines: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as fault:
        prepare(Session(), "targets=retrieval", *lines)
    assert said in str(fault.value)


@pytest.mark.parametrize("threshold", [0.0, 0.99])
def test_threshold_moves_as_the_hint_says_whatever_the_bands(threshold: float) -> None:
    found = (
        prepare(Session(), "targets=retrieval", f"targets.mrr.threshold={threshold}")
        .targets["mrr"]
        .evaluate(measured(0.72))
    )
    assert (found.verdict, found.band) == ("pass" if threshold == 0 else "fail", "good")


def test_bands_have_any_names_and_number() -> None:
    target = Target(0.5, bands={"top": 0.9, "fine": 0.7, "so-so": 0.5, "weak": 0.2}, below="bad", action="act")
    told = [target.evaluate(measured(value)) for value in (0.95, 0.75, 0.5, 0.3, 0.1)]
    assert [one.band for one in told] == ["top", "fine", "so-so", "weak", "bad"]
    assert [one.action for one in told] == ["", *["act"] * 4]
    less = Target(0.5, bands={"quick": 1, "slow": 3}, below="too slow")
    assert [less.evaluate(measured(value, better=False)).band for value in (0.5, 2, 4)] == ["quick", "slow", "too slow"]


def metric_names() -> set[str]:
    """Name every metric that an option of the group defines."""
    options = [yaml.safe_load(path.read_text()) for path in (ROOT / "conf" / "metrics").glob("*.yaml")]
    return {key for option in options for key, node in option.items() if isinstance(node, dict) and "_target_" in node}


@pytest.mark.parametrize("path", sorted((ROOT / "conf" / "targets").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_target_of_a_preset_names_a_metric_that_exists(path: Path) -> None:
    assert not set(yaml.safe_load(path.read_text())) - {"enforce"} - metric_names()


def result(name: str, *judged: TargetResult) -> Result:
    return a_result(name=name, targets=judged)


def missed(metric: str, **changes: Any) -> TargetResult:
    return TargetResult(
        metric, **{"verdict": "fail", "value": 0.4, "threshold": 0.8, "band": "poor", "action": "act", **changes}
    )


def test_single_config_names_each_target_that_it_misses_or_may_miss() -> None:
    fine = TargetResult("map", "pass", 0.5, 0.4, "good")
    close = TargetResult("mrr", "pass", 0.71, 0.7, "good", sure=False)
    lines = list(target_lines([result("a", missed("recall_at_10"), fine, close, TargetResult("f1", "not judged"))]))
    assert lines[0].label == "targets"
    assert (lines[0].data["met"], lines[0].data["targets"]) == (2, 3)
    assert [(line.data["metric"], line.data["verdict"], line.data["value"]) for line in lines[1:]] == [
        ("recall_at_10", "fail", 0.4),
        ("mrr", "pass", 0.71),
    ]
    assert "its interval lies on both sides of the target" in lines[2].text


def test_a_small_amount_is_not_rounded_as_a_share() -> None:
    judged = TargetResult("cost_per_1000", "fail", 0.004, 0.003, "poor", True, "", 0.002, False)
    cost = Summary("cost_per_1000", 0.004, math.nan, math.nan, 9, 9, 0, 0, "EUR", False)
    one = changed(result("a", judged), metrics={"cost_per_1000": cost})
    assert list(target_lines([one]))[1].text == "fail cost_per_1000 0.004, target 0.003, ideal 0.002 (poor)"
    (table,) = targets([one], "")
    assert table.rows == [["cost_per_1000", "0.004 fail (target 0.003, ideal 0.002 missed)"]]  # type: ignore[union-attr]


def test_configs_that_meet_the_same_share_a_line_and_the_best_stand_first() -> None:
    fine = TargetResult("map", "pass", 0.5, 0.4, "good")
    lines = list(target_lines([result("a", missed("map")), result("b", fine), result("c", missed("map"))]))
    told = [(line.data["configs"], line.data["met"], line.data["missed"]) for line in lines[1:]]
    assert told == [(1, 1, []), (2, 0, ["map"])]


def test_nothing_is_said_where_nothing_was_judged() -> None:
    assert list(target_lines([result("a"), result("b", TargetResult("m", "not judged"))])) == []


def test_missed_target_counts_only_where_targets_are_enforced_and_no_warning_does() -> None:
    poor, warned = missed("mrr"), missed("latency_p95_ms", verdict="warn")
    for enforce, judged, expected in ((True, poor, True), (False, poor, False), (True, warned, False)):
        one = changed(result("a", judged), config={"targets": {"enforce": enforce}})
        assert misses_target(one) is expected


ADVICE = {
    "lower llm.temperature": ("ragas_faithfulness",),
    "the router searches": ("router_accuracy",),
    "extend the corpus": ("success_rate", "keyword_coverage", "context_recall", "ragas_context_recall",
                         "ragas_id_based_context_recall"),
    "raise min_score": ("context_precision", "ragas_context_precision",
                                       "ragas_id_based_context_precision"),
    "lower top_k": ("context_precision", "ragas_context_precision", "ragas_id_based_context_precision"),
}  # fmt: skip


@pytest.mark.parametrize(("advice", "metrics"), ADVICE.items())
@pytest.mark.parametrize("group", ["rag", "rag_lenient"])
def test_advice_is_that_of_the_metrics_it_belongs_to_and_of_no_other(
    group: str, advice: str, metrics: tuple[str, ...]
) -> None:
    targets = {name: one for name, one in configs.composed(f"targets={group}").values["targets"].items() if one}
    missed = {
        name: Target(**{key: value for key, value in one.items() if key != "_target_"}).evaluate(worst(name))
        for name, one in targets.items()
        if isinstance(one, dict)
    }
    assert {name for name, one in missed.items() if advice in one.action} == set(metrics)


def worst(name: str) -> Summary:
    """A summary that misses every target: 0, or a latency of an hour."""
    return dataclasses.replace(measured(3_600_000.0 if name.startswith("latency") else 0.0), name=name,
                   higher_is_better=not name.startswith("latency"))  # fmt: skip


def test_advice_of_the_targets_of_retrieval() -> None:
    actions = {name: one["action"] for name, one in configs.composed("targets=retrieval").values["targets"].items()
               if isinstance(one, dict)}  # fmt: skip
    assert {name for name, action in actions.items() if "extend the corpus" in action} == {
        "recall_at_10", "hit_rate_at_5", "empty_rate"
    }  # fmt: skip
    assert {name for name, action in actions.items() if "lower top_k" in action} == {"precision_at_5"}
