"""The stages behind the context: queries, routes, answers, and verdicts. Parts are used by protocol only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from ragsweep.core.identity import BuiltPart, Node, Rows, Spec, StageContext, content_hash, key_check
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import ABSTAINED, CONVERSATIONAL, NO_ANSWERS, NO_REFERENCE, NOTHING_RETRIEVED, NOTHING_SAID
from ragsweep.core.types import (
    NO_CHUNK,
    Answer,
    CachingMetric,
    Case,
    Chunks,
    Judgement,
    Passage,
    Rankings,
    Request,
    Scores,
)
from ragsweep.evaluation.answering import (
    Packed,
    QuestionKey,
    answers_in,
    ask_all,
    cacheable_answers,
    cacheable_routes,
    cacheable_verdicts,
    case_key,
    packed,
    read_question_key,
    request_key,
    verdicts_in,
)
from ragsweep.evaluation.config_graph import ConfigGraph, PaidStage
from ragsweep.evaluation.question_table import ChunkNames
from ragsweep.evaluation.questions import QuestionTable, tabulate
from ragsweep.evaluation.scoring import judged
from ragsweep.stages.executor import Executor
from ragsweep.stages.stored_replies import reply_node


def route_node(router: BuiltPart) -> Node:
    """Route every question; rows are keys of the question's wording."""

    def compute(work: StageContext, rows: Rows) -> Packed:
        asked = list(map(read_question_key, rows))
        contents = {key: Request(one.text, (), one.history) for key, one in zip(rows, asked, strict=True)}
        return ask_all(work, rows, contents, router.value.route)

    return Node(
        "route",
        router.spec,
        (),
        compute,
        "rows",
        result=np.ndarray,
        cacheable=cacheable_routes,
        check=key_check(router.value),
    )


def query_node(query: BuiltPart) -> Node:
    """Write the query of every question; rows are keys of the question's wording."""

    def compute(work: StageContext, rows: Rows) -> Packed:
        asked = list(map(read_question_key, rows))
        contents = {key: Request(one.text, (), one.history) for key, one in zip(rows, asked, strict=True)}
        return ask_all(work, rows, contents, query.value.write)

    return Node(
        "query",
        _read_spec(query),
        (),
        compute,
        "rows",
        result=np.ndarray,
        cacheable=cacheable_answers,
        check=key_check(query.value),
    )


def _read_spec(query: BuiltPart) -> Spec:
    """Drop a part's nested parts for other purposes from its spec: they cannot change a query."""
    spec, parameters = query.spec, dict(query.spec.parameters)
    for name, unread in getattr(query.value, "UNREAD", {}).items():
        if isinstance(parameters.get(name), Spec):
            parameters[name] = parameters[name].without(*unread)
    return Spec(spec.target, spec.version, parameters, spec.files)


def write_queries(
    executor: Executor, graph: ConfigGraph, known: QuestionTable
) -> tuple[list[Answer] | None, QuestionTable]:
    """Have a query written for every question with a history; one that failed is searched for with its text.

    Returns:
        The queries, one a question and empty where none was written, or None where the config writes none; and the
        questions as they are searched for.
    """
    if graph.query is None:
        return None, known
    rows = known.conversations.tolist()
    found = iter(answers_in(executor.get(graph.query, [known.wordings[n] for n in rows])) if rows else ())
    chosen = set(rows)
    queries = [next(found) if n in chosen else Answer() for n in range(len(known.questions))]
    texts = [text if one.failed or not one.text else one.text for text, one in zip(known.texts, queries, strict=True)]
    return queries, tabulate(known.questions, known.routed, json.dumps(texts))


def without_lost(scores: Scores, queries: Sequence[Answer] | None) -> Scores:
    """Drop the scores of questions whose query could not be written: another text was searched."""
    lost = {n: one.failed for n, one in enumerate(queries or ()) if one.failed}
    if not lost:
        return scores
    values = scores.values.copy()
    values[list(lost)] = np.nan
    reasons = [lost.get(n, reason) for n, reason in enumerate(scores.reasons.tolist())]
    return Scores(values, np.array(reasons, dtype=np.str_))


