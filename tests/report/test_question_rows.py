"""The table of questions is what MLflow's evaluation page reads."""

import json

from ragsweep.report.artifacts import question_rows
from support.results import NAN, a_result


def test_questions_are_a_table_as_mlflow_logs_one() -> None:
    columns = {"question_id": ["a", "b"], "question": ["<b>?", "é"], "context": [["d:0-1", "e"], []], "mrr": [0.5, NAN],
               "map": [1.0, 1.0], "category": ["x", "y"], "unscored": ["{}", '{"mrr": "failed"}']}  # fmt: skip
    table = json.loads(question_rows(a_result(questions=columns, config={"objective": "mrr"}), None))
    assert table["columns"] == ["question_id", "question", "context", "mrr", "category", "unscored"]
    texts = {"d:0-1": "some\n text", "e": "word " * 200}
    read = json.loads(question_rows(a_result(questions=columns, config={"objective": "mrr"}), texts.__getitem__))
    assert [row[2] for row in read["data"]] == [f"d:0-1: some text\n\ne: {('word ' * 100).strip()} ...", ""]
    assert table["data"] == [["a", "<b>?", "d:0-1\ne", 0.5, "x", "{}"], ["b", "é", "", None, "y", '{"mrr": "failed"}']]


def test_judged_scores_have_the_reasons_of_the_judge_beside_them() -> None:
    steps = {"generate": {"ms": 3}, "judge/faithful": {"words": "The text says so.\nNo word of it."},
            "judge/correct": {"tokens_in": 5, "words": "As expected."}}  # fmt: skip
    columns = {"question_id": ["a", "b"], "faithful": [0.5, NAN], "correct": [1.0, NAN], "mrr": [1.0, 1.0],
               "steps": [json.dumps(steps), "{}"]}  # fmt: skip
    table = json.loads(question_rows(a_result(questions=columns, config={"objective": "faithful"}), None))
    assert table["columns"] == ["question_id", "faithful", "correct", "reasons"]
    reasons = "faithful: The text says so.\nNo word of it.\ncorrect: As expected."
    assert table["data"] == [["a", 0.5, 1.0, reasons], ["b", None, None, ""]]
