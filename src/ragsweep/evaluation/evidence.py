"""Find the chunks of any chunking that cover the labelled evidence, and the ranks at which the evidence is found.

A label names a document and, unless the whole document is the evidence, an anchor, which quotes the evidence. Each
piece of evidence is credited once, however many chunks cover it, and the ideal ranking contains all pieces. Therefore,
no metric's denominator depends on the chunking. With one chunk per document and document-level evidence, metrics equal
their counterparts in trec_eval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError, Faults
from ragsweep.core.identity import Spec
from ragsweep.core.question_results import Doubles, Numbers
from ragsweep.core.types import (
    NO_CHUNK,
    Chunks,
    EvaluationView,
    GoldenSet,
    Question,
    Rankings,
    Spans,
)
from ragsweep.evaluation.evidence_places import Places, find_places, relevant_labels
from ragsweep.parts import tokens

BLOCK = 2**22
"""Number of ranking entries that are compared at once (20 MB of memory)."""

COUNTING = Spec("ragsweep.evidence.count_tokens", "2")
"""The identity of :func:`count_tokens`; a change to the token count of any text requires a new version."""


class Overlaps(NamedTuple):
    """The pairs of a place (an index into `Places`) and an overlapping chunk, with the shared span, sorted by place."""

    place: Numbers
    chunk: Numbers
    start: Numbers
    end: Numbers
    share: Doubles  # the length of the span, as a share of the length of the place


class EvidenceTokens(NamedTuple):
    """The pairs of a question and a chunk that overlaps its evidence, with the number of tokens in the overlap."""

    question: Numbers
    chunk: Numbers
    tokens: Numbers


@dataclass(frozen=True, eq=False)
class Coverage:
    """The chunks of one chunking that cover each relevant piece of evidence (grade > 0); see :func:`cover`.

    There are two kinds of pairs. A covering pair is a piece and a chunk that covers it: pair n is the piece
    ``evidence[n]`` and the chunk ``chunk[n]``. A marked pair, a row of ``marked``, is a question and a chunk that
    overlaps its evidence.
    """

    questions: Sequence[Question]
    question: Numbers  # (pieces,): the index of each piece's question
    grade: NDArray[np.float64]  # (pieces,)
    evidence: Numbers  # (pairs,)
    chunk: Numbers  # (pairs,)
    places: Places  # the passages of the evidence
    touches: Overlaps  # overlaps of places and chunks
    tokens: Numbers  # (chunks,): the number of tokens of each chunk, with its title
    marked: EvidenceTokens  # the chunks that overlap evidence of a question
    chunks: Chunks  # the chunking itself

    def first_ranks(self, rankings: Rankings) -> Numbers:
        """Return, for each piece of evidence (pieces,), the first rank, from 1, of a covering chunk; 0 if none."""
        return self.first(self.ranks(rankings))

    def ranks(self, rankings: Rankings) -> Numbers:
        """Return, for each marked pair (marked pairs,), the rank, from 1, of its chunk for its question; 0 if none.

        ``rankings`` must have one row per question, in order. Raises AssertionError if the number of rows differs, or
        if the rankings are of a different chunking (checked only if both addresses are known).
        """
        assert len(rankings.positions) == len(self.questions), "rankings must have one row per question"
        addresses = {self.chunks.address, rankings.chunks} - {""}
        assert len(addresses) < 2, "rankings must be of this chunking"
        marked, depth = self.marked, rankings.positions.shape[1]
        ranks = np.zeros(len(marked.chunk), dtype=np.int64)
        step = max(BLOCK // max(depth, 1), 1)
        for low in range(0, len(ranks) if depth else 0, step):
            block = slice(low, low + step)
            chunk = marked.chunk[block, None].astype(np.int32)
            equal = rankings.positions[marked.question[block]] == chunk
            column = equal.argmax(axis=1)
            ranks[block] = np.where(equal[np.arange(len(column)), column], column + 1, 0)
        return ranks

    def first(self, ranks: Numbers) -> Numbers:
        """Return the result of :meth:`first_ranks` (pieces,), given the result of :meth:`ranks`."""
        return lowest_ranks(ranks[self.covering], self.evidence, len(self.question))

    @cached_property
    def covering(self) -> Numbers:
        """For each covering pair, the index of the marked pair with the same question and chunk (covering pairs,)."""
        return self._among_marked(self.question[self.evidence], self.chunk)

    @cached_property
    def touching(self) -> Numbers:
        """For each overlap in ``touches``, the index of the marked pair with the same question and chunk (touches,)."""
        return self._among_marked(self.question[self.places.evidence[self.touches.place]], self.touches.chunk)

    def _among_marked(self, question: Numbers, chunk: Numbers) -> Numbers:
        size = max(len(self.tokens), 1)
        return np.searchsorted(self.marked.question * size + self.marked.chunk, question * size + chunk)


def lowest_ranks(ranks: Numbers, owner: Numbers, count: int) -> Numbers:
    """Return each owner's lowest rank above 0 (count,), or 0 if it has none; ``owner`` has the owner of each rank."""
    never = np.iinfo(np.int64).max
    lowest = np.full(count, never)
    np.minimum.at(lowest, owner, np.where(ranks > 0, ranks, never))
    return np.where(lowest == never, 0, lowest)


