"""Trace a config's questions for a tracker: the inputs, the outputs and the duration of each stage."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragsweep.core.missing import failed
from ragsweep.core.results import EVERY, FAILURES, SAMPLE, Summary, objectives, shown_metrics
from ragsweep.core.types import EvaluationView, Judgement, Rankings, Request, Scores
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.evaluation.evidence_trace import TracedStages
from ragsweep.evaluation.question_table import ChunkNames, QuestionTable
from ragsweep.parts.prompts import Prompt

SAMPLED = 20
"""A sample consists of the questions whose search text is among the first SAMPLED texts probed for latency."""

LISTED = 10
"""Maximum number of chunks that a span (a traced stage) lists, unless ``top_k`` is larger."""


@dataclass(frozen=True, eq=False)
class QuestionTracer:
    """A tracer that represents questions as dictionaries and lists, so that secrets in them can be masked.

    A trace has a span for each leg, for fusion, reranking and generation, and for each judged metric. A span has a
    ``name``, ``inputs``, ``outputs`` and ``seconds`` (NaN if not measured). Retrieved chunks have the form in which
    trace viewers expect documents.
    """

    config: Mapping[str, Any]
    graph: ConfigGraph
    view: EvaluationView
    names: ChunkNames
    stages: TracedStages
    scores: Mapping[str, Scores]
    summaries: Mapping[str, Summary]

    def trace(self, table: QuestionTable) -> list[dict[str, Any]]:
        """Return the traces of the questions that ``tracking.traces`` selects; by default, it selects none."""
        which = (self.config.get("tracking") or {}).get("traces")
        return [self._trace(n, table) for n in self._chosen(which, table)]

    def _chosen(self, which: str | None, table: QuestionTable) -> list[int]:
        if which == SAMPLE:
            return [int(n) for n in np.flatnonzero(table.probe < SAMPLED)]
        if which == FAILURES:
            return [n for n in range(len(self.view.questions)) if self._missed(n)]
        return list(range(len(self.view.questions))) if which == EVERY else []

    def _missed(self, n: int) -> bool:
        """Return whether the answer or an objective's score failed, or an objective to be maximised scored 0."""
        scores = {name: self.scores[name] for name in objectives(self.config)}
        reasons = [str(one.reasons[n]) for one in scores.values()]
        reasons += [self.view.answers.answers[n].failed] if self.view.answers else []
        zero = (name for name, one in scores.items() if one.values[n] == 0 and self.summaries[name].higher_is_better)
        return any(map(failed, reasons)) or any(zero)

    def _trace(self, n: int, table: QuestionTable) -> dict[str, Any]:
        question, answers = self.view.questions[n], self.view.answers
        searched = list(self._retrieval(n, table.texts[n])) if table.searched[n] else []
        return {
            "question_id": question.id,
            "question": question.text,
            "answer": answers.answers[n].text if answers else None,
            "failed": answers.answers[n].failed if answers else "",
            "spans": [*searched, *self._generation(n), *self._judging(n)],
            "scores": {
                name: {"value": float(self.scores[name].values[n]), **self._judge(name, n)}
                for name in shown_metrics(self.config)
                if name in self.scores and not math.isnan(self.scores[name].values[n])
            },
        }

    def _retrieval(self, n: int, query: str) -> Iterator[dict[str, Any]]:
        final, first = self.view.rankings, self.stages.first_stage or self.view.rankings
        for leg, ranking in (self.stages.legs or {"": first}).items():
            texts = map(self.names.chunks.text, self._listed(ranking, n).positions[0].tolist())
            documents = [
                {"id": row["chunk"], "page_content": text, "metadata": row}
                for row, text in zip(self._rows(ranking, n), texts, strict=True)
            ]
            seconds = self._seconds(n, ("embed_queries", "retrieve"), leg)
            yield _span(f"retrieve {leg}".strip(), {"query": query}, documents, seconds)
        if self.stages.legs:
            lists = {leg: self._chunks(ranking, n) for leg, ranking in self.stages.legs.items()}
            yield _span("fuse", lists, self._rows(first, n), self._seconds(n, ("fuse",)))
        if self.stages.first_stage:
            given = {"query": query, "chunks": self._chunks(first, n)}
            yield _span("rerank", given, self._rows(final, n), self._seconds(n, ("rerank",)))

    def _generation(self, n: int) -> Iterator[dict[str, Any]]:
        if (answers := self.view.answers) is None:
            return
        question, answer, passages = self.view.questions[n], answers.answers[n], answers.passages[n]
        part = next((stage.part for stage in self.graph.paid_stages if stage.reader is self.graph.answer), None)
        given: dict[str, Any] = {"question": question.text, "passages": [passage.name for passage in passages]}
        if isinstance(prompt := getattr(part, "prompt", None), Prompt):
            given = {"messages": prompt.messages(Request(question.text, passages, question.history))}
        got: dict[str, Any] = {"role": "assistant", "content": answer.text, "failed": answer.failed}
        got |= {"model": answer.model, "tokens_in": answer.usage.tokens_in, "tokens_out": answer.usage.tokens_out}
        yield _span("generate", given, {name: value for name, value in got.items() if value}, answer.seconds)

    def _judging(self, n: int) -> Iterator[dict[str, Any]]:
        question = self.view.questions[n]
        given = {"question": question.text, "reference": "\n".join(question.expected)}
        if self.view.answers:
            given["answer"] = self.view.answers.answers[n].text
        for name, judgements in self.view.judgements.items():
            one = judgements[n]
            got = {
                "value": None if math.isnan(one.value) else one.value,
                "not judged": one.reason,
                "reasons": one.words,
            }
            yield _span(f"judge {name}", given, {key: value for key, value in got.items() if value != ""}, math.nan)

    def _judge(self, metric: str, n: int) -> dict[str, str]:
        """Return the judge's model and its reasons for a score; both are empty for a metric without a judge."""
        one = self.view.judgements[metric][n] if metric in self.view.judgements else Judgement()
        return {"model": one.model, "reasons": one.words}

    def _rows(self, ranking: Rankings, n: int) -> list[dict[str, Any]]:
        listed = self._listed(ranking, n)
        (named,), (scores,) = self.names.of(listed.positions), listed.scores.tolist()
        return [{"chunk": name, "score": score} for name, score in zip(named, scores, strict=True)]

    def _chunks(self, ranking: Rankings, n: int) -> list[str]:
        return [row["chunk"] for row in self._rows(ranking, n)]

    def _listed(self, ranking: Rankings, n: int) -> Rankings:
        one = Rankings(ranking.positions[n : n + 1], ranking.scores[n : n + 1])
        return one.first(min(int(one.lengths[0]), max(self.view.top_k, LISTED)))

    def _seconds(self, n: int, stages: tuple[str, ...], leg: str = "") -> float:
        """Return a question's total seconds in ``stages`` of ``leg`` ("": outside any leg); NaN if not measured."""
        paths = {name: name.split("/") for name in self.view.latency}
        inside = [leg] if leg else []
        found = [name for name, (stage, *rest) in paths.items() if stage in stages and rest[:1] == inside]
        return float(sum(self.view.latency[name][n] for name in found)) if found else math.nan


def _span(name: str, inputs: Any, outputs: Any, seconds: float) -> dict[str, Any]:
    return {"name": name, "inputs": inputs, "outputs": outputs, "seconds": float(seconds)}
