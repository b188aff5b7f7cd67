"""Evaluate one config: run its graph for all questions, score every question, and sum up."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.evidence import Coverage, cover, view
from ragsweep.executor import Executor, StageWork
from ragsweep.graph import Wanted, walk
from ragsweep.latency import sample
from ragsweep.pipeline import Graph, chunks_of
from ragsweep.reasons import SKIPPED
from ragsweep.results import DatasetFacts, Result, Summary
from ragsweep.statistics.intervals import mean_intervals, quantile_interval
from ragsweep.trec import write_run
from ragsweep.types import NO_CHUNK, Chunks, Dataset, Embeddings, Metric, Question, Rankings, Scores, View

MOST_GROUPS = 40
"""A label with more values than this tells questions apart rather than grouping them."""

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
    graph: Graph
    top_k: int
    metrics: tuple[Metric, ...]
    threshold: float  # share of an evidence's characters that a chunk must hold to cover it
    signature: str

    @property
    def wanted(self) -> list[Wanted]:
        """List what evaluating it asks for."""
        queries, laid = self.dataset.golden.queries, self.graph
        whole = [Wanted(node, ()) for node in (laid.chunks, *laid.embeddings)]
        probed = [Wanted(node, sample(queries)) for node in laid.latency.values()]
        return [Wanted(laid.context, queries), *whole, *probed]


@dataclass
class Evaluator:
    """Evaluate configs one after another; what they share is computed once."""

    executor: Executor = field(default_factory=Executor)
    _coverage: dict[tuple[str, str, float], tuple[Chunks, Coverage]] = field(default_factory=dict)

    def evaluate(self, experiment: Experiment) -> Result:
        """Run the config and score it. Latency is measured last, when everything is warm."""
        started = time.time()
        before = {stage: StageWork(**vars(work)) for stage, work in self.executor.work.items()}
        questions = experiment.dataset.golden.questions
        rankings = self._rankings(experiment, questions)
        chunks, coverage = self._covered(experiment)
        looked = view(coverage, rankings, experiment.top_k, self._latency(experiment))
        scores = {metric.name: metric.score(looked) for metric in experiment.metrics}
        return Result(
            signature=experiment.signature,
            name=experiment.name,
            overrides=experiment.overrides,
            config=experiment.config,
            parameters=experiment.parameters,
            dataset=facts(experiment.dataset),
            summaries=summarise(experiment.metrics, scores, np.arange(len(questions))),
            groups=group(experiment.metrics, scores, questions),
            outcomes=outcomes(looked, scores, chunks),
            rankings={experiment.graph.ranking.address: write_run(run_rows(looked, chunks), tag=experiment.name)},
            stages=self._stages(before, experiment.graph),
            latency=stage_latency(looked),
            warnings=tuple(self._warnings(experiment)),
            started=started,
            ended=time.time(),
        )

    def _rankings(self, experiment: Experiment, questions: Sequence[Question]) -> Rankings:
        """Rank for all questions that need retrieval; conversation gets an empty ranking."""
        graph = experiment.graph
        asked = [n for n, question in enumerate(questions) if question.needs_retrieval]
        texts = experiment.dataset.golden.queries
        found: Rankings = self.executor.get(graph.ranking, texts)
        self.executor.get(graph.context, texts)
        positions = np.full((len(questions), found.positions.shape[1]), NO_CHUNK, dtype=np.int32)
        scores = np.full(positions.shape, -np.inf, dtype=np.float32)
        positions[asked], scores[asked] = found.positions, found.scores
        return Rankings(positions, scores, found.chunks)

    def _latency(self, experiment: Experiment) -> dict[str, NDArray[np.float64]]:
        questions, probed = experiment.dataset.golden.questions, sample(experiment.dataset.golden.queries)
        known = {}
        for stage, node in experiment.graph.latency.items():
            seconds = dict(zip(probed, self.executor.get(node, probed), strict=True))
            known[stage] = np.array([seconds.get(question.text, np.nan) for question in questions])
        return known

    def _covered(self, experiment: Experiment) -> tuple[Chunks, Coverage]:
        golden = experiment.dataset.golden
        key = (experiment.graph.chunks.address, golden.digest, experiment.threshold)
        if key not in self._coverage:
            chunks = chunks_of(experiment.graph, self.executor.get)
            self._coverage[key] = (chunks, cover(chunks, golden, experiment.threshold))
        return self._coverage[key]

    def _stages(self, before: Mapping[str, StageWork], graph: Graph) -> dict[str, dict[str, float]]:
        """Say what this config added to the executor's counts, and what share of the tokens its embedder never read."""
        spent = _since(before, self.executor.work)
        for node in walk(graph.wanted):
            if node.stage in spent:  # what it cost when it was computed, be that today or long ago
                spent[node.stage]["first_seconds"] = spent[node.stage].get(
                    "first_seconds", 0.0
                ) + self.executor.seconds(node)
        if graph.embeddings:
            shares = [_cut_share(self.executor.get(node)) for node in graph.embeddings]
            spent["embed"]["tokens_cut_share"] = max(shares)
        return spent

    def _warnings(self, experiment: Experiment) -> list[str]:
        said = []
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


