"""Evaluate one config: run its graph for all questions, score every question, and sum up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.identity import Node
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.results import COMPLETE, PARTIAL, DatasetFacts, Result
from ragsweep.core.types import (
    NO_CHUNK,
    Answer,
    Answers,
    Dataset,
    Division,
    Embeddings,
    EvaluationView,
    IndexComparison,
    Judgement,
    Metric,
    Question,
    Rankings,
    Route,
    Usage,
)
from ragsweep.evaluation import scoring
from ragsweep.evaluation.answering import answers_in, routes_in, verdicts_in
from ragsweep.evaluation.config_graph import ConfigGraph, chunks_of
from ragsweep.evaluation.evidence import Coverage, cover, view
from ragsweep.evaluation.generation import passages, ranking_key, without_lost, write_queries
from ragsweep.evaluation.question_table import ChunkNames, RunTexts, outcomes, qrels_text, run_text
from ragsweep.evaluation.questions import QuestionTable, has_evidence, tabulate
from ragsweep.evaluation.scoring import compare
from ragsweep.golden.golden_set import peculiarities
from ragsweep.parts.targets import TargetRule, evaluate_targets
from ragsweep.services.usage import Pricing, no_prices
from ragsweep.stages.executor import Executor, StageWork
from ragsweep.stages.graph import Wanted, walk
from ragsweep.stats.intervals import quantile
from ragsweep.stats.summaries import collect_scores

__all__ = ["Evaluator", "Experiment", "has_evidence"]

CUT_WARNING = 0.01
"""Share of tokens that the embedder never read from which on a warning is due."""


@dataclass(frozen=True)
class Experiment:
    """One config made ready: everything is built and checked, nothing is computed yet."""

    name: str
    overrides: tuple[str, ...]
    config: Mapping[str, Any]
    parameters: Mapping[str, str]
    dataset: Dataset
    graph: ConfigGraph
    top_k: int
    metrics: tuple[Metric, ...]
    threshold: float  # share of an evidence's characters that a chunk must hold to cover it
    signature: str
    coverage: float = 0.0  # share of a metric's questions that must be scored
    targets: Mapping[str, TargetRule] = field(default_factory=dict)  # metric -> what says whether its value is good
    price: Pricing = no_prices
    currency: str = ""

    @property
    def wanted(self) -> list[Wanted]:
        """List the nodes that the evaluation needs."""
        known, laid = tabulate(self.dataset.golden.questions), self.graph
        whole = [Wanted(node, ()) for node in (laid.chunks, laid.counts, *laid.embeddings)]
        probed = [Wanted(node, known.probed) for node in laid.latency.values()]
        exact = [Wanted(leg.exact, known.queries) for leg in laid.approximate.values()]
        answers = [Wanted(laid.answer, known.answered)] if laid.answer else []
        verdicts = [Wanted(node, known.judged) for node in laid.verdicts.values()]
        routes = [Wanted(laid.route, known.wordings)] if laid.route else []
        written = [Wanted(laid.query, [known.wordings[n] for n in known.conversations])] if laid.query else []
        return [Wanted(laid.context, known.queries), *whole, *exact, *routes, *written, *answers, *verdicts, *probed]


class Covered(NamedTuple):
    """What the configs of one chunking share: the names of its chunks, and which of them cover which evidence."""

    names: ChunkNames
    coverage: Coverage


@dataclass
class Evaluator:
    """Evaluate configs one after another; shared results are computed once."""

    executor: Executor = field(default_factory=Executor)
    _coverage: dict[tuple[str, str, float], Covered] = field(default_factory=dict)

    def evaluate(self, experiment: Experiment) -> Result:
        """Run the config and score it. Latency is measured last, when everything is warm."""
        started = time.time()
        before = {stage: StageWork(**vars(work)) for stage, work in self.executor.work.items()}
        graph = experiment.graph
        routes, known = self._routed(graph, experiment.dataset.golden.questions)
        queries, known = write_queries(self.executor, graph, known)
        rankings = self._ranked(graph.ranking, known)
        names, coverage = self._covered(experiment)
        looked = replace(self._view(experiment, known, rankings, queries), routes=routes, queries=queries)
        scores = {one.name: without_lost(scoring.scored(one, looked), queries) for one in experiment.metrics}
        table = collect_scores(experiment.metrics, scores)
        ranked = ranking_key(graph, known)
        summaries = table.summarise()
        return Result(
            signature=experiment.signature,
            name=experiment.name,
            overrides=experiment.overrides,
            config=experiment.config,
            parameters=experiment.parameters,
            dataset=facts(experiment.dataset),
            summaries=summaries,
            targets=evaluate_targets(experiment.targets, summaries),
            groups={
                label: {value: table.summarise(rows) for value, rows in values.items()}
                for label, values in known.groups.items()
            },
            outcomes=outcomes(looked, known, scores, dict(zip(scores, table.reasons, strict=True)), names),
            rankings=RunTexts({ranked: lambda: run_text(known.questions, rankings, names, experiment.name)}),
            qrels=RunTexts({ranked: lambda: qrels_text(coverage, names)}),
            stages=self._stages(before, graph),
            latency=stage_latency(looked),
            indexes=self._indexes(graph),
            **self._reranked(experiment, known, rankings),
            warnings=(*self._warnings(experiment), *_warnings_of(looked.answers)),
            started=started,
            ended=time.time(),
            addresses={stage: node.address for stage, node in _named(graph).items()},
            usage=_usage(known, looked, experiment.price),
            state=PARTIAL if any(one.coverage < experiment.coverage for one in summaries.values()) else COMPLETE,
        )

    def _routed(self, graph: ConfigGraph, questions: Sequence[Question]) -> tuple[list[Route] | None, QuestionTable]:
        """Ask the router, where there is one, which questions are searched for."""
        known = tabulate(questions)
        if graph.route is None:
            return None, known
        routes = routes_in(self.executor.get(graph.route, known.wordings))
        return routes, tabulate(questions, bytes(route.search for route in routes))

    def _view(
        self, experiment: Experiment, known: QuestionTable, rankings: Rankings, queries: Sequence[Answer] | None
    ) -> EvaluationView:
        """Gather all that metrics look at. Latency comes last, when everything is warm."""
        graph, (names, coverage) = experiment.graph, self._covered(experiment)
        context = self._ranked(graph.context, known)
        approximate = self._approximate(graph, known, coverage)
        length = _length(context) if graph.budgeted else None
        answers = self._answers(graph, known, names, context)
        verdicts = {name: verdicts_in(self.executor.get(node, known.judged)) for name, node in graph.verdicts.items()}
        latency = self._latency(graph, known)
        if queries:  # one that nobody was asked for took no time
            timed = [one._replace(seconds=0.0) if np.isnan(one.seconds) else one for one in queries]
            latency["query"] = _seconds(timed, known)
        if answers:
            latency["generate"] = _seconds(answers.answers, known)
            answers = answers._replace(cut=_length(rankings.first(experiment.top_k)) - _length(context))
        looked = view(coverage, rankings, experiment.top_k, latency, approximate, length)
        return replace(looked, answers=answers, judgements=verdicts)

    def _answers(
        self, graph: ConfigGraph, known: QuestionTable, names: ChunkNames, context: Rankings
    ) -> Answers | None:
        """Ask for an answer to every question; None where the config names no generator."""
        if graph.answer is None:
            return None
        said = answers_in(self.executor.get(graph.answer, known.answered))
        return Answers(said, passages(names, context), np.zeros(len(said), dtype=np.int64))

    def _reranked(self, experiment: Experiment, known: QuestionTable, after: Rankings) -> dict[str, Any]:
        """Score the ranking before reranking, and describe the changes; empty without a reranker."""
        if not experiment.graph.candidates:
            return {}
        coverage = self._covered(experiment).coverage
        before = self._ranked(experiment.graph.first_stage, known)
        looked = view(coverage, before, experiment.top_k, {})
        told = [m for m in experiment.metrics if "evidence" in m.needs and "exact" not in m.needs]
        table = collect_scores(told, {metric.name: scoring.scored(metric, looked) for metric in told})
        scored = self._ranked(experiment.graph.reranked, known).first(experiment.graph.candidates)
        moved = compare(before, after, coverage, scored)
        return {"first_stage": table.summarise(), "reranking": moved.plain()}

    def _ranked(self, node: Node, known: QuestionTable) -> Rankings:
        """Rank for all questions that need retrieval; conversation gets an empty ranking."""
        found: Rankings = self.executor.get(node, known.queries)
        if len(known.rows) == len(known.questions):
            return found
        positions = np.full((len(known.questions), found.positions.shape[1]), NO_CHUNK, dtype=np.int32)
        scores = np.full(positions.shape, -np.inf, dtype=np.float32)
        positions[known.rows], scores[known.rows] = found.positions, found.scores
        return Rankings(positions, scores, found.chunks)

    def _approximate(self, graph: ConfigGraph, known: QuestionTable, coverage: Coverage) -> dict[str, IndexComparison]:
        legs = {}
        for name, nodes in graph.approximate.items():
            found, exact = (self._ranked(node, known) for node in nodes)
            legs[name] = IndexComparison(found, exact, coverage.first_ranks(found), coverage.first_ranks(exact))
        return legs

    def _latency(self, graph: ConfigGraph, known: QuestionTable) -> dict[str, NDArray[np.float64]]:
        return {
            stage: np.append(self.executor.get(node, known.probed), np.nan)[known.probe]
            for stage, node in graph.latency.items()
        }

    def _covered(self, experiment: Experiment) -> Covered:
        golden = experiment.dataset.golden
        key = (experiment.graph.chunks.address, golden.digest, experiment.threshold)
        if key not in self._coverage:
            chunks = chunks_of(experiment.graph, self.executor.get)
            counts = self.executor.get(experiment.graph.counts)["tokens"]
            coverage = cover(chunks, golden, experiment.threshold, counts)
            self._coverage[key] = Covered(ChunkNames(chunks), coverage)
        return self._coverage[key]

    def _stages(self, before: Mapping[str, StageWork], graph: ConfigGraph) -> dict[str, dict[str, float]]:
        """Return this config's share of the executor's counts, and of tokens beyond its embedder's limit."""
        shares = [_cut_share(self.executor.get(node)) for node in graph.embeddings]
        spent = _since(before, self.executor.work)
        for node in walk(graph.own):
            if node.stage in spent:  # what it cost when it was computed, be that today or long ago
                known = spent[node.stage].get("first_seconds", 0.0)
                spent[node.stage]["first_seconds"] = known + self.executor.seconds(node)
        if shares:
            spent["embed"]["tokens_cut_share"] = max(shares)
        return spent

    def _indexes(self, graph: ConfigGraph) -> dict[str, dict[str, float]]:
        """Return the seconds to build each index, whenever that was, and its bytes; NaN where unknown."""
        told = {}
        for node in walk(graph.own):
            if node.stage == "index":
                size = self.executor.size(node)
                seconds = self.executor.seconds(node) or np.nan
                told[f"index/{node.label}".rstrip("/")] = {
                    "seconds": seconds,
                    "bytes": np.nan if size is None else size,
                }
        return told

    def _warnings(self, experiment: Experiment) -> list[str]:
        said = []
        if experiment.graph.located:
            unknown = self.executor.get(experiment.graph.located).unknown
            if unknown:
                said.append(
                    f"{unknown} contexts of the system were not found in the corpus, and cover no evidence; let it give"
                    " the ids of documents (or document:start-end), or texts as the corpus has them"
                )
        for node in experiment.graph.embeddings:
            embeddings = self.executor.get(node)
            share = _cut_share(embeddings)
            if share >= CUT_WARNING:
                cut = int((embeddings.tokens > embeddings.tokens_read).sum())
                said.append(
                    f"the embedder never read {share:.0%} of the tokens: {cut} of {len(embeddings.tokens)} chunks are"
                    " longer than its window; choose a smaller chunker.size"
                )
        return said


