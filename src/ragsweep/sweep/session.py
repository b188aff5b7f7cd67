"""Turn configs into experiments: here config meets domain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.identity import BuiltPart, content_hash
from ragsweep.core.secrets import Secrets, mask
from ragsweep.core.types import Dataset, JudgedMetric
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.evaluation.evaluator import Evaluator, Experiment
from ragsweep.evaluation.external_system import ExternalSystem, external_graph
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.evaluation.question_table import tabulate
from ragsweep.golden import partition
from ragsweep.golden.partition import ALL
from ragsweep.parts.prices import Prices
from ragsweep.parts.targets import ENFORCE, TargetRule
from ragsweep.parts.tracking import Tracker
from ragsweep.records.ledger import Ledger, Sweep
from ragsweep.report.terminal import Lines, Terminal
from ragsweep.services.session import ServiceSession
from ragsweep.services.usage import LIMITS, Budget
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import open_store
from ragsweep.stats.context_effect import resolve_success
from ragsweep.sweep.compose import JobConfig, PlainConfig
from ragsweep.sweep.parameters import spelled
from ragsweep.sweep.settings import check_metric, checked_metrics, context_budget, coverage, lengths

EXPECTED = frozenset({"distractors", "section"})
"""Needs of metrics that no digest of a golden set covers."""


@dataclass
class Job:
    """One config of a command, from its overrides to its result."""

    config: JobConfig | PlainConfig
    name: str
    overrides: tuple[str, ...]
    number: int = 0
    searching: bool = False  # its result decides which configs are tried next
    experiment: Experiment | None = None  # once it is prepared

    @property
    def parameters(self) -> dict[str, str]:
        """The config as a user would type it, with the options of its groups."""
        return {**self.chosen, **spelled(self.config.written, self.config.values)}

    @property
    def chosen(self) -> dict[str, str]:
        """The options of the config's groups, as parameters."""
        groups = self.config.written
        return {group: str(option) for group, option in self.config.choices.items() if group in groups and option}


class MetricSet(NamedTuple):
    """The metrics of a config, and those of them that call a judge, by name."""

    parts: list[BuiltPart]
    judged: dict[str, BuiltPart]