def _cut_share(embeddings: Embeddings) -> float:
    return float(1 - embeddings.tokens_read.sum() / max(embeddings.tokens.sum(), 1))


def facts(dataset: Dataset) -> DatasetFacts:
    """Say which questions are asked of which corpus."""
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
        notes=dataset.notes,
    )


def has_evidence(question: Question) -> bool:
    """Say whether a question has relevant evidence."""
    return any(evidence.grade > 0 for evidence in question.evidence)


def summarise(metrics: Sequence[Metric], scores: Mapping[str, Scores], chosen: NDArray[np.int64]) -> dict[str, Summary]:
    """Sum up the chosen questions: mean or quantile, interval, and how many could not be scored and why."""
    means = [metric for metric in metrics if metric.quantile is None]
    table = np.stack([scores[metric.name].values[chosen] for metric in means], axis=1)
    lowest, highest = (
        np.array([np.nan if metric.bounds[end] is None else metric.bounds[end] for metric in means], dtype=np.float64)
        for end in (0, 1)
    )
    low, high = mean_intervals(table, lowest, highest)
    intervals = {metric.name: (float(low[n]), float(high[n])) for n, metric in enumerate(means)}
    return {
        metric.name: _summary(metric, scores[metric.name], chosen, intervals.get(metric.name)) for metric in metrics
    }


def _summary(
    metric: Metric, scores: Scores, chosen: NDArray[np.int64], interval: tuple[float, float] | None
) -> Summary:
    values, reasons = scores.values[chosen], Counter(reason for reason in scores.reasons[chosen].tolist() if reason)
    known = values[~np.isnan(values)]
    if metric.quantile is not None:
        value = float(np.quantile(known, metric.quantile)) if len(known) else float("nan")
        interval = quantile_interval(known, metric.quantile)
    else:
        value = float(known.mean()) if len(known) else float("nan")
    assert interval is not None
    skipped = sum(count for reason, count in reasons.items() if reason in SKIPPED)
    return Summary(
        metric.name, value, *interval, n_total=len(values), n_scored=len(known), n_skipped=skipped,
        n_failed=sum(reasons.values()) - skipped, unit=metric.unit, higher_is_better=metric.higher_is_better,
        reasons=dict(reasons),
    )  # fmt: skip


def group(
    metrics: Sequence[Metric], scores: Mapping[str, Scores], questions: Sequence[Question]
) -> dict[str, dict[str, dict[str, Summary]]]:
    """Sum up by category and by every other label that groups the questions."""
    grouped: dict[str, dict[str, dict[str, Summary]]] = {}
    for label in labels(questions):
        values = [label_of(question, label) for question in questions]
        names = sorted({value for value in values if value})
        if not 2 <= len(names) <= MOST_GROUPS:
            continue
        grouped[label] = {
            name: summarise(metrics, scores, np.flatnonzero([value == name for value in values])) for name in names
        }
    return grouped


