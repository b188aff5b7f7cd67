"""Labels survive re-chunking: an anchor becomes a span of the text, and the span is covered by chunks of this config.

Each evidence is credited once, at the first rank that covers it, and the ideal list is the list of evidences. So no
metric has a denominator that depends on how the corpus was cut, and with one chunk a document and evidence that names
whole documents every metric is trec_eval's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError, Faults
from ragsweep.core.types import NO_CHUNK, Chunks, EvaluationView, GoldenSet, IndexComparison, Question, Rankings, Spans
from ragsweep.evaluation.passages import AskedEvidence, Places, find_places, relevant
from ragsweep.parts import tokens

Numbers = NDArray[np.int64]

BLOCK = 2**22
"""Places of rankings that are compared at once: 20 MB."""


class Overlaps(NamedTuple):
    """The parts of places that stand in chunks: one row a pair, with the characters they share, ordered by place."""

    place: Numbers
    chunk: Numbers
    start: Numbers
    end: Numbers


class EvidenceTokens(NamedTuple):
    """Questions and chunks that share text with their evidence, and how many of the chunk's tokens stand in it."""

    question: Numbers
    chunk: Numbers
    tokens: Numbers


@dataclass(frozen=True, eq=False)
class Coverage:
    """Which chunks cover which evidence, for all questions: made once a chunking, read by every ranking over it.

    Only relevant evidence (grade > 0) is held. ``evidence`` and ``chunk`` are the covering pairs.
    """

    questions: Sequence[Question]
    question: Numbers  # (evidences,): which question an evidence belongs to
    grade: NDArray[np.float64]  # (evidences,)
    evidence: Numbers  # (pairs,)
    chunk: Numbers  # (pairs,)
    places: Places
    touches: Overlaps
    tokens: Numbers  # (chunks,): of each chunk's text, with its title
    marked: EvidenceTokens
    address: str = ""
    chunks: Chunks | None = None  # the chunking itself

    def first_ranks(self, rankings: Rankings) -> Numbers:
        """Find for each evidence (evidences,) the first rank, from 1, whose chunk covers it; 0 where none does."""
        return self.first(self.ranks(rankings))

    def ranks(self, rankings: Rankings) -> Numbers:
        """Find the ranks, from 1, of the marked chunks in the rankings of their questions; 0 where they do not stand.

        Raises:
            AssertionError: The rankings are of other questions or of another chunking.
        """
        assert len(rankings.positions) == len(self.questions), "a ranking for every question, in their order"
        assert not (self.address and rankings.chunks) or self.address == rankings.chunks, "rankings of this chunking"
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
        """Take for each evidence the first of the ranks, as :meth:`ranks` returns them, at which it is covered."""
        covering = ranks[self.covering]
        never = np.iinfo(np.int64).max
        first = np.full(len(self.question), never)
        np.minimum.at(first, self.evidence, np.where(covering > 0, covering, never))
        return np.where(first == never, 0, first)

    @cached_property
    def covering(self) -> Numbers:
        """Where the covering pairs stand among the marked ones (pairs,)."""
        return self._among_marked(self.question[self.evidence], self.chunk)

    @cached_property
    def touching(self) -> Numbers:
        """Where the touches stand among the marked pairs (touches,)."""
        return self._among_marked(self.question[self.places.evidence[self.touches.place]], self.touches.chunk)

    @cached_property
    def tokens_or_none(self) -> Numbers:
        """The chunks' tokens, and behind them the 0 that NO_CHUNK, -1, finds."""
        return np.append(self.tokens, 0)

    def _among_marked(self, question: Numbers, chunk: Numbers) -> Numbers:
        size = max(len(self.tokens), 1)
        return np.searchsorted(self.marked.question * size + self.marked.chunk, question * size + chunk)


# --- from labels to coverage: once a chunking --------------------------------------------------------------------


def cover(chunks: Chunks, golden: GoldenSet, threshold: float = 0.5, counts: Numbers | None = None) -> Coverage:
    """Find the chunks that cover each relevant evidence.

    A chunk covers a passage when it holds at least ``threshold`` of its characters. Where no chunk holds as much, those
    that hold most of it do: however small the chunks, no label vanishes. Any chunk of a document covers the whole.

    Args:
        chunks: The chunking of this config.
        golden: The questions with their evidence; if passages may be repeated, an anchor also marks every other
            document it occurs in, and the evidence is found where any of these places is.
        threshold: Share of a passage's characters, above 0 and at most 1.
        counts: The tokens of every chunk, as :func:`count_tokens` counts them, where they are known.

    Raises:
        ConfigError: The threshold is out of range.
        InputError: Labels that name unknown documents, anchors that do not occur, or a passage that no chunk holds; all
            of them at once.
    """
    if not 0 < threshold <= 1:
        raise ConfigError(f"the threshold of coverage must be above 0 and at most 1, not {threshold}")
    asked = relevant(golden.questions)
    question = np.array([row.n for row in asked], dtype=np.int64)
    grade = np.array([row.evidence.grade for row in asked], dtype=np.float64)
    places = find_places(chunks.corpus, asked, golden.repeated_passages)
    touches = _touches(chunks.spans, places)
    _check_held(places, touches, asked)
    evidence, chunk = _pairs(places, touches, threshold, len(chunks))
    counts = count_tokens(chunks) if counts is None else counts
    whole = places.whole[touches.place]
    first, last = _touched_tokens(chunks, touches, np.flatnonzero(~whole))
    last = np.where(whole, counts[touches.chunk], last)
    marked = _mark(question[places.evidence[touches.place]], touches.chunk, first, last, counts)
    return Coverage(
        golden.questions, question, grade, evidence, chunk, places, touches, counts, marked, chunks.address, chunks
    )


