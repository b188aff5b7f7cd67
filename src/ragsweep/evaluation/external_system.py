"""Build the stages of an external system: its responses, their contexts located in the corpus, and the verdicts."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.identity import BuiltPart, Node, Rows, Spec, StageContext, content_hash, texts_hash
from ragsweep.core.missing import NO_ANSWERS
from ragsweep.core.types import NO_CHUNK, Answer, Chunks, Corpus, Passage, Rankings, Response, Spans
from ragsweep.evaluation.answering import (
    Packed,
    QuestionKey,
    packed,
    packed_node,
    question_keys,
    unpacked,
    wording_node,
)
from ragsweep.evaluation.config_graph import ConfigGraph, PaidStage, corpus_node
from ragsweep.evaluation.evidence import COUNTING, count_tokens
from ragsweep.evaluation.generation import Answering, Context
from ragsweep.evaluation.ranking_nodes import exclude
from ragsweep.golden.anchors import composed, resolve
from ragsweep.golden.reading import normal_id

_SPAN = re.compile(r"(.+):(\d+)-(\d+)", re.DOTALL)

_BLANK = re.compile(r"\s+")

UNKNOWN = "unknown:"
"""Prefix of the id of a document that is created for a context outside the corpus."""


class ContextPlace(NamedTuple):
    """The location of a context: the position of a document in the corpus, and a range of characters in its text."""

    document: int
    start: int
    end: int


@dataclass(frozen=True)
class AlignedContext:
    """The contexts that a system used for each question, in the system's order, as chunks of a corpus.

    ``corpus`` is the searched corpus with an additional document for every context outside it; ``unknown`` counts these
    documents. ``scores`` are the system's scores, in the shape of ``positions``. They are None if the system returned
    no scores, or if they increase along the list of any question, as distances do; ``rising`` counts the questions with
    increasing scores.
    """

    corpus: Corpus
    spans: Spans
    positions: np.ndarray  # (questions, largest number of contexts), padded with NO_CHUNK
    unknown: int
    scores: np.ndarray | None = None
    rising: int = 0

    def rankings(self, rows: Sequence[int], depth: int, address: str) -> Rankings:
        """Return the rankings of the questions at indices ``rows``; a chunk without a score gets the score 1 / rank."""
        found = np.full((len(rows), depth), NO_CHUNK, dtype=np.int32)
        width = min(depth, self.positions.shape[1])
        found[:, :width] = self.positions[list(rows), :width]
        scores = np.full(found.shape, np.nan)
        if self.scores is not None:
            scores[:, :width] = self.scores[list(rows), :width]
        scores = np.where(np.isnan(scores), 1 / np.arange(1, depth + 1), scores)
        return Rankings(found, np.where(found == NO_CHUNK, -np.inf, scores).astype(np.float32), address)


def align_contexts(
    corpus: Corpus,
    contexts: Sequence[Sequence[Passage]],
    whole: Sequence[str] = (),
    scores: Sequence[Sequence[float]] = (),
) -> AlignedContext:
    """Locate every context of a system in the corpus; ``contexts`` and ``scores`` have one list per question.

    The name of a context determines how the context is located:

    - ``document:start-end``, with the id of a document: the context is this span; its text is ignored.
    - The id of a document: the text is located in this document like an anchor (see ``resolve``), if necessary without
      a leading document title. If the text is blank, the context is the whole document.
    - Any other name: the text is located in the first document that contains it, ignoring differences in white space,
      ligatures and soft hyphens.

    A context that is not found becomes an additional document, which covers no evidence. A context that occurs twice in
    the list of a question counts only at its first position. The documents with the ids ``whole`` become one chunk
    each, even if the system did not use them, because evidence that the system missed must also be in a chunk.
    """
    search, unknown, place_of = _Search(corpus), list[Passage](), dict[Passage, ContextPlace]()
    for passage in {passage: None for some in contexts for passage in some}:
        place = search.place(passage)
        if place is None:
            place = ContextPlace(len(corpus.ids) + len(unknown), 0, len(passage.text))
            unknown.append(passage)
        place_of[passage] = place
    documents = {ContextPlace(corpus.position[name], 0, len(corpus.texts[corpus.position[name]])) for name in whole}
    places = sorted({*place_of.values(), *documents})
    number = {place: n for n, place in enumerate(places)}
    rows = [list(dict.fromkeys(number[place_of[passage]] for passage in some)) for some in contexts]
    positions = np.full((len(rows), max(map(len, rows), default=0)), NO_CHUNK, dtype=np.int32)
    for row, numbers in zip(positions, rows, strict=True):
        row[: len(numbers)] = numbers
    given, rising = _scores(rows, [[number[place_of[passage]] for passage in some] for some in contexts], scores)
    columns = np.array(places, dtype=np.int64).reshape(-1, 3).T
    extended = Corpus(
        [*corpus.ids, *(UNKNOWN + texts_hash([passage])[:12] for passage in unknown)],
        [*corpus.titles, *[""] * len(unknown)],
        [*corpus.texts, *(passage.text for passage in unknown)],
        corpus.version,
    )
    spans = Spans(columns[0].astype(np.int32), columns[1].copy(), columns[2].copy())
    return AlignedContext(extended, spans, positions, len(unknown), given, rising)


def _scores(
    rows: Sequence[Sequence[int]], numbers: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]
) -> tuple[np.ndarray | None, int]:
    """Return `AlignedContext.scores`, with NaN for missing scores, and `AlignedContext.rising`.

    ``numbers`` has the chunk positions of each question's contexts; ``rows`` has the distinct positions.
    """
    if not any(scores):
        return None, 0
    kept = np.full((len(rows), max(map(len, rows), default=0)), np.nan, dtype=np.float32)
    for row, distinct, some, values in zip(kept, rows, numbers, scores, strict=True):
        first = dict(zip(reversed(some), reversed(values), strict=False))
        row[: len(distinct)] = [first.get(number, np.nan) for number in distinct]
    rising = int((np.diff(kept, axis=1) > 0).any(axis=1).sum())
    return (None if rising else kept), rising


@dataclass(frozen=True)
class _Search:
    """A search for contexts in the documents of a corpus, by the rules of :func:`align_contexts`."""

    corpus: Corpus

    def place(self, passage: Passage) -> ContextPlace | None:
        """Return the location of a context; None if the context is not found."""
        corpus, name, text, position = self.corpus, passage.name, passage.text, self._position
        if name not in position:
            name = normal_id(name)
        span = _SPAN.fullmatch(name)
        if span and name not in position and span[1] in position:
            document, start, end = position[span[1]], int(span[2]), int(span[3])
            return ContextPlace(document, start, end) if start < end <= len(corpus.texts[document]) else None
        if name not in position:
            return self._anywhere(text)
        document = position[name]
        if not text.strip():
            return ContextPlace(document, 0, len(corpus.texts[document]))
        title, untitled = corpus.titles[document], text.strip()
        place = self._within(document, text)
        if place is None and title and untitled.startswith(title):  # many systems put the title before the text
            place = self._within(document, untitled[len(title) :])
        return place

    def _within(self, document: int, text: str) -> ContextPlace | None:
        words, source = text.split(), self.corpus.texts[document]
        if not words:
            return None
        found = re.search(r"\s+".join(map(re.escape, words)), source)
        spans = [found.span()] if found else resolve(source, text)
        return ContextPlace(document, *spans[0]) if spans else None

    def _anywhere(self, text: str) -> ContextPlace | None:
        plain = " ".join(composed(text).split())
        if not plain:
            return None
        joined, starts = self._joined
        at = joined.find(plain)
        return self._within(bisect_right(starts, at) - 1, text) if at >= 0 else None

    @cached_property
    def _position(self) -> Mapping[str, int]:
        """The positions of documents by id and by Unicode-composed id, because a dataset's ids may be decomposed."""
        return {normal_id(name): n for name, n in self.corpus.position.items()} | dict(self.corpus.position)

    @cached_property
    def _joined(self) -> tuple[str, list[int]]:
        """All normalised texts, joined by a separator that none of them contains, and the start of each text."""
        plain = [_BLANK.sub(" ", composed(text)) for text in self.corpus.texts]
        return "\n".join(plain), list(accumulate((len(text) + 1 for text in plain[:-1]), initial=0))


