"""Count and walk the graph of stages: a sweep is the union of its configs' nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ragsweep.core.identity import Node, Rows

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


class Wanted(NamedTuple):
    """A node that a config needs, and the rows of it."""

    node: Node
    rows: Rows


class Known(Protocol):
    """Access to results that exist, and estimates for the rest."""

    def known(self, node: Node, rows: Rows | None = None) -> bool:
        """Return whether a value, or all these rows of it, need not be computed."""

    def missing(self, node: Node, rows: Rows) -> Rows:
        """List those of the rows that must be computed; the same object where that is all of them."""

    def estimate(self, node: Node, rows: Rows) -> float | None:
        """Estimate the seconds of a value, or of these rows of it; None without a measurement of its kind."""


@dataclass(frozen=True)
class Charge:
    """Highest cost of calls; NaN where unknown. ``estimated``: not measured."""

    calls: float = 0.0
    tokens: float = 0.0
    money: float = 0.0
    estimated: bool = False

    def __add__(self, other: Charge) -> Charge:
        """Add; a sum with an unknown part is unknown."""
        return Charge(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.money + other.money,
            self.estimated or other.estimated,
        )


@dataclass
class StageCount:
    """Stage runs that the configs ask for, how many of them are distinct, and how many need not be run.

    ``seconds`` is how long the others will take; None where nothing like one of them was measured on this machine.
    ``rows`` is how many answers or verdicts will be asked for at most: equal requests are known once they are made;
    ``charge`` is what those cost that call a service.
    """

    asked: int = 0
    distinct: int = 0
    stored: int = 0
    seconds: float | None = 0.0
    rows: int = 0
    charge: Charge = Charge()


@dataclass
class Plan:
    """Work of a sweep, by stage."""

    configs: int = 0
    stages: dict[str, StageCount] = field(default_factory=dict)
    missing: Mapping[str, Rows] = field(default_factory=dict)  # address -> what must be computed of it
    # (where nobody knows yet what that is: for each row that reads one, the reader's address, a space and the row)
    currency: str = ""

    @property
    def total(self) -> StageCount:
        """Sum stage counts; unknown durations count as 0."""
        counts = self.stages.values()
        return StageCount(
            sum(count.asked for count in counts),
            sum(count.distinct for count in counts),
            sum(count.stored for count in counts),
            sum(count.seconds or 0.0 for count in counts),
        )

    @property
    def charge(self) -> Charge:
        """Sum the cost of all calls."""
        return sum((count.charge for count in self.stages.values()), Charge())

    @property
    def untold(self) -> list[str]:
        """Name the stages of unknown duration."""
        return [stage for stage, count in self.stages.items() if count.seconds is None]


def plan(configs: Sequence[Sequence[Wanted]], there: Known) -> Plan:
    """Count the stage runs of configs, each given by its wanted nodes.

    A run need not be done if its result is there, or if everything that would read it is there.
    """
    made = Plan(configs=len(configs))
    nodes: dict[str, Node] = {}
    for wanted in configs:
        for node in walk([one.node for one in wanted]):
            if node.stage != SOURCE:
                made.stages.setdefault(node.stage, StageCount()).asked += 1
                nodes[node.address] = node
    missing, unknown = _missing([one for wanted in configs for one in wanted], there)
    made.missing = missing
    for address, node in nodes.items():
        count = made.stages[node.stage]
        count.distinct += 1
        if address not in missing:
            count.stored += 1
            continue
        count.rows += len(missing[address]) if address in unknown else 0
        told = there.estimate(node, missing[address]) if node.stored else 0.0
        count.seconds = None if told is None or count.seconds is None else count.seconds + told
    return made


def _missing(wanted: Sequence[Wanted], there: Known) -> tuple[dict[str, Rows], set[str]]:
    """Return the addresses that must be computed, with the rows: from the results down, as far as needed.

    The addresses returned beside are those whose rows nobody knows yet: there stands one for each row that reads one.
    """
    found: dict[str, Rows] = {}
    seen: set[tuple[str, int]] = set()
    unknown: dict[str, dict[str, None]] = {}

    def visit(node: Node, rows: Rows) -> None:
        if node.stage == SOURCE or (node.address, id(rows)) in seen:
            return
        seen.add((node.address, id(rows)))
        if not node.stored and not any(_is_missing(node, given, rows) for given in node.inputs):
            return
        if node.stored and there.known(node, rows):
            return
        if node.stored and node.cacheable:  # each row of it may be paid for: those that are there are not counted
            rows = there.missing(node, rows)
            kept.append(rows)
        found[node.address] = max(found.get(node.address, rows), rows, key=len)
        for given in node.inputs:
            descend(node, given, rows)

    def descend(node: Node, given: Node, rows: Rows) -> None:
        read = node.input_rows(given, rows) if node.input_rows else rows
        if read is not None:
            kept.append(read)  # while it lives, no other rows have its id
            visit(given, read)
            return
        unknown.setdefault(given.address, {}).update(dict.fromkeys(f"{node.address} {row}" for row in rows))
        found.setdefault(given.address, ())

    def _is_missing(node: Node, given: Node, rows: Rows) -> bool:
        descend(node, given, rows)
        return given.address in found

    kept: list[Rows] = []
    for one in wanted:
        visit(one.node, one.rows)
    found.update({address: list(rows) for address, rows in unknown.items()})
    return found, set(unknown)
