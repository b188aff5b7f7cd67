"""Say what calls cost in money, from a dated table of prices."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date as Date
from fnmatch import fnmatchcase
from typing import NamedTuple

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Usage

MILLION = 1_000_000


class Cost(NamedTuple):
    """What several calls cost: the money of those whose model has a price, and the calls of the others."""

    money: float
    calls: int
    calls_without_price: int
    estimated: bool  # some tokens were not counted by the service but estimated


class Prices:
    """Prices of tokens by model, in one currency. The pattern with the most letters of its own decides.

    ``models`` maps a pattern (``gpt-4o-mini*``) to the price of a million tokens: [read, written].
    """

    VERSION = "1"

    def __init__(self, date: str, currency: str, source: str, models: dict[str, list[float]]) -> None:
        """Take a table, the day it was true, and where it is from."""
        self.date = date
        self.currency = currency
        self.source = source
        self.models = models

    def check(self) -> None:
        """Raise ConfigError for what is no date or no price."""
        try:
            Date.fromisoformat(str(self.date))
        except ValueError:
            raise ConfigError(f'date: must be a day such as "2025-08-15", given {self.date!r}') from None
        for pattern, pair in (self.models or {}).items():
            if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_price, pair)):
                raise ConfigError(
                    f"models.{pattern}: must be the prices of a million tokens [read, written], given {pair!r}"
                )

    def of(self, model: str) -> tuple[float, float] | None:
        """Return the price of a million tokens, read and written; None where the table has none."""
        fitting = [pattern for pattern in self.models if fnmatchcase(model.lower(), pattern.lower())]
        if not fitting:
            return None
        read, written = self.models[max(fitting, key=lambda pattern: (len(pattern.replace("*", "")), pattern))]
        return float(read), float(written)

    def money(self, model: str, usage: Usage) -> float:
        """Return what one usage of a model cost; NaN where its price is unknown, 0 where nothing was called."""
        if not usage.calls and not usage.tokens_in and not usage.tokens_out:
            return 0.0
        price = self.of(model)
        if price is None:
            return math.nan
        return (usage.tokens_in * price[0] + usage.tokens_out * price[1]) / MILLION

    def total(self, used: Iterable[tuple[str, Usage]]) -> Cost:
        """Sum up what several usages cost, each with its model; what has no price is counted, not guessed."""
        money, calls, without, estimated = 0.0, 0, 0, False
        for model, usage in used:
            spent = self.money(model, usage)
            calls += usage.calls
            estimated |= usage.estimated
            if math.isnan(spent):
                without += usage.calls
            else:
                money += spent
        return Cost(money, calls, without, estimated)


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
