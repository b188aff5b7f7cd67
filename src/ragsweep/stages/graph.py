"""Traverse the graph of stages and count its nodes; the graph of a sweep is the union of its configs' graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ragsweep.core.identity import Node, Rows

SOURCE = "corpus"
"""The stage that is not computed and therefore not counted."""


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the given nodes and every distinct node below them, inputs first."""
    seen: set[str] = set()

    def below(node: Node) -> Iterator[Node]:
        if node.address not in seen:
            seen.add(node.address)
            for source in node.inputs:
                yield from below(source)
            yield node

    for node in nodes:
        yield from below(node)


class Wanted(NamedTuple):
    """A node that a config needs, and the needed rows."""

    node: Node
    rows: Rows


class KnownResults(Protocol):
    """Access to existing results, and estimates for missing ones."""

    def known(self, node: Node, rows: Rows | None = None) -> bool:
        """Return whether a value already exists; with ``rows``, whether all of those rows do."""

    def missing(self, node: Node, rows: Rows) -> Rows:
        """List the distinct rows that must be computed; ``rows`` itself if none is known."""

    def estimate(self, node: Node, rows: Rows) -> float | None:
        """Estimate the seconds to compute a value, or these rows of it; None if nothing comparable was measured."""


@dataclass(frozen=True)
class Charge:
    """The cost of calls: expected from measurements or, if ``estimated``, the highest possible; NaN if unknown.

    ``most_tokens`` and ``most_money`` are upper bounds in either case.
    """

    calls: float = 0.0
    tokens: float = 0.0
    money: float = 0.0
    estimated: bool = False
    most_tokens: float = 0.0
    most_money: float = 0.0

    def __add__(self, other: Charge) -> Charge:
        """Add two charges; a sum with an unknown part is unknown."""
        return Charge(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.money + other.money,
            self.estimated or other.estimated,
            self.most_tokens + other.most_tokens,
            self.most_money + other.most_money,
        )


@dataclass
class StageCount:
    """Counts of a stage's runs, and the duration and cost of the necessary ones.

    ``asked`` is the number of runs that the configs ask for, ``distinct`` how many of these differ, and ``stored`` how
    many of the distinct ones are unnecessary (see `plan`). ``seconds`` is the duration of the necessary runs; None if
    nothing comparable was measured on this machine. ``rows`` is an upper bound on the answers or verdicts to compute:
    equal requests share one, but are recognised only when assembled. ``charge`` is the cost of the calls to services.
    """

    asked: int = 0
    distinct: int = 0
    stored: int = 0
    seconds: float | None = 0.0
    rows: int = 0
    charge: Charge = Charge()


@dataclass
class Plan:
    """The work of a sweep, by stage."""

    configs: int = 0
    stages: dict[str, StageCount] = field(default_factory=dict)
    missing: Mapping[str, Rows] = field(default_factory=dict)  # address -> the rows to compute
    # (or, while these are unknown, a text "ADDRESS ROW" for each row of a node that will read them)
    currency: str = ""
    upper: bool = False  # whether all counts and durations are upper bounds, as for a search

    @property
    def total(self) -> StageCount:
        """The sum of the stages' run counts and durations; unknown durations count as 0."""
        counts = self.stages.values()
        return StageCount(
            sum(count.asked for count in counts),
            sum(count.distinct for count in counts),
            sum(count.stored for count in counts),
            sum(count.seconds or 0.0 for count in counts),
        )

    @property
    def charge(self) -> Charge:
        """The cost of all calls."""
        return sum((count.charge for count in self.stages.values()), Charge())

    @property
    def unmeasured(self) -> list[str]:
        """The stages of unknown duration."""
        return [stage for stage, count in self.stages.items() if count.seconds is None]


def plan(configs: Sequence[Sequence[Wanted]], results: KnownResults) -> Plan:
    """Count the stage runs of configs, each of which is a sequence of wanted nodes.

    A run is unnecessary if its result exists, or if the results of all its readers exist.
    """
    planned = Plan(configs=len(configs))
    nodes: dict[str, Node] = {}
    for wanted in configs:
        for node in walk([one.node for one in wanted]):
            if node.stage != SOURCE:
                planned.stages.setdefault(node.stage, StageCount()).asked += 1
                nodes[node.address] = node
    missing, unknown = _missing([one for wanted in configs for one in wanted], results)
    planned.missing = missing
    for address, node in nodes.items():
        count = planned.stages[node.stage]
        count.distinct += 1
        if address not in missing:
            count.stored += 1
            continue
        count.rows += len(missing[address]) if address in unknown else 0
        seconds = results.estimate(node, missing[address]) if node.stored else 0.0
        count.seconds = None if seconds is None or count.seconds is None else count.seconds + seconds
    return planned


def _missing(wanted: Sequence[Wanted], results: KnownResults) -> tuple[dict[str, Rows], set[str]]:
    """Return the addresses to compute, with their rows, by a walk from the wanted nodes down to existing results.

    The second value is the set of addresses whose rows depend on missing results (see `Plan.missing`).
    """
    missing: dict[str, Rows] = {}
    seen: set[tuple[str, int]] = set()
    unknown: dict[str, dict[str, None]] = {}
    alive: list[Rows] = []  # ids are unique while the rows are alive

    def visit(node: Node, rows: Rows) -> None:
        if node.stage == SOURCE or (node.address, id(rows)) in seen:
            return
        seen.add((node.address, id(rows)))
        if node.stored and results.known(node, rows):
            return
        if not node.stored and not any(is_missing(node, source, rows) for source in node.inputs):
            return
        if node.stored and node.cacheable:  # each row may cost money: existing rows are not counted
            rows = results.missing(node, rows)
            alive.append(rows)
        missing[node.address] = max(missing.get(node.address, rows), rows, key=len)
        for source in node.inputs:
            descend(node, source, rows)

    def descend(node: Node, source: Node, rows: Rows) -> None:
        read = node.input_rows(source, rows) if node.input_rows else rows
        if read is None:
            unknown.setdefault(source.address, {}).update(dict.fromkeys(f"{node.address} {row}" for row in rows))
            missing.setdefault(source.address, ())
        else:
            alive.append(read)
            visit(source, read)

    def is_missing(node: Node, source: Node, rows: Rows) -> bool:
        descend(node, source, rows)
        return source.address in missing

    for one in wanted:
        visit(one.node, one.rows)
    missing.update({address: list(rows) for address, rows in unknown.items()})
    return missing, set(unknown)
