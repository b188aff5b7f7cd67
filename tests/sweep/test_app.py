"""A config becomes parameters as they are typed, and one number for whoever asked."""

from __future__ import annotations

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.sweep.app import Job
from ragsweep.sweep.composition import compose_jobs, read_command
from ragsweep.sweep.plain import resolved


def job(*overrides: str) -> Job:
    config = compose_jobs(read_command(overrides, multirun=False))[0]
    return Job(config, "x", overrides, {"retriever": "hybrid_rrf", "hydra/launcher": "basic"})


def test_parameters_are_spelled_as_they_are_typed() -> None:
    found = job("top_k=7", "dataset.limit=null", "embedder.normalize=false").parameters()
    assert found["top_k"] == "7"
    assert found["dataset.limit"] == "null"
    assert found["embedder.normalize"] == "false"
    assert found["retriever"] == "hybrid_rrf"
    assert found["retriever.legs.bm25.k1"] == "1.5"


def test_every_parameter_can_be_typed_back() -> None:
    first = job("retriever.legs.bm25.k1=1.2").parameters()
    lines = [f"{name}={value}" for name, value in first.items() if "." in name or name in ("top_k", "depth", "seed")]
    assert job(*lines).parameters() == first


def test_part_named_by_interpolation_appears_under_its_own_key_only() -> None:
    names = job().parameters()
    assert "embedder.model" in names
    assert not any("vector.embedder" in name for name in names)


def test_what_cannot_change_a_result_is_no_parameter() -> None:
    assert not any(
        name.startswith(("tracking.", "store.", "metrics.", "plan", "headline")) for name in job().parameters()
    )


def test_values_still_missing_are_named_all_at_once() -> None:
    with pytest.raises(ConfigError) as fault:
        resolved(job("dataset=jsonl", "embedder=sentence_transformer").config)
    assert "dataset.corpus: needs a value" in str(fault.value)
    assert "embedder.model: needs a value" in str(fault.value)
