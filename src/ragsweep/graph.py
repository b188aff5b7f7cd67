"""Count and walk the graph of stages: a sweep is the union of its configs' nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ragsweep.identity import Node

SOURCE = "corpus"
"""The stage that is given, not computed; it is in no count."""


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield every distinct node below (and with) the given ones, inputs before what reads them."""
    seen: set[str] = set()
    for node in nodes:
        yield from _below(node, seen)


def _below(node: Node, seen: set[str]) -> Iterator[Node]:
    if node.address in seen:
        return
    seen.add(node.address)
    for given in node.inputs:
        yield from _below(given, seen)
    yield node


@dataclass
class StageCount:
    """Stage runs that the configs ask for, how many of them are distinct, and how many need not be run."""

    asked: int = 0
    distinct: int = 0
    stored: int = 0


@dataclass
class Plan:
    """What a sweep would do, by stage."""

    configs: int = 0
    stages: dict[str, StageCount] = field(default_factory=dict)

    @property
    def total(self) -> StageCount:
        """Add up all stages."""
        counts = self.stages.values()
        return StageCount(
            sum(count.asked for count in counts),
            sum(count.distinct for count in counts),
            sum(count.stored for count in counts),
        )


def plan(configs: Sequence[Sequence[Node]], stored: Callable[[Node], bool]) -> Plan:
    """Count the stage runs of configs, each given by the nodes it wants.

    ``stored`` says of a node that its result is there already.
    """
    made = Plan(configs=len(configs))
    distinct: set[str] = set()
    for wanted in configs:
        for node in walk(wanted):
            if node.stage == SOURCE:
                continue
            count = made.stages.setdefault(node.stage, StageCount())
            count.asked += 1
            if node.address not in distinct:
                distinct.add(node.address)
                count.distinct += 1
                count.stored += stored(node)
    return made