def _length(context: Rankings) -> NDArray[np.int64]:
    """Count the chunks of every ranking."""
    return np.asarray(np.count_nonzero(context.positions != NO_CHUNK, axis=1), dtype=np.int64)


def _seconds(answers: Sequence[Answer], known: QuestionTable) -> NDArray[np.float64]:
    """Take the seconds of the answers to the questions that are probed, as they were measured when they were made."""
    seconds = np.array([answer.seconds for answer in answers], dtype=np.float64)
    return np.where(known.probe < len(known.probed), seconds, np.nan)


def _usage(known: QuestionTable, looked: EvaluationView, price: Pricing) -> dict[str, dict[str, float]]:
    """Add up what answers and verdicts cost when they were first made; what several questions share counts once."""
    said: list[tuple[str, Sequence[Answer | Judgement | Route]]] = [
        ("judge", some) for some in looked.judgements.values()
    ]
    if looked.answers:
        said.append(("generate", looked.answers.answers))
    if looked.routes:
        said.append(("route", looked.routes))
    if looked.queries:
        said.append(("query", looked.queries))
    spent: dict[str, dict[str, float]] = {}
    for stage, items in said:
        total = spent.setdefault(stage, dict.fromkeys(Usage._fields, 0.0))
        distinct = list(dict(zip(known.judged, items, strict=True)).values())
        for one in distinct:
            for name, amount in one.usage._asdict().items():
                total[name] = max(total[name], float(amount)) if name == "estimated" else total[name] + amount
        if stage != "route":  # which names no model
            total["money"] = total.get("money", 0.0) + _money(distinct, price)
    return {stage: _priced(total) for stage, total in spent.items()}


