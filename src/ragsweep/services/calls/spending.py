"""Count what this process's calls use, and stop between questions when that is as much as it may be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ragsweep.core.errors import ConfigError
from ragsweep.core.reasons import BUDGET_SPENT
from ragsweep.core.types import Usage
from ragsweep.services.calls.failures import CallFailed

LIMITS = ("calls", "tokens", "money")

Money = Callable[[str, Usage], float]
"""What a usage of a model costs; NaN where nobody knows."""


@dataclass
class Turn:
    """The item that a call is made for."""

    number: int = 0
    begun: bool = False  # a call was made for it: it is paid for in part, and may end


@dataclass(frozen=True)
class Budget:
    """The most that one process may use; None is no limit. Money is in the currency of the prices."""

    calls: int | None = None
    tokens: int | None = None
    money: float | None = None

    def check(self) -> None:
        """Raise ConfigError for what is no limit."""
        for name in LIMITS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
                raise ConfigError(f"budget.{name}: must be a number of at least 0, or null, given {value!r}")


@dataclass(frozen=True)
class Spent:
    """What was used: calls (those made again count once), tokens, and money as far as prices are known."""

    calls: int = 0
    tokens: int = 0
    money: float = 0.0
    without_price: int = 0  # calls whose model has no price
    estimated: bool = False  # some tokens were not counted by the service


class Spending:
    """What was used since the process began, or since it was last set to nothing."""

    def __init__(self) -> None:
        self.now = Spent()
        self.before = Spent()  # what was used when the budget began to hold
        self.budget = Budget()
        self.money: Money = _unknown
        self.currency = ""

    def limit(self, budget: Budget, money: Money, currency: str = "") -> None:
        """Set the limits and the prices; what was used before counts, unless these are other limits."""
        if budget != self.budget:
            self.before = self.now
        self.budget, self.money, self.currency = budget, money, currency

    def reset(self) -> None:
        """Count from nothing, without limits."""
        self.now, self.before, self.budget, self.money, self.currency = Spent(), Spent(), Budget(), _unknown, ""

    def check(self, model: str) -> None:
        """Raise ConfigError where money is limited and a model has no price: the limit could not be kept."""
        if self.budget.money is not None and math.isnan(self.money(model, Usage(1, 1, 1))):
            raise ConfigError(
                f'budget.money cannot be kept: the prices have no model "{model}"; add it, or limit tokens'
            )

    def admit(self, turn: Turn) -> None:
        """Count a call for an item. Raises CallFailed where the budget is spent, unless the item was begun."""
        if not turn.begun and (spent := self._spent()):
            raise CallFailed(f"the budget is spent: {spent}", BUDGET_SPENT)
        turn.begun = True
        self.now = replace(self.now, calls=self.now.calls + 1)

    def paid(self, model: str, usage: Usage) -> None:
        """Count the tokens of a call."""
        now, money = self.now, self.money(model, usage)
        known = not math.isnan(money)
        self.now = replace(
            now,
            tokens=now.tokens + usage.tokens_in + usage.tokens_out,
            money=now.money + (money if known else 0.0),
            without_price=now.without_price + (0 if known else usage.calls),
            estimated=now.estimated or usage.estimated,
        )

    def since(self, before: Spent) -> dict[str, float]:
        """Return what was used since ``before``, by the names of the limits."""
        return {name: float(getattr(self.now, name) - getattr(before, name)) for name in LIMITS}

    def told(self, before: Spent) -> str:
        """Say what was used since ``before``: calls, tokens and money; empty where nothing was."""
        now = self.now
        if now.calls == before.calls:
            return ""
        about = "about " if now.estimated else ""
        said = f"{now.calls - before.calls:,} calls · {about}{now.tokens - before.tokens:,} tokens"
        return f"{said} · {about}{now.money - before.money:.4f} {self.currency}" if now.money > before.money else said

    def _spent(self) -> str:
        """Say which limit is reached; empty where none is."""
        for name in LIMITS:
            limit, used = getattr(self.budget, name), getattr(self.now, name) - getattr(self.before, name)
            if limit is not None and used >= limit:
                return f"budget.{name}={limit:g}, used {used:g}"
        return ""


def _unknown(model: str, usage: Usage) -> float:
    return math.nan


spending = Spending()
"""What this process uses: one count for all parts, whatever they call."""
