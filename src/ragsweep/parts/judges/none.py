"""The placeholder for the judge in configs without a judge."""

from collections.abc import Sequence
from typing import ClassVar, NoReturn

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import PartTraits
from ragsweep.parts.judging import ResponseSchema


class NoJudge:
    """Placeholder for a missing judge: its methods raise ConfigError, because no metric can be judged."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    samples = 1
    fence = True

    def check_metric(self, metric: str, embeddings: bool) -> NoReturn:
        """Raise ConfigError, because no judge is configured."""
        raise ConfigError(
            "needs a judge; choose judge=openai, judge=ollama or judge=vllm, or remove every metric that needs a judge"
            f" (this one with ~metrics.{metric})"
        )

    async def ask(self, prompt: str, schema: ResponseSchema, sample: int, repetition: int) -> NoReturn:
        """Raise ConfigError, because there is no judge that could reply."""
        self.check_metric(schema.name, False)

    async def embed(self, texts: Sequence[str]) -> NoReturn:
        """Raise ConfigError, because there is no judge that could embed texts."""
        self.check_metric("an embedding", True)
