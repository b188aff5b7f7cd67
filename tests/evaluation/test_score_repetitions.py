"""Scores of repeated answers: means, reasons and counts of what is missing, and the column that keeps all of them."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragsweep.core.missing import ABSTAINED, TIMED_OUT, TRUNCATED
from ragsweep.core.question_results import QuestionResults
from ragsweep.core.question_texts import to_texts
from ragsweep.core.types import Answer, EvaluationView, Judgement
from ragsweep.evaluation.repetition import RepeatedScores, score_repetitions
from ragsweep.evaluation.result_notes import result_warnings
from ragsweep.parts.metrics import JudgeSwayed, Latency, Recall, TokenF1
from ragsweep.stages.executor import Executor
from ragsweep.testing.metrics import answered

ASKED = [0, 1, 2]  # three questions that have a reference, a context and an answer


def answers(*texts: str) -> EvaluationView:
    """Make a view of questions answered so; "!" timed out and "?" declined."""
    view = answered(ASKED[: len(texts)])
    assert view.answers is not None
    made = [Answer(failed=TIMED_OUT) if text == "!" else Answer(text, abstained=text == "?") for text in texts]
    return replace(view, answers=view.answers._replace(answers=made))


def judged(view: EvaluationView, *verdicts: Judgement) -> EvaluationView:
    return replace(view, judgements={"judge_swayed": verdicts})


def swayed(samples: int) -> JudgeSwayed:
    return JudgeSwayed(SimpleNamespace(samples=samples), share=1.0)


def rows(found: RepeatedScores) -> list[dict[str, Any]]:
    """Read the single scores by question, as files show them."""
    assert found.repetitions
    ids = range(len(found.repetitions.answers))
    table = to_texts(QuestionResults({"question_id": ids}, repetitions=found.repetitions))
    return [json.loads(text) for text in table["answer_repetitions"]]


def lost(found: RepeatedScores) -> dict[str, list[int]]:
    return {name: some.tolist() for name, some in found.lost(found.scores).items()}


def test_score_is_the_mean_of_the_repetitions_that_have_one_and_the_lost_are_counted() -> None:
    views = [answers("red mat", "!", "!"), answers("stars", "the red mat", "!"), answers("red mat", "!", "!")]
    found = score_repetitions([TokenF1()], views)
    alone = [score_repetitions([TokenF1()], [view]).scores["token_f1"].values for view in views]
    values, reasons = found.scores["token_f1"]
    assert values[:2].tolist() == pytest.approx([np.mean([one[0] for one in alone]), alone[1][1]])
    assert 0 < values[0] < 1
    assert math.isnan(values[2])
    assert reasons.tolist() == ["", "", TIMED_OUT]
    assert lost(found) == {"token_f1": [0, 2, 0]}
    kept = rows(found)
    assert [row["answers"] for row in kept] == [[0, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert kept[1]["scores"]["token_f1"] == [None, alone[1][1], None]
    assert "judged" not in kept[0]


def test_failure_is_the_reason_whichever_repetition_it_is_of_and_else_that_of_the_first() -> None:
    failed = judged(answers("red mat"), Judgement(reason=TIMED_OUT))
    declined = judged(answers("?"), Judgement(reason=ABSTAINED))
    for views in ([failed, declined], [declined, failed]):
        assert score_repetitions([swayed(1)], views).scores["judge_swayed"].reasons.tolist() == [TIMED_OUT]
    found = score_repetitions([swayed(1)], [declined, declined])
    assert found.scores["judge_swayed"].reasons.tolist() == [ABSTAINED]
    assert found.lost(found.scores) == {}


@pytest.mark.parametrize("answerable", [True, False])
def test_declined_repetition_of_an_answerable_question_has_the_worst_score(answerable: bool) -> None:
    """Otherwise, a config gained by declining: its mean was that of the repetitions that it answered."""
    verdicts = [Judgement(0.2), Judgement(reason=ABSTAINED), Judgement(reason=TIMED_OUT)]
    views = [judged(answers("red mat"), verdict) for verdict in verdicts]
    views = [replace(view, questions=[replace(view.questions[0], answerable=answerable)]) for view in views]
    found = score_repetitions([swayed(1)], views)
    kept = [0.2, 1.0, None] if answerable else [0.2, None, None]  # being swayed is worse the higher the score
    assert rows(found)[0]["scores"]["judge_swayed"] == kept
    assert found.scores["judge_swayed"].values.tolist() == pytest.approx([np.mean([s for s in kept if s is not None])])
    assert lost(found) == {"judge_swayed": [1]}


def test_what_answers_cannot_change_is_measured_once_and_latency_is_that_of_the_first() -> None:
    first, second = answers("red mat"), answers("stars")
    quantile = TokenF1()
    quantile.quantile = 0.9
    slow = replace(second, latency={"generate": np.array([9.0])})
    metrics = [Recall(cutoff=2), Latency(), Latency(quantile=0.95), quantile]
    found = score_repetitions(metrics, [replace(first, latency={"generate": np.array([1.0])}), slow])
    assert rows(found) == [{"answers": [0, 1], "scores": {}}]
    assert found.scores["latency_mean_ms"].values.tolist() == [1000.0]


def test_nothing_is_kept_where_nothing_is_repeated() -> None:
    view = judged(answers("red mat"), Judgement(1.0))
    assert score_repetitions([TokenF1(), swayed(1)], [view]).repetitions is None
    without = replace(judged(view, Judgement(0.5, spread=0.5)), answers=None)
    assert score_repetitions([swayed(2)], [without]).repetitions is None


@pytest.mark.parametrize("repetitions", [1, 2])
def test_error_of_a_judgement_is_kept_with_the_case_that_it_is_of(repetitions: int) -> None:
    one = judged(answers("red mat", "red mat", "!"), Judgement(0.5, spread=0.6), Judgement(1.0, spread=0.0),
                 Judgement(reason=TIMED_OUT))  # fmt: skip
    found = score_repetitions([TokenF1(), swayed(4)], [one] * repetitions)
    kept = [row["judged"]["judge_swayed"] for row in rows(found)]
    assert [[error for _, error in row] for row in kept] == [[0.3] * repetitions, [0.0] * repetitions,
                                                             [None] * repetitions]  # fmt: skip
    assert len({case for case, _ in (*kept[0], *kept[1])}) == 1
    assert kept[2][0][0] != kept[0][0][0]
    assert set(rows(found)[0]["scores"]) == ({"judge_swayed"} if repetitions == 1 else
                                                    {"token_f1", "judge_swayed"})  # fmt: skip


def test_case_has_the_context_where_the_judge_reads_it() -> None:
    view = judged(answers("red mat", "red mat"), *[Judgement(0.5, spread=0.6)] * 2)
    assert view.answers is not None
    view = replace(view, answers=view.answers._replace(passages=[view.answers.passages[0], ()]))
    reading = swayed(2)
    reading.uses = ("answer", "contexts")
    for metric, same in ((swayed(2), True), (reading, False)):
        first, second = (row["judged"]["judge_swayed"][0][0] for row in rows(score_repetitions([metric], [view])))
        assert (first == second) is same


def test_case_of_a_judge_that_reads_no_answer_is_the_same_in_every_repetition() -> None:
    """Otherwise, one judgement counted as several independent ones, and the judge's part in the variance was halved."""
    metric = swayed(2)
    views = [judged(answers(text), Judgement(0.5, spread=0.6)) for text in ("red mat", "stars")]
    for uses, same in ((("question", "contexts"), True), (("answer",), False)):
        metric.uses = uses
        (first, _), (second, _) = rows(score_repetitions([metric], views))[0]["judged"]["judge_swayed"]
        assert (first == second) is same


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        (TIMED_OUT, "rerun=true repeats only the failed calls"),
        (TRUNCATED, "an identical call would fail again (truncated)"),
    ],
)
def test_warning_about_failed_repetitions_suggests_rerun_only_if_it_may_help(reason: str, advice: str) -> None:
    first = answers("red mat")
    assert first.answers is not None
    views = [first, replace(first, answers=first.answers._replace(answers=[Answer(failed=reason)]))]
    found = score_repetitions([TokenF1()], views)
    config: Any = SimpleNamespace(graph=SimpleNamespace(located=None, embeddings=()), metrics=[TokenF1()])
    (warning,) = result_warnings(Executor(), config, views, found.lost(found.scores))
    assert warning.endswith(f"(failures: token_f1 (1)); {advice}")