def _priced(total: dict[str, float]) -> dict[str, float]:
    """Leave out the money where nothing was called, or where it is not known."""
    unknown = not total["calls"] or np.isnan(total.get("money", np.nan))
    return {name: amount for name, amount in total.items() if name != "money"} if unknown else total


def _money(items: Iterable[Answer | Judgement | Route], price: Pricing) -> float:
    """Price answers or judgements; NaN where a model has no price, since a part is no sum."""
    priced = [price(one.model, one.usage) for one in items if not isinstance(one, Route)]
    return float(sum(priced))


def _warnings_of(answers: Answers | None) -> list[str]:
    """Warn where one address holds the answers of several models: a service has changed its model."""
    models = sorted({answer.model for answer in answers.answers if answer.model} if answers else ())
    if len(models) < 2:
        return []
    return [f"the answers are of several models ({', '.join(models)}): what the service serves has changed; name one"]


def _cut_share(embeddings: Embeddings) -> float:
    return float(1 - embeddings.tokens_read.sum() / max(embeddings.tokens.sum(), 1))


def _named(graph: ConfigGraph) -> dict[str, Node]:
    return {"chunk": graph.chunks, "ranking": graph.ranking, "context": graph.context}


@memoize_by_identity
def facts(dataset: Dataset) -> DatasetFacts:
    """Return the facts of questions and corpus."""
    questions = dataset.golden.questions
    return DatasetFacts(
        name=dataset.name,
        corpus_digest=dataset.corpus.digest,
        golden_digest=dataset.golden.digest,
        documents=len(dataset.corpus.ids),
        questions=len(questions),
        with_evidence=sum(has_evidence(question) for question in questions),
        unanswerable=sum(not question.answerable for question in questions),
        left_out=dict(dataset.golden.left_out),
        notes=(*dataset.notes, *peculiarities(questions)),
        **_division(dataset.division),
    )


def _division(division: Division | None) -> dict[str, Any]:
    if division is None:
        return {}
    return {"partition": division.name, "partition_digest": division.digest, "whole_digest": division.whole,
            "held": division.held}  # fmt: skip


def stage_latency(looked: EvaluationView) -> dict[str, dict[str, float]]:
    """Sum up each stage's probe: how many questions, and milliseconds by mean and quantile."""
    summed = {}
    for stage, seconds in looked.latency.items():
        milliseconds = seconds[~np.isnan(seconds)] * 1000
        ordered = np.sort(milliseconds)
        if len(ordered):
            quantiles = {f"p{p}_ms": quantile(ordered, p / 100) for p in (50, 95, 99)}
            summed[stage] = {"n": len(ordered), "mean_ms": float(milliseconds.mean()), **quantiles}
    return summed


def _since(before: Mapping[str, StageWork], now: Mapping[str, StageWork]) -> dict[str, dict[str, float]]:
    """Return this config's share of the executor's counts."""
    spent = {}
    for stage, work in now.items():
        old = before.get(stage, StageWork())
        spent[stage] = {
            "executed": work.executed - old.executed,
            "recalled": work.recalled - old.recalled,
            "seconds": work.seconds - old.seconds,
        }
    return spent
