"""Twelve questions with keywords and without evidence: search and conversation are counted, live and at the end."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer
from llm_server.requests import ModelRequest, default_answer
from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result
from ragsweep.report.answers import answer_lines
from ragsweep.sweep.running.session import Session
from support import nightly, write_rows
from support.commands import evaluate, printed

pytestmark = pytest.mark.slow

ANIMALS = ("cat", "dog", "cow", "owl", "bee", "fox", "hen", "elk", "yak")
QUESTIONS: list[dict[str, Any]] = [
    *({"id": f"s{n}", "question": f"What does the {name} eat?", "expected_keywords": [name, "grass"],
       "category": "factual", "notes": ""} for n, name in enumerate(ANIMALS)),
    *({"id": f"c{n}", "question": text, "expected_keywords": ["welcome"], "category": "conversation",
       "notes": "small talk"} for n, text in enumerate(("Hello!", "Thank you!", "Goodbye!"))),
]  # fmt: skip


def answer(request: ModelRequest) -> Any:
    """Answer as a model that knows one keyword of each question, and judge as the server does by default."""
    asked = next((row for row in QUESTIONS if row["question"] in request.last), None)
    if asked is None or request.schema is not None:
        return default_answer(request)
    return "You are welcome." if asked["category"] == "conversation" else f"The {asked['expected_keywords'][0]} eats."


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with LlmServer(answer) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = [{"id": name, "text": f"The {name} eats grass and more."} for name in ANIMALS]
    write_rows(tmp_path / "corpus.jsonl", documents)
    write_rows(tmp_path / "questions.jsonl", QUESTIONS)
    with (tmp_path / "questions.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, QUESTIONS[0])
        writer.writeheader()
        writer.writerows({**row, "expected_keywords": "; ".join(row["expected_keywords"])} for row in QUESTIONS)
    return tmp_path


def overrides(folder: Path, server: LlmServer, ending: str = "csv") -> list[str]:
    return [
        "dataset=csv", f"dataset.corpus={folder}/corpus.jsonl", f"dataset.questions={folder}/questions.{ending}",
        "dataset.columns={keywords: expected_keywords}", "dataset.conversation=[conversation]", "task=keywords",
        "retriever=bm25", "llm=openai", "judge=openai", *server.overrides("llm", "judge"),
    ]  # fmt: skip


def evaluated(*lines: str) -> Result:
    return evaluate(Session(), *lines)


@pytest.mark.parametrize("ending", ["csv", nightly("jsonl")])
def test_keywords_ragas_and_routing_are_measured(folder: Path, server: LlmServer, ending: str) -> None:
    found = evaluated(*overrides(folder, server, ending), "router=rule")
    assert found.run.config["objective"] == "keyword_coverage"
    assert found.summaries.metrics["keyword_coverage"].value == pytest.approx((9 * 0.5 + 3 * 1) / 12)
    assert (found.summaries.metrics["router_accuracy"].value, found.summaries.metrics["needless_search"].value) == (
        1.0,
        0.0,
    )
    for name in ("ragas_faithfulness", "ragas_answer_relevancy", "ragas_context_precision_without_reference"):
        assert found.summaries.metrics[name].reasons["conversational"] == 3
        assert found.summaries.metrics[name].n_scored + sum(found.summaries.metrics[name].reasons.values()) == 12
    assert found.questions["needs_retrieval"] == [True] * 9 + [False] * 3
    assert found.questions["searched"] == [True] * 9 + [False] * 3
    searched = [line.data for line in answer_lines([found]) if "searched" in line.data]
    assert searched == [{"questions": 9, "searched": 9}, {"questions": 3, "searched": 0}]
    assert set(found.summaries.groups["category"]) == {"conversation", "factual"}


def test_conversation_that_is_searched_is_counted(folder: Path, server: LlmServer) -> None:
    found = evaluated(*overrides(folder, server), "router=rule", "router.conversation=[hello]")
    assert {"questions": 3, "searched": 2} in [line.data for line in answer_lines([found])]
    assert found.summaries.metrics["needless_search"].value == pytest.approx(2 / 3)


def test_category_that_no_question_has_is_refused(folder: Path, server: LlmServer) -> None:
    with pytest.raises(
        ConfigError, match=r"dataset\.conversation: no question of .* has the category \"chat\"; known: "
    ):
        evaluated(*overrides(folder, server), "dataset.conversation=[chat]")


@pytest.mark.nightly
def test_a_line_for_each_question_as_its_answer_arrives(folder: Path, server: LlmServer) -> None:
    shown = ["progress=questions", "tracking=none"]
    said = printed(folder, "-m", "ragsweep", "run", *overrides(folder, server), *shown, COLUMNS="160")
    lines = [line for line in said.splitlines() if line.startswith("question ")]
    assert len(lines) == 12
    spoken = [line for line in lines if "no context" in line]
    assert len(spoken) == 3
    assert all(re.search(r"^question +\d+\.\d\d s · no context · keywords 100 % · ", line) for line in spoken)
    assert sum("s · searched · keywords 50 % · What does the" in line for line in lines) == 9
