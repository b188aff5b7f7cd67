"""A plan names the embedders that compute in another dtype than float32."""

import pytest

from ragsweep.evaluation.experiment import dtype_lines
from ragsweep.parts import model_files
from ragsweep.sweep.running.session import Session
from support.commands import prepare


def test_a_dtype_that_the_processor_decides_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "cpu_flags", lambda: frozenset({"avx512_vnni"}))
    monkeypatch.setattr(model_files, "GPUS", ())
    session = Session()
    configs = [prepare(session, f"retriever={name}") for name in ("vector", "hybrid_rrf", "bm25")]
    assert dtype_lines(configs) == [("embedder", "minilm in int8")]


def test_float32_is_not_named() -> None:
    assert dtype_lines([prepare(Session(), "retriever=vector", "embedder.dtype=float32")]) == []
