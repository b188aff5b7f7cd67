"""The placeholder for the judge in configs without a judge."""

from typing import ClassVar, NoReturn

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import PartTraits


class NoJudge:
    """Placeholder for a missing judge: a metric that needs a judge is refused before any case is judged."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    def check_metric(self, metric: str, embeddings: bool) -> NoReturn:
        """Raise ConfigError, because no judge is configured."""
        raise ConfigError(
            "needs a judge; choose judge=openai, judge=ollama or judge=vllm, or remove every metric that needs a judge"
            f" (this one with ~metrics.{metric})"
        )
