"""Plan a search: derive an upper bound on its computations from a few configs of its space."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optuna_sweeper.parameters import Categorical, Numeric
from optuna_sweeper.space import Space, read_space
from ragsweep.core.errors import RagsweepError
from ragsweep.core.identity import Node, Rows
from ragsweep.evaluation.cost_estimate import estimate_costs
from ragsweep.golden.partition import is_held_back
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import SOURCE, Charge, KnownResults, Plan, StageCount, plan, walk
from ragsweep.sweep.composing.composition_errors import compose
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.composing.search_settings import is_own

if TYPE_CHECKING:
    from ragsweep.evaluation.experiment import Experiment
    from ragsweep.sweep.composing.command import Command
    from ragsweep.sweep.running.session import Session

Part = tuple[str, str]
"""The name of a stage, and the digest of a part's spec; nodes with both in common differ only in their inputs."""


def bound_search(session: Session, command: Command, experiments: Sequence[Experiment]) -> Plan | None:
    """Return an upper bound on the work of a search; None for a sweeper other than ours, whose space is unknown.

    ``experiments`` are the prepared experiments of the command's jobs, which together contain every choice of every
    parameter, and both ends of every range. This function prepares further combinations of options, such as each
    embedder with a retriever that embeds; combinations that cannot be prepared are skipped.

    A part is counted once for each combination of the parts on which it depends. The number of a stage's nodes is at
    most the number of trials times the largest number of such nodes in one config; the stage's seconds are bounded in
    the same way. For a stage that is computed row by row, each finalist adds one trial. Nodes that are already stored
    take no time.
    """
    settings = command.search or {}
    if not is_own(settings):
        return None
    space = read_space(command.task, settings["params"], command.composer.loader(command.overrides))
    most = int(settings["n_trials"])
    trials = min(most, space.count_points(most) + len(settings["enqueue"] or ()))
    division, golden = experiments[0].dataset.division, experiments[0].dataset.golden
    is_held = division and is_held_back(division.name, len(golden.questions), golden.left_out)
    most = int(experiments[0].config["finalists"]) if is_held else 0
    finalists = min(most + 1, trials) if most else 0  # plus a reference that cannot be the best
    found = list(experiments)
    for lines in _richest(space, experiments):
        with suppress(RagsweepError):
            job = Job(compose(command.composer, [*command.fixed, *lines]), "", lines, searching=True)
            found.append(session.prepare(job))
    executor = session.evaluator.executor
    parts = _Parts.of(found, trials, finalists, executor)
    parts.weigh(space)
    bound = Plan(configs=trials, upper=True, currency=found[0].prices.currency)
    for stage in dict.fromkeys(stage for stage, _ in parts.nodes):
        bound.stages[stage] = parts.bound(stage)
    are_all = not finalists and _are_all(space, experiments)  # else the replies to other configs may not be stored
    runs = trials + finalists  # requests contain the retrieved chunks, so each trial may send new requests
    known = executor if are_all else _Unknown(executor)
    for stage, most_of_one in _dearest(found, executor, known, bound.not_estimated).items():
        calls, tokens, money, rows = (runs * number for number in most_of_one)
        bound.stages[stage].rows = int(rows)
        bound.stages[stage].charge = Charge(calls, tokens, money, bool(calls), tokens, money)
    return bound


def _richest(space: Space, experiments: Sequence[Experiment]) -> list[tuple[str, ...]]:
    """List overrides that combine each choice of each parameter with the richest choices of the other parameters.

    The richest choice of a parameter is the choice whose config in ``experiments`` has the most nodes. For a parameter
    with a range, the low end is used. Overrides of configs that are already in ``experiments`` are omitted.
    """
    stages = {one.overrides: len(list(_nodes(one))) for one in experiments}
    best: dict[str, tuple[int, str]] = {}
    for parameter, probes in space.probes_by_parameter():
        if isinstance(parameter.domain, Categorical):
            for text, probe in zip(parameter.domain.values, probes, strict=True):
                choice = stages.get(probe, 0), text
                best[parameter.name] = max(best.get(parameter.name, choice), choice, key=lambda one: one[0])
    others = {name: text for name, (_, text) in best.items()}
    richer = (
        probe
        for parameter, probes in space.probes_by_parameter(others)
        if isinstance(parameter.domain, Categorical)
        for probe in probes
    )
    return [probe for probe in dict.fromkeys(richer) if probe not in stages]


class _Unknown:
    """A substitute for an executor that reports every result as missing, so that a plan contains every computation."""

    def __init__(self, executor: Executor) -> None:
        self.estimate, self.get = executor.estimate, executor.get

    def known(self, node: Node, rows: Rows | None = None) -> bool:
        return False

    def missing(self, node: Node, rows: Rows) -> Rows:
        return rows


