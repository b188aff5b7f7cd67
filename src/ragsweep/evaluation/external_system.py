"""The stages of an external system: its responses, aligned with the corpus, and the verdicts on them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.identity import BuiltPart, Node, Rows, Spec, StageContext, content_hash, key_check, texts_hash
from ragsweep.core.types import NO_CHUNK, Chunks, Corpus, Passage, Rankings, Request, Spans
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

_SPAN = re.compile(r"(.+):(\d+)-(\d+)", re.DOTALL)

_BLANK = re.compile(r"\s+")

UNKNOWN = "unknown:"
"""Begins the id of a document that stands for a context which the corpus does not hold."""


class Place(NamedTuple):
    """Where a context stands."""

    document: int
    start: int
    end: int


@dataclass(frozen=True)
class AlignedContext:
    """The passages that a system used, as chunks of the corpus, in the system's order for each question.

    ``corpus`` is the one that was searched, with a document behind it for every context that it does not hold;
    ``unknown`` counts these.
    """

    corpus: Corpus
    spans: Spans
    positions: np.ndarray  # (questions, most contexts), padded
    unknown: int

    def rankings(self, rows: Sequence[int], depth: int, address: str) -> Rankings:
        """Return some questions' contexts as rankings; scores fall from 1 by rank, as the system gives none."""
        found = np.full((len(rows), depth), NO_CHUNK, dtype=np.int32)
        width = min(depth, self.positions.shape[1])
        found[:, :width] = self.positions[list(rows), :width]
        falling = (1 / np.arange(1, depth + 1)).astype(np.float32)
        return Rankings(found, np.where(found == NO_CHUNK, -np.inf, falling).astype(np.float32), address)


def align_contexts(corpus: Corpus, contexts: Sequence[Sequence[Passage]], whole: Sequence[str] = ()) -> AlignedContext:
    """Locate every context.

    A name of the form ``document:start-end`` is a span. Under a document's id a text is looked for in that document,
    under any other name in all documents, whatever its blanks, and without the title where it begins with that. A
    document's id without a text is the whole document. What is found nowhere is a document of its own, which covers no
    evidence. A context that stands twice in one question's list counts at its first place.

    ``whole`` names documents that are chunks too, whether the system used them or not: evidence that it did not find
    has to stand somewhere.
    """
    search, strangers = _Search(corpus), dict[Passage, int]()
    known: dict[Passage, Place] = {}
    for passage in {one: None for some in contexts for one in some}:
        place = search.place(passage)
        known[passage] = place or Place(
            len(corpus.ids) + strangers.setdefault(passage, len(strangers)), 0, len(passage.text)
        )
    beside = {Place(corpus.position[one], 0, len(corpus.texts[corpus.position[one]])) for one in whole}
    places = sorted({*known.values(), *beside})
    number = {place: n for n, place in enumerate(places)}
    rows = [list(dict.fromkeys(number[known[one]] for one in some)) for some in contexts]
    positions = np.full((len(rows), max(map(len, rows), default=0)), NO_CHUNK, dtype=np.int32)
    for row, found in zip(positions, rows, strict=True):
        row[: len(found)] = found
    return AlignedContext(_with(corpus, list(strangers)), _spans(places), positions, len(strangers))


def _spans(places: Sequence[Place]) -> Spans:
    columns = np.array(places, dtype=np.int64).reshape(-1, 3).T
    return Spans(columns[0].astype(np.int32), columns[1].copy(), columns[2].copy())


def _with(corpus: Corpus, strangers: Sequence[Passage]) -> Corpus:
    """Append texts that are not in the corpus to it."""
    names = [UNKNOWN + texts_hash([one])[:12] for one in strangers]
    return Corpus(
        [*corpus.ids, *names],
        [*corpus.titles, *[""] * len(names)],
        [*corpus.texts, *(one.text for one in strangers)],
        corpus.version,
    )


@dataclass(frozen=True)
class _Search:
    """Find texts in documents, whatever their blanks."""

    corpus: Corpus

    def place(self, passage: Passage) -> Place | None:
        """Return where a context stands; None where it is not found."""
        span = _SPAN.fullmatch(passage.name)
        if span and passage.name not in self.corpus.position and span[1] in self.corpus.position:
            document = self.corpus.position[span[1]]
            start, end = int(span[2]), int(span[3])
            return Place(document, start, end) if start < end <= len(self.corpus.texts[document]) else None
        known = self.corpus.position.get(passage.name)
        if known is not None and not passage.text.strip():
            return Place(known, 0, len(self.corpus.texts[known]))
        for text in (passage.text, *self._untitled(passage, known)):
            found = self._within(known, text) if known is not None else self._anywhere(text)
            if found:
                return found
        return None

    def _untitled(self, passage: Passage, known: int | None) -> list[str]:
        """Cut off the title, which many systems put before the text."""
        if known is None:
            return []
        title, text = self.corpus.titles[known], passage.text.strip()
        return [text[len(title) :]] if title and text.startswith(title) else []

    def _within(self, document: int, text: str) -> Place | None:
        words = text.split()
        if not words:
            return None
        found = re.search(r"\s+".join(map(re.escape, words)), self.corpus.texts[document])
        return Place(document, *found.span()) if found else None

    def _anywhere(self, text: str) -> Place | None:
        plain = " ".join(text.split())
        if not plain:
            return None
        joined, starts = self._joined
        at = joined.find(plain)
        return self._within(bisect_right(starts, at) - 1, plain) if at >= 0 else None

    @cached_property
    def _joined(self) -> tuple[str, list[int]]:
        """All texts in one, blanks made alike, with a character between them that no text is looked for with."""
        plain = [_BLANK.sub(" ", text) for text in self.corpus.texts]
        return "\n".join(plain), list(accumulate((len(text) + 1 for text in plain[:-1]), initial=0))


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
