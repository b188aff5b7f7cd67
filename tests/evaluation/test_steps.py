"""What an answer and its verdicts took and cost is in the records by question, and the judge's own words."""

from dataclasses import replace

import numpy as np

from ragsweep.core.question_results import QuestionResults
from ragsweep.core.types import Answer, Answers, Judgement, Usage
from ragsweep.evaluation.steps import collect_steps
from ragsweep.parts.judging import reasons_given
from ragsweep.testing.metrics import answered


def test_answers_and_verdicts_have_what_their_calls_cost_and_said() -> None:
    view = answered()
    count = len(view.questions)
    answers = [Answer(failed="timed out")] * count
    answers[0] = Answer("a", seconds=1.5, usage=Usage(1, 1000, 100), model="m", money=0.00100004)
    verdicts = [Judgement()] * count
    verdicts[0] = Judgement(1.0, usage=Usage(2, 500, 50), model="free", words="so it is")
    given = Answers(answers, [()] * count, np.zeros(count, dtype=np.int64))
    view = replace(view, answers=given, judgements={"faithful": verdicts}, latency={})
    steps = collect_steps(view)
    rows = [QuestionResults({}, steps=steps).steps_of(n) for n in range(count)]
    assert rows[0] == {"generate": {"ms": 1500, "tokens_in": 1000, "tokens_out": 100, "money": 0.001, "model": "m"},
                       "judge/faithful": {"tokens_in": 500, "tokens_out": 50, "model": "free",
                                          "words": "so it is"}}  # fmt: skip
    assert rows[1:] == [{}] * (count - 1)


def test_reasons_of_a_judge_are_found_wherever_they_stand_in_a_reply() -> None:
    reply = {"statements": [{"statement": "It rains.", "reason": "The text says so.", "verdict": 1},
                            {"statement": "It snows.", "reason": "No word of it.", "verdict": 0}]}  # fmt: skip
    said = ["It rains.: The text says so. -> yes", "It snows.: No word of it. -> no"]
    assert list(reasons_given(reply)) == said
    assert list(reasons_given({"reason": "Plainly."})) == ["Plainly."]
    assert list(reasons_given({"question": "Who?", "noncommittal": 0})) == []