def cover(chunks: Chunks, golden: GoldenSet, threshold: float = 0.5, counts: Numbers | None = None) -> Coverage:
    """Find the chunks that cover each relevant piece of evidence.

    A chunk covers a passage if it contains at least ``threshold`` (above 0, at most 1) of the passage's characters. If
    no chunk contains that many, the chunks that contain the most cover the passage, so that small chunks lose no label.
    Evidence that is a whole document is covered by any chunk of the document, and by none if it has no chunks.
    ``counts`` (chunks,) has the number of tokens of each chunk; if it is None, the tokens are counted.

    Raises:
        ConfigError: The threshold is out of range.
        InputError: Some labels name unknown documents, or have anchors that do not occur in their documents (see
            :func:`find_places`). Otherwise, the anchors of some labels do not overlap any chunk. The message lists all
            faulty labels.
    """
    if not 0 < threshold <= 1:
        raise ConfigError(f"evidence.threshold: must be above 0 and at most 1, got {threshold}")
    labels = relevant_labels(golden)
    question = np.array([label.n for label in labels], dtype=np.int64)
    grade = np.array([label.evidence.grade for label in labels], dtype=np.float64)
    places = find_places(chunks.corpus, golden)
    touches = _touches(chunks.spans, places)
    is_touched = np.bincount(places.evidence[touches.place], minlength=len(labels)) > 0
    faults = Faults()
    for n in np.flatnonzero(~is_touched).tolist():
        evidence = labels[n].evidence
        if evidence.anchor is not None:  # a whole document without chunks counts as not found
            fact = f'no chunk contains any part of "{evidence.anchor}" in "{evidence.document}"'
            fact = f"{fact}; correct the chunker's split, which must cover all text"
            faults.add(labels[n].where, fact)
    faults.raise_any()
    best = np.zeros(len(places.evidence))
    np.maximum.at(best, touches.place, touches.share)
    covers = touches.share >= np.minimum(threshold, best)[touches.place]
    size = max(len(chunks), 1)
    pairs = np.unique(places.evidence[touches.place[covers]] * size + touches.chunk[covers])
    counts = count_tokens(chunks) if counts is None else counts
    owner = question[places.evidence[touches.place]]
    marked = _mark(chunks, owner, touches, places.whole[touches.place], counts)
    covering, chunk = pairs // size, pairs % size
    return Coverage(golden.questions, question, grade, covering, chunk, places, touches, counts, marked, chunks)


def _touches(spans: Spans, places: Places) -> Overlaps:
    """Pair every place with each chunk that overlaps it, by binary search in the sorted spans."""
    stride = int(max(spans.end.max(initial=0), places.end.max(initial=0))) + 1
    begin = spans.document.astype(np.int64) * stride + spans.start
    reach = np.maximum.accumulate(spans.document.astype(np.int64) * stride + spans.end)
    low = np.searchsorted(reach, places.document * stride + places.start, side="right")
    high = np.searchsorted(begin, places.document * stride + places.end, side="left")
    low = np.where(places.whole, np.searchsorted(spans.document, places.document, side="left"), low)
    high = np.where(places.whole, np.searchsorted(spans.document, places.document, side="right"), high)
    length = np.maximum(high - low, 0)
    place = np.repeat(np.arange(len(low)), length)
    chunk = np.arange(len(place)) + np.repeat(low - (np.cumsum(length) - length), length)
    whole = places.whole[place]
    start = np.where(whole, 0, np.maximum(spans.start[chunk], places.start[place]))
    end = np.where(whole, 1, np.minimum(spans.end[chunk], places.end[place]))
    place, chunk, start, end = (column[end > start] for column in (place, chunk, start, end))
    return Overlaps(place, chunk, start, end, (end - start) / (places.end - places.start)[place])


def count_tokens(chunks: Chunks) -> Numbers:
    """Return the number of tokens of each chunk and its document's title, as (chunks,)."""
    spans, corpus = chunks.spans, chunks.corpus
    counts = np.zeros(len(chunks), dtype=np.int64)
    for low, high in pairwise(np.flatnonzero(np.diff(spans.document, prepend=-1, append=-1))):
        document = int(spans.document[low])
        counts[low:high] = tokens.locate(corpus.texts[document]).count(spans.start[low:high], spans.end[low:high])
        counts[low:high] += tokens.count(corpus.titles[document])
    return counts


