"""Search with the conversation: the turns before the question, and the question."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Answer, Request


class History:
    """Join the last turns of the conversation, oldest first, and the question, a line each.

    Args:
        turns: How many turns before the question are taken, the latest ones; None for all.
        roles: Whose turns are taken, "user" and "assistant" or one of them.
    """

    VERSION = "1"

    def __init__(self, turns: int | None = None, roles: Sequence[str] = ("user", "assistant")) -> None:
        self.turns = turns
        self.roles = list(roles)

    def check(self) -> None:
        """Raise ConfigError for a number of turns below 1, and for roles that nobody has."""
        if self.turns is not None and self.turns < 1:
            raise ConfigError(f"query.turns is {self.turns}; it must be 1 or more, or null for all")
        if not self.roles or not set(self.roles) <= {"user", "assistant"}:
            raise ConfigError(f"query.roles must hold user, assistant or both, given {self.roles!r}")

    def write(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Join the texts of each request."""
        for number, request in enumerate(requests):
            said = [turn.text for turn in request.history if turn.role in self.roles]
            kept = said if self.turns is None else said[-self.turns :]
            done(number, Answer("\n".join([*kept, request.question])))
