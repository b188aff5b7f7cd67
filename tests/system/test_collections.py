"""Published numbers, on the real collections."""

from __future__ import annotations

from pathlib import Path

import pytest

from configs import beir, evaluate
from ragsweep.sweep.session import Session


@pytest.fixture(scope="module")
def session() -> Session:
    return Session()


def measured(session: Session, folder: Path, *overrides: str) -> dict[str, float]:
    result = evaluate(session, *beir(folder), "chunker=none", *overrides)
    return {name: summary.value for name, summary in result.summaries.items()}


def test_bm25_on_scifact(session: Session, collections: Path) -> None:
    found = measured(session, collections / "scifact", "retriever=bm25")
    assert found["ndcg_at_10"] == pytest.approx(0.686, abs=0.006)
    assert found["recall_at_10"] == pytest.approx(0.819, abs=0.006)
    assert found["recall_at_100"] == pytest.approx(0.913, abs=0.006)


@pytest.mark.parametrize(
    ("folder", "questions", "language"),
    [("python_faq_en", 172, "english"), ("python_faq_fr", 171, "french"), ("squad2_dev", 2910, "english"),
     ("piaf_1_1", 7569, "french"), ("cranfield", 225, "english")],
)  # fmt: skip
def test_collection_runs_without_editing_anything(
    folder: str, questions: int, language: str, session: Session, collections: Path
) -> None:
    result = evaluate(
        session, *beir(collections / folder), "chunker=none", "retriever=bm25", f"retriever.language={language}"
    )
    assert result.summaries["ndcg_at_10"].n_scored == questions
    assert 0.4 < result.summaries["ndcg_at_10"].value < 0.95


@pytest.mark.nightly
def test_vectors_and_hybrids_on_scifact(session: Session, collections: Path) -> None:
    scifact = collections / "scifact"
    vector = measured(session, scifact, "retriever=vector", "embedder.dtype=float32")
    assert vector["ndcg_at_10"] == pytest.approx(0.64508, abs=0.002)
    assert vector["recall_at_10"] == pytest.approx(0.78333, abs=0.002)
    assert vector["recall_at_100"] == pytest.approx(0.925, abs=0.002)
    rrf = measured(session, scifact, "retriever=hybrid_rrf", "retriever.k=60", "embedder.dtype=float32")
    assert rrf["ndcg_at_10"] == pytest.approx(0.717, abs=0.005)
    convex = measured(session, scifact, "retriever=hybrid_convex", "retriever.alpha=0.5", "embedder.dtype=float32")
    assert convex["ndcg_at_10"] == pytest.approx(0.729, abs=0.005)
