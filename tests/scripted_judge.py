"""A judge that follows a script over real HTTP: what it says follows from the prompt alone."""

from __future__ import annotations

from typing import Any

from llm_server import LlmServer, ModelRequest
from llm_server.requests import default_answer
from ragsweep.core.types import Case, Judgement
from ragsweep.parts.judges import OpenAIJudge
from ragsweep.parts.metrics import (
    RagasAnswerCorrectness,
    RagasAnswerRelevancy,
    RagasContextPrecision,
    RagasContextPrecisionWithoutReference,
    RagasContextRecall,
    RagasFactualCorrectness,
    RagasFaithfulness,
    RagasNoiseSensitivity,
    RagasSemanticSimilarity,
)

METRICS = (
    RagasFaithfulness, RagasAnswerRelevancy, RagasContextPrecision, RagasContextPrecisionWithoutReference,
    RagasContextRecall, RagasAnswerCorrectness, RagasFactualCorrectness, RagasSemanticSimilarity,
    RagasNoiseSensitivity,
)  # fmt: skip


def judge_at(server: LlmServer, **given: Any) -> OpenAIJudge:
    """Make a judge of a server, quick to give up."""
    chosen: dict[str, Any] = {"embeddings_model": "words", "concurrency": 16, "timeout": 5.0, "deadline": 30.0} | given
    return OpenAIJudge(server.base_url, "scripted", **chosen)


def judged(metric: Any, cases: list[Case]) -> list[Judgement]:
    """Judge the cases, and see that each is told once."""
    found: dict[int, Judgement] = {}

    def done(number: int, verdict: Judgement) -> None:
        assert number not in found
        found[number] = verdict

    metric.judge(cases, done)
    return [found[number] for number in range(len(cases))]


def accepting(asked: ModelRequest) -> Any:
    """Find every answer right, so that judge_swayed makes both of its calls."""
    is_verdict = "verdict" in (asked.schema or {}).get("properties", {})
    return {"reason": "so it is", "verdict": 1} if is_verdict else default_answer(asked)


def cases(count: int) -> list[Case]:
    """Make cases that differ in everything."""
    return [
        Case(
            f"Who wrote letter {n}?",
            f"Alice wrote letter {n}. She lived in town {n % 3}.",
            (f"Letter {n} is by Alice.", f"Town {n} has a mill.", "Nothing of interest."),
            f"Letter {n} was written by Alice, who never left town {n % 5}.",
        )
        for n in range(count)
    ]


def form(asked: ModelRequest) -> str:
    """Name the fields of the answer that is asked for: what kind of a question it is."""
    schema = asked.schema or {}
    return " ".join(sorted(schema.get("properties", {})))


def text_of(prompt: str) -> str:
    """Return what a prompt is about: all behind its examples."""
    return prompt.rpartition("Now perform the same with the following input")[2]
