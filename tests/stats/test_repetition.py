"""Shares of the variance of a difference, of planted questions, answers and judgements."""

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragsweep.core.question_texts import REPEATED
from ragsweep.core.results import Result
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.gate import Condition, Scope, run_checks
from ragsweep.stats.inference.matrix import WEIGHT, FilledCandidate, score_matrix
from ragsweep.stats.inference.power import questions_needed
from ragsweep.stats.repetition import VarianceShares, variance_shares
from support.results import changed, scored


def repeated(scores: np.ndarray, judged: list[list[Any]] | None = None) -> Result:
    """Make a result of scores (questions, repetitions), NaN where one failed."""
    rows = []
    for n, row in enumerate(scores):
        values = [None if np.isnan(one) else float(one) for one in row]
        extra = {"judged": {"m": judged[n]}} if judged else {}
        rows.append(json.dumps({"answers": list(range(len(row))), "scores": {"m": values}, **extra}))
    result = scored({"m": np.nanmean(scores, axis=1).tolist()}, signature=str(scores.tobytes()[:99]))
    return changed(result, {REPEATED: rows})


def single_scores(result: Result) -> np.ndarray:
    """Return the scores of the metric (questions, repetitions)."""
    return result.questions.repetitions.scores["m"]


def shares(*results: Result) -> VarianceShares | None:
    return variance_shares(results, score_matrix(results, "m"))


def drawn(questions: float, answers: float, count: int = 2000) -> list[Result]:
    """Draw two configs, three times each; the spreads are those of a difference, by question and by repetition."""
    generator = np.random.default_rng(0)
    level = generator.normal(0, 1, (count, 1))
    noise = generator.normal(0, answers / 2**0.5, (2, count, 3))
    first, second = level + noise[0], level + generator.normal(0.1, questions, (count, 1)) + noise[1]
    return [repeated(first), repeated(second)]


@pytest.mark.parametrize(("questions", "answers", "truth"), [(1.0, 1.0, 0.25), (0.0, 1.0, 1.0), (1.0, 0.0, 0.0)])
def test_shares_are_those_planted_and_none_is_negative(questions: float, answers: float, truth: float) -> None:
    found = shares(*drawn(questions, answers))
    assert found.answers == pytest.approx(truth, abs=0.04)
    assert found.questions + found.answers == pytest.approx(1)
    assert found.questions >= 0
    assert found.twice_repetitions == pytest.approx((1 - found.answers / 2) ** 0.5)


def test_more_noise_than_variance_leaves_the_questions_nothing() -> None:
    found = [shares(*drawn(0.0, 1.0, count)) for count in range(20, 60, 2)]
    assert all(one is not None and 0 <= one.questions <= 1 and one.answers < 1 + 1e-9 for one in found)
    assert {0.0, 1.0} <= {value for one in found if one for value in (round(one.questions, 9), round(one.answers, 9))}


def test_noise_of_a_judge_is_told_from_that_of_answers_and_equal_answers_share_it() -> None:
    generator = np.random.default_rng(1)
    count, error = 2000, 0.5
    noise = generator.normal(0, error, (count, 2))
    apart = repeated(noise, [[[f"a{n}", error], [f"b{n}", error]] for n in range(count)])
    alike = repeated(noise[:, [0, 0]], [[[f"a{n}", error]] * 2 for n in range(count)])
    two, one = shares(apart), shares(alike)
    assert (two.judge, one.judge) == (pytest.approx(1, abs=0.06), pytest.approx(1, abs=0.06))
    assert two.twice_repetitions == pytest.approx(0.5**0.5, abs=0.03)  # each new answer is judged again
    assert one.twice_repetitions == 1  # the same answer is not
    assert one.twice_samples == pytest.approx(0.5**0.5, abs=0.03)


def test_answers_that_both_configs_share_are_no_noise_of_their_difference() -> None:
    generator = np.random.default_rng(2)
    answers = generator.normal(0, 1, (200, 3))
    gains = generator.normal(0.1, 0.2, (200, 1))
    found = shares(repeated(answers), repeated(answers + gains))
    assert found.answers == pytest.approx(0, abs=1e-9)


