"""Compare the categories of a golden set with their quotas."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragsweep.core.errors import ConfigError
from ragsweep_golden.sets.entries import Entry

UNANSWERABLE = "unanswerable"
"""The name of the only quota that is a share of all questions; other quotas are shares of answerable questions."""
TOLERANCE = 0.05  # maximum difference between the found and the wanted share


class Quota(NamedTuple):
    """The quota of a category: its ``wanted`` share (NaN if there is no quota) and its number of questions (``found``).

    ``of`` is the number of questions of which ``wanted`` is a share.
    """

    category: str
    wanted: float
    found: int
    of: int

    @property
    def is_met(self) -> bool:
        """Whether the quota is met; True if there is no quota.

        A quota is met if the number of questions differs from the wanted number by at most one, or by at most TOLERANCE
        of the total.
        """
        return math.isnan(self.wanted) or abs(self.found - self.wanted * self.of) <= max(1.0, TOLERANCE * self.of)

    def as_text(self) -> str:
        """Return a line of text with the category, its number of questions, the total and the wanted number."""
        if math.isnan(self.wanted):
            return f"{self.category}: {self.found:,} of {self.of:,}, no quota"
        lack = "" if self.is_met else ", NOT MET"
        return f"{self.category}: {self.found:,} of {self.of:,}, wanted {self.wanted * self.of:.0f}{lack}"


def compare_mix(entries: Sequence[Entry], wanted: Mapping[str, float]) -> list[Quota]:
    """Return a ``Quota`` for each category; the categories in ``wanted`` come first.

    ``wanted`` maps a category to its share; categories without a quota are sorted by size, largest first. The share of
    "unanswerable" refers to all questions, and any other share to the answerable questions. Conversational questions
    are excluded.
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
    others = [(name, count) for name, count in found.most_common() if name not in wanted]
    return rows + [Quota(name, math.nan, count, len(answerable)) for name, count in others]


def read_quotas(given: object) -> dict[str, float]:
    """Return the quotas of a config: a mapping of each category to its wanted share.

    Raises ConfigError for a value of another type, for a share outside 0 to 1, and if the shares except that of
    UNANSWERABLE sum to more than 1.
    """
    if not isinstance(given, Mapping):
        raise ConfigError(f"quotas: must be a mix, or shares such as quotas='{{factual: .4}}', got {given!r}")
    for name, share in given.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(f"quotas.{name}: must be a share from 0 to 1, got {share!r}")
    total = sum(share for name, share in given.items() if name != UNANSWERABLE)
    if total > 1 + 1e-9:
        raise ConfigError(f"quotas: the shares of the answerable questions sum to {total:g}, above 1; lower them")
    return {str(name): float(share) for name, share in given.items()}
