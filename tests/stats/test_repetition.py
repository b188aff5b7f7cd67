"""Shares of the variance of a difference, of planted questions, answers and judgements."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ragsweep.core.results import Result
from ragsweep.stats.comparison import SweepComparison, compare_configs
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.repetition import COLUMN, VarianceShares, variance_shares
from scored import scored


def repeated(scores: np.ndarray, judged: list[list[Any]] | None = None) -> Result:
    """Make a result of scores (questions, repetitions), NaN where one failed."""
    rows = []
    for n, row in enumerate(scores):
        values = [None if np.isnan(one) else float(one) for one in row]
        extra = {"judged": {"m": judged[n]}} if judged else {}
        rows.append(json.dumps({"answers": list(range(len(row))), "scores": {"m": values}, **extra}))
    result = scored({"m": np.nanmean(scores, axis=1).tolist()}, signature=str(scores.tobytes()[:99]))
    result.outcomes[COLUMN] = rows
    return result


def shares(*results: Result) -> VarianceShares | None:
    return variance_shares(results, score_matrix(results, "m"))


def drawn(questions: float, answers: float, count: int = 2000, repetitions: int = 3) -> list[Result]:
    """Draw two configs; the spreads are those of a difference, by question and by repetition."""
    generator = np.random.default_rng(0)
    level = generator.normal(0, 1, (count, 1))
    noise = generator.normal(0, answers / 2**0.5, (2, count, repetitions))
    first, second = level + noise[0], level + generator.normal(0.1, questions, (count, 1)) + noise[1]
    return [repeated(first), repeated(second)]


@pytest.mark.parametrize(("questions", "answers", "truth"), [(1.0, 1.0, 0.25), (0.0, 1.0, 1.0), (1.0, 0.0, 0.0)])
def test_shares_are_those_planted_and_none_is_negative(questions: float, answers: float, truth: float) -> None:
    found = shares(*drawn(questions, answers))
    assert found is not None
    assert found.answers == pytest.approx(truth, abs=0.04)
    assert found.questions + found.answers == pytest.approx(1)
    assert found.questions >= 0
    assert found.twice_repetitions == pytest.approx((1 - found.answers / 2) ** 0.5)


def test_noise_of_a_judge_is_told_from_that_of_answers_and_equal_answers_share_it() -> None:
    generator = np.random.default_rng(1)
    count, error = 2000, 0.5
    noise = generator.normal(0, error, (count, 2))
    apart = repeated(noise, [[[f"a{n}", error], [f"b{n}", error]] for n in range(count)])
    alike = repeated(noise[:, [0, 0]], [[[f"a{n}", error]] * 2 for n in range(count)])
    two, one = shares(apart), shares(alike)
    assert two is not None
    assert one is not None
    assert (two.judge, one.judge) == (pytest.approx(1, abs=0.06), pytest.approx(1, abs=0.06))
    assert two.twice_repetitions == pytest.approx(0.5**0.5, abs=0.03)  # new answers are judged anew
    assert one.twice_repetitions == 1  # the same answer is not
    assert one.twice_samples == pytest.approx(0.5**0.5, abs=0.03)


def test_answers_that_both_configs_share_are_no_noise_of_their_difference() -> None:
    generator = np.random.default_rng(2)
    answers = generator.normal(0, 1, (200, 3))
    gains = generator.normal(0.1, 0.2, (200, 1))
    found = shares(repeated(answers), repeated(answers + gains))
    assert found is not None
    assert found.answers == pytest.approx(0, abs=1e-9)


def test_failed_repetitions_and_unrepeated_configs_leave_the_rest() -> None:
    first, second = drawn(1.0, 1.0, 400)
    plain = scored({"m": list(first.outcomes["m"])})
    assert shares(plain, plain) is None
    half = shares(plain, second)
    assert half is not None
    assert half.repetitions == (1, 3)
    rows = np.array([json.loads(text)["scores"]["m"] for text in second.outcomes[COLUMN]])
    rows[:200, 1:] = np.nan  # two of three failed
    fewer = shares(first, repeated(rows))
    assert fewer is not None
    assert 0 < fewer.answers < 1


def test_verdict_states_the_shares_of_its_best_config() -> None:
    verdict = compare_configs(drawn(1.0, 1.0, 300))
    assert isinstance(verdict, SweepComparison)
    text = str(verdict.variance[1])
    assert text.startswith("of the variance of this difference ")
    assert "from answers (3 repetitions): twice the questions would narrow the interval to .71 of its width" in text