@dataclass(frozen=True)
class ExternalSystem:
    """A system, its corpus, the wording keys of its questions, and the judged metrics of its answers."""

    corpus: Corpus
    system: BuiltPart
    questions: Sequence[QuestionKey]
    searches: Sequence[str]  # the search text of each question, which is the key of its ranking
    depth: int  # length of the rankings
    documents: Sequence[str] = ()  # ids of the documents with evidence; each becomes a chunk as a whole
    judged: Mapping[str, BuiltPart] = field(default_factory=dict)
    excluded: Mapping[str, Sequence[str]] = field(default_factory=dict)  # see Dataset.excluded


def external_graph(parts: ExternalSystem) -> ConfigGraph:
    """Build the graph of an external system; judges read the whole ranking as the context, regardless of ``top_k``."""
    corpus, system = corpus_node(parts.corpus), parts.system
    respond = wording_node("respond", system.spec, system.value, system.value.ask, Response)
    aligned = _aligned_node(parts, corpus, respond)
    searched = _whole(
        "gather", Spec("ragsweep.existing.searched", "1"), (aligned,), lambda work, rows: work.get(aligned).corpus
    )
    chunks = _whole(
        "chunk", Spec("ragsweep.existing.chunks", "1"), (aligned,), lambda work, rows: work.get(aligned).spans, Spans
    )

    def count(work: StageContext, rows: Any) -> dict[str, Any]:
        return {"tokens": count_tokens(Chunks(work.get(searched), work.get(chunks)))}

    counts = _whole("count", COUNTING, (searched, chunks), count)
    ranking = exclude(parts.excluded, _ranking_node(parts, aligned, chunks), searched, chunks)

    def answer(work: StageContext, rows: Rows) -> Packed:
        responses = unpacked(work.get(respond, _wording_keys(rows)), Response)
        answers = [one.answer for one in responses]
        if not getattr(system.value, "answers", True):
            answers = [one._replace(abstained=False, failed=one.failed or NO_ANSWERS) for one in answers]
        return packed(answers)

    answer_node = packed_node(
        "answer",
        Spec("ragsweep.existing.answer", "1"),
        (respond,),
        answer,
        Answer,
        stored=False,
        input_rows=lambda node, rows, read: _wording_keys(rows),
    )
    answering = Answering(Context(searched, chunks, ranking), parts.judged, system_answer=answer_node)
    return ConfigGraph(
        corpus=searched,
        chunks=chunks,
        counts=counts,
        first_stage=ranking,
        reranked=ranking,
        ranking=ranking,
        context=ranking,
        located=aligned,
        paid_stages=(PaidStage(system.value, respond), *answering.paid_stages),
        repetitions=answering.repetitions,
    )


