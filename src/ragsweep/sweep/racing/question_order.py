"""The order of a race's questions."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.types import Question
from ragsweep.golden.clusters import clusters
from ragsweep.golden.partition import strata

SALT = "ragsweep.racing/1"
"""Hashed with the seed and a cluster's name to order the questions."""


class QuestionOrder(NamedTuple):
    """Questions in race order: the position of each in the golden set, and its cluster."""

    positions: tuple[int, ...]
    clusters: tuple[str, ...]

    def first(self, until: int) -> tuple[int, ...]:
        """Return the positions of the first ``until`` questions, and of the rest of the last cluster."""
        end = min(max(until, 0), len(self.positions))
        while 0 < end < len(self.positions) and self.clusters[end] == self.clusters[end - 1]:
            end += 1
        return self.positions[:end]


def order_questions(questions: Sequence[Question], seed: int = 0) -> QuestionOrder:
    """Order questions randomly but alike for all configs, with about the right share of each stratum in every prefix.

    Strata are those of a partition (category and kind). The clusters of a stratum are shuffled and spread evenly over
    the order, each at a random place within its segment; the questions of a cluster stay together. The order depends on
    the seed and the questions, not on their input order.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for position, cluster in enumerate(clusters(questions)):
        members[cluster].append(position)
    places: dict[str, float] = {}
    by_cluster = {name: [questions[position] for position in inside] for name, inside in members.items()}
    for names in strata(by_cluster).values():
        size, before = sum(len(members[name]) for name in names), 0
        for name in sorted(names, key=lambda name: _chance(name, seed, "sequence")):
            places[name] = (before + _chance(name, seed, "place") * len(members[name])) / size
            before += len(members[name])
    ordered = [
        (position, name)
        for name in sorted(places, key=lambda name: (places[name], name))
        for position in sorted(members[name], key=lambda position: questions[position].id)
    ]
    return QuestionOrder(tuple(position for position, _ in ordered), tuple(name for _, name in ordered))


def _chance(cluster: str, seed: int, what: str) -> float:
    """Draw a number from [0, 1) for a cluster."""
    drawn = hashlib.sha256(f"{SALT}\0{seed}\0{what}\0{cluster}".encode()).digest()
    return int.from_bytes(drawn[:6], "big") / 2**48


ordered = memoize_by_identity(order_questions)
"""`order_questions`, memoised by the identity of the questions; call it with positional arguments."""
