"""Build the nodes of queries, answers and verdicts. Parts are used only through their protocols."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ragsweep.core.identity import BuiltPart, Node, ReadKnown, Rows, Spec, StageContext, key_check
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import ABSTAINED, CONVERSATIONAL, NO_ANSWERS, NO_REFERENCE, NOTHING_RETRIEVED, NOTHING_SAID
from ragsweep.core.traits import traits_of
from ragsweep.core.types import (
    NO_CHUNK,
    Answer,
    CachingMetric,
    Case,
    Chunks,
    Judgement,
    Passage,
    Rankings,
    RepeatingGenerator,
    Request,
)
from ragsweep.evaluation.answering import (
    Packed,
    QuestionKey,
    ask_all,
    case_key,
    packed,
    packed_node,
    question_keys,
    request_key,
    unpacked,
    wording_node,
)
from ragsweep.evaluation.config_graph import ConfigGraph, PaidStage, Repetition
from ragsweep.evaluation.question_table import ChunkNames, QuestionTable, tabulate
from ragsweep.evaluation.scoring import catch_judge_errors
from ragsweep.stages.stored_replies import reply_node

if TYPE_CHECKING:
    from ragsweep.stages.executor import Executor


def query_node(query: BuiltPart) -> Node:
    """Make the node of the written queries; its rows are keyed by `QuestionKey.wording`."""
    parameters = dict(query.spec.parameters)
    for name, unread in traits_of(query.value).unread.items():  # name of a nested part -> its parameters without effect
        if isinstance(parameters.get(name), Spec):
            parameters[name] = parameters[name].without(*unread)
    return wording_node("query", replace(query.spec, parameters=parameters), query.value, query.value.write, Answer)


def write_queries(
    executor: Executor, graph: ConfigGraph, table: QuestionTable
) -> tuple[list[Answer] | None, QuestionTable]:
    """Write the query of every searched question that has a history.

    Return one query per question (an empty Answer for a question without a written query), and the table of questions
    with the new search texts. A question whose query failed or is empty keeps its search text. Without a query writer,
    return None and ``table``.
    """
    if graph.query is None:
        return None, table
    queries, rows = [Answer()] * len(table.questions), table.conversations.tolist()
    if rows:
        written = unpacked(executor.get(graph.query, [table.wordings[n] for n in rows]), Answer)
        for n, query in zip(rows, written, strict=True):
            queries[n] = query
    texts = [text if one.failed or not one.text else one.text for text, one in zip(table.texts, queries, strict=True)]
    return queries, tabulate(table.questions, table.routed, json.dumps(texts))


LACKING = {"answer": NOTHING_SAID, "contexts": NOTHING_RETRIEVED, "reference": NO_REFERENCE}
"""The reason for not judging a case in which a field is empty, by the name of the field."""


class Context(NamedTuple):
    """The nodes of the corpus, the chunks and the context, in the order in which other nodes take them as inputs."""

    corpus: Node
    chunks: Node
    context: Node

    def passages(self, work: StageContext, questions: Sequence[QuestionKey]) -> list[tuple[Passage, ...] | str]:
        """Return the passages that the generator and the judges read for each question.

        A question that is not searched has no passages. For a question whose search failed, the item is a string, the
        reason for the failure.
        """
        chunks = Chunks(work.get(self.corpus), work.get(self.chunks), self.chunks.address)
        queries = _queries(questions)
        context: Rankings = work.get(self.context, queries)
        found: list[tuple[Passage, ...] | str] = [*passages(ChunkNames(chunks), context)]
        for n in np.flatnonzero(context.failed).tolist():
            found[n] = work.reason(self.context, queries[n])
        searched = iter(found)
        return [next(searched) if one.searched else () for one in questions]


def passages(names: ChunkNames, context: Rankings) -> list[tuple[Passage, ...]]:
    """Return the chunks of each context as passages, best first."""
    positions = [row[row != NO_CHUNK].tolist() for row in context.positions]
    return [
        tuple(Passage(name, names.chunks.text(position)) for name, position in zip(*one, strict=True))
        for one in zip(names.of(context.positions), positions, strict=True)
    ]


@dataclass(frozen=True)
class Answering:
    """A builder of the nodes of a config's answers and verdicts; answers need a generator or an external system."""

    context: Context
    judged: Mapping[str, BuiltPart]  # judged metrics by name
    generator: BuiltPart | None = None
    system_answer: Node | None = None  # the answers of an external system
    replicate: int = 0  # the index of the repetition; 0 for the first answers
    contents: dict[str, Any] = field(default_factory=dict)
    """Requests and cases by row key (their hash); each is added before its row is computed."""

    @cached_property
    def generate(self) -> Node | None:
        """The node of the generator's answers, keyed by the hash of the request; None if there is no generator."""
        if self.generator is None:
            return None
        part, contents, spec = self.generator.value, self.contents, self.generator.spec
        ask = part.generate
        if self.replicate:
            ask = partial(part.repeat, replicate=self.replicate)
            spec = replace(spec, parameters={**spec.parameters, "replicate": self.replicate})

        def compute(work: StageContext, rows: Rows) -> Packed:
            return ask_all(work, rows, contents, ask)

        return packed_node("generate", spec, (), compute, Answer, check=key_check(part))

    @cached_property
    def answer(self) -> Node | None:
        """The node of this config's answers, keyed by question; None if the config has no answers."""
        generate = self.generate
        if generate is None:
            return self.system_answer

        def compute(work: StageContext, rows: Rows) -> Packed:
            questions = question_keys(rows)
            passages = self.context.passages(work, questions)
            requests = [
                Request(one.text, some, one.history)
                for one, some in zip(questions, passages, strict=True)
                if not isinstance(some, str)
            ]
            keys = [request_key(request) for request in requests]
            self.contents.update(zip(keys, requests, strict=True))
            answers: Packed = work.get(generate, keys)
            if len(requests) == len(rows):
                return answers
            answered = iter(unpacked(answers, Answer))
            return packed([Answer(failed=one) if isinstance(one, str) else next(answered) for one in passages])

        spec = Spec("ragsweep.generation.answer", "1")
        return packed_node("answer", spec, (*self.context, generate), compute, Answer, input_rows=_input_rows)

    @cached_property
    def repetitions(self) -> tuple[Repetition, ...]:
        """The repetitions of the answers, with their verdicts: only one unless the generator repeats answers."""
        part, several = self.generator.value if self.generator else None, [self]
        if isinstance(part, RepeatingGenerator):
            reading = {name: metric for name, metric in self.judged.items() if "answer" in metric.value.uses}
            several += [replace(self, judged=reading, replicate=number) for number in range(1, part.replicates)]
        return tuple(Repetition(one.answer, one.verdicts) for one in several)

    @property
    def paid_stages(self) -> list[PaidStage]:
        """The stages that may call services: a generator's in each repetition, and one per node of verdicts."""
        judged = [(self.judged[name].value, node) for one in self.repetitions for name, node in one.verdicts.items()]
        stages = [PaidStage(part, node.inputs[-1], node, tuple(part.uses)) for part, node in judged]
        if self.generator:
            part, answers = self.generator.value, [one.answer for one in self.repetitions if one.answer]
            stages[:0] = [PaidStage(part, node.inputs[-1], node, ("question", "contexts")) for node in answers]
        return stages

    @property
    def verdicts(self) -> dict[str, Node]:
        """The nodes of the verdicts, by the name of the judged metric."""
        return {name: self._verdict(metric) for name, metric in self.judged.items()}

    def _verdict(self, metric: BuiltPart) -> Node:
        """Build the node of a judged metric's verdicts on this config, keyed by question."""
        part, uses, label = metric.value, tuple(metric.value.uses), str(metric.value.name)
        answer = self.answer if "answer" in uses else None
        context = self.context if "contexts" in uses else ()
        # The replies of a judge are shared by all metrics that use it.
        own = metric.spec.parameters.get("judge")
        replies = reply_node(own if isinstance(own, Spec) else metric.spec, label)

        def judge(work: StageContext, rows: Rows) -> Packed:
            is_caching = isinstance(part, CachingMetric)
            ask = partial(part.judge_cached, cache=work.notes(replies)) if is_caching else part.judge
            return ask_all(work, rows, self.contents, catch_judge_errors(part, ask), Judgement)

        judge_node = packed_node("judge", metric.spec, (), judge, Judgement, label=label, check=key_check(part))

        def compute(work: StageContext, rows: Rows) -> Packed:
            questions = question_keys(rows)
            answers = unpacked(work.get(answer, _answer_keys(rows)), Answer) if answer else [None] * len(rows)
            passages = self.context.passages(work, questions) if context else [()] * len(rows)
            cases = [_case(part, *one) for one in zip(questions, answers, passages, strict=True)]
            keys = {n: case_key(case) for n, case in enumerate(cases) if isinstance(case, Case)}
            self.contents.update({key: cases[n] for n, key in keys.items()})
            judged = iter(unpacked(work.get(judge_node, list(keys.values())), Judgement) if keys else ())
            return packed([one if isinstance(one, Judgement) else next(judged) for one in cases])

        spec = Spec("ragsweep.generation.verdict", "1", {"uses": sorted(uses)})
        inputs = (*context, *([answer] if answer else []), judge_node)
        return packed_node("verdict", spec, inputs, compute, Judgement, label=label, input_rows=_input_rows)


