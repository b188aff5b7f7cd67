"""No judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from ragsweep.core.errors import ConfigError
from ragsweep.parts.judging import Form


class NoJudge:
    """Refuse the metrics that need a judge; all others do not ask."""

    VERSION = "1"
    samples = 1
    fence = True

    def ready(self, metric: str, embeddings: bool) -> NoReturn:
        """Raise ConfigError: there is nobody to ask."""
        raise ConfigError(f"{metric} needs a judge; choose one with judge=openai, judge=ollama or judge=vllm")

    async def ask(self, prompt: str, form: Form, sample: int, repetition: int) -> NoReturn:
        """Raise ConfigError."""
        self.ready(form.name, False)

    async def embed(self, texts: Sequence[str]) -> NoReturn:
        """Raise ConfigError."""
        self.ready("an embedding", True)
