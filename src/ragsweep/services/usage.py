"""Count the calls and tokens of a command, price them, and refuse calls when the budget is spent."""

import math
import re
from dataclasses import astuple, dataclass, field, replace
from threading import Lock
from typing import Protocol

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import BUDGET_SPENT
from ragsweep.core.plurals import counted
from ragsweep.core.types import Usage
from ragsweep.services.errors import CallFailed

LIMITS = ("calls", "tokens", "money")


class Pricing(Protocol):
    """The prices of models, such as `ragsweep.parts.prices.Prices`."""

    currency: str

    def money(self, model: str, usage: Usage, *others: str) -> float:
        """Return the cost of ``usage``, at the price of the first of the models that has a price; NaN if none has."""


class NoPrices:
    """A price table without models."""

    currency = ""

    def money(self, model: str, usage: Usage, *others: str) -> float:
        """Return NaN, because the prices are unknown."""
        return math.nan


@dataclass(frozen=True)
class Budget:
    """Limits on the usage of one process; None means no limit. Money is in the currency of the prices."""

    calls: int | None = None
    tokens: int | None = None
    money: float | None = None

    def check(self) -> None:
        """Raise ConfigError unless each limit is None or a number of at least 0."""
        for name in LIMITS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
                raise ConfigError(f"budget.{name}: must be a number of at least 0, or null, got {value!r}")


@dataclass(frozen=True)
class UsageTotals:
    """Total calls and tokens, and the total cost where prices are known; a retried call counts once."""

    calls: int = 0
    tokens: int = 0
    money: float = 0.0
    estimated: bool = False  # the service did not report all token counts
    unpriced: bool = False  # a call has no known price


def sum_usage(*used: Usage) -> Usage:
    """Return the total usage of several calls, marked as estimated if the usage of any call is estimated."""
    calls, tokens_in, tokens_out, estimated = zip(Usage(), *used, strict=True)
    return Usage(sum(calls), sum(tokens_in), sum(tokens_out), any(estimated))


@dataclass
class UsageMeter:
    """A counter of the usage of one command in one process, with the command's prices and budget."""

    totals: UsageTotals = UsageTotals()
    budget: Budget = Budget()
    prices: Pricing = field(default_factory=NoPrices)
    money_key: str = ""  # config key of another limit on money, or ""
    failures: dict[str, tuple[int, str]] = field(default_factory=dict)  # reason -> number of failed calls, last message
    _before: UsageTotals = UsageTotals()  # the totals when the budget began to apply
    _lock: Lock = field(default_factory=Lock)

    def limit(self, budget: Budget, prices: Pricing) -> bool:
        """Set the budget and prices; return whether the budget changed. A new budget does not include earlier usage."""
        is_new = budget != self.budget
        if is_new:
            self._before = self.totals
        self.budget, self.prices = budget, prices
        return is_new

    def check_price(self, model: str, counted: bool = True) -> None:
        """Raise ConfigError if ``model`` has no price but money is limited, because the limit could not be enforced.

        If calls do not report token counts (``counted`` is false), any price other than 0 counts as unknown.
        """
        key = "budget.money" if self.budget.money is not None else self.money_key
        if not key or not math.isnan(self.prices.money(model, Usage(1, int(counted), int(counted)))):
            return
        pattern, limit = re.sub(r"[^\w./-].*", "*", model), key.removesuffix("money")
        fact = f'the model "{model}" has no price; add its prices per million tokens with'
        way_out = f"'prices.models={{{pattern}: [INPUT, OUTPUT]}}', or replace {key} with {limit}tokens"
        if not counted:
            paths = "system.tokens_in and system.tokens_out, or " if "://" in model else ""
            fact = f"{model} reports no token counts; set {paths}the price 0 with"
            way_out = f"'prices.models={{{pattern}: [0, 0]}}', or replace {key} with {limit}calls"
        raise ConfigError(f"{key} cannot be enforced: {fact} {way_out}")

    def admit(self) -> None:
        """Count a call before it is made; raise CallFailed, without counting it, if the budget is spent."""
        with self._lock:
            for name in LIMITS:
                limit, used = getattr(self.budget, name), getattr(self.totals, name) - getattr(self._before, name)
                if limit is not None and used >= limit:
                    fact = f"the budget is spent: budget.{name}={limit:.10g}, used {used:.10g}"
                    rest = ", or run again (rerun=true for a finished sweep) for the remaining calls" if limit else ""
                    raise CallFailed(f"{fact}; raise the limit{rest}", BUDGET_SPENT)
            self.totals = replace(self.totals, calls=self.totals.calls + 1)

    def record(self, model: str, usage: Usage) -> None:
        """Add the tokens of a finished call to the totals, and their cost if ``model`` has a price."""
        money = self.prices.money(model, usage)
        with self._lock:
            calls, tokens, spent, estimated, unpriced = astuple(self.totals)
            tokens += usage.tokens_in + usage.tokens_out
            spent += 0.0 if math.isnan(money) else money
            estimated, unpriced = estimated or usage.estimated, unpriced or math.isnan(money)
            self.totals = UsageTotals(calls, tokens, spent, estimated, unpriced)

    def note_failure(self, failure: CallFailed) -> None:
        """Count a permanently failed call under its reason, and keep the latest message."""
        with self._lock:
            self.failures[failure.reason] = self.failures.get(failure.reason, (0, ""))[0] + 1, str(failure)

    def since(self, before: UsageTotals) -> dict[str, float]:
        """Return the usage since ``before`` as a mapping with the keys "calls", "tokens" and "money"."""
        return {name: float(getattr(self.totals, name) - getattr(before, name)) for name in LIMITS}

    def describe(self, before: UsageTotals) -> str:
        """Return the usage since ``before`` as text: calls, tokens and any known cost; "" if no calls were made."""
        now = self.totals
        if now.calls == before.calls:
            return ""
        about = "about " if now.estimated else ""
        text = f"{counted(now.calls - before.calls, 'call')} · {about}{now.tokens - before.tokens:,} tokens"
        about = "at least " if now.unpriced else about
        spent = now.money - before.money
        return f"{text} · {about}{spent:.4f} {self.prices.currency}" if spent > 0 else text
