"""What reading is worth: the same questions answered with and without context, question by question.

Each question that both configs were scored on falls into one of five kinds. Only "helped" and "hurt" say that context
made a difference, and only these two are tested.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragsweep.errors import InputError, nearest

HELPED, HURT, KNOWN, NEVER, ABSTAINED = "helped", "hurt", "known already", "never solved", "abstained"
KINDS = (HELPED, HURT, KNOWN, NEVER, ABSTAINED)
METRIC = "success_rate"

Columns = Mapping[str, Sequence[Any]]
"""A table of outcomes by column (see results.Result)."""


@dataclass(frozen=True)
class Quadrants:
    """How answers with context compare with answers without.

    ``kinds`` maps the ids of the questions scored under both to their kind; ``left_out`` counts the others.
    ``always_abstains``: without context nothing was ever answered, so that nothing could be known already but refusals.
    """

    kinds: Mapping[str, str]
    left_out: int
    always_abstains: bool

    @cached_property
    def counts(self) -> dict[str, int]:
        """Count the questions of each kind; they add up to those compared."""
        found = Counter(self.kinds.values())
        return {kind: found[kind] for kind in KINDS}

    @property
    def p_value(self) -> float:
        """Test whether context helps as often as it hurts: the exact McNemar test, two-sided."""
        return exact_mcnemar(self.counts[HELPED], self.counts[HURT])


def compare(without: Columns, with_context: Columns, metric: str = METRIC, threshold: float = 0.5) -> Quadrants:
    """Compare two tables of outcomes, question by question.

    A question is solved where the metric is at least the threshold. It is "known already" where both solve it, "helped"
    where only context does, "hurt" where only its absence does; of those that neither solves, "abstained" where the
    config with context refused it, and "never solved" else. To refuse an unanswerable question solves it.

    Args:
        without: Outcomes of the config without context.
        with_context: Outcomes of the other one.
        metric: A column of scores, higher is better.
        threshold: From which score on a question is solved.

    Raises:
        InputError: A table has no such column, or no answers.
    """
    base, other = (_scored(table, metric) for table in (without, with_context))
    refused = dict(zip(with_context["question_id"], with_context["abstained"], strict=True))
    both = [name for name in base if name in other and not math.isnan(base[name]) and not math.isnan(other[name])]
    kinds = {name: _kind(base[name] >= threshold, other[name] >= threshold, bool(refused[name])) for name in both}
    return Quadrants(kinds, len(base.keys() | other.keys()) - len(both), _always_abstains(without))


def exact_mcnemar(helped: int, hurt: int) -> float:
    """Return the two-sided p-value of a difference between two paired shares.

    Of the pairs that differ, half would go either way by chance: twice the smaller tail of the binomial distribution
    with p = 1/2, at most 1 (McNemar 1947, "Note on the sampling error of the difference between correlated
    proportions", in its exact form). Without a pair that differs it is 1.
    """
    pairs = helped + hurt
    tail = sum(math.comb(pairs, k) for k in range(min(helped, hurt) + 1))
    return min(1.0, 2 * tail / (1 << pairs))  # whole numbers of any size: divided last, and rounded once


def _kind(known: bool, solved: bool, refused: bool) -> str:
    if solved:
        return KNOWN if known else HELPED
    if known:
        return HURT
    return ABSTAINED if refused else NEVER


def _scored(table: Columns, metric: str) -> dict[str, float]:
    for column in ("abstained", metric):
        if column not in table:
            fact = "no generator answered" if column == "abstained" else f'no metric "{metric}" was measured'
            raise InputError(f"the table of questions has no column {column}: {fact}{nearest(column, table)}")
    return dict(zip(table["question_id"], map(float, table[metric]), strict=True))


def _always_abstains(table: Columns) -> bool:
    """Say whether every answer that did not fail is a refusal."""
    failed = table.get("answer_failed") or [""] * len(table["abstained"])
    said = [bool(refused) for refused, reason in zip(table["abstained"], failed, strict=True) if not reason]
    return bool(said) and all(said)
