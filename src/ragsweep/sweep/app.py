"""Turn configs into experiments: here config meets domain."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.identity import Built, content_hash
from ragsweep.core.objectives import objectives
from ragsweep.core.secrets import mask
from ragsweep.core.types import Dataset, JudgedMetric, Metric
from ragsweep.evaluation.evaluator import Evaluator, Experiment, has_evidence
from ragsweep.evaluation.existing import Existing, existing_graph
from ragsweep.evaluation.laid import Graph
from ragsweep.evaluation.outcomes import check_labels
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.evaluation.questions import asked
from ragsweep.golden import partition
from ragsweep.golden.partition import ALL
from ragsweep.parts.prices import Prices
from ragsweep.parts.targets import ENFORCE, TargetRule
from ragsweep.parts.tracking import Tracker
from ragsweep.records.ledger import Ledger
from ragsweep.report.terminal import Lines, Terminal
from ragsweep.services.session import ServiceSession
from ragsweep.services.usage import LIMITS, Budget
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import open_store
from ragsweep.stats.inference.recommending import COSTS
from ragsweep.stats.quadrants import settled
from ragsweep.sweep.plain import parameters, resolved, resolved_at

EXPECTED = frozenset({"distractors", "section"})
"""What metrics need that is in no digest of a golden set."""

METRIC = ("name", "needs", "unit", "higher_is_better", "bounds", "quantile", "score")
"""What a metric must have, see types.Metric."""


@dataclass(frozen=True)
class Job:
    """A composed config with its name and what was typed for it."""

    config: DictConfig
    name: str
    overrides: tuple[str, ...]
    choices: Mapping[str, str] = field(default_factory=dict)  # group -> option
    searching: bool = False  # its result decides which configs are tried next

    @property
    def chosen(self) -> dict[str, str]:
        """The options of the config's groups, as parameters."""
        groups = self.config.keys()
        return {group: str(option) for group, option in self.choices.items() if group in groups and option}

    def parameters(self, plain: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Spell the config as a user would type it; ``plain`` is its plain values, where they are known."""
        values = resolved(self.config) if plain is None else plain
        return {**self.chosen, **parameters(self.config, values)}


class MetricSet(NamedTuple):
    """The metrics that a config names, and those of them that ask a judge, by name."""

    parts: list[Built]
    judged: dict[str, Built]


@dataclass
class Session:
    """What the jobs of one process share: parts, datasets, and all that was computed."""

    evaluator: Evaluator = field(default_factory=Evaluator)
    folder: Path = Path(".ragsweep")
    services: ServiceSession = field(default_factory=ServiceSession)
    checked: dict[tuple[str, ...], Experiment] = field(default_factory=dict)  # of the command's jobs, by overrides
    _datasets: dict[str, Dataset] = field(default_factory=dict)
    _metric_sets: dict[str, MetricSet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = Builder(self.services.connect)

    @cached_property
    def ledger(self) -> Ledger:
        """Open the ledger beside the store; where nothing is run, none is made."""
        return Ledger(self.folder)

    def experiment(self, job: Job, last: bool = True) -> Experiment:
        """Prepare a job, or take up what was prepared of it when the command was checked, in this process.

        ``last``: it is not asked for again. From here on the job's own budget and prices hold.
        """
        self._apply_budget({key: resolved_at(job.config, key) for key in ("budget", "prices")})
        known = self.checked.pop(job.overrides, None) if last else self.checked.get(job.overrides)
        if known is None:
            return self.prepare(job)
        return replace(known, name=job.name, parameters={**job.chosen, **known.parameters})

    def prepare(self, job: Job) -> Experiment:
        """Build and check everything a config names; nothing heavy is loaded, nothing is computed.

        Raises a RagsweepError, with the key or the file and line, for whatever could not work.
        """
        plain = resolved(job.config)
        top_k, depth = _lengths(plain)
        prices = self._apply_budget(plain)
        dataset = self._dataset(plain, job.searching)
        built = self._built_metrics(plain)
        system = self._chosen(plain, "system")
        laid = self._existing(plain, dataset, system, built) if system else self._laid(plain, dataset, built)
        metrics = _checked_metrics(built.parts, plain, dataset)
        threshold = float(plain["evidence"]["threshold"])
        definitions = [one.spec.digest for one in built.parts]
        exact = [leg.exact.address for leg in laid.approximate.values()]
        answered = [node.address for node in (laid.answer, laid.route, laid.query) if node]
        expected = [dataset.golden.expectations] if any(EXPECTED & set(one.needs) for one in metrics) else []
        signature = content_hash(
            [laid.context.address, exact, dataset.golden.digest, threshold, definitions, *answered, *expected]
        )
        return Experiment(
            job.name,
            job.overrides,
            mask({**plain, "success": settled(plain, {metric.name: metric for metric in metrics})}),
            job.parameters(plain),
            dataset,
            laid,
            depth if system else top_k,
            metrics,
            threshold,
            signature,
            _coverage(plain),
            self._targets(plain["targets"]),
            prices.money,
            prices.currency,
        )

    def tracker(self, config: DictConfig) -> Tracker:
        """Build the tracker."""
        tracker: Tracker = self.builder.build(resolved_at(config, "tracking"), "tracking").value
        return tracker

    def _dataset(self, plain: Mapping[str, Any], searching: bool) -> Dataset:
        """Load the questions that a config may see: every command that asks questions comes through here."""
        node, given = plain["dataset"], plain["partition"]
        partition.check(given, searching)
        drawn = self._loaded(node)
        if given in (None, ALL) and not searching:
            return drawn
        # A sample must not move the border: what it shows to a search is not in the holdout of all questions.
        whole = self._loaded({**node, "limit": None}) if node.get("limit") else drawn
        chosen = partition.choose(given, len(whole.golden.questions), searching)
        key = f"{id(drawn)} {chosen}"  # what is loaded once stays
        if key not in self._datasets:
            divided = drawn if chosen.name == ALL else partition.divided(whole, chosen.name, drawn)
            self._datasets[key] = replace(divided, notes=(*divided.notes, *filter(None, [chosen.said])))
        return self._datasets[key]

    def _loaded(self, node: Any) -> Dataset:
        built = self.builder.build(node, "dataset")
        if built.spec.digest not in self._datasets:
            self._datasets[built.spec.digest] = built.value.load()
        return self._datasets[built.spec.digest]

    def _apply_budget(self, plain: Mapping[str, Any]) -> Prices:
        """Set the budget and the prices of the calls that follow."""
        prices: Prices = self.builder.build(plain["prices"], "prices").value
        given = plain["budget"] or {}
        for key in given:
            if key not in LIMITS:
                raise ConfigError(f"budget.{key}: there is no such limit{nearest(key, LIMITS)}")
        budget = Budget(**given)
        budget.check()
        if self.services.meter.limit(budget, prices.money, prices.currency):
            self.evaluator.executor.forget_failed()
        return prices

    def _laid(self, plain: Mapping[str, Any], dataset: Dataset, built: MetricSet) -> Graph:
        """Lay out what the config describes."""
        top_k, depth = _lengths(plain)
        chunker, retriever, reranker = (
            self.builder.build(plain[key], key) for key in ("chunker", "retriever", "reranker")
        )
        if reranker.value.candidates > depth:
            raise ConfigError(
                f"reranker.candidates={reranker.value.candidates} is more than depth={depth}; raise depth"
            )
        compared = any("exact" in one.value.needs for one in built.parts)
        generator, router, query = (self._chosen(plain, group) for group in ("llm", "router", "query"))
        return graph(
            Parts(
                dataset.corpus, chunker, retriever, reranker, depth, top_k, compared, _budget(plain), generator,
                built.judged, router, query,
            )
        )  # fmt: skip

    def _existing(self, plain: Mapping[str, Any], dataset: Dataset, system: Built, built: MetricSet) -> Graph:
        """Lay out a system that answers by itself."""
        for group, silent in (("llm", "none"), ("router", "none"), ("query", "last")):
            if self._chosen(plain, group):
                raise ConfigError(
                    f"{group}: a system of yours answers by itself; choose {group}={silent} beside system=..."
                )
        _, depth = _lengths(plain)
        questions = asked(dataset.golden.questions).spoken
        named = {one.document for question in dataset.golden.questions for one in question.evidence}
        documents = [document for document in dataset.corpus.ids if document in named]
        return existing_graph(Existing(dataset.corpus, system, questions, depth, documents, built.judged))

    def _chosen(self, plain: Mapping[str, Any], group: str) -> Built | None:
        """Build a part that may be chosen away: None where it says nothing."""
        built = self.builder.build(plain[group], group)
        return None if getattr(built.value, "SILENT", False) else built

    def _targets(self, named: Mapping[str, Any] | None) -> dict[str, TargetRule]:
        chosen = dict(named or {})
        if not isinstance(enforced := chosen.pop(ENFORCE, False), bool):
            raise ConfigError(f"targets.{ENFORCE}: must be true or false, given {enforced!r}")
        return {
            name: self.builder.build(node, f"targets.{name}").value for name, node in chosen.items() if node is not None
        }

    def _built_metrics(self, plain: Mapping[str, Any]) -> MetricSet:
        named = plain["metrics"] or {}
        key = json.dumps(named, default=str)
        if key not in self._metric_sets:
            built = {
                name: self.builder.build(node, f"metrics.{name}") for name, node in named.items() if node is not None
            }
            for name, one in built.items():
                _check_metric(one.value, f"metrics.{name}")
            parts = list(built.values())
            judged = {one.value.name: one for one in parts if isinstance(one.value, JudgedMetric)}
            self._metric_sets[key] = MetricSet(parts, judged)
        return self._metric_sets[key]


def _check_metric(metric: object, where: str) -> None:
    """Raise ConfigError for a class that lacks something of a metric."""
    if lacking := [name for name in METRIC if not hasattr(metric, name)]:
        raise ConfigError(
            f"{where}: {type(metric).__name__} lacks {', '.join(lacking)}; see ragsweep.core.types.Metric"
        )


def _checked_metrics(built: Sequence[Built], plain: Mapping[str, Any], dataset: Dataset) -> tuple[Metric, ...]:
    metrics: dict[str, Metric] = {}
    for one in built:
        if one.value.name in metrics:
            raise ConfigError(f'metrics: "{one.value.name}" is defined twice; remove one with ~metrics.KEY')
        metrics[one.value.name] = one.value
    wanted = {"objective": objectives(plain), "headline": plain["headline"]}
    for key, names in wanted.items():
        for name in names:
            if name not in metrics:
                raise ConfigError(f'{key}: no metric "{name}"{nearest(str(name), metrics)}')
    _check_constraints(plain["constraints"] or {}, metrics)
    _check_margin(plain["recommend"] or {})
    check_labels(asked(dataset.golden.questions), metrics)
    lacking = [metric.name for metric in metrics.values() if "evidence" in metric.needs]
    if lacking and not any(has_evidence(question) for question in dataset.golden.questions):
        raise ConfigError(
            f'no question of "{dataset.name}" has evidence, and {len(lacking)} metrics need it'
            f" ({', '.join(lacking[:3])}, ...); label evidence, or choose metrics=unlabelled"
        )
    return tuple(metrics.values())


def _check_constraints(limits: Mapping[str, Any], metrics: Mapping[str, Metric]) -> None:
    """Refuse a limit on what is no cost, or is not measured: it could never be kept."""
    for name, limit in limits.items():
        if name not in COSTS:
            raise ConfigError(f"constraints.{name}: no such cost{nearest(str(name), COSTS)}")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0):
            raise ConfigError(f"constraints.{name}: must be a number above 0, or null, given {limit!r}")
        if limit is not None and name not in metrics:
            raise ConfigError(f'constraints.{name}: no metric "{name}" is measured{nearest(name, metrics)}')


def _check_margin(given: Mapping[str, Any]) -> None:
    margin = given.get("margin")
    if isinstance(margin, bool) or not isinstance(margin, int | float | None) or not 0 <= (margin or 0) < math.inf:
        raise ConfigError(f"recommend.margin: must be a number of 0 or more, or null, given {margin!r}")


def _coverage(plain: Mapping[str, Any]) -> float:
    share = plain["coverage"]
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise ConfigError(f"coverage: must be a share between 0 and 1, given {share!r}")
    return float(share)


def _budget(plain: Mapping[str, Any]) -> int | None:
    budget = plain["context_budget"]
    if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget < 1):
        raise ConfigError(f"context_budget: must be a whole number of at least 1, or null, given {budget!r}")
    return budget


def session(config: DictConfig) -> Session:
    """Return this process's session for the config's store."""
    store = resolved_at(config, "store")
    path, stages = store["path"], store["stages"]
    if not isinstance(path, str) or not path:
        raise ConfigError(f"store.path: must be a folder, given {path!r}")
    if not isinstance(stages, bool):
        raise ConfigError(f"store.stages: must be true or false, given {stages!r}")
    return _session(Path(path).absolute(), stages)


@cache
def _session(folder: Path, stages: bool) -> Session:
    executor = Executor(listener=Lines(Terminal.current()))
    if stages:
        # Asked for anew at each warning: a stage's progress may be on the screen by then.
        executor.store = open_store(folder / "stages", lambda text: executor.listener.warned(text))
    return Session(Evaluator(executor), folder=folder)


def _lengths(plain: Mapping[str, Any]) -> tuple[int, int]:
    """Check the numbers that no part checks."""
    for key in ("top_k", "depth", "seed"):
        lowest = 0 if key == "seed" else 1
        if not isinstance(plain[key], int) or isinstance(plain[key], bool) or plain[key] < lowest:
            raise ConfigError(f"{key}: must be a whole number of at least {lowest}, given {plain[key]!r}")
    top_k, depth = int(plain["top_k"]), int(plain["depth"])
    if top_k > depth:
        raise ConfigError(f"top_k={top_k} is more than depth={depth}; raise depth, or lower top_k")
    threshold = plain["evidence"]["threshold"]
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise ConfigError(f"evidence.threshold: must be above 0 and at most 1, given {threshold!r}")
    return top_k, depth
