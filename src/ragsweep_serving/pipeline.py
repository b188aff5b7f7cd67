"""A pipeline that answers single questions as an evaluated config does, from the config's bundle."""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.building import Builder
from ragsweep.core.errors import InputError
from ragsweep.core.types import NO_CHUNK, Answer, Question, Rankings, Route, Turn
from ragsweep.evaluation.answering import configured_model, unpacked
from ragsweep.evaluation.assembly import build_graph
from ragsweep.evaluation.config_graph import chunks_of
from ragsweep.evaluation.generation import write_queries
from ragsweep.evaluation.question_table import QuestionTable
from ragsweep.services.session import ServiceSession
from ragsweep.services.usage import Pricing
from ragsweep.stages.executor import Executor
from ragsweep_serving.bundle import Bundle
from ragsweep_serving.reference import StepClock, ranking_nodes, top_scores


class ServedPassage(NamedTuple):
    """One ranked chunk: the id of its document, its span in the document in characters, its text and its score."""

    document: str
    start: int
    end: int
    text: str
    score: float


class RankedStep(NamedTuple):
    """The result of a ranking step: the first ``top_k`` chunks, the top score, and its gap to the second score.

    A missing score or gap is NaN.
    """

    found: list[ServedPassage]
    top_score: float
    gap: float


class ServedAnswer(NamedTuple):
    """The response to a question: its context (best first), the answer if there is a generator, and times in ms."""

    context: list[ServedPassage]
    answer: Answer | None
    query: str  # the search query; "" if there was no search
    milliseconds: dict[str, float]  # by stage, and "total"
    steps: Mapping[str, float] = {}  # milliseconds by step, in order
    rankings: Mapping[str, RankedStep] = {}  # by step


class ServedPipeline:
    """A config loaded from its bundle. Thread-safe: questions are answered one at a time."""

    def __init__(self, folder: Path) -> None:
        """Load a bundle; models are loaded at the first question. Raises a RagsweepError for an unusable bundle."""
        self.bundle = Bundle.read(folder)
        self._executor = Executor()
        config, builder = self.bundle.manifest["config"], Builder(ServiceSession().connect)
        self._graph = build_graph(builder, config, self.bundle.corpus)
        self._prices: Pricing = builder.build(config["prices"], "prices").value
        self.bundle.load(self._graph, self._executor)
        self._chunks = chunks_of(self._graph, self._executor.get)
        self._lock = threading.Lock()

    def answer(self, text: str, history: Sequence[Turn] = ()) -> ServedAnswer:
        """Return the answer to a question after the turns in ``history``; raises CallFailed if the search failed."""
        with self._lock:
            try:
                return self._answer(Question("served", text, history=tuple(history)))
            finally:
                self._executor.forget_rows()

    def _answer(self, question: Question) -> ServedAnswer:
        begin, before = time.perf_counter(), self._seconds()
        self._executor.listener = clock = StepClock()
        graph, get, table = self._graph, self._executor.get, QuestionTable((question,))
        if graph.route:
            (route,) = unpacked(get(graph.route, table.wordings), Route)
            table = QuestionTable((question,), bytes([route.search]))
        _, table = write_queries(self._executor, graph, table)
        context: Rankings = get(graph.context, table.queries)
        if context.failed.any():
            raise self._executor.failure(graph.context, table.queries[0])
        answer = None
        if graph.answer:
            (answer,) = unpacked(get(graph.answer, table.answered), Answer)
            money = self._prices.money(answer.model, answer.usage, configured_model(graph.answer))
            answer = answer._replace(money=money)
        spent = {stage: 1000 * (seconds - before.get(stage, 0.0)) for stage, seconds in self._seconds().items()}
        milliseconds = {stage: value for stage, value in spent.items() if value > 0}
        milliseconds["total"] = 1000 * (time.perf_counter() - begin)
        query = table.queries[0] if table.queries else ""
        ranked = ranking_nodes(graph).items() if table.queries else ()
        found = {name: self._ranked(get(node, table.queries)) for name, node in ranked}
        return ServedAnswer(self._passages(context), answer, query, milliseconds, clock.steps, found)

    def _ranked(self, rankings: Rankings) -> RankedStep:
        tops, gaps = top_scores(rankings)
        top, gap = (float(one[0]) if len(one) else math.nan for one in (tops, gaps))
        return RankedStep(self._passages(rankings.first(self.bundle.manifest["config"]["top_k"])), top, gap)

    def _passages(self, context: Rankings) -> list[ServedPassage]:
        found = []
        spans, corpus = self._chunks.spans, self.bundle.corpus
        rows = zip(context.positions[:1].ravel().tolist(), context.scores[:1].ravel().tolist(), strict=True)
        for position, score in rows:
            if position != NO_CHUNK:
                document, start, end = (int(column[position]) for column in spans)
                text = corpus.texts[document][start:end]
                found.append(ServedPassage(corpus.ids[document], start, end, text, score))
        return found

    def _seconds(self) -> dict[str, float]:
        return {stage: work.seconds for stage, work in self._executor.work.items()}


def as_question(value: Any) -> str:
    """Return a question from an HTTP request; raises InputError unless it is a string without lone surrogates."""
    if not is_text(value):
        raise InputError(f"question: must be a string without lone surrogates, got {ascii(value)[:40]}")
    return str(value)


def as_turns(history: Any) -> list[Turn]:
    """Return the turns of a history from an HTTP request; [] for None and NaN.

    Raises InputError for any other value that is not a list of mappings whose ``role`` and ``text`` satisfy `is_text`.
    """
    if history is None or (isinstance(history, float) and math.isnan(history)):
        return []
    try:
        turns = [Turn(turn["role"], turn["text"]) for turn in history]
    except (TypeError, LookupError):
        turns = [Turn(history, history)]
    if isinstance(history, str) or not all(is_text(turn.role) and is_text(turn.text) for turn in turns):
        raise InputError(f'history: must be a list of {{"role": string, "text": string}}, got {ascii(history)[:40]}')
    return turns


def is_text(value: Any) -> bool:
    """Return whether a value is a string without lone surrogates, which no service accepts."""
    return isinstance(value, str) and value.encode(errors="replace").decode() == value
