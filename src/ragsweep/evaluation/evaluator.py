"""Evaluate one config: run its graph for all questions, score every question, and summarise the scores."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ragsweep.core.identity import Node
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.question_results import EvidenceRanks, QuestionResults
from ragsweep.core.results import (
    COMPLETE,
    PARTIAL,
    Artifacts,
    DatasetFacts,
    Evaluation,
    Result,
    Run,
    Summaries,
    Summary,
    incomplete,
    objectives,
)
from ragsweep.core.types import (
    NO_CHUNK,
    Answers,
    Dataset,
    Division,
    EvaluationView,
    IndexComparison,
    Rankings,
    Route,
)
from ragsweep.evaluation import trec_texts as texts
from ragsweep.evaluation.answering import unpacked
from ragsweep.evaluation.config_graph import ConfigGraph, chunks_of
from ragsweep.evaluation.evidence import Coverage, cover
from ragsweep.evaluation.evidence import view as make_view
from ragsweep.evaluation.evidence_trace import TracedStages, trace_evidence, view_alone
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.generation import passages, write_queries
from ragsweep.evaluation.probing import probe_stages, seconds_by_question, summarise_latency
from ragsweep.evaluation.question_table import (
    ChunkNames,
    QuestionTable,
    missing_reasons,
    tabulate,
    tabulate_results,
)
from ragsweep.evaluation.question_traces import QuestionTracer
from ragsweep.evaluation.repetition import read_answers, score_repetitions
from ragsweep.evaluation.result_notes import cut_share, result_warnings
from ragsweep.evaluation.scoring import OF_RANKINGS, Failures, compare, find_failures, score_metric
from ragsweep.evaluation.steps import collect_steps, sum_up_usage
from ragsweep.golden.golden_set import peculiarities
from ragsweep.golden.partition import ALL
from ragsweep.parts.targets import evaluate_targets
from ragsweep.services.http_client import note_answers
from ragsweep.stages.executor import Executor, StageWork
from ragsweep.stages.graph import walk
from ragsweep.stats.summaries import collect_scores


@dataclass
class Evaluator:
    """An evaluator of configs, one after another; results that several configs share are computed once."""

    executor: Executor = field(default_factory=Executor)
    began: float = field(default_factory=time.time)  # Unix time; latency that was measured later is not measured again
    _coverage: dict[tuple[str, str, float], tuple[ChunkNames, Coverage]] = field(default_factory=dict)

    def evaluate(self, experiment: Experiment) -> Result:
        """Run and score a config, and return its result."""
        return self.evaluate_with_artifacts(experiment).result

    def evaluate_with_artifacts(self, experiment: Experiment) -> Evaluation:
        """Run and score a config, and return its result with the artifacts for a tracker.

        Latency is measured after the searches, when caches are warm. Raises CallFailed if all searches failed.
        """
        started = time.time()
        before = {stage: StageWork(**vars(work)) for stage, work in self.executor.work.items()}
        graph, table = experiment.graph, experiment.table
        for stage in graph.paid_stages:
            succeeded = stage.node.cacheable
            if succeeded and any(succeeded(rows).any() for rows in self.executor.sample(stage.node, 1)):
                note_answers(stage.part)
        routes, table = self._routed(graph, table)
        queries, table = write_queries(self.executor, graph, table)
        rankings = self._ranked(graph.ranking, table)
        names, coverage = self._covered(experiment)
        queries = queries and experiment.with_costs(queries, graph.query)
        view = replace(self._view(experiment, table, rankings), routes=routes, queries=queries)
        probes = probe_stages(self.executor, graph, table, self.began, bool(experiment.config.get("rerun")))
        view = replace(view, latency=seconds_by_question(probes, view, table))
        others, get = graph.repetitions[1:], self.executor.get
        views = [view, *(read_answers(get, experiment, table, one, view) for one in others)]
        repeated = score_repetitions(experiment.metrics, views)
        failures = find_failures(self.executor, graph, view, table)
        scores = {one.name: failures.drop(repeated.scores[one.name], one) for one in experiment.metrics}
        collected = collect_scores(experiment.metrics, scores, table.weights, failures.unanswered, table.clusters)
        metrics, stages = collected.summarise(), self._traced_stages(graph, table)
        reasons, is_lost = dict(zip(scores, collected.reasons, strict=True)), failures.upstream != ""
        lost, labels = set(np.flatnonzero(is_lost).tolist()), (experiment.dataset.golden.digest, experiment.threshold)
        address, cut = (texts.run_address(table, node.address, labels, lost) for node in (graph.ranking, graph.context))
        evidence_runs = texts.evidence_run_texts(view, experiment.name, address, cut, lost)
        questions = QuestionResults(
            tabulate_results(view, table, scores, names, is_lost),
            missing_reasons(reasons, len(table.questions)),
            collect_steps(view),
            self._traced(experiment, view, stages).without(is_lost | bool(failures.contextless)),
            repeated.repetitions,
        )
        artifacts = Artifacts(
            texts.LazyTexts({address: lambda: texts.run_text(view, names, experiment.name)}),
            texts.LazyTexts({address: lambda: texts.qrels_text(coverage, names, lost)}),
            evidence_runs,
            texts.LazyTexts(dict.fromkeys(evidence_runs, lambda: texts.evidence_qrels_text(coverage, lost))),
            QuestionTracer(experiment.config, graph, view, names, stages, scores, metrics).trace(table),
        )
        work = self._stages(before, graph)
        summaries = Summaries(
            metrics,
            {label: {one: collected.summarise(rows) for one, rows in of.items()} for label, of in table.groups.items()},
            **self._reranked(experiment, table, rankings, failures),
            targets=evaluate_targets(experiment.targets, metrics),
            latency=summarise_latency(view, probes, self.executor),
            usage=sum_up_usage(table, views),
        )
        warnings = tuple(result_warnings(self.executor, experiment, views, repeated.lost(scores), failures.contextless))
        run = self._run(experiment, metrics, questions.judged, stages=work, warnings=warnings, started=started)
        return Evaluation(Result(run, questions, summaries), artifacts)

    def forget_failed(self) -> None:
        """Drop failed rows and everything derived from them (see `Executor.forget_failed`)."""
        self.executor.forget_failed()
        self._coverage.clear()

    def _run(
        self, experiment: Experiment, metrics: Mapping[str, Summary], judged: Sequence[str], **measured: Any
    ) -> Run:
        further = (*experiment.targets, *judged)
        is_partial = incomplete(metrics, experiment.config, further, experiment.coverage)
        return Run(
            signature=experiment.signature,
            name=experiment.name,
            overrides=experiment.overrides,
            config=experiment.config,
            parameters=experiment.parameters,
            dataset=facts(experiment.dataset),
            indexes=self._indexes(experiment.graph),
            addresses=experiment.graph.addresses,
            metric_versions=experiment.metric_versions,
            ended=time.time(),
            state=PARTIAL if is_partial else COMPLETE,
            **measured,
        )

    def _routed(self, graph: ConfigGraph, table: QuestionTable) -> tuple[list[Route] | None, QuestionTable]:
        """Return the route of each question, and the table with the routes; without a router, None and ``table``."""
        if not graph.route:
            return None, table
        routes = unpacked(self.executor.get(graph.route, table.wordings), Route)
        return routes, tabulate(table.questions, bytes(route.search for route in routes))

    def _view(self, experiment: Experiment, table: QuestionTable, rankings: Rankings) -> EvaluationView:
        """Return the input of metrics; the caller adds routes, queries and latency."""
        graph, (names, coverage) = experiment.graph, self._covered(experiment)
        context = self._ranked(graph.context, table)
        approximate = {}
        for name, nodes in graph.approximate.items():
            found, exact = (self._ranked(node, table) for node in nodes[:2])
            approximate[name] = IndexComparison(found, exact, coverage.first_ranks(found), coverage.first_ranks(exact))
        answers = None
        if graph.answer:
            cut = rankings.first(experiment.top_k).lengths - context.lengths
            answers = Answers([], passages(names, context), cut)
        view = make_view(coverage, rankings, experiment.top_k, None if graph.budget is None else context.lengths)
        view = replace(view, approximate=approximate, answers=answers, output=experiment.output)
        return read_answers(self.executor.get, experiment, table, graph.repetitions[0], view)

    def _reranked(
        self, experiment: Experiment, table: QuestionTable, after: Rankings, failures: Failures
    ) -> dict[str, Any]:
        """Return the scores before reranking, and the effect of reranking; {} if there is no reranker."""
        graph = experiment.graph
        if not graph.candidates:
            return {}
        _, coverage = self._covered(experiment)
        before = self._ranked(graph.first_stage, table)
        view = view_alone(before, experiment.top_k, coverage, graph.budget)
        metrics = [one for one in experiment.metrics if "evidence" in one.needs and OF_RANKINGS.issuperset(one.needs)]
        scores = {metric.name: failures.drop(score_metric(metric, view), metric) for metric in metrics}
        summaries = (
            collect_scores(metrics, scores, table.weights, clusters=table.clusters).summarise() if metrics else {}
        )
        candidates = self._ranked(graph.reranked, table).first(graph.candidates)
        return {"first_stage": summaries, "reranking": compare(before, after, coverage, candidates)}

    def _traced_stages(self, graph: ConfigGraph, table: QuestionTable) -> TracedStages:
        return TracedStages(
            {name: self._ranked(node, table) for name, node in graph.legs.items()},
            {name: self._ranked(nodes.kept, table) for name, nodes in graph.approximate.items()},
            self._ranked(graph.first_stage, table) if graph.candidates else None,
            graph.budget,
        )

    def _traced(self, experiment: Experiment, view: EvaluationView, stages: TracedStages) -> EvidenceRanks:
        """Trace the evidence; score legs by those objectives and headline metrics that need only evidence."""
        config = experiment.config
        known = {one.name: one for one in experiment.metrics if tuple(one.needs) == ("evidence",)}
        chosen = dict.fromkeys([*objectives(config), *config.get("headline", ())])
        metrics = [known[name] for name in chosen if name in known]
        _, coverage = self._covered(experiment)
        return trace_evidence(view, coverage, experiment.threshold, stages, metrics)

    def _ranked(self, node: Node, table: QuestionTable) -> Rankings:
        """Return a ranking for every question; it is empty if the question is not searched.

        Raises CallFailed if all searches failed.
        """
        found: Rankings = self.executor.get(node, table.queries)
        if len(table.rows) and found.failed.all():
            raise self.executor.failure(node, table.queries[-1])
        if len(table.rows) == len(table.questions):
            return found
        positions = np.full((len(table.questions), found.positions.shape[1]), NO_CHUNK, dtype=np.int32)
        scores = np.full(positions.shape, -np.inf, dtype=np.float32)
        positions[table.rows], scores[table.rows] = found.positions, found.scores
        return Rankings(positions, scores, found.chunks)

    def _covered(self, experiment: Experiment) -> tuple[ChunkNames, Coverage]:
        """Return the names of the chunks, and the evidence that they cover; configs with equal inputs share both."""
        golden = experiment.dataset.golden
        key = (experiment.graph.chunks.address, golden.digest, experiment.threshold)
        if key not in self._coverage:
            chunks = chunks_of(experiment.graph, self.executor.get)
            counts = self.executor.get(experiment.graph.counts)["tokens"]
            self._coverage[key] = ChunkNames(chunks), cover(chunks, golden, experiment.threshold, counts)
        return self._coverage[key]

    def _stages(self, before: Mapping[str, StageWork], graph: ConfigGraph) -> dict[str, dict[str, float]]:
        """Return the work of each stage since ``before``; "first_seconds" has the seconds of the original computations.

        For embedding, the work includes the number of chunks and the largest share of tokens that an embedder cut off.
        """
        embedded = [self.executor.get(node) for node in graph.embeddings]
        stages: dict[str, dict[str, float]] = {}
        for stage, work in self.executor.work.items():
            old = vars(before.get(stage, StageWork()))
            stages[stage] = {name: value - old[name] for name, value in vars(work).items()}
        for node in walk(graph.own):
            if node.stage in stages:  # seconds of the original computation, in this run or an earlier run
                seconds = stages[node.stage].get("first_seconds", 0.0)
                stages[node.stage]["first_seconds"] = seconds + self.executor.seconds(node)
        if embedded:
            stages["embed"]["tokens_cut_share"] = max(map(cut_share, embedded))
            stages["embed"]["chunks"] = sum(len(one.tokens) for one in embedded)
        return stages

    def _indexes(self, graph: ConfigGraph) -> dict[str, dict[str, float]]:
        """Return the size of each index in bytes and its build time in seconds; NaN where unknown.

        The key is "index" or, for a leg, "index/LEG".
        """
        indexes = {}
        for node in walk(graph.own):
            if node.stage == "index":
                size = self.executor.size(node)
                indexes[f"index/{node.label}".rstrip("/")] = {
                    "seconds": self.executor.seconds(node) or np.nan,
                    "bytes": np.nan if size is None else size,
                }
        return indexes


@memoize_by_identity
def facts(dataset: Dataset) -> DatasetFacts:
    """Return the name, the digests, the counts and the notes of a dataset."""
    questions, division = dataset.golden.questions, dataset.division or Division(ALL, "", "")
    return DatasetFacts(
        name=dataset.name,
        corpus_digest=dataset.corpus.digest,
        golden_digest=dataset.golden.digest,
        documents=len(dataset.corpus.ids),
        questions=len(questions),
        with_evidence=sum(bool(question.relevant) for question in questions),
        unanswerable=sum(not question.answerable for question in questions),
        left_out=dict(dataset.golden.left_out),
        notes=(*dataset.notes, *peculiarities(questions)),
        partition=division.name,
        partition_digest=division.digest,
        whole_digest=division.whole,
        held=division.held,
    )