@dataclass
class _Parts:
    """The nodes of some configs of a search, grouped by part, and bounds on the computations of each stage."""

    trials: int
    finalists: int  # number of configs to evaluate on the holdout
    configs: Mapping[tuple[str, ...], Sequence[Node]]  # the nodes of each config, by its overrides
    nodes: dict[Part, dict[str, Node]] = field(default_factory=lambda: defaultdict(dict))
    slots: dict[tuple[str, str], set[Part]] = field(default_factory=lambda: defaultdict(set))  # (stage, leg) -> parts
    stored: set[str] = field(default_factory=set)  # addresses of the stored nodes
    seconds: dict[Part, float | None] = field(default_factory=dict)  # of the slowest node; None: unknown
    weights: dict[Part, float] = field(default_factory=dict)  # number of a range's values that a part represents
    most: dict[str, StageCount] = field(default_factory=dict)  # stage -> the largest counts of any config
    growing: set[str] = field(default_factory=set)  # stages whose rows depend on the retrieved chunks

    @classmethod
    def of(cls, experiments: Sequence[Experiment], trials: int, finalists: int, executor: Executor) -> _Parts:
        configs = {one.overrides: list(_nodes(one)) for one in experiments}
        parts = cls(trials, finalists, configs)
        alone = [plan([one.wanted], _Unknown(executor)) for one in experiments]
        rows: dict[str, Rows] = {}  # address -> the most rows that one config computes
        for address, found in (pair for one in alone for pair in one.missing.items()):
            rows[address] = max(rows.get(address, found), found, key=len)
        missing = plan([one.wanted for one in experiments], executor).missing
        distinct = {node.address: node for nodes in configs.values() for node in nodes}
        cost = {
            address: executor.estimate(node, rows[address]) if node.stored else 0.0
            for address, node in distinct.items()
        }
        for nodes in configs.values():
            for node in nodes:
                part = _part(node)
                parts.nodes[part][node.address] = node
                parts.slots[node.stage, node.label].add(part)
                parts.seconds[part] = _highest(parts.seconds.get(part, 0.0), cost[node.address])
                if node.address not in missing:
                    parts.stored.add(node.address)
            for stage, number in Counter(node.stage for node in nodes).items():
                taken = _total(cost[node.address] for node in nodes if node.stage == stage)
                before = parts.most.get(stage, StageCount())
                parts.most[stage] = StageCount(max(before.asked, number), seconds=_highest(before.seconds, taken))
        counts = (pair for one in alone for pair in one.stages.items())
        parts.growing = {stage for stage, count in counts if count.rows or stage == "rerank"}
        return parts

    def weigh(self, space: Space) -> None:
        """Set the weight of each part that occurs at only one end of a range: half the number of the range's values.

        The number of values is capped at the number of trials. A weight is at least 1; if a part occurs at the ends of
        several ranges, the largest weight applies.
        """
        for parameter, probes in space.probes_by_parameter():
            if isinstance(parameter.domain, Numeric):
                first, last = ({_part(node) for node in self.configs[end]} for end in (probes[0], probes[-1]))
                weight = min(parameter.domain.count, self.trials) / 2
                for part in first ^ last:
                    self.weights[part] = max(self.weights.get(part, 1.0), weight)

    def bound(self, stage: str) -> StageCount:
        """Return upper bounds on a stage's nodes and seconds, and the number of stored nodes, which take no time."""
        most, parts = self.most[stage], [part for part in self.nodes if part[0] == stage]
        runs = self.trials
        if any(node.kind == "rows" for part in parts for node in self.nodes[part].values()):
            runs += self.finalists
        limit = runs * most.asked
        counts = {part: min(self._combinations(part), limit) for part in parts}
        stored = {part: len(self.stored & self.nodes[part].keys()) for part in parts}
        distinct = max(min(math.ceil(sum(counts.values())), limit), sum(stored.values()))
        left = {part: max(counts[part] - stored[part], 0.0) for part in parts}
        if stage in self.growing:  # rows, such as the pairs of a reranker, may be new in each trial
            seconds = _times(most.seconds, runs)
        else:
            seconds = _total(_times(self.seconds[part], left[part]) for part in parts)
            if seconds is not None and most.seconds is not None:
                seconds = min(seconds, runs * most.seconds)
        return StageCount(max(limit, distinct), distinct, sum(stored.values()), seconds)

    def _combinations(self, part: Part) -> float:
        """Return how many nodes a part may have: the product of its own weight and the weights of the slots below it.

        The number is at least that of the known nodes, because one config may have several. A slot is a stage and a
        leg; its weight is the sum of the weights of its parts.
        """
        below = walk(self.nodes[part].values())
        slots = {(node.stage, node.label) for node in below if node.stage != SOURCE and _part(node) != part}
        seen = (sum(self.weights.get(one, 1.0) for one in self.slots[slot]) for slot in slots)
        return max(self.weights.get(part, 1.0) * math.prod(seen), len(self.nodes[part]))


def _nodes(experiment: Experiment) -> Iterable[Node]:
    return (node for node in experiment.nodes if node.stage != SOURCE)


def _part(node: Node) -> Part:
    return node.stage, node.spec.digest


def _are_all(space: Space, experiments: Sequence[Experiment]) -> bool:
    """Return whether the experiments cover all points of a finite space."""
    known = {one.overrides for one in experiments}
    return space.is_finite and {space.overrides(point) for point in islice(space.points(), len(known) + 1)} <= known


def _dearest(
    experiments: Sequence[Experiment], executor: Executor, results: KnownResults, not_estimated: set[str]
) -> dict[str, list[float]]:
    """Map each stage to the largest numbers of calls, tokens, money and rows that any config requires.

    A number is NaN if it is unknown for any config. Results that are known to ``results`` are not counted. Stages with
    neither calls nor rows are omitted. Stages whose calls cannot be estimated are added to ``not_estimated``.
    """
    found: dict[str, NDArray[np.float64]] = {}
    for one in experiments:
        planned = plan([one.wanted], results)
        estimate_costs(planned, [one], executor)
        not_estimated |= planned.not_estimated
        for stage, count in planned.stages.items():
            charge = count.charge
            numbers = np.array([charge.calls, charge.most_tokens, charge.most_money, count.rows], np.float64)
            found[stage] = np.maximum(found.get(stage, numbers), numbers)
    return {stage: numbers.tolist() for stage, numbers in found.items() if numbers[0] or numbers[-1]}


def _highest(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def _times(seconds: float | None, number: float) -> float | None:
    return 0.0 if not number else None if seconds is None else seconds * number


def _total(seconds: Iterable[float | None]) -> float | None:
    found = list(seconds)
    return None if None in found else math.fsum(one for one in found if one is not None)