def ranking_key(graph: ConfigGraph, known: QuestionTable) -> str:
    """Return the address of the rankings; where queries were written, one that stands for these, too."""
    return content_hash([graph.ranking.address, known.written]) if known.written else graph.ranking.address


LACKING = {"answer": NOTHING_SAID, "contexts": NOTHING_RETRIEVED, "reference": NO_REFERENCE}
"""Why a case is not judged that lacks a field which the metric uses."""


@dataclass(frozen=True)
class Context:
    """The nodes of the context, and of the chunks that it is made of."""

    corpus: Node
    chunks: Node
    context: Node

    @property
    def nodes(self) -> tuple[Node, ...]:
        """List them, as inputs."""
        return (self.corpus, self.chunks, self.context)

    def passages(self, work: StageContext, asked: Sequence[QuestionKey]) -> list[tuple[Passage, ...]]:
        """Assemble each question's passages for the generator; conversation gets none."""
        chunks = Chunks(work.get(self.corpus), work.get(self.chunks), self.chunks.address)
        context: Rankings = work.get(self.context, _queries(asked))
        found = iter(passages(ChunkNames(chunks), context))
        return [next(found) if one.searched else () for one in asked]


def passages(names: ChunkNames, context: Rankings) -> list[tuple[Passage, ...]]:
    """Name the chunks of contexts, and take their texts; padding is none."""
    kept = [row[row != NO_CHUNK].tolist() for row in context.positions]
    named = names.of(context.positions)
    return [
        tuple(Passage(name, names.chunks.text(position)) for name, position in zip(some, row, strict=True))
        for some, row in zip(named, kept, strict=True)
    ]


@dataclass(frozen=True)
class Answering:
    """Make the nodes of answers and verdicts for one config; without a generator there are verdicts only."""

    handed: Context
    generator: BuiltPart | None = None
    given: Node | None = None  # the answers of a system that exists already
    contents: dict[str, Any] = field(default_factory=dict)
    """What a key of a row stands for, by its hash: filled by who asks, read by who answers, within one process."""

    @cached_property
    def generate(self) -> Node | None:
        """Build the node of the generator's answers to requests."""
        if self.generator is None:
            return None
        part, contents = self.generator.value, self.contents

        def compute(work: StageContext, rows: Rows) -> Packed:
            return ask_all(work, rows, contents, part.generate)

        return Node(
            "generate", self.generator.spec, (), compute, "rows", result=np.ndarray, cacheable=cacheable_answers,
            check=key_check(part),
        )  # fmt: skip

    @cached_property
    def answer(self) -> Node | None:
        """Build the node of this config's answers, by question."""
        generate = self.generate
        if generate is None:
            return self.given

        def compute(work: StageContext, rows: Rows) -> Packed:
            asked = [read_question_key(key) for key in rows]
            given = self.handed.passages(work, asked)
            requests = [Request(one.text, some, one.history) for one, some in zip(asked, given, strict=True)]
            keys = [request_key(request) for request in requests]
            self.contents.update(zip(keys, requests, strict=True))
            answers: Packed = work.get(generate, keys)
            return answers

        inputs = (*self.handed.nodes, generate)
        return Node(
            "answer", Spec("ragsweep.generation.answer", "1"), inputs, compute, "rows", result=np.ndarray,
            cacheable=cacheable_answers, input_rows=_reads,
        )  # fmt: skip

    def callers(self, judged: Mapping[str, BuiltPart], verdicts: Mapping[str, Node]) -> list[PaidStage]:
        """List the paid stages: the generator, where there is one, and the judges, with what their verdicts read."""
        answering = []
        if self.generator and self.generate:
            answering.append(PaidStage(self.generator.value, self.generate, self.answer, ("question", "contexts")))
        judges = [(judged[name].value, verdict) for name, verdict in verdicts.items()]
        return [*answering, *(PaidStage(part, node.inputs[-1], node, tuple(part.uses)) for part, node in judges)]

    def verdict(self, metric: BuiltPart) -> Node:
        """Build the node of a judged metric's verdicts on this config, by question."""
        part, uses, label = metric.value, tuple(metric.value.uses), str(metric.value.name)
        answer = self.answer if "answer" in uses else None
        handed = self.handed.nodes if "contexts" in uses else ()

        replies = reply_node(_asked_spec(metric.spec), label)

        def ask(work: StageContext, rows: Rows) -> Packed:
            is_caching = isinstance(part, CachingMetric)
            judge = partial(part.judge_cached, cache=work.notes(replies)) if is_caching else part.judge
            return ask_all(work, rows, self.contents, judged(part, judge))

        def compute(work: StageContext, rows: Rows) -> Packed:
            asked = [read_question_key(key) for key in rows]
            answers = answers_in(work.get(answer, _answer_keys(rows))) if answer else [None] * len(rows)
            given = self.handed.passages(work, asked) if handed else [()] * len(rows)
            cases = [_case(part, *one) for one in zip(asked, answers, given, strict=True)]
            return packed(self._judged(work, judge, cases))

        judge = Node(
            "judge",
            metric.spec,
            (),
            ask,
            "rows",
            label,
            np.ndarray,
            cacheable=cacheable_verdicts,
            check=key_check(part),
        )
        inputs = (*handed, *([answer] if answer else []), judge)
        spec = Spec("ragsweep.generation.verdict", "1", {"uses": sorted(uses)})
        return Node(
            "verdict", spec, inputs, compute, "rows", label, np.ndarray, cacheable=cacheable_verdicts, input_rows=_reads
        )

    def _judged(self, work: StageContext, judge: Node, cases: Sequence[Case | Judgement]) -> list[Judgement]:
        """Judge the cases; what is no case is its own verdict."""
        keys = {n: case_key(case) for n, case in enumerate(cases) if isinstance(case, Case)}
        self.contents.update({key: cases[n] for n, key in keys.items()})
        found = iter(verdicts_in(work.get(judge, list(keys.values())))) if keys else iter(())
        return [one if isinstance(one, Judgement) else next(found) for one in cases]


