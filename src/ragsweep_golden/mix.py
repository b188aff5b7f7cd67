"""Compare the categories of a golden set with the wanted ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragsweep.core.errors import ConfigError
from ragsweep_golden.entries import Entry

UNANSWERABLE = "unanswerable"
"""The quota that is a share of all questions; the others are shares of the answerable ones."""
TOLERANCE = 0.05


class Quota(NamedTuple):
    """A category: its wanted share, and its questions among those that the share is of."""

    category: str
    wanted: float
    found: int
    of: int

    @property
    def is_met(self) -> bool:
        """Whether the share differs by the tolerance at most, or by one question of a small set."""
        return math.isnan(self.wanted) or abs(self.found - self.wanted * self.of) <= max(1.0, TOLERANCE * self.of)

    def as_text(self) -> str:
        """Write the category, its questions, and the wanted number."""
        if math.isnan(self.wanted):
            return f"{self.category}: {self.found:,} of {self.of:,}, no quota"
        lack = "" if self.is_met else ", NOT MET"
        return f"{self.category}: {self.found:,} of {self.of:,}, wanted {self.wanted * self.of:.0f}{lack}"


def compare_mix(entries: Sequence[Entry], wanted: Mapping[str, float]) -> list[Quota]:
    """Return each wanted category, then those without a quota, the largest first.

    ``unanswerable`` is a share of all questions, every other category one of the answerable questions. Conversation is
    left out.
    """
    asked = [one for one in entries if one.get("needs_retrieval", True)]
    answerable = [one for one in asked if one.get("answerable", True)]
    found = Counter(str(one.get("category") or "(no category)") for one in answerable)
    rows = [
        Quota(name, share, len(asked) - len(answerable), len(asked))
        if name == UNANSWERABLE
        else Quota(name, share, found[name], len(answerable))
        for name, share in wanted.items()
    ]
    others = [
        Quota(name, math.nan, count, len(answerable)) for name, count in found.most_common() if name not in wanted
    ]
    return rows + others


def read_quotas(given: object) -> dict[str, float]:
    """Read ``quotas``. Raises ConfigError for what is no share, and for shares of more than 1 together."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"quotas: must be categories and shares, quotas='{{factual: .4}}', given {given!r}")
    for name, share in given.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(f"quotas.{name}: must be a share from 0 to 1, given {share!r}")
    total = sum(share for name, share in given.items() if name != UNANSWERABLE)
    if total > 1 + 1e-9:
        raise ConfigError(f"quotas: the shares of the answerable questions sum to {total:g}, above 1")
    return {str(name): float(share) for name, share in given.items()}
