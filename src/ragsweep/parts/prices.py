"""Look up the price of a model's tokens in a dated table, and compute the cost of calls."""

import math
from dataclasses import dataclass
from datetime import date as Date
from fnmatch import fnmatchcase
from typing import ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import PartTraits, Usage


@dataclass(eq=False)
class Prices:
    """The token prices of models, in one currency.

    ``models`` maps a pattern for names of models, such as ``gpt-4o-mini*``, to [input price, output price] per million
    tokens. Case is ignored. If several patterns match, the pattern with the most characters other than ``*`` applies;
    if there are several such patterns, the one with the fewest ``*`` applies.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    date: str
    currency: str
    source: str
    models: dict[str, list[float]]

    def check(self) -> None:
        """Raise ConfigError for an invalid date or price."""
        try:
            Date.fromisoformat(self.date)
        except ValueError:
            raise ConfigError(f'prices.date must be a date such as "2025-08-15", got {self.date!r}') from None
        for pattern, pair in self.models.items():
            if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_price, pair)):
                raise ConfigError(
                    f"prices.models.{pattern}: must be [input price, output price] per million tokens, both finite"
                    f" and at least 0, got {pair!r}"
                )

    def of(self, model: str) -> tuple[float, float] | None:
        """Return the prices of a million input tokens and a million output tokens; None if no pattern matches."""
        matching = [pattern for pattern in self.models if fnmatchcase(model.lower(), pattern.lower())]
        if not matching:
            return None
        stars = {pattern: pattern.count("*") for pattern in matching}
        best = max(matching, key=lambda pattern: (len(pattern) - stars[pattern], -stars[pattern], pattern))
        read, written = self.models[best]
        return float(read), float(written)

    def money(self, model: str, usage: Usage, *others: str) -> float:
        """Return the cost of ``usage``, in ``currency``; NaN if no price is known.

        The price is that of ``model`` or, if that is unknown, of the first of the ``others`` with a known price. Usage
        without calls, such as the usage of a local model, costs 0. If there are calls but no token counts, because an
        external system reports none, the cost is NaN unless the tokens of one of these models are free.
        """
        if not usage.calls:
            return 0.0
        for price in filter(None, map(self.of, (model, *others))):
            if usage.tokens_in + usage.tokens_out or not any(price):
                return (usage.tokens_in * price[0] + usage.tokens_out * price[1]) / 1_000_000
        return math.nan


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