def _asked_spec(metric: Spec) -> Spec:
    """Return the judge's own spec, where a metric has one: its replies serve all metrics that use it."""
    judge = metric.parameters.get("judge")
    return judge if isinstance(judge, Spec) else metric


def _case(part: Any, asked: QuestionKey, answer: Answer | None, given: tuple[Passage, ...]) -> Case | Judgement:
    """Build a metric's case of a question; where something is lacking, the verdict is the reason."""
    if not asked.needs_retrieval:
        return Judgement(reason=CONVERSATIONAL)
    if "answer" in part.uses and (reason := _unfit(part, answer)):
        return Judgement(reason=reason)
    known: dict[str, Any] = {
        "question": asked.text,
        "answer": answer.text if answer else "",
        "contexts": tuple(passage.text for passage in given),
        "reference": asked.reference,
    }
    case = Case(**{name: known[name] for name in part.uses})
    lacking = [reason for name, reason in LACKING.items() if name in part.uses and not getattr(case, name)]
    return Judgement(reason=lacking[0]) if lacking else case


def _unfit(part: Any, answer: Answer | None) -> str:
    """Return why an answer is not judged; an empty string where it is."""
    if answer is None or answer.failed:
        return answer.failed if answer else NO_ANSWERS
    skipped = answer.abstained and (not answer.text or getattr(part, "SKIPS_ABSTAINED", False))
    return ABSTAINED if skipped else ""


def _queries(asked: Sequence[QuestionKey]) -> list[str]:
    return [one.query or one.text for one in asked if one.searched]


@memoize_by_identity
def _answer_keys(rows: Rows) -> Rows:
    """Convert the keys of verdicts into those of answers, which have no reference."""
    return [read_question_key(key)._replace(reference="").key for key in rows]


@memoize_by_identity
def _query_keys(rows: Rows) -> Rows:
    return _queries([read_question_key(key) for key in rows])


def _reads(given: Node, rows: Rows) -> Rows | None:
    """Return the rows of an input that are read; unknown before a request or case is assembled."""
    if given.stage in ("generate", "judge"):
        return None
    return _answer_keys(rows) if given.stage == "answer" else _query_keys(rows)
