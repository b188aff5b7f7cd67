"""Write search queries: the question, the conversation, or the question rewritten by a model."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import MALFORMED
from ragsweep.core.types import Answer, CostEstimate, CostEstimator, PartTraits, Request, RequestSize
from ragsweep.parts.prompts import fenced_messages


class Last:
    """A query without the history: the golden set's query for the question, else the question itself."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", silent=True)

    def write(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Report the question of each request as its query, by calling ``done(index, answer)``."""
        for number, request in enumerate(requests):
            done(number, Answer(request.question))


@dataclass(eq=False)
class History:
    """A query that consists of earlier turns and the question, joined by line breaks.

    Of the turns whose role is in ``roles``, the last ``turns`` are included (None: all).
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    turns: int | None = None
    roles: Sequence[str] = ("user", "assistant")

    def check(self) -> None:
        """Raise ConfigError if ``turns`` is below 1, or if ``roles`` is empty or contains an unknown role."""
        if self.turns is not None and self.turns < 1:
            raise ConfigError(f"query.turns must be at least 1, or null for all, got {self.turns}")
        if not self.roles or not set(self.roles) <= {"user", "assistant"}:
            raise ConfigError(f"query.roles must be [user], [assistant] or [user, assistant], got {self.roles!r}")

    def write(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Report the joined turns and question of each request as its query, by calling ``done(index, answer)``."""
        for number, request in enumerate(requests):
            texts = [turn.text for turn in request.history if turn.role in self.roles]
            kept = texts if self.turns is None else texts[-self.turns :]
            done(number, Answer("\n".join([*kept, request.question])))


class Rewrite:
    """A standalone query: the config's model rewrites the last question of the conversation.

    The prompt encloses the conversation in tags that the conversation cannot imitate. The model is instructed not to
    follow instructions between the tags. A blank query counts as failed. A ``response_format`` in the model's ``extra``
    is for answers and is not sent.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2", unread={"llm": ("prompt",)})

    def __init__(self, llm: Any, instruction: str) -> None:
        self.instruction = instruction
        self.llm = copy.copy(llm)
        self._can_write = hasattr(llm, "prompt")
        if self._can_write:
            self.llm.prompt = self
        if extra := getattr(llm, "extra", None):
            self.llm.extra = {name: value for name, value in extra.items() if name != "response_format"}

    def check(self) -> None:
        """Raise ConfigError if the config has no model, or if the instruction is blank. No call is made."""
        if not self._can_write:
            raise ConfigError(
                "rewriting a question needs a model, but this config has none; choose llm=openai, mistral, vllm,"
                " ollama, transformers, gguf or smollm2, or query=history"
            )
        if not self.instruction.strip():
            raise ConfigError("query.instruction is empty; describe how to rewrite the question")

    def messages(self, request: Request) -> list[dict[str, str]]:
        """Return two chat messages, in place of the model's prompt: the instruction, and the conversation in tags."""
        return fenced_messages(self.instruction, request)

    def is_refusal(self, text: str) -> bool:
        """Return False, because every text is a query."""
        return False

    def write(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Report the query of each request by calling ``done(index, answer)``.

        Raises the same errors as the model's ``generate``.
        """

        def take(number: int, answer: Answer) -> None:
            text = " ".join(answer.text.split())
            done(number, answer._replace(text=text, failed=answer.failed or ("" if text else MALFORMED)))

        self.llm.generate(requests, take)

    def estimate_cost(self, size: RequestSize) -> CostEstimate:
        """Return the model's estimate of the highest cost of one query.

        A model that gives no estimate, such as a local one, costs 0.
        """
        return self.llm.estimate_cost(size) if isinstance(self.llm, CostEstimator) else CostEstimate(0, 0, 0)
