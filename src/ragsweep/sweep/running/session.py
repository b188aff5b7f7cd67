"""Build experiments from configs and evaluate them, with datasets and parts shared within a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragsweep.core.building import Builder, check_members
from ragsweep.core.errors import ConfigError, RagsweepError, nearest
from ragsweep.core.foreign_results import read_dataset
from ragsweep.core.identity import BuiltPart, content_hash
from ragsweep.core.results import NO_ARTIFACTS, Evaluation, Result
from ragsweep.core.secrets import Secrets, mask
from ragsweep.core.types import NEEDS, Dataset, JudgedMetric, Metric, Passage, Request
from ragsweep.evaluation.assembly import build_graph, checked_part, optional_part
from ragsweep.evaluation.corpus_language import resolve_language
from ragsweep.evaluation.evaluator import Evaluator, facts
from ragsweep.evaluation.experiment import Experiment, tabulate_conversations
from ragsweep.evaluation.external_system import ExternalSystem, external_graph
from ragsweep.evaluation.question_table import chunk_text, tabulate
from ragsweep.golden import partition
from ragsweep.golden.golden_set import weigh_unanswerable
from ragsweep.golden.partition import ALL
from ragsweep.parts.local_model import LocalModel
from ragsweep.parts.targets import ENFORCE, TargetRule
from ragsweep.parts.tracking import NoTracking, Tracker
from ragsweep.records.ledger import Ledger
from ragsweep.report.progress import Lines
from ragsweep.report.sweep_report import PageTexts, PromptReader
from ragsweep.services.session import ServiceSession
from ragsweep.services.usage import LIMITS, Budget
from ragsweep.stages.executor import Executor
from ragsweep.stages.remote import Remote, open_remote
from ragsweep.stages.shards import LOCAL, RAY, RayShards, check_compute
from ragsweep.stages.shared_store import SharedStore
from ragsweep.stages.store import Store, open_store
from ragsweep.stats.context_effect import resolve_success
from ragsweep.sweep.composing.settings import check_config, checked_metrics
from ragsweep.sweep.running.rungs import evaluate_rung

if TYPE_CHECKING:
    from ragsweep.evaluation.config_graph import ConfigGraph
    from ragsweep.parts.prices import Prices
    from ragsweep.report.terminal import Terminal
    from ragsweep.sweep.composing.job import Job

EXPECTED = frozenset({"distractors", "section", "count"})
"""The values of a metric's ``needs`` for data that the digest of a golden set does not cover."""