def test_failed_repetitions_and_unrepeated_configs_leave_the_rest() -> None:
    first, second = drawn(1.0, 1.0, 400)
    plain = scored({"m": list(first.questions["m"])})
    assert shares(plain, plain) is None
    half = shares(plain, second)
    assert half.repetitions == (1, 3)
    rows = single_scores(second).copy()
    rows[:200, 1:] = np.nan  # two of three failed
    fewer = shares(first, repeated(rows))
    assert 0 < fewer.answers < 1


def test_verdict_states_the_shares_of_its_best_config() -> None:
    verdict = compare_configs(drawn(1.0, 1.0, 300))
    (shares_of_other,) = verdict.variance.values()  # against the choice
    assert verdict.reference not in verdict.variance
    assert shares_of_other.repetitions == (3, 3)
    assert shares_of_other.twice_questions == pytest.approx(0.5**0.5)


def test_judge_has_its_share_where_every_answer_is_drawn_once() -> None:
    generator = np.random.default_rng(3)
    count = 2000
    pair = [repeated(generator.normal(0, 1, (count, 1)), [[[f"{name}{n}", 0.8]] for n in range(count)])
            for name in "ab"]  # fmt: skip
    found = shares(*pair)
    assert found.judge == pytest.approx(0.64, abs=0.05)
    assert found.questions + found.judge == pytest.approx(1)
    assert np.isnan([found.answers, found.twice_repetitions]).all()
    assert found.twice_samples == pytest.approx((1 - found.judge / 2) ** 0.5)
    assert found.repetitions_for(1.1) is None


def test_judge_that_sampled_one_config_only_has_no_share() -> None:
    first, second = drawn(1.0, 1.0, 200)
    rows = single_scores(second)
    sampled = repeated(rows, [[[f"{n}{r}", 0.1] for r in range(3)] for n in range(200)])
    one, other = shares(first, second), shares(first, sampled)
    assert np.isnan(other.judge)
    assert other.answers == pytest.approx(one.answers)


def test_judge_that_always_agrees_has_a_share_of_none() -> None:
    rows = np.random.default_rng(7).normal(0, 1, (2, 100, 2))
    found = shares(*(repeated(one, [[[f"{n}{r}", 0.0] for r in range(2)] for n in range(100)]) for one in rows))
    assert (found.judge, found.twice_samples) == (0, 1)


def test_answers_drawn_once_count_as_the_questions_and_say_so() -> None:
    first, second = drawn(1.0, 1.0)
    found = shares(scored({"m": single_scores(first)[:, 0].tolist()}), second)
    assert found.repetitions == (1, 3)
    assert found.answers == pytest.approx((0.5 / 3) / (1 + 0.5 + 0.5 / 3), abs=0.02)
    assert np.isnan(found.twice_repetitions)


@pytest.mark.parametrize(("counts", "variance"), [((2, 3), 1 / 6), ((3, 3), 0.0)])
def test_answers_shared_by_number_cancel(counts: tuple[int, int], variance: float) -> None:
    generator = np.random.default_rng(4)
    answers = generator.normal(0, 1, (4000, 3))
    gains = generator.normal(0.1, 0.5, (4000, 1))
    found = shares(repeated(answers[:, : counts[0]]), repeated(answers[:, : counts[1]] + gains))
    assert found.answers == pytest.approx(variance / (variance + 0.25), abs=0.03)


def test_noise_of_a_question_counts_by_its_squared_weight() -> None:
    generator = np.random.default_rng(5)
    count = 400
    weights = np.resize([1.0, 3.0], count)
    pair = [repeated(generator.normal(0, 0.5, (count, 1)) + generator.normal(0, weights[:, None] - 1, (count, 2)))
            for _ in range(2)]  # fmt: skip
    pair = [changed(one, {WEIGHT: weights.tolist()}) for one in pair]
    found = shares(*pair)
    answers, questions = 9 * 4 / 2, 10 * 0.25  # of one config, of two questions
    assert found.answers == pytest.approx(answers / (answers + questions), abs=0.15)


