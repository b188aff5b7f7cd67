"""A task of one's own without a line in ragsweep: SQL for SQLite, scored by executing it read-only."""

import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Question
from ragsweep.parts.metrics import TaskMetric
from ragsweep.sweep.running.session import Session
from support import write_rows
from support.commands import composed, evaluate

pytestmark = pytest.mark.slow

TABLES = "CREATE TABLE pets (name TEXT, age INT); INSERT INTO pets VALUES ('Tom', 3), ('Rex', 7)"


class RowsEqual(TaskMetric):
    """Whether a query returns the expected rows."""

    name = "rows_equal"

    def score_output(self, question: Question, output: Any) -> float | str:
        with sqlite3.connect(":memory:") as database:
            database.executescript(TABLES + "; PRAGMA query_only = ON")
            try:
                return float([list(row) for row in database.execute(output)] == question.fields["rows"])
            except sqlite3.Error:
                return 0.0


class Characters(TaskMetric):
    """Number of characters of a query: an amount without a worst value."""

    name = "characters"
    unit = "characters"
    higher_is_better = False
    bounds = (0.0, None)

    def score_output(self, question: Question, output: Any) -> float | str:
        return float(len(output))


CASES = [
    {"id": "oldest", "input": "Who is oldest?", "rows": [["Rex"]], "errors": "order by age",
     "expected": "SELECT name FROM pets ORDER BY age DESC LIMIT 1"},
    {"id": "count", "input": "How many pets?", "rows": [[2]], "errors": "count",
     "expected": "SELECT COUNT(*) FROM pets"},
    {"id": "names", "input": "All names?", "rows": [["Tom"], ["Rex"]], "errors": "select",
     "expected": "SELECT name FROM pets"},
    {"id": "drop", "input": "Remove all!", "rows": [[0]], "errors": "select", "expected": "SELECT 0"},
]  # fmt: skip
REPLIES = {
    "Who is oldest?": "```sql\nSELECT name FROM pets ORDER BY age DESC LIMIT 1\n```",
    "How many pets?": "```sql\nSELECT SUM(age) FROM pets\n```",
    "All names?": "I would list them.",
    "Remove all!": "```sql\nDELETE FROM pets\n```",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "test_own_task")
    with LlmServer(lambda asked: next(REPLIES[key] for key in REPLIES if key in asked.prompt)) as made:
        yield made


@pytest.fixture
def task(cwd: Path) -> list[str]:
    """Write the task: cases, documents, and its config beside them."""
    write_rows(cwd / "cases.jsonl", CASES)
    text = "SELECT takes columns; ORDER BY sorts; COUNT counts"
    write_rows(cwd / "manual.jsonl", [{"id": "manual", "text": text}])
    option = cwd / "conf" / "task" / "sql.yaml"
    option.parent.mkdir(parents=True)
    option.write_text("""\
# @package _global_
defaults:
  - override /dataset: cases
  - override /output: fenced
dataset: {cases: cases.jsonl, corpus: manual.jsonl, query: "{errors}"}
metrics:
  rows_equal: {_target_: test_own_task.RowsEqual}
  sql_success: {_target_: ragsweep.parts.metrics.TaskSuccess, name: sql_success,
                criteria: {rows: {metric: "${metrics.rows_equal}", at_least: 1}}}
objective: sql_success
headline: [rows_equal]
success: {metric: sql_success}
""")
    return ["task=sql", "metrics=unlabelled", "retriever=bm25", "top_k=1"]


def asked(server: LlmServer) -> list[str]:
    return ["llm=openai", *server.overrides("llm")]


def test_metrics_of_the_task_decide_and_built_in_ones_are_off(task: list[str], server: LlmServer) -> None:
    found = evaluate(Session(), *task, *asked(server))
    assert found.questions["rows_equal"] == pytest.approx([1.0, 0.0, math.nan, 0.0], nan_ok=True)
    assert found.questions["output_fault"] == ["", "", "no fenced block", ""]
    assert found.questions["query"] == [case["errors"] for case in CASES]
    assert found.summaries.metrics["sql_success"].value == pytest.approx(1 / 3)
    assert not {"token_f1", "success_rate", "exact_match"} & set(found.summaries.metrics)
    assert found.run.config["success"]["metric"] == "sql_success"
    again = evaluate(Session(), *task, *asked(server), "metrics=[unlabelled,answers]", "~metrics.semantic_similarity")
    assert {"token_f1", "rows_equal"} <= set(again.summaries.metrics)


def test_unreadable_reply_has_no_score_with_its_reason_and_makes_no_result_partial(
    task: list[str], server: LlmServer
) -> None:
    own = "+metrics.characters={_target_: test_own_task.Characters}"
    found = evaluate(Session(), *task, *asked(server), own)
    lengths = found.summaries.metrics["characters"]
    assert (lengths.n_scored, lengths.reasons) == (3, {"unreadable output": 1})
    equal = found.summaries.metrics["rows_equal"]
    assert (equal.n_scored, equal.n_failed, equal.reasons) == (3, 1, {"unreadable output": 1})
    shown = evaluate(Session(), *task, *asked(server), own, "headline=[rows_equal,characters]")
    assert (found.run.state, shown.run.state) == ("COMPLETE", "COMPLETE")
    assert shown.run.warnings == (
        "1 of 4 replies could not be read and have no score in the metrics that read them; the column output_fault of"
        " outcomes.parquet names each fault",
    )


@pytest.mark.nightly
def test_record_of_a_case_has_what_was_expected_and_the_model_and_its_time(task: list[str], server: LlmServer) -> None:
    found = evaluate(Session(), *task, *asked(server))
    fields = found.questions["case_fields"]
    assert [one["expected"] for one in fields] == [case["expected"] for case in CASES]
    steps = [found.questions.steps_of(n)["generate"] for n in range(found.questions.rows)]
    assert all(step["model"] and step["ms"] > 0 for step in steps)


@pytest.mark.nightly
def test_metric_with_the_name_of_a_built_in_one_is_refused(task: list[str], server: LlmServer) -> None:
    own = "+metrics.mine={_target_: test_own_task.RowsEqual}"
    with pytest.raises(ConfigError, match='"rows_equal" is defined twice'):
        evaluate(Session(), *task, *asked(server), own)


@pytest.mark.nightly
def test_another_way_to_read_answers_is_another_result(task: list[str], server: LlmServer) -> None:
    fenced = composed(*task, *asked(server))
    assert fenced.values["output"]["_target_"].endswith("FencedBlock")
    one = evaluate(Session(), *task, *asked(server))
    other = evaluate(Session(), *task, *asked(server), "output=text")
    assert one.run.signature != other.run.signature
    assert other.questions["rows_equal"] == [0.0] * 4
