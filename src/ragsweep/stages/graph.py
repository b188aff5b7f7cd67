"""Traverse the graph of stages and count its nodes; the graph of a sweep is the union of its configs' graphs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ragsweep.core.identity import Node, Rows

SOURCE = "corpus"
"""The stage of the corpus; it is given, not computed, and therefore not counted."""


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the given nodes and all their direct and indirect inputs, each once and after its own inputs."""
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
    """A node that a config needs, and the needed rows of this node; ``rows`` is empty for a whole value."""

    node: Node
    rows: Rows


class KnownResults(Protocol):
    """Access to existing results, and estimates of how long missing results take to compute."""

    def get(self, node: Node, rows: Rows) -> Any:
        """Return the value of existing rows of a node."""

    def known(self, node: Node, rows: Rows | None = None) -> bool:
        """Return whether a node's whole value exists; for a rows node, whether all of ``rows`` exist."""

    def missing(self, node: Node, rows: Rows) -> Rows:
        """List the distinct rows that do not exist yet; if these are all of ``rows``, return ``rows`` itself."""

    def estimate(self, node: Node, rows: Rows) -> float | None:
        """Estimate the seconds to compute a whole value or ``rows``; None if nothing comparable was measured."""


@dataclass(frozen=True)
class Charge:
    """The cost of calls to services: their number, their tokens and their price; NaN where unknown.

    The cost is projected from measured calls or, if ``estimated``, from upper bounds that the parts estimate.
    ``most_tokens`` and ``most_money`` are upper bounds in either case.
    """

    calls: float = 0.0
    tokens: float = 0.0
    money: float = 0.0
    estimated: bool = False
    most_tokens: float = 0.0
    most_money: float = 0.0

    def __add__(self, other: Charge) -> Charge:
        """Add two charges; a number that is unknown (NaN) in either is unknown in the sum."""
        return Charge(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.money + other.money,
            self.estimated or other.estimated,
            self.most_tokens + other.most_tokens,
            self.most_money + other.most_money,
        )

    def describe(self, currency: str) -> str:
        """Describe the cost in words: the maximum and, if measured, the expected cost; NaN becomes "unknown"."""
        calls = "calls unknown" if math.isnan(self.calls) else f"{math.ceil(self.calls):,} calls"
        most = _amounts(self.most_tokens, self.most_money, currency)
        if self.estimated:
            return f"at most {calls}, {most} (by estimate)"
        expected = f"expected {calls}, {_amounts(self.tokens, self.money, currency)} (as measured)"
        return f"{expected}, at most {most}" if self.most_tokens > self.tokens else expected


def _amounts(tokens: float, money: float, currency: str) -> str:
    amount = "tokens unknown" if math.isnan(tokens) else f"{math.ceil(tokens):,} tokens"
    return f"{amount}, " + ("money unknown" if math.isnan(money) else f"{money:.4f} {currency}".strip())


@dataclass
class StageCount:
    """Counts of a stage's nodes, and the duration and cost of the nodes to compute.

    ``asked`` is the number of nodes that the configs need, summed over the configs. ``distinct`` is the number of their
    distinct addresses, and ``stored`` is the number of distinct nodes that need no computation (see `plan`).
    ``seconds`` is the estimated duration of the nodes to compute; None if nothing comparable to one of them was
    measured on this machine. ``rows`` is an upper bound on the answers or verdicts to compute: equal requests share a
    result but cannot be recognised before they are assembled. ``rows`` is 0 for stages whose rows are known in advance.
    ``charge`` is the cost of the calls to services.
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
    missing: Mapping[str, Rows] = field(default_factory=dict)  # address -> the rows to compute. If their keys are not
    # known yet, the mapping contains a string "ADDRESS ROW" for each row of each node that reads them.
    needed: list[Node] = field(default_factory=list)  # the nodes that may be computed
    currency: str = ""
    not_estimated: set[str] = field(default_factory=set)  # titles of nodes whose calls are not in the charges
    upper: bool = False  # whether all counts and durations are upper bounds, as for a search

    @property
    def total(self) -> StageCount:
        """The sums of the stages' counts and durations; an unknown duration counts as 0."""
        counts = self.stages.values()
        return StageCount(
            sum(count.asked for count in counts),
            sum(count.distinct for count in counts),
            sum(count.stored for count in counts),
            sum(count.seconds or 0.0 for count in counts),
        )

    @property
    def charge(self) -> Charge:
        """The cost of all calls to services."""
        return sum((count.charge for count in self.stages.values()), Charge())

    @property
    def unmeasured(self) -> list[str]:
        """The stages whose duration is unknown."""
        return [stage for stage, count in self.stages.items() if count.seconds is None]


def plan(configs: Sequence[Sequence[Wanted]], results: KnownResults) -> Plan:
    """Count the nodes that configs need, and estimate their computing time; a config is a sequence of wanted nodes.

    A node need not be computed if its value exists, or if the values of all nodes that read it exist. A node that is
    never stored must be computed only if one of its inputs must be computed.
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
        if missing[address] or node.kind == "whole":
            planned.needed.append(node)
        count.rows += len(missing[address]) if address in unknown else 0
        seconds = results.estimate(node, missing[address]) if node.stored else 0.0
        count.seconds = None if seconds is None or count.seconds is None else count.seconds + seconds
    return planned


def _missing(wanted: Sequence[Wanted], results: KnownResults) -> tuple[dict[str, Rows], set[str]]:
    """Find the nodes to compute by a walk from the wanted nodes down to existing results.

    Return a mapping of addresses to the rows to compute, and the addresses of nodes with unknown rows (see
    `Plan.missing`).
    """
    missing: dict[str, Rows] = {}
    seen: set[tuple[str, int]] = set()
    merged, unknown = dict[str, dict[str, None]](), dict[str, dict[str, None]]()
    alive: list[Rows] = []  # keeps the rows alive, because `seen` contains their ids

    def visit(node: Node, rows: Rows) -> None:
        if node.stage == SOURCE or (node.address, id(rows)) in seen:
            return
        seen.add((node.address, id(rows)))
        if node.stored and results.known(node, rows):
            return
        if not node.stored and not any(is_missing(node, source, rows) for source in node.inputs):
            return
        if node.stored and node.cacheable:  # each row may cost money, so existing rows are not counted
            rows = results.missing(node, rows)
            alive.append(rows)
        if missing.setdefault(node.address, rows) is not rows:
            merged.setdefault(node.address, dict.fromkeys(missing[node.address])).update(dict.fromkeys(rows))
        for source in node.inputs:
            descend(node, source, rows)

    def descend(node: Node, source: Node, rows: Rows) -> None:
        read = node.input_rows(source, rows, read_known) if node.input_rows else rows
        if read is None:
            unknown.setdefault(source.address, {}).update(dict.fromkeys(f"{node.address} {row}" for row in rows))
            missing.setdefault(source.address, ())
        else:
            alive.append(read)
            visit(source, read)

    def read_known(node: Node, rows: Rows) -> Any:
        visit(node, rows)
        return None if node.address in missing else results.get(node, rows)

    def is_missing(node: Node, source: Node, rows: Rows) -> bool:
        descend(node, source, rows)
        return source.address in missing

    for one in wanted:
        visit(one.node, one.rows)
    missing.update({address: list(rows) for address, rows in (merged | unknown).items()})
    return missing, set(unknown)