def _touches(spans: Spans, places: Places) -> Overlaps:
    """Pair every place with the chunks that share text with it, by binary search in the ordered spans."""
    stride = int(max(spans.end.max(initial=0), places.end.max(initial=0))) + 1
    begin = spans.document.astype(np.int64) * stride + spans.start
    reach = np.maximum.accumulate(spans.document.astype(np.int64) * stride + spans.end)
    low = np.searchsorted(reach, places.document * stride + places.start, side="right")
    high = np.searchsorted(begin, places.document * stride + places.end, side="left")
    low = np.where(places.whole, np.searchsorted(spans.document, places.document, side="left"), low)
    high = np.where(places.whole, np.searchsorted(spans.document, places.document, side="right"), high)
    place, chunk = _ranges(low, high)
    whole = places.whole[place]
    start = np.where(whole, 0, np.maximum(spans.start[chunk], places.start[place]))
    end = np.where(whole, 1, np.minimum(spans.end[chunk], places.end[place]))
    kept = end > start
    return Overlaps(place[kept], chunk[kept], start[kept], end[kept])


def _ranges(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """Write ranges out: the number of the range, and each number in it."""
    length = np.maximum(high - low, 0)
    owner = np.repeat(np.arange(len(low)), length)
    return owner, np.arange(len(owner)) + np.repeat(low - (np.cumsum(length) - length), length)


def _check_held(places: Places, touches: Overlaps, asked: Sequence[AskedEvidence]) -> None:
    held = np.bincount(places.evidence[touches.place], minlength=len(asked)) > 0
    faults = Faults()
    for n in np.flatnonzero(~held).tolist():
        evidence = asked[n].evidence
        if evidence.anchor is not None:  # a document without any chunk can only be missed
            fact = f'no chunk holds any of "{evidence.anchor}" in "{evidence.document}"; chunks must cover all text'
            faults.add(asked[n].where, fact)
    faults.raise_any()


def _pairs(places: Places, touches: Overlaps, threshold: float, n_chunks: int) -> tuple[Numbers, Numbers]:
    share = (touches.end - touches.start) / (places.end - places.start)[touches.place]
    best = np.zeros(len(places.evidence))
    np.maximum.at(best, touches.place, share)
    covers = share >= np.minimum(threshold, best)[touches.place]
    size = max(n_chunks, 1)
    keys = np.unique(places.evidence[touches.place[covers]] * size + touches.chunk[covers])
    return keys // size, keys % size


def count_tokens(chunks: Chunks) -> Numbers:
    """Count the tokens (chunks,) of every chunk's text, with its title; reads each text once."""
    spans, corpus = chunks.spans, chunks.corpus
    counts = np.zeros(len(chunks), dtype=np.int64)
    for low, high in pairwise(np.flatnonzero(np.diff(spans.document, prepend=-1, append=-1))):
        document = int(spans.document[low])
        counts[low:high] = tokens.locate(corpus.texts[document]).count(spans.start[low:high], spans.end[low:high])
        counts[low:high] += tokens.count(corpus.titles[document])
    return counts


def _touched_tokens(chunks: Chunks, touches: Overlaps, wanted: Numbers) -> tuple[Numbers, Numbers]:
    """Find the tokens of the wanted touches (first, behind the last), and 0 of the others; reads no other text."""
    first, last = np.zeros_like(touches.chunk), np.zeros_like(touches.chunk)
    document = chunks.spans.document[touches.chunk[wanted]]
    for one in np.unique(document).tolist():
        rows = wanted[document == one]
        offsets = tokens.locate(chunks.corpus.texts[one])
        first[rows], last[rows] = offsets.token_ranges(touches.start[rows], touches.end[rows])
    return first, last


def _mark(question: Numbers, chunk: Numbers, first: Numbers, last: Numbers, counts: Numbers) -> EvidenceTokens:
    """Count the tokens of every chunk that stand in any evidence of a question, each of them once."""
    size = max(len(counts), 1)
    keys, group = np.unique(question * size + chunk, return_inverse=True)
    inside = _union(group, first, last, len(keys)).astype(np.int64)
    # a whole document is given as all tokens of its chunk: beside an anchor in the same chunk these would count twice
    return EvidenceTokens(keys // size, keys % size, np.minimum(inside, counts[keys % size]))


def _union(group: Numbers, start: Numbers, end: Numbers, size: int) -> NDArray[np.float64]:
    """Measure the union of the half-open intervals of each group, in units of their ends (none below 0)."""
    order = np.lexsort((start, group))
    stride = int(end.max(initial=0)) + 1
    low, high = (group * stride + start)[order], (group * stride + end)[order]
    reach = np.maximum.accumulate(high)
    before = np.concatenate([[0], reach])[: len(reach)]
    fresh = np.maximum(high - np.maximum(low, before), 0).astype(np.float64)
    return np.bincount(group[order], fresh, size).astype(np.float64)


# --- from rankings to what metrics look at: once a config --------------------------------------------------------


def view(
    coverage: Coverage,
    rankings: Rankings,
    top_k: int,
    latency: Mapping[str, NDArray[np.float64]] | None = None,
    approximate: Mapping[str, IndexComparison] | None = None,
    length: Numbers | None = None,
) -> EvaluationView:
    """Build the input of metrics.

    Args:
        coverage: Of the questions' evidence by the chunking that was searched.
        rankings: Final rankings to full depth, one row a question.
        top_k: How many of each ranking are handed on.
        latency: Seconds a question by stage, NaN where not probed.
        approximate: What the legs with an approximate index missed.
        length: How many of these are handed on of each question's (questions,), where a budget cuts the context.
    """
    ranks = coverage.ranks(rankings)
    first = coverage.first(ranks)
    shape = (len(coverage.questions), top_k)
    owner = coverage.question[coverage.evidence]
    if length is not None:  # from here on only what stands in the context counts
        ranks = np.where(ranks <= length[coverage.marked.question], ranks, 0)
    relevant = _spread(shape, owner, ranks[coverage.covering], np.ones(len(owner)))
    marked = coverage.marked
    return EvaluationView(
        questions=coverage.questions,
        rankings=rankings,
        top_k=top_k,
        evidence_question=coverage.question,
        grade=coverage.grade,
        first_rank=first,
        credited_rank=credit(coverage.question, coverage.grade, first),
        evidence_covered=_covered(coverage, ranks, top_k),
        context_relevant=relevant.astype(bool),
        context_tokens=_context_tokens(coverage, rankings, top_k, length),
        context_evidence_tokens=_spread(shape, marked.question, ranks, marked.tokens),
        latency=dict(latency or {}),
        approximate=dict(approximate or {}),
        context_length=length,
        chunks=coverage.chunks,
    )


def credit(question: Numbers, grade: NDArray[np.float64], first_rank: Numbers) -> Numbers:
    """Spread evidences that one chunk covers over following ranks, one a rank, so that no list beats the ideal one.

    The evidences of a question are taken in the order of their first rank, the higher grade first where it is the
    same. Each is credited at its first rank, or right behind the one before: ``max(first_rank, credited before + 1)``.
    As no two share a rank, nDCG, average precision and precision stay at most 1. One chunk that covers two evidences
    thus counts like two chunks, at its own rank and the next. Where no two share a first rank, nothing is moved.
    All arrays are (evidences,); rank 0 says not found.
    """
    found = np.flatnonzero(first_rank > 0)
    order = found[np.lexsort((-grade[found], first_rank[found], question[found]))]
    step = np.arange(len(order))
    stride = int(first_rank.max(initial=0)) + len(order) + 1  # keeps what went before in other questions below
    lifted = np.maximum.accumulate(question[order] * stride + first_rank[order] - step) + step
    credited = np.zeros_like(first_rank)
    credited[order] = lifted - question[order] * stride
    return credited


def _covered(coverage: Coverage, ranks: Numbers, top_k: int) -> NDArray[np.float64]:
    places, touches = coverage.places, coverage.touches
    rank = ranks[coverage.touching]
    inside = (rank > 0) & (rank <= top_k)
    length = _union(touches.place[inside], touches.start[inside], touches.end[inside], len(places.evidence))
    best = np.zeros(len(coverage.question))
    np.maximum.at(best, places.evidence, length / (places.end - places.start))
    return best


def _context_tokens(coverage: Coverage, rankings: Rankings, top_k: int, length: Numbers | None) -> Numbers:
    context = rankings.first(top_k).positions
    if context.shape[1] < top_k:
        context = np.pad(context, ((0, 0), (0, top_k - context.shape[1])), constant_values=NO_CHUNK)
    if length is not None:
        context = np.where(np.arange(top_k) < length[:, None], context, NO_CHUNK)
    return coverage.tokens_or_none[context]


def _spread(shape: tuple[int, int], question: Numbers, rank: Numbers, values: NDArray[Any]) -> Numbers:
    """Arrange values by question and rank, as far as the rank lies in the context."""
    inside = (rank > 0) & (rank <= shape[1])
    table = np.zeros(shape, dtype=np.int64)
    table[question[inside], rank[inside] - 1] = values[inside]
    return table
