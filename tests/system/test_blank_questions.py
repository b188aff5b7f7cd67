"""A blank question is an edge case that every part survives, and that is scored and counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import GOLDEN, write_dataset
from configs import evaluate
from llm_server import LlmServer
from llm_server.requests import default_answer
from ragsweep.core.results import COMPLETE
from ragsweep.sweep.session import Session
from tiny_models import tiny_classifier

__all__ = ["tiny_classifier"]

BLANK = [
    {"id": "blank", "question": "", "answerable": False},
    {"id": "spaces", "question": " \n\t", "reference": "What do you want to know?"},
    {"id": "found", "question": " ", "evidence": [{"document": "cats"}]},
]
LEGS = [
    ["retriever=bm25", "retriever.backend=rank_bm25"],
    ["retriever=vector"],
    ["retriever=vector", "retriever/index=hnsw"],
    ["retriever=hybrid_rrf"],
    ["retriever=hybrid_convex"],
    ["retriever=hybrid_rrf", "reranker=late_interaction", "reranker.candidates=4"],
    ["retriever=vector", "reranker=cross_encoder", "reranker.candidates=4"],
]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with LlmServer(lambda asked: default_answer(asked) if asked.schema else "Please say more.") as made:
        yield made


@pytest.mark.parametrize("legs", LEGS, ids=" ".join)
@pytest.mark.parametrize("answering", ["llm=extractive", "llm=openai"])
def test_blank_question_is_evaluated_and_counted_whatever_the_parts(
    legs: list[str], answering: str, session: Session, server: LlmServer, tiny_classifier: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    data = [line for line in write_dataset(tmp_path, [*GOLDEN, *BLANK]) if not line.startswith("retriever")]
    service = [f"llm.base_url={server.base_url}", "llm.key_env=null", "llm.model=m"] if "openai" in answering else []
    model = [f"reranker.model={tiny_classifier}"] if "reranker=cross_encoder" in legs else []
    router = ["router=rule"] if "openai" in answering else []
    result = evaluate(
        session, *data, *legs, *model, answering, *service, *router, "depth=4", "top_k=2", "tracking=none"
    )
    assert result.state == COMPLETE
    assert "blank questions, asked as they are: 3" in result.dataset.notes
    assert result.groups["category"]["blank"]["success_rate"].n_scored == 2
    assert len(result.outcomes["question_id"]) == len(GOLDEN) + len(BLANK)
