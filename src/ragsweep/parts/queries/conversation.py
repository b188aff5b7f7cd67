"""Search with the unchanged conversation: the question, optionally with earlier turns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Answer, PartTraits, Request


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