def _aligned_node(parts: ExternalSystem, corpus: Node, respond: Node) -> Node:
    """Return the node that locates contexts in the corpus; its value is not stored, because computing it is faster."""
    questions, documents = list(parts.questions), sorted(parts.documents)

    def compute(work: StageContext, rows: Rows) -> AlignedContext:
        responses = unpacked(work.get(respond, questions), Response)
        contexts, scores = [one.contexts for one in responses], [one.scores for one in responses]
        return align_contexts(work.get(corpus), contexts, documents, scores)

    spec = Spec("ragsweep.located.located", "3", {"questions": content_hash([questions, documents])})
    return replace(_whole("locate", spec, (corpus, respond), compute), input_rows=lambda node, rows, read: questions)


def _ranking_node(parts: ExternalSystem, aligned: Node, chunks: Node) -> Node:
    """Make the node of the system's rankings, keyed by search text.

    If several questions have the same search text, the ranking of the first of these questions is used.
    """
    place: dict[str, int] = {}
    for number, text in enumerate(parts.searches):
        place.setdefault(text, number)

    def compute(work: StageContext, rows: Rows) -> Rankings:
        contexts: AlignedContext = work.get(aligned)
        return contexts.rankings([place[text] for text in rows], parts.depth, chunks.address)

    # Version 0.2.0 keyed rankings of conversations by the question alone, so these rankings now need another address.
    joined = {"history": True} if any(key.history for key in parts.questions) else {}
    spec = Spec("ragsweep.existing.ranking", "1", {"depth": parts.depth, **joined})
    return Node("rank", spec, (aligned,), compute, "rows", result=Rankings, stored=False)


def _whole(stage: str, spec: Spec, inputs: tuple[Node, ...], compute: Any, result: type = dict) -> Node:
    return Node(stage, spec, inputs, compute, "whole", result=result, stored=False)


def _wording_keys(rows: Rows) -> list[str]:
    return [key.wording for key in question_keys(rows)]