def test_answers_of_one_source_are_drawn_apart_though_its_questions_are_not() -> None:
    first, second = drawn(1.0, 1.0, 2000)
    gains = np.repeat(np.random.default_rng(6).normal(0, 1, 400), 5)  # as the questions' own, but by source
    noise = [single_scores(one) for one in (first, second)]
    own = (noise[1] - noise[0]).mean(axis=1, keepdims=True)
    pair = [repeated(noise[0]), repeated(noise[1] - own + gains[:, None] + 0.1)]
    sources = {"source": [f"s{n // 5}" for n in range(2000)]}
    pair = [changed(one, sources) for one in pair]
    found = shares(*pair)
    assert found.answers == pytest.approx((1 / 3) / (1 / 3 + 5), abs=0.02)


def test_question_with_one_repetition_left_says_nothing_of_the_answers() -> None:
    first, second = drawn(1.0, 1.0, 400)
    rows = [single_scores(one) for one in (first, second)]
    rows[1][:200, 1:] = np.nan
    known = shares(*(repeated(one[200:]) for one in rows))
    found = shares(*map(repeated, rows))
    noise = known.answers * known.standard_error**2 * 200  # of one question's difference
    assert found.answers * found.standard_error**2 * 400 == pytest.approx(noise)


@pytest.mark.parametrize(("judge", "more", "needed"), [(0.0, 1.5, 6), (0.0, 2.0, None), (0.0, 1.9, 38)])
def test_repetitions_that_narrow_as_much_as_more_questions(judge: float, more: float, needed: int | None) -> None:
    half = VarianceShares(0.5, 0.5, judge, 0.1, (2, 2), 0.5**0.5, 0.75**0.5, float("nan"))
    assert half.repetitions_for(more) == needed
    assert needed is None or 0.5 + 0.5 * 2 / needed == pytest.approx(1 / more)
    assert replace(half, repetitions=(2, 4)).repetitions_for(more) == (needed and 2 * needed)


def test_gate_that_cannot_decide_names_the_repetitions_that_would() -> None:
    before, after = drawn(0.05, 1.0, 100)
    condition = Condition("m", 0.1)
    chosen = Scope(before.questions["question_id"])
    (check,) = run_checks(condition, after, FilledCandidate(before, (), ()), chosen)
    assert check.found.decision == "inconclusive"
    assert check.needed is not None
    assert check.needed_repetitions == check.variance.repetitions_for(check.needed / 100)
    assert check.needed_repetitions is not None
    assert check.needed_repetitions > 3


def test_share_of_a_baseline_counts_as_a_baseline_of_scaled_scores_does() -> None:
    first, second = (single_scores(one).tolist() for one in drawn(0.5, 1.0, 200))
    results = [repeated(np.array(first)), repeated(np.array(second))]
    found = variance_shares(results, score_matrix(results, "m"), 0.6)
    assert found is not None
    scaled = shares(repeated(0.6 * np.array(first)), repeated(np.array(second)))
    assert scaled is not None
    for part in ("questions", "answers", "standard_error", "twice_repetitions"):
        assert getattr(found, part) == pytest.approx(getattr(scaled, part))


def test_questions_and_repetitions_that_a_relative_margin_needs_are_those_of_the_ratio() -> None:
    """Scores that vary much by question are in the slack of a ratio, and in no difference."""
    generator = np.random.default_rng(8)
    level = generator.normal(1, 2, (40, 1))
    before, after = (repeated(level + generator.normal(0, 0.8, (40, 4))) for _ in range(2))
    chosen = Scope(before.questions["question_id"])
    (check,) = run_checks(Condition("m", 0.25, relative=True), before, FilledCandidate(after, (), ()), chosen)
    slack = np.array(after.questions["m"]) - 0.75 * np.array(before.questions["m"])
    assert check.needed == questions_needed(check.found.margin, slack.std(ddof=1), level=0.9)
    ratio = variance_shares([before, after], score_matrix([before, after], "m"), 0.75)
    assert check.variance.answers == pytest.approx(ratio.answers)
    assert check.needed is not None
    assert check.needed_repetitions == ratio.repetitions_for(check.needed / 40)


def test_sentence_states_what_each_way_narrows_and_how_many_questions_that_is() -> None:
    found = VarianceShares(0.5, 0.3, 0.2, 0.1, (3, 3), 0.5**0.5, 0.81**0.5, 0.9**0.5)
    assert re.findall(r"\.?\d+", str(found)) == ["50", "30", "3", "20", ".71", ".90", "23", ".95", "11"]