def labels(questions: Sequence[Question]) -> list[str]:
    """List what questions can be grouped by."""
    return ["category", *sorted({label for question in questions for label in question.labels} - {"category"})]


def label_of(question: Question, label: str) -> str:
    """Return a question's value for a label, or an empty string."""
    return question.category if label == "category" else str(question.labels.get(label, ""))


def outcomes(looked: View, scores: Mapping[str, Scores], chunks: Chunks) -> dict[str, list[Any]]:
    """Lay out one row a question: what it is, what was found, every score, and why a score is missing."""
    questions = looked.questions
    positions = looked.rankings.positions
    table: dict[str, list[Any]] = {
        "question_id": [question.id for question in questions],
        "question": [question.text for question in questions],
        "answerable": [question.answerable for question in questions],
        "evidence": np.bincount(looked.evidence_question, minlength=len(questions)).tolist(),
        "first_evidence_rank": _first_rank(looked).tolist(),
        "retrieved": (positions != NO_CHUNK).sum(axis=1).tolist(),
        "context": [chunk_ids(chunks, row[: looked.top_k]) for row in positions],
    }
    for label in labels(questions):
        table[label] = [label_of(question, label) for question in questions]
    for name, scored in scores.items():
        table[name] = scored.values.tolist()
    reasons = {name: scored.reasons.tolist() for name, scored in scores.items()}
    table["unscored"] = [
        json.dumps({name: said[n] for name, said in reasons.items() if said[n]}) for n in range(len(questions))
    ]
    return table


def stage_latency(looked: View) -> dict[str, dict[str, float]]:
    """Sum up each stage's probe: how many questions, and milliseconds by mean and quantile."""
    known = {stage: seconds[~np.isnan(seconds)] * 1000 for stage, seconds in looked.latency.items()}
    return {
        stage: {
            "n": len(milliseconds),
            "mean_ms": float(milliseconds.mean()),
            **{f"p{p}_ms": float(np.percentile(milliseconds, p)) for p in (50, 95, 99)},
        }
        for stage, milliseconds in known.items()
        if len(milliseconds)
    }


def _first_rank(looked: View) -> NDArray[np.int64]:
    """Find the first rank that covers any evidence of each question; 0 where none does."""
    never = np.iinfo(np.int64).max
    first = np.full(len(looked.questions), never)
    np.minimum.at(first, looked.evidence_question, np.where(looked.first_rank > 0, looked.first_rank, never))
    return np.where(first == never, 0, first)


def chunk_ids(chunks: Chunks, positions: NDArray[np.int32]) -> list[str]:
    """Name chunks for people and files: the document, and the span where it is not the whole document."""
    named = []
    for position in positions[positions != NO_CHUNK].tolist():
        document = int(chunks.spans.document[position])
        start, end = int(chunks.spans.start[position]), int(chunks.spans.end[position])
        whole = start == 0 and end == len(chunks.corpus.texts[document])
        name = chunks.corpus.ids[document]
        named.append(name if whole else f"{name}:{start}-{end}")
    return named


def run_rows(looked: View, chunks: Chunks) -> dict[str, list[tuple[str, float]]]:
    """Lay out the rankings for a TREC run file: question id -> (chunk id, score), best first."""
    rows = {}
    for question, positions, scores in zip(looked.questions, *looked.rankings[:2], strict=True):
        rows[question.id] = list(zip(chunk_ids(chunks, positions), scores.tolist(), strict=False))
    return rows


def _since(before: Mapping[str, StageWork], now: Mapping[str, StageWork]) -> dict[str, dict[str, float]]:
    """Say what this config added to the executor's counts."""
    spent = {}
    for stage, work in now.items():
        old = before.get(stage, StageWork())
        spent[stage] = {
            "executed": work.executed - old.executed,
            "recalled": work.recalled - old.recalled,
            "seconds": work.seconds - old.seconds,
        }
    return spent
