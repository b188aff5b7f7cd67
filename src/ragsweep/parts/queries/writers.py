"""Write search queries: the question alone, the conversation, or a model's rewrite of the question."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import key_check
from ragsweep.core.missing import MALFORMED
from ragsweep.core.types import Answer, CostEstimate, CostEstimator, PartTraits, Request, RequestSize
from ragsweep.parts.prompts import fenced_messages


class Last:
    """Search with the question alone."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", silent=True)

    def write(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Report the question of each request as its query."""
        for number, request in enumerate(requests):
            done(number, Answer(request.question))


@dataclass(eq=False)
class History:
    """Search with the last ``turns`` turns (None: all) of the given ``roles``, and then the question, one per line."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    turns: int | None = None
    roles: Sequence[str] = ("user", "assistant")

    def check(self) -> None:
        """Raise ConfigError for ``turns`` below 1, for an unknown role, and if there are no roles."""
        if self.turns is not None and self.turns < 1:
            raise ConfigError(f"query.turns must be at least 1, or null for all, got {self.turns}")
        if not self.roles or not set(self.roles) <= {"user", "assistant"}:
            raise ConfigError(f"query.roles must be [user], [assistant] or [user, assistant], got {self.roles!r}")

    def write(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Report the joined texts of each request as its query."""
        for number, request in enumerate(requests):
            texts = [turn.text for turn in request.history if turn.role in self.roles]
            kept = texts if self.turns is None else texts[-self.turns :]
            done(number, Answer("\n".join([*kept, request.question])))


class Rewrite:
    """Rewrite the question with the config's model into a standalone query.

    The conversation is enclosed in fences that it cannot contain, and the model is told not to follow instructions
    between them. A blank query counts as a failure.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", unread={"llm": ("prompt",)})

    def __init__(self, llm: Any, instruction: str) -> None:
        self.instruction = instruction
        self.llm = copy.copy(llm)
        self._can_write = hasattr(llm, "prompt")
        if self._can_write:
            self.llm.prompt = _Prompt(instruction)

    def check(self) -> None:
        """Raise ConfigError if the config has no model, or if the instruction is empty; makes no call."""
        if not self._can_write:
            raise ConfigError(
                "a model must rewrite the question, but this config has none; choose llm=openai, mistral, vllm, ollama,"
                " transformers, gguf or smollm2, or query=history"
            )
        if not self.instruction.strip():
            raise ConfigError("query.instruction is empty; describe how to rewrite the question")

    def check_key(self) -> None:
        """Raise ConfigError if the model's key is not in the environment; makes no call."""
        if check := key_check(self.llm):
            check()

    def write(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Write the query of each request. Raises EndpointFailed or ConfigError if no call can succeed."""

        def take(number: int, answer: Answer) -> None:
            text = " ".join(answer.text.split())
            done(number, answer._replace(text=text, failed=answer.failed or ("" if text else MALFORMED)))

        self.llm.generate(requests, take)

    def estimate_cost(self, size: RequestSize) -> CostEstimate:
        """Return the highest possible cost of one query; 0 for a local model."""
        return self.llm.estimate_cost(size) if isinstance(self.llm, CostEstimator) else CostEstimate(0, 0, 0)


@dataclass(frozen=True)
class _Prompt:
    """The prompt for a query, instead of the prompt for an answer."""

    instruction: str
    citations: ClassVar[bool] = False

    def messages(self, request: Request) -> list[dict[str, str]]:
        """Return the instruction and the fenced conversation, without passages."""
        return fenced_messages(self.instruction, request)

    def is_refusal(self, text: str) -> bool:
        """Return False: every text is a query."""
        return False
