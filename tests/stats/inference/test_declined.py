"""Declined answers: the worst score takes the place of one that is missing because of the config."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.commands.gate import gate
from ragsweep.core.missing import ABSTAINED, NO_REFERENCE, NOTHING_RETRIEVED, NOTHING_SAID, TIMED_OUT
from ragsweep.core.results import Result
from ragsweep.stats.human_labels import RunLabels, correct_difference, correct_mean, match_labels
from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.matrix import score_matrix
from support.inputs.human_labels import M, answered, label
from support.results import changed, record, scored

NAN = math.nan


def config(name: str, scores: list[float], reasons: dict[int, str] | None = None, **changes: Any) -> Result:
    """Make a result of answers' scores; the reasons are by question."""
    made = scored({M: scores}, name=name, signature=name, **changes)
    unscored = [json.dumps({M: (reasons or {})[n]} if n in (reasons or {}) else {}) for n in range(len(scores))]
    return changed(made, {"unscored": unscored})


@pytest.mark.parametrize("reason", [ABSTAINED, NOTHING_SAID, NOTHING_RETRIEVED])
def test_a_question_that_one_config_declined_has_its_worst_score(reason: str) -> None:
    one, other = config("a", [0.9, 0.8, 0.7]), config("b", [0.6, NAN, 0.5], {1: reason})
    found = score_matrix([one, other], M)
    assert found.values.tolist() == [[0.9, 0.8, 0.7], [0.6, 0.0, 0.5]]
    assert found.declines == (0, 1)
    assert found.declined_note == "declined or nothing to measure, counted as the worst score: 1 of b"
    assert found.select_configs([1, 0]).declines == (1, 0)
    assert found.select_questions(np.array([True, False, True])).declines == (0, 0)
    less = [changed(result, measured={M: {"higher_is_better": False}}) for result in (one, other)]
    assert score_matrix(less, M).values[1].tolist() == [0.6, 1.0, 0.5]


@pytest.mark.parametrize("reason", [NO_REFERENCE, TIMED_OUT, ""])
def test_a_question_without_a_score_for_another_reason_is_left_out(reason: str) -> None:
    found = score_matrix([config("a", [0.9, 0.8, 0.7]), config("b", [0.6, NAN, 0.5], {1: reason})], M)
    assert found.questions == ("q0", "q2")
    assert found.declines == (0, 0)
    assert found.declined_note == ""


def test_what_all_declined_what_is_unanswerable_and_what_has_no_worst_score_is_left_out() -> None:
    reasons = {1: ABSTAINED, 2: ABSTAINED}
    one = config("a", [0.9, NAN, 0.7], {1: ABSTAINED})
    other = changed(config("b", [0.6, NAN, NAN], reasons), {"answerable": [True, True, False]})
    assert score_matrix([one, other], M).questions == ("q0",)
    wide = config("c", [1.6, 1.2, 0.1])
    assert score_matrix([wide, config("b", [0.6, NAN, 0.5], {1: ABSTAINED})], M).questions == ("q0", "q2")


@given(st.lists(st.sampled_from(["scored", "declined", "lacking"]), min_size=6, max_size=6))
def test_configs_are_filled_alike_in_whatever_order_they_are_given(kinds: list[str]) -> None:
    scores = [NAN if kind != "scored" else 0.5 for kind in kinds]
    reasons = {n: ABSTAINED if kind == "declined" else NO_REFERENCE for n, kind in enumerate(kinds) if kind != "scored"}
    results = [config("a", scores[:3], {n: one for n, one in reasons.items() if n < 3}),
               config("b", scores[3:], {n - 3: one for n, one in reasons.items() if n >= 3})]  # fmt: skip
    found, turned = score_matrix(results, M), score_matrix(results[::-1], M)
    assert found.questions == turned.questions
    assert found.values.tolist() == turned.values[::-1].tolist()
    assert found.declines == turned.declines[::-1]


def test_a_config_that_declines_its_hardest_questions_is_not_called_better() -> None:
    """100 pairs of equal configs, one of which declines the tenth that it would answer worst."""
    claimed = 0
    for seed in range(100):
        drawn = np.random.default_rng(seed).uniform(0, 1, (2, 150))
        worst = np.argsort(drawn[1])[:15].tolist()
        second = [NAN if n in worst else one for n, one in enumerate(drawn[1].tolist())]
        results = [config("a", drawn[0].tolist()), config("b", second, dict.fromkeys(worst, ABSTAINED))]
        claimed += bool(compare_with_baseline(score_matrix(results, M), 0, resamples=299).better[1])
    assert claimed <= 7  # 2.5 %, and three errors; with these questions left out 17


def test_declined_answers_need_no_labels_whichever_config_declined() -> None:
    generator = np.random.default_rng(5)
    people = (generator.random((2, 300)) < [[0.7], [0.8]]).astype(float)
    judged = np.where(generator.random((2, 300)) < 0.9, people, 1 - people)
    declined = [set(range(0, 300, 6)), set(range(3, 300, 6))]
    results, labels = [], []
    for row, (name, own) in enumerate(zip("ab", declined, strict=True)):
        people[row, list(own)] = 0
        scores = [NAN if n in own else one for n, one in enumerate(judged[row].tolist())]
        made = answered(name, [f"{name}{n}" for n in range(300)], scores)
        unscored = [json.dumps({M: ABSTAINED}) if n in own else "{}" for n in range(300)]
        results.append(changed(made, {"unscored": unscored}))
        chosen = set(generator.permutation(300)[:120].tolist()) - own
        labels += [label(n, float(people[row, n]), name) for n in sorted(chosen)]
    matrix = score_matrix(results, M)
    matched = match_labels(RunLabels(labels, ["", ""]), results, matrix)
    found, mean = correct_difference(matrix, matched, (0, 1)), correct_mean(matrix, matched, 1)
    assert found.low <= people[1].mean() - people[0].mean() <= found.high
    assert mean.value == pytest.approx(people[1].mean(), abs=0.05)
    assert mean.high <= 1 - 50 / 300  # a sixth is known to be 0


def test_the_gate_counts_declined_answers_of_both_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = np.random.default_rng(1).uniform(0.4, 0.9, 60).tolist()
    before = config("a", [NAN] * 10 + scores[10:], dict.fromkeys(range(10), ABSTAINED))
    after = config("b", scores[:50] + [NAN] * 10, dict.fromkeys(range(50, 60), ABSTAINED))
    first, second = record(tmp_path, before, after)
    assert gate(["--baseline", first, "--candidate", second, "--path", str(tmp_path), "--margin", f"{M}=.1"]) == 3
    printed = " ".join(capsys.readouterr().out.split())
    assert "declined or nothing to measure, counted as the worst score: 10 of a" in printed
    assert "failed or declined, counted as the worst case: 10 (q50, q51" in printed


def test_declining_an_unanswerable_question_is_no_fault_in_the_gate(tmp_path: Path) -> None:
    scores = np.random.default_rng(1).uniform(0.4, 0.9, 60).tolist()
    before = config("a", scores)
    after = config("b", scores[:50] + [NAN] * 10, dict.fromkeys(range(50, 60), ABSTAINED))
    after = changed(after, {"answerable": [n < 50 for n in range(60)]})
    first, second = record(tmp_path, before, after)
    options = ["--candidate", second, "--path", str(tmp_path)]
    assert gate(["--baseline", first, *options, "--margin", f"{M}=.1"]) == 0
    assert gate([*options, "--at-least", f"{M}=.55"]) == 0
