"""A plan names the embedders that compute in another dtype than float32; latency depends on the device."""

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


def test_each_device_has_its_own_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses(device: str) -> list[str]:
        given = ["retriever=vector", "reranker=late_interaction", f"embedder.device={device}", "embedder.dtype=float32"]
        graph = prepare(Session(), *given).graph
        return [graph.ranking.address, *(graph.latency[stage].address for stage in ("embed_queries", "rerank"))]

    monkeypatch.setattr(model_files, "GPUS", ())
    cpu, cuda = addresses("cpu"), addresses("cuda")
    assert addresses("auto") == cpu
    assert cuda[0] == cpu[0]
    assert not set(cuda[1:]) & set(cpu[1:])
    monkeypatch.setattr(model_files, "GPUS", ("/dev/null",))
    assert not set(addresses("auto")[1:]) & set(cpu[1:])
