"""Build the stages of an external system: its responses, and the alignment of its context with the corpus.

From there on it is a config like any other. Its chunks are what it used: they are known when all questions have been
asked, so the address of this chunking holds which questions these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ragsweep.core.identity import BuiltPart, Node, Rows, Spec, StageContext, content_hash, key_check
from ragsweep.core.types import Chunks, Corpus, Rankings, Request, Spans
from ragsweep.evaluation.align_context import AlignedContext, align_contexts
from ragsweep.evaluation.answering import (
    Packed,
    ask_all,
    cacheable_answers,
    cacheable_responses,
    packed,
    read_question_key,
    responses_in,
)
from ragsweep.evaluation.config_graph import ConfigGraph, PaidStage
from ragsweep.evaluation.evidence import count_tokens
from ragsweep.evaluation.generation import Answering, Context
from ragsweep.stages.graph import SOURCE


@dataclass(frozen=True)
class ExternalSystem:
    """A system, its questions (keys of their wording), and the judges of its answers."""

    corpus: Corpus
    system: BuiltPart
    questions: Sequence[str]
    depth: int
    documents: Sequence[str] = ()  # those that evidence is looked for in
    judged: Mapping[str, BuiltPart] = field(default_factory=dict)


def external_graph(parts: ExternalSystem) -> ConfigGraph:
    """Build the stages; all of the context that a system used counts, whatever ``top_k`` is."""
    stages = _Stages(parts)
    ranking = stages.ranking
    answering = Answering(Context(stages.searched, stages.chunks, ranking), given=stages.answer)
    verdicts = {name: answering.verdict(metric) for name, metric in parts.judged.items()}
    return ConfigGraph(
        stages.searched, stages.chunks, stages.counts, (), ranking, 0, ranking, ranking, ranking, {}, {},
        stages.answer, verdicts, stages.aligned, None, None,
        (PaidStage(parts.system.value, stages.respond), *answering.callers(parts.judged, verdicts)),
    )  # fmt: skip


@dataclass(frozen=True)
class _Stages:
    """Make the nodes, each when it is first read."""

    parts: ExternalSystem

    @cached_property
    def corpus(self) -> Node:
        corpus = self.parts.corpus
        given = Spec("ragsweep.types.Corpus", "1", files={"content": corpus.digest})
        return Node(SOURCE, given, (), lambda work, rows: corpus, stored=False)

    @cached_property
    def respond(self) -> Node:
        """Call the system for rows by wording."""
        system = self.parts.system

        def compute(work: StageContext, rows: Rows) -> Packed:
            asked = [read_question_key(key) for key in rows]
            contents = {key: Request(one.text, (), one.history) for key, one in zip(rows, asked, strict=True)}
            return ask_all(work, rows, contents, system.value.ask)

        return Node(
            "respond",
            system.spec,
            (),
            compute,
            "rows",
            result=np.ndarray,
            cacheable=cacheable_responses,
            check=key_check(system.value),
        )

    @cached_property
    def aligned(self) -> Node:
        """Look for all contexts; made faster than read back, and no array."""
        questions, documents = list(self.parts.questions), sorted(self.parts.documents)

        def compute(work: StageContext, rows: Rows) -> AlignedContext:
            said = responses_in(work.get(self.respond, questions))
            return align_contexts(work.get(self.corpus), [response.contexts for response in said], documents)

        spec = Spec("ragsweep.located.located", "1", {"questions": content_hash([questions, documents])})
        node = self._made("locate", spec, (self.corpus, self.respond), compute)
        return replace(node, input_rows=lambda given, rows: questions)

    @cached_property
    def searched(self) -> Node:
        """The corpus, with what the system used beside it."""
        return self._made("gather", Spec("ragsweep.existing.searched", "1"), (self.aligned,),
                          lambda work, rows: work.get(self.aligned).corpus)  # fmt: skip

    @cached_property
    def chunks(self) -> Node:
        return self._made("chunk", Spec("ragsweep.existing.chunks", "1"), (self.aligned,),
                          lambda work, rows: work.get(self.aligned).spans, Spans)  # fmt: skip

    @cached_property
    def counts(self) -> Node:
        def compute(work: StageContext, rows: Rows) -> dict[str, Any]:
            return {"tokens": count_tokens(Chunks(work.get(self.searched), work.get(self.chunks)))}

        return self._made("count", Spec("ragsweep.evidence.count_tokens", "1"), (self.searched, self.chunks), compute)

    @cached_property
    def ranking(self) -> Node:
        """What the system used, in its order: rows by text. Of questions with one text the first counts."""
        place: dict[str, int] = {}
        for number, key in enumerate(self.parts.questions):
            place.setdefault(read_question_key(key).text, number)

        def compute(work: StageContext, rows: Rows) -> Rankings:
            found: AlignedContext = work.get(self.aligned)
            return found.rankings([place[text] for text in rows], self.parts.depth, self.chunks.address)

        spec = Spec("ragsweep.existing.ranking", "1", {"depth": self.parts.depth})
        return Node("rank", spec, (self.aligned,), compute, "rows", result=Rankings, stored=False)

    @cached_property
    def answer(self) -> Node:
        """The system's answers: rows by question, as those of a generator."""

        def compute(work: StageContext, rows: Rows) -> Packed:
            said = responses_in(work.get(self.respond, _wording_keys(rows)))
            return packed([response.answer for response in said])

        return Node(
            "answer", Spec("ragsweep.existing.answer", "1"), (self.respond,), compute, "rows", result=np.ndarray,
            stored=False, cacheable=cacheable_answers, input_rows=lambda node, rows: _wording_keys(rows),
        )  # fmt: skip

    def _made(self, stage: str, spec: Spec, inputs: tuple[Node, ...], compute: Any, result: type = dict) -> Node:
        return Node(stage, spec, inputs, compute, "whole", result=result, stored=False)


def _wording_keys(rows: Rows) -> list[str]:
    """Convert keys of questions into keys of their wording."""
    return [read_question_key(key)._replace(needs_retrieval=True, searched=True, reference="").key for key in rows]