@dataclass
class Session:
    """State shared by the jobs of one process: parts, datasets, and everything computed."""

    evaluator: Evaluator = field(default_factory=Evaluator)
    folder: Path = Path(".ragsweep")
    services: ServiceSession = field(default_factory=ServiceSession)
    _datasets: dict[str, Dataset] = field(default_factory=dict)
    _metric_sets: dict[str, MetricSet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = Builder(self.services.connect)

    @cached_property
    def ledger(self) -> Ledger:
        """Open the ledger beside the store; where nothing is run, none is made."""
        return Ledger(self.folder)

    def experiment(self, job: Job) -> Experiment:
        """Return the experiment of a job, which is prepared once; from here on the job's own budget and prices hold."""
        if job.experiment is None:
            job.experiment = self.prepare(job)
        self._apply_budget(job.config.values)
        return job.experiment

    def prepare(self, job: Job) -> Experiment:
        """Build and check everything that a config names; nothing heavy is loaded, nothing is computed.

        Raises a RagsweepError, with the key or the file and line, for whatever could not work.
        """
        plain = job.config.values
        top_k, depth = lengths(plain)
        prices = self._apply_budget(plain)
        dataset = self._dataset(plain, job.searching)
        built = self._built_metrics(plain)
        system = self._chosen(plain, "system")
        built_graph = self._external(plain, dataset, system, built) if system else self._graph(plain, dataset, built)
        metrics = checked_metrics(built.parts, plain, dataset)
        threshold = float(plain["evidence"]["threshold"])
        definitions = [one.spec.digest for one in built.parts]
        exact = [leg.exact.address for leg in built_graph.approximate.values()]
        answered = [node.address for node in (built_graph.answer, built_graph.route, built_graph.query) if node]
        expected = [dataset.golden.expectations] if any(EXPECTED & set(one.needs) for one in metrics) else []
        signature = content_hash(
            [built_graph.context.address, exact, dataset.golden.digest, threshold, definitions, *answered, *expected]
        )
        return Experiment(
            job.name,
            job.overrides,
            mask({**plain, "success": resolve_success(plain, {metric.name: metric for metric in metrics})}),
            job.parameters,
            dataset,
            built_graph,
            depth if system else top_k,
            metrics,
            threshold,
            signature,
            coverage(plain),
            self._targets(plain["targets"]),
            prices.money,
            prices.currency,
        )

    def tracker(self, values: Mapping[str, Any]) -> Tracker:
        """Build the tracker that a config names."""
        tracker: Tracker = self.builder.build(values["tracking"], "tracking").value
        return tracker

    def _dataset(self, plain: Mapping[str, Any], searching: bool) -> Dataset:
        """Load the questions that a config may use; every command loads them here."""
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
            divided = drawn if chosen.name == ALL else partition.select_partition(whole, chosen.name, drawn)
            self._datasets[key] = replace(divided, notes=(*divided.notes, *filter(None, [chosen.note])))
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

    def _graph(self, plain: Mapping[str, Any], dataset: Dataset, built: MetricSet) -> ConfigGraph:
        """Build the graph of stages that the config describes."""
        top_k, depth = lengths(plain)
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
                dataset.corpus, chunker, retriever, reranker, depth, top_k, compared, context_budget(plain), generator,
                built.judged, router, query,
            )
        )  # fmt: skip

    def _external(self, plain: Mapping[str, Any], dataset: Dataset, system: BuiltPart, built: MetricSet) -> ConfigGraph:
        """Build the graph of a system that answers by itself."""
        for group, silent in (("llm", "none"), ("router", "none"), ("query", "last")):
            if self._chosen(plain, group):
                raise ConfigError(
                    f"{group}: a system of yours answers by itself; choose {group}={silent} beside system=..."
                )
        _, depth = lengths(plain)
        questions = tabulate(dataset.golden.questions).wordings
        named = {one.document for question in dataset.golden.questions for one in question.evidence}
        documents = [document for document in dataset.corpus.ids if document in named]
        return external_graph(ExternalSystem(dataset.corpus, system, questions, depth, documents, built.judged))

    def _chosen(self, plain: Mapping[str, Any], group: str) -> BuiltPart | None:
        """Build an optional part; None where it is switched off."""
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
                check_metric(one.value, f"metrics.{name}")
            parts = list(built.values())
            judged = {one.value.name: one for one in parts if isinstance(one.value, JudgedMetric)}
            self._metric_sets[key] = MetricSet(parts, judged)
        return self._metric_sets[key]


def open_session(values: Mapping[str, Any], terminal: Terminal) -> Session:
    """Open a session on the store that a config names. Raises ConfigError for settings of no store."""
    path, stages = values["store"]["path"], values["store"]["stages"]
    if not isinstance(path, str) or not path:
        raise ConfigError(f"store.path: must be a folder, given {path!r}")
    if not isinstance(stages, bool):
        raise ConfigError(f"store.stages: must be true or false, given {stages!r}")
    folder, executor = Path(path).absolute(), Executor(listener=Lines(terminal))
    if stages:
        # Looked up at each warning: a stage's progress may be on the screen by then.
        executor.store = open_store(folder / "stages", lambda text: executor.listener.warned(text))
    return Session(Evaluator(executor), folder=folder)


@dataclass
class RunContext:
    """Everything that the jobs of one command need beside their configs."""

    session: Session
    tracker: Tracker
    terminal: Terminal
    secrets: Secrets
    sweep: Sweep | None = None
    search: Mapping[str, Any] | None = None  # the sweeper's settings, where results decide what is tried next

    @property
    def ledger(self) -> Ledger:
        """The ledger of the command's store."""
        return self.session.ledger