@dataclass
class Session:
    """State shared by the jobs of one process: parts, datasets and computed results."""

    evaluator: Evaluator = field(default_factory=Evaluator)
    folder: Path = Path(".ragsweep")
    services: ServiceSession = field(default_factory=ServiceSession)
    remote: Remote | None = None  # the object store that machines share, if any
    _datasets: dict[str, Dataset] = field(default_factory=dict)
    _rung: tuple[int, Evaluator] | None = None  # the current rung of a race, and its evaluator

    def __post_init__(self) -> None:
        self.builder = Builder(self._connect)

    def _connect(self, part: object) -> None:
        self.services.connect(part)
        if isinstance(part, LocalModel) and self.evaluator.executor.store is not None:
            part.exports = self.folder / "models"

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger next to the store, opened on first access, so that a command without runs creates no ledger."""
        return Ledger(self.folder)

    def experiment(self, job: Job) -> Experiment:
        """Return a job's experiment, prepared on the first call (see `prepare`); apply the job's budget and prices."""
        if job.experiment is None:
            job.experiment = self.prepare(job)
        self._apply_budget(job.config.values)
        return job.experiment

    def evaluate(self, experiment: Experiment, rung: int | None) -> Evaluation:
        """Evaluate a config; in a race, only on the first ``rung`` questions. Configs on a rung share an evaluator."""
        if not rung:
            return self.evaluator.evaluate_with_artifacts(experiment)
        if self._rung is None or self._rung[0] != rung:
            self._rung = rung, Evaluator(self.evaluator.executor)
        return Evaluation(evaluate_rung(self._rung[1], experiment, rung, facts(experiment.dataset)), NO_ARTIFACTS)

    def prepare(self, job: Job) -> Experiment:
        """Return the experiment of a job, after building and checking everything that its config names.

        The dataset is loaded; no model is loaded, and nothing is computed. Raises a RagsweepError for the first fault.
        """
        plain = job.config.values
        check_config(plain)
        prices = self._apply_budget(plain)
        dataset = self._dataset(plain, job.searching)
        plain = resolve_language(plain, dataset.corpus)
        built = self._metrics(plain)
        judged = {part.value.name: part for part in built if isinstance(part.value, JudgedMetric)}
        system = optional_part(self.builder, plain, "system")
        if system:
            graph = self._external(plain, dataset, system, judged)
        else:
            exact = any("exact" in part.value.needs for part in built)
            graph = build_graph(self.builder, plain, dataset.corpus, judged, exact, dataset.excluded)
        metrics = checked_metrics(built, plain, dataset)
        threshold = float(plain["evidence"]["threshold"])
        definitions = [part.spec.digest for part in built]
        searched = [leg.exact.address for leg in graph.approximate.values()]
        answers = (graph.answer, graph.route, graph.query, *(one.answer for one in graph.repetitions[1:]))
        answered = [node.address for node in answers if node]
        expected = [dataset.golden.expectations] if any(EXPECTED & set(metric.needs) for metric in metrics) else []
        output = checked_part(self.builder, plain, "output")
        read = [output.spec.digest] if any("output" in metric.needs for metric in metrics) else []
        measured = [graph.context.address, searched, dataset.golden.digest, threshold, definitions]
        signature = content_hash([*measured, *answered, *expected, *read])
        return Experiment(
            job.name,
            job.overrides,
            mask({**plain, "success": resolve_success(plain, {metric.name: metric for metric in metrics})}),
            job.spelled(plain),
            dataset,
            graph,
            plain["depth"] if system else plain["top_k"],
            metrics,
            threshold,
            signature,
            float(plain["coverage"]),
            self._targets(plain["targets"]),
            prices,
            output.value if read else None,
            {part.value.name: part.spec.version for part in built},
        )

    def tracker(self, values: Mapping[str, Any]) -> Tracker:
        """Build the tracker that a config names."""
        tracker: Tracker = self.builder.build(values["tracking"], "tracking").value
        check_members(tracker, (NoTracking,), "tracking")
        return tracker

    def _dataset(self, plain: Mapping[str, Any], searching: bool) -> Dataset:
        """Return a config's dataset with only the questions of its partition, weighted as in `_load`."""
        node, typed, share = plain["dataset"], plain["partition"], (plain.get("success") or {}).get("unanswerable")
        partition.check(typed, searching)
        drawn = self._load(node, share)
        if typed in (None, ALL) and not searching:
            return drawn
        # Partition before sampling: a sampled question of a search is never in the full holdout.
        undrawn = {**node, "limit": None} if node.get("limit") else node
        whole, every = self._load(undrawn, share), self._load(undrawn, None)  # a share of 0 leaves out questions
        chosen = partition.choose(typed, len(whole.golden.questions), searching)
        key = f"{id(drawn)} {chosen}"  # a stable id: ``drawn`` is cached
        if key not in self._datasets:
            divided = drawn
            if chosen.name != ALL:
                divided = weigh_unanswerable(partition.select_partition(whole, chosen.name, drawn, every), share)
            self._datasets[key] = replace(divided, notes=(*divided.notes, *filter(None, [chosen.note])))
        return self._datasets[key]

    def _load(self, node: Any, unanswerable: object) -> Dataset:
        """Load the dataset of ``node``; ``unanswerable`` is the share of unanswerable questions (None: as they are)."""
        built = checked_part(self.builder, {"dataset": node}, "dataset")
        if built.spec.digest not in self._datasets:
            self._datasets[built.spec.digest] = read_dataset(built.value)
        key = f"{built.spec.digest} {unanswerable}"
        if key not in self._datasets:
            self._datasets[key] = weigh_unanswerable(self._datasets[built.spec.digest], unanswerable)
        return self._datasets[key]

    def recorded_dataset(self, result: Result) -> Dataset | None:
        """Load a result's dataset, with all questions; return None if loading fails or the corpus has changed."""
        try:
            share = (result.run.config.get("success") or {}).get("unanswerable")
            dataset = self._load(result.run.config["dataset"], share) if result.run.config.get("dataset") else None
        except RagsweepError:
            return None
        return dataset if dataset and dataset.corpus.digest == result.run.dataset.corpus_digest else None

    def page_texts(self, results: Sequence[Result], secrets: Secrets) -> PageTexts:
        """Return the chunks, prompts and evidence for a report page, without those of datasets that have changed."""
        first = {_digests(one): one for one in reversed(results)}
        datasets = {digests: dataset for digests, one in first.items() if (dataset := self.recorded_dataset(one))}
        evidence = {
            golden: {
                question.id: [": ".join(filter(None, (x.document, x.anchor))) for x in question.relevant]
                for question in dataset.golden.questions
            }
            for (_, golden), dataset in datasets.items()
        }
        chunks = {corpus: partial(chunk_text, dataset.corpus) for (corpus, _), dataset in datasets.items()}
        return PageTexts(secrets, chunks, partial(self._prompts, datasets), evidence)

    def _prompts(self, datasets: Mapping[tuple[str, str], Dataset], result: Result) -> PromptReader | None:
        """Return a function that reconstructs a config's prompts; None if its prompt or its dataset is unavailable."""
        node = (result.run.config.get("llm") or {}).get("prompt")
        if not node or not (dataset := datasets.get(_digests(result))):
            return None
        try:
            prompt = self.builder.build(node, "prompt").value
        except RagsweepError:
            return None
        asked = set(zip(result.questions["question_id"], result.questions["question"], strict=True))
        questions = {one.id: one for one in dataset.golden.questions if (one.id, one.text) in asked}  # unedited

        def read(name: str, context: Sequence[str]) -> Sequence[Mapping[str, str]]:
            if not (one := questions.get(name)):
                return []
            passages = tuple(Passage(chunk, chunk_text(dataset.corpus, chunk)) for chunk in context)
            messages: list[dict[str, str]] = prompt.messages(Request(one.text, passages, one.history))
            return messages

        return read

    def _apply_budget(self, plain: Mapping[str, Any]) -> Prices:
        """Set the budget and prices of later service calls; return the prices. Raises ConfigError for a bad limit."""
        prices: Prices = self.builder.build(plain["prices"], "prices").value
        limits = plain["budget"] or {}
        for key in limits:
            if key not in LIMITS:
                raise ConfigError(f"budget.{key}: unknown limit{nearest(key, LIMITS)}")
        budget = Budget(**limits)
        budget.check()
        if self.services.meter.limit(budget, prices):
            self.evaluator.forget_failed()
        return prices

    def _external(
        self, plain: Mapping[str, Any], dataset: Dataset, system: BuiltPart, judged: Mapping[str, BuiltPart]
    ) -> ConfigGraph:
        for group, silent in (("llm", "none"), ("router", "none"), ("query", "last")):
            if optional_part(self.builder, plain, group):
                raise ConfigError(
                    f"{group}: an external system (system=NAME) does not use this group; also choose {group}={silent}"
                )
        table, depth = tabulate_conversations(dataset.golden.questions), plain["depth"]
        labelled = {evidence.document for question in dataset.golden.questions for evidence in question.evidence}
        documents = [document for document in dataset.corpus.ids if document in labelled]
        own = zip(table.texts, tabulate(table.questions).texts, strict=True)
        joined = {text: dataset.excluded[query] for text, query in own if query in dataset.excluded}
        asked = (table.wordings, table.texts)
        excluded = {**dataset.excluded, **joined}
        return external_graph(ExternalSystem(dataset.corpus, system, *asked, depth, documents, judged, excluded))

    def _built(self, nodes: Mapping[str, Any], group: str, protocol: type) -> dict[str, BuiltPart]:
        """Build and check the parts of a group, such as ``metrics``, that may have several parts; omit null parts."""
        built = {key: self.builder.build(node, f"{group}.{key}") for key, node in nodes.items() if node is not None}
        for key, part in built.items():
            check_members(part.value, (protocol,), f"{group}.{key}")
        return built

    def _targets(self, nodes: Mapping[str, Any] | None) -> dict[str, TargetRule]:
        rules = dict(nodes or {})
        if not isinstance(enforced := rules.pop(ENFORCE, False), bool):
            raise ConfigError(f"targets.{ENFORCE}: must be true or false, got {enforced!r}")
        return {name: built.value for name, built in self._built(rules, "targets", TargetRule).items()}

    def _metrics(self, plain: Mapping[str, Any]) -> list[BuiltPart]:
        built = self._built(plain["metrics"] or {}, "metrics", Metric)
        for name, part in built.items():
            if unknown := sorted(set(part.value.needs) - set(NEEDS)):
                raise ConfigError(f"metrics.{name}: unknown in needs: {', '.join(unknown)}{nearest(unknown[0], NEEDS)}")
        return list(built.values())


