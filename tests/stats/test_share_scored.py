"""The share of scored questions among those to which a metric applies, and what completes a result."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragsweep.core.missing import (
    ABSTAINED,
    BUDGET_SPENT,
    FILTERED,
    MALFORMED,
    NO_CITATIONS,
    NO_EVIDENCE,
    SYSTEM_RAISED,
    TIMED_OUT,
    TRUNCATED,
    remedy,
)
from ragsweep.core.results import Summary, incomplete
from ragsweep.core.types import Scores
from ragsweep.parts.metrics.bases import Proportion
from ragsweep.stats.summaries import collect_scores


class Metric(Proportion):
    name = "m"

    def score(self, view: Any) -> Scores:
        raise NotImplementedError


def coverage(scored: int, lost: int, reason: str, unanswered: bool, *others: str) -> float:
    """Return the coverage of so many scores, failures, and questions without a score for other reasons."""
    reasons = ["", *[""] * (scored - 1)] if scored else []
    reasons += [reason] * lost + list(others)
    values = np.where(np.array(reasons) == "", 1.0, math.nan)
    gone = np.array([one == reason and unanswered for one in reasons])
    table = collect_scores([Metric()], {"m": Scores(values, np.array(reasons, dtype=np.str_))}, None, gone)
    return table.summarise()["m"].coverage


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((59, 1, FILTERED, True), 59 / 60),
        ((0, 60, FILTERED, True), 0.0),
        ((0, 1, FILTERED, True, *[NO_CITATIONS] * 59), 1.0),  # it applies to none of the answers
        ((0, 0, FILTERED, True, *[NO_CITATIONS] * 60), 1.0),
        ((1, 1, FILTERED, True, *[NO_CITATIONS] * 58), 1 / (1 + 1 / 59)),
        ((5, 5, MALFORMED, False, *[ABSTAINED] * 50), 0.5),  # the answers are there: it applies to all ten
        ((30, 10, FILTERED, True, *[NO_EVIDENCE] * 20), 0.75),
    ],
)
def test_coverage_is_of_the_questions_to_which_the_metric_applies(given: tuple[Any, ...], expected: float) -> None:
    assert coverage(*given) == pytest.approx(expected)


def test_only_metrics_that_decide_or_are_shown_make_a_result_incomplete() -> None:
    known = Summary("goal", 1.0, 1.0, 1.0, 60, 60, 0, 0)
    few = replace(known, coverage=0.5)
    summaries = {name: replace(few, name=name) for name in ("shown", "answers", "target", "cost", "other")}
    config = {"objective": "goal", "headline": ["shown"], "answer_headline": ["answers"], "constraints": {"cost": 1}}
    found = incomplete({"goal": known, **summaries}, config, ["target"], 0.98)
    assert [one.name for one in found] == ["shown", "answers", "target", "cost"]
    assert incomplete({"goal": known, "other": few}, config, [], 0.98) == []


def test_advice_follows_whether_another_run_can_help() -> None:
    assert remedy([TIMED_OUT], [], 0.9) == "run it again: only failed calls are repeated"
    assert remedy([BUDGET_SPENT], [], 0.9) == "run it again with a budget above 0: only failed calls are repeated"
    assert remedy([FILTERED, NO_CITATIONS], [FILTERED], 59 / 60) == (
        "an identical call would fail again (filtered): set coverage=0.98 to accept the missing scores"
    )
    both = remedy([TRUNCATED, TIMED_OUT], [TRUNCATED, TIMED_OUT], 0.5)
    assert "run it again" in both
    assert "(truncated): raise max_tokens of the llm, router, judge or system.body, or set coverage=0.5 to " in both
    again, correct = remedy([SYSTEM_RAISED], [SYSTEM_RAISED], 0.5).split("; ")
    assert again == "run it again: only failed calls are repeated"
    assert "returns an invalid value again, correct the function: the log file" in correct
    assert remedy(["too odd"], [], 0.5).startswith(
        "correct the metric: a missing score counts as a failed measurement if the metric raises an error, gives no"
    )