def _mark(
    chunks: Chunks, question: Numbers, touches: Overlaps, whole: NDArray[np.bool_], counts: Numbers
) -> EvidenceTokens:
    """Count, for every question and every chunk that overlaps its evidence, the chunk's tokens inside the evidence.

    A token inside several pieces of evidence is counted once. ``question`` is the question of each overlap (touches,),
    and ``whole`` (touches,) flags overlaps with evidence that is a whole document. ``counts`` (chunks,) has the number
    of tokens of each chunk.
    """
    first, last = np.zeros_like(touches.chunk), np.where(whole, counts[touches.chunk], 0)
    anchored = np.flatnonzero(~whole)
    document = chunks.spans.document[touches.chunk[anchored]]
    for number in np.unique(document).tolist():
        rows = anchored[document == number]
        offsets = tokens.locate(chunks.corpus.texts[number])
        first[rows], last[rows] = offsets.token_ranges(touches.start[rows], touches.end[rows])
    size = max(len(counts), 1)
    keys, group = np.unique(question * size + touches.chunk, return_inverse=True)
    inside = _union(group, first, last, len(keys)).astype(np.int64)
    # Evidence of a whole document already marks all tokens; an anchor in it would count some of them twice.
    return EvidenceTokens(keys // size, keys % size, np.minimum(inside, counts[keys % size]))


def _union(group: Numbers, start: Numbers, end: Numbers, size: int) -> NDArray[np.float64]:
    """Return the length that the half-open intervals of each group cover together (groups,); starts must be >= 0."""
    order = np.lexsort((start, group))
    stride = int(end.max(initial=0)) + 1
    low, high = (group * stride + start)[order], (group * stride + end)[order]
    reach = np.maximum.accumulate(high)
    before = np.concatenate([[0], reach])[: len(reach)]
    fresh = np.maximum(high - np.maximum(low, before), 0).astype(np.float64)
    return np.bincount(group[order], fresh, size).astype(np.float64)


def view(coverage: Coverage, rankings: Rankings, top_k: int, length: Numbers | None = None) -> EvaluationView:
    """Return the input of metrics, without latency, for full-depth rankings with one row per question.

    ``length`` (questions,) is the number of chunks in each context; None without a token budget.
    """
    ranks = coverage.ranks(rankings)
    first = coverage.first(ranks)
    shape = (len(coverage.questions), top_k)
    owner = coverage.question[coverage.evidence]
    if length is not None:  # below, only chunks in the context count
        ranks = np.where(ranks <= length[coverage.marked.question], ranks, 0)
    relevant = _spread(shape, owner, ranks[coverage.covering], np.ones(len(owner)))
    marked, places, touches = coverage.marked, coverage.places, coverage.touches
    inside = np.flatnonzero((ranks[coverage.touching] > 0) & (ranks[coverage.touching] <= top_k))
    covered = _union(touches.place[inside], touches.start[inside], touches.end[inside], len(places.evidence))
    best = np.zeros(len(coverage.question))
    np.maximum.at(best, places.evidence, covered / (places.end - places.start))
    context = rankings.first(top_k).positions
    context = np.pad(context, ((0, 0), (0, top_k - context.shape[1])), constant_values=NO_CHUNK)
    if length is not None:
        context = np.where(np.arange(top_k) < length[:, None], context, NO_CHUNK)
    return EvaluationView(
        questions=coverage.questions,
        rankings=rankings,
        top_k=top_k,
        evidence_question=coverage.question,
        grade=coverage.grade,
        first_rank=first,
        credited_rank=credit(coverage.question, coverage.grade, first),
        evidence_covered=best,
        context_relevant=relevant.astype(bool),
        context_tokens=np.append(coverage.tokens, 0)[context],  # 0 at NO_CHUNK, which is -1
        context_evidence_tokens=_spread(shape, marked.question, ranks, marked.tokens),
        latency={},
        approximate={},
        context_length=length,
        chunks=coverage.chunks,
    )


def credit(question: Numbers, grade: NDArray[np.float64], first_rank: Numbers) -> Numbers:
    """Return the rank at which each piece is credited: one piece per rank, so that no ranking beats the ideal ranking.

    The pieces of a question's evidence are taken in the order of their first ranks; in case of a tie, the piece with
    the higher grade is first. Each piece is credited at ``max(first_rank, previous credited + 1)``: at its first rank
    or, if the previous piece is credited at this or a later rank, one rank after that piece. Because no two pieces are
    credited at the same rank, the values of nDCG, average precision and precision are at most 1. A chunk that covers
    two pieces counts like two chunks, at its own rank and the next. If no two pieces share a first rank, the ranks are
    unchanged. All arrays are (pieces,); rank 0 means not found.
    """
    found = np.flatnonzero(first_rank > 0)
    order = found[np.lexsort((-grade[found], first_rank[found], question[found]))]
    step = np.arange(len(order))
    stride = int(first_rank.max(initial=0)) + len(order) + 1  # so that later questions have larger keys
    lifted = np.maximum.accumulate(question[order] * stride + first_rank[order] - step) + step
    credited = np.zeros_like(first_rank)
    credited[order] = lifted - question[order] * stride
    return credited


def _spread(shape: tuple[int, int], question: Numbers, rank: Numbers, values: NDArray[Any]) -> Numbers:
    """Return a table of ``shape`` (questions, top_k) with each value at its question and rank, and 0 elsewhere."""
    inside = (rank > 0) & (rank <= shape[1])
    table = np.zeros(shape, dtype=np.int64)
    table[question[inside], rank[inside] - 1] = values[inside]
    return table
