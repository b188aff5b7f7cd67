"""A blank question is an edge case that every part survives, and that is scored and counted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_server import LlmServer
from llm_server.requests import default_answer
from ragsweep.core.results import COMPLETE
from ragsweep.sweep.running.session import Session
from support import nightly
from support.commands import GOLDEN, evaluate, write_dataset

pytestmark = pytest.mark.slow

BLANK = [
    {"id": "blank", "question": "", "answerable": False},
    {"id": "spaces", "question": " \n\t", "reference": "What do you want to know?"},
    {"id": "found", "question": " ", "evidence": [{"document": "cats"}]},
]
CHOICES = [
    ["llm=openai", "retriever=hybrid_rrf", "embedder=hashing"],
    ["llm=extractive", "retriever=vector", "embedder=hashing", "reranker=cross_encoder", "reranker.candidates=4"],
]
MORE = [
    ["llm=openai", "retriever=vector"],
    ["llm=openai", "retriever=hybrid_rrf", "reranker=late_interaction", "reranker.candidates=4"],
    ["llm=extractive", "retriever=vector", "reranker=cross_encoder", "reranker.candidates=4"],
    ["llm=extractive", "retriever=bm25", "retriever.backend=rank_bm25"],
    ["llm=extractive", "retriever=vector", "retriever/index=hnsw"],
    ["llm=openai", "retriever=hybrid_rrf"],
    ["llm=extractive", "retriever=hybrid_convex"],
]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session()


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with LlmServer(lambda asked: default_answer(asked) if asked.schema else "Please say more.") as made:
        yield made


@pytest.mark.parametrize("choices", [*CHOICES, *(nightly(one) for one in MORE)], ids=" ".join)
def test_blank_question_is_evaluated_and_counted_whatever_the_parts(
    choices: list[str], session: Session, server: LlmServer, tiny_classifier: Path, cwd: Path,

) -> None:  # fmt: skip
    data = [line for line in write_dataset(cwd, [*GOLDEN, *BLANK]) if not line.startswith("retriever")]
    service = [*server.overrides("llm"), "router=rule"]
    needed = {"llm=openai": service, "reranker=cross_encoder": [f"reranker.model={tiny_classifier}"]}
    more = [line for choice in choices for line in needed.get(choice, [])]
    result = evaluate(session, *data, *choices, *more, "depth=4", "top_k=2", "tracking=none")
    assert result.run.state == COMPLETE
    assert "blank questions, evaluated unchanged: 3" in result.run.dataset.notes
    assert result.summaries.groups["category"]["blank"]["success_rate"].n_scored == 2
    assert len(result.questions["question_id"]) == len(GOLDEN) + len(BLANK)