def _case(
    part: Any, question: QuestionKey, answer: Answer | None, context: tuple[Passage, ...] | str
) -> Case | Judgement:
    """Return a metric's case for a question or, if there is nothing to judge, a verdict with the reason.

    ``context`` contains the passages for the question or, if the search failed, the reason for the failure.
    """
    if not question.needs_retrieval:
        return Judgement(reason=CONVERSATIONAL)
    if isinstance(context, str):
        return Judgement(reason=context)
    if "answer" in part.uses:
        if answer is None or answer.failed:
            return Judgement(reason=answer.failed if answer else NO_ANSWERS)
        if answer.abstained and (not answer.text or traits_of(part).skips_abstained):
            return Judgement(reason=ABSTAINED)
    fields: dict[str, Any] = {
        "question": question.text,
        "answer": answer.text if answer else "",
        "contexts": tuple(passage.text for passage in context),
        "reference": question.reference,
    }
    lacking = [reason for name, reason in LACKING.items() if name in part.uses and not fields[name]]
    return Judgement(reason=lacking[0]) if lacking else Case(**{name: fields[name] for name in part.uses})


def _queries(questions: Sequence[QuestionKey]) -> list[str]:
    return [one.query or one.text for one in questions if one.searched]


@memoize_by_identity
def _answer_keys(rows: Rows) -> Rows:
    """Convert the keys of verdicts to the keys of the answers, which contain no reference."""
    return [key.unjudged for key in question_keys(rows)]


@memoize_by_identity
def _query_keys(rows: Rows) -> Rows:
    return _queries(question_keys(rows))


def _input_rows(node: Node, rows: Rows, read: ReadKnown) -> Rows | None:
    """Return the rows to read from the input ``node``; None if they are unknown before requests are assembled."""
    if node.stage in ("generate", "judge"):
        return None
    return _answer_keys(rows) if node.stage == "answer" else _query_keys(rows)
