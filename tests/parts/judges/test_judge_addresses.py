"""A stored verdict is the same judgement: every key of a judge is in its address, or changes no verdict."""

import copy
from typing import Any

import pytest
import yaml

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.sweep.composing.compose import config_folder
from support.commands import composed
from test_addresses import JUDGE, OF_EMBEDDINGS

PRESETS = ("openai", "ollama", "vllm")
CHANGED: dict[str, Any] = {
    "base_url": "http://elsewhere/v1", "model": "other", "temperature": 0.5, "max_tokens": 7, "seed": 9, "samples": 2,
    "replicate": 1, "fence": False, "structured": False, "embeddings_model": "others",
    "embeddings_base_url": "http://there/v1", "key_env": "OTHER_KEY", "embeddings_key_env": "THIRD_KEY",
    "concurrency": 3, "timeout": 3, "deadline": 3, "retries": 1, "requests_per_minute": 60, "tokens_per_minute": 600,
    "labels": "labels.csv", "thoughts": None,
}  # fmt: skip


def preset(name: str) -> dict[str, Any]:
    text = (config_folder() / "judge" / f"{name}.yaml").read_text("utf-8")
    return {**yaml.safe_load(text), "model": "m", "embeddings_model": "words", "embeddings": None}


def verdicts(judge: dict[str, Any], **metric: Any) -> str:
    """Return what tells the verdicts of a metric by a judge from those by another."""
    given = {"_target_": "ragsweep.parts.metrics.RagasFaithfulness", "judge": judge, **metric}
    return Builder().build(given, "metrics.m").spec.digest


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("key", [key for key in JUDGE if key != "_target_"])
def test_a_key_is_in_the_address_or_changes_no_verdict(name: str, key: str) -> None:
    before = preset(name)
    assert before[key] != CHANGED[key]
    assert (verdicts(before) == verdicts({**before, key: CHANGED[key]})) == (JUDGE[key] == "-")


def test_presets_have_all_keys_and_no_other() -> None:
    for name in PRESETS:
        assert set(preset(name)) == {*JUDGE, "embeddings"}


def test_embeddings_of_this_machine_are_in_the_address() -> None:
    config = yaml.safe_load((config_folder() / "judge" / "vllm.yaml").read_text("utf-8"))
    judge = {**config, "model": "m"}
    changed = copy.deepcopy(judge)
    changed["embeddings"]["normalize"] = False
    slower = copy.deepcopy(judge)
    slower["embeddings"]["batch_size"] = 1
    assert verdicts(judge) == verdicts(slower)
    assert len({verdicts(judge), verdicts(changed), verdicts({**judge, "embeddings": None})}) == 3
    assert {f"embeddings.{key}" for key in config["embeddings"]} == set(OF_EMBEDDINGS)


def test_another_version_of_ragas_is_another_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    real = metadata.version
    before = verdicts(preset("openai"))
    monkeypatch.setattr(metadata, "version", lambda name: "99" if name == "ragas" else real(name))
    assert verdicts(preset("openai")) != before


def test_another_fence_is_another_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    fenced, plain = preset("openai"), {**preset("openai"), "fence": False}
    before = verdicts(fenced), verdicts(plain)
    monkeypatch.setattr("ragsweep.parts.fences.VERSION", "99")
    assert verdicts(fenced) != before[0]
    assert verdicts(plain) == before[1]


def test_every_metric_can_be_chosen_and_needs_a_judge() -> None:
    config = composed("metrics=ragas", "judge=ollama", "llm=extractive").values
    judged = {name: metric for name, metric in config["metrics"].items() if "judge" in metric}
    assert len(judged) == 9
    for name, metric in judged.items():
        assert Builder().build(metric, f"metrics.{name}").value.name == name
        with pytest.raises(ConfigError, match=rf"metrics\.{name}: .*judge="):
            Builder().build({**metric, "judge": {"_target_": "ragsweep.parts.judges.NoJudge"}}, f"metrics.{name}")