def _digests(result: Result) -> tuple[str, str]:
    return result.run.dataset.corpus_digest, result.run.dataset.golden_digest


def open_session(values: Mapping[str, Any], terminal: Terminal) -> Session:
    """Open a session on the store that a config names. Raises ConfigError for invalid ``store`` or ``compute``."""
    path, stages, url = values["store"]["path"], values["store"]["stages"], values["store"].get("remote")
    if not isinstance(path, str) or not path:
        raise ConfigError(f"store.path: must be a folder, got {path!r}")
    if not isinstance(stages, bool):
        raise ConfigError(f"store.stages: must be true or false, got {stages!r}")
    check_compute(compute := values.get("compute", LOCAL))
    shards = RayShards() if compute == RAY else None
    folder, executor = Path(path).absolute(), Executor(listener=Lines(terminal), shards=shards)
    if (workers := values["store"].get("worker_path")) is not None:
        if not isinstance(workers, str) or not workers:
            raise ConfigError(f"store.worker_path: must be a folder, got {workers!r}")
        if url is None:
            raise ConfigError(
                "store.worker_path: needs store.remote, through which jobs with their own folder send their results;"
                " set both, or neither"
            )
    if url is not None and not stages:
        raise ConfigError(
            "store.remote: shares stage results, but store.stages=false keeps none; set store.stages=true, or"
            " store.remote=null"
        )

    def warn(text: str) -> None:  # not bound to the listener, which may be replaced before the warning
        executor.listener.warned(text)

    remote = open_remote(url, warn)
    kind = partial(SharedStore, remote=remote) if remote else Store
    executor.store = open_store(folder / "stages", warn, kind) if stages else None
    return Session(Evaluator(executor), folder=folder, remote=remote)
