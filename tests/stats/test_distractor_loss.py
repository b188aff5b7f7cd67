"""The change by a distractor in the context is that of the same questions, by hand and by simulation."""

import math
from typing import Any

import numpy as np
import pytest

from ragsweep.report.answers import distractor_statements
from ragsweep.stats.audits import distractor_loss
from ragsweep.stats.conclude import conclude
from support.results import a_result


def table(rates: list[float], scores: list[float]) -> dict[str, list[Any]]:
    names = [f"q{n}" for n in range(len(rates))]
    return {"question_id": names, "distractor_rate": rates, "success_rate": scores}


def test_by_hand() -> None:
    """Ten questions lose .5 and five do not vary; one has no score. A question's configs are averaged first."""
    nan = math.nan
    clean = table([0.0] * 10 + [0.0] * 5 + [0.0], [1.0] * 10 + [0.2] * 5 + [nan])
    mixed = table([0.4] * 10 + [0.0] * 5 + [0.4], [0.5] * 10 + [0.9] * 5 + [1.0])
    twice = table([0.2] * 10 + [0.0] * 5 + [0.2], [0.5] * 10 + [0.9] * 5 + [1.0])
    found = distractor_loss([clean, mixed, twice], "success_rate")
    assert (found.questions, found.change) == (10, -0.5)
    assert distractor_loss([clean, table([0.4] * 9, [0.5] * 9)], "success_rate") is None
    assert distractor_loss([clean], "success_rate") is None
    assert distractor_loss([{"question_id": ["q0"], "success_rate": [1.0]}], "success_rate") is None


def test_weights_count_in_the_loss() -> None:
    """Five questions of weight 3 lose .8, five of weight 1 lose nothing."""
    weight = {"weight": [3.0] * 5 + [1.0] * 5}
    clean, mixed = table([0.0] * 10, [1.0] * 10) | weight, table([0.4] * 10, [0.2] * 5 + [1.0] * 5) | weight
    found = distractor_loss([clean, mixed], "success_rate")
    assert found.change == pytest.approx(-0.6)
    assert found.low <= -0.6 <= found.high


def test_changes_of_one_document_count_once() -> None:
    rates, scores = [0.4] * 30, np.repeat(np.random.default_rng(0).random(10), 3).tolist()
    sources = {"source": [f"document {n // 3}" for n in range(30)]}
    found = distractor_loss([table([0.0] * 30, [1.0] * 30) | sources, table(rates, scores) | sources], "success_rate")
    alone = distractor_loss([table([0.0] * 10, [1.0] * 10), table(rates[:10], scores[::3])], "success_rate")
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))


def test_the_interval_holds_the_planted_loss() -> None:
    held = 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        base = generator.uniform(0.3, 0.9, 60)
        tainted = base - 0.1 + generator.normal(0, 0.15, 60)
        found = distractor_loss([table([0.0] * 60, base.tolist()), table([0.5] * 60, tainted.tolist())], "success_rate")
        held += found.low <= -0.1 <= found.high
    assert 88 <= held <= 99


@pytest.mark.parametrize(("loss", "lines"), [(0.5, 1), (0.0, 0)])
def test_only_a_loss_that_is_shown_is_printed(loss: float, lines: int) -> None:
    values = [0.9 if n % 2 else 0.8 for n in range(20)]
    config = {"success": {"metric": "success_rate"}}
    tables = [table([0.0] * 20, values), table([0.5] * 20, [one - loss for one in values])]
    conclusion = conclude(None, [a_result(questions=one, config=config) for one in tables])
    printed = list(distractor_statements(conclusion.audits.distractors))
    assert len(printed) == lines
    assert all(one.data["change"] == pytest.approx(-0.5) and one.data["questions"] == 20 for one in printed)


def test_a_loss_on_questions_of_one_document_which_has_no_interval_is_not_printed() -> None:
    config, source = {"success": {"metric": "success_rate"}}, {"source": ["one"] * 20}
    tables = [table([rate] * 20, [score] * 10 + [1.0] * 10) | source for rate, score in ((0.0, 0.9), (0.5, 0.2))]
    conclusion = conclude(None, [a_result(questions=one, config=config) for one in tables])
    assert list(distractor_statements(conclusion.audits.distractors)) == []
