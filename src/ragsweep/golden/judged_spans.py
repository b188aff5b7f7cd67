"""Match retrieved chunks with labels, and bound the effect of unjudged chunks on nDCG.

Chunks and labels are spans of documents, so that configs with different chunkers are compared by the same labels. A
label covers a chunk if their overlap is at least half of the shorter span; a label of a whole document covers all
chunks of the document. The distractors of a question are treated as documents that are labelled as irrelevant.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ragsweep.core.types import Corpus, Evidence
from ragsweep.golden.anchors import resolve

SHARE = 0.5
"""Minimum overlap of a label and a chunk, as a share of the characters of the shorter span."""


class DocumentSpan(NamedTuple):
    """A span of a document: a chunk or a label."""

    document: str
    start: int
    end: int


class JudgedSpan(NamedTuple):
    """A label as a span with a grade (above 0: relevant); ``whole`` is true for a label of a whole document.

    ``copies`` are equal passages in other documents that the label also marks (``dataset.repeated_passages``).
    """

    place: DocumentSpan
    grade: float
    whole: bool = False
    copies: Sequence[DocumentSpan] = ()


def locate_label(label: Evidence, corpus: Corpus) -> tuple[int, int, int] | None:
    """Return (index of the document, start, end): the span of a label's anchor.

    Without an anchor, it is the span of the whole document. If the anchor occurs more than once and the label has no
    start, it is the span of the first occurrence. Returns None if the document or the anchor is not found.
    """
    position = corpus.position.get(label.document)
    if position is None:
        return None
    text = corpus.texts[position]
    if label.anchor is None:
        return position, 0, len(text)
    found = resolve(text, label.anchor, label.start)
    return (position, *found[0]) if found else None


def locate_labels(
    evidence: Iterable[Evidence],
    distractors: Iterable[str],
    corpus: Corpus,
    copies: Mapping[Evidence, Sequence[tuple[str, int, int]]] = MappingProxyType({}),
) -> list[JudgedSpan]:
    """Return the labels of a question as spans.

    A label's span is its document or, if it has an anchor, the anchor's occurrence at ``start`` (default: the first).
    Labels whose document or anchor is not in the corpus are omitted. Each of the ``distractors`` (ids of misleading
    documents) becomes a label of the whole document with grade 0. ``copies`` maps evidence to the spans of its anchor
    in other documents (see `JudgedSpan`).
    """
    labels = [
        JudgedSpan(
            DocumentSpan(one.document, *place[1:]),
            one.grade,
            one.anchor is None,
            [DocumentSpan(*copy) for copy in copies.get(one, ())],
        )
        for one in evidence
        if (place := locate_label(one, corpus))
    ]
    return [*labels, *(JudgedSpan(DocumentSpan(name, 0, 0), 0.0, True) for name in distractors)]


def covers(label: JudgedSpan, chunk: DocumentSpan) -> bool:
    """Return whether a label covers a chunk (as the module docstring defines), so that the chunk is judged."""
    for place in (label.place, *label.copies):
        shared = min(place.end, chunk.end) - max(place.start, chunk.start)
        shorter = min(place.end - place.start, chunk.end - chunk.start)
        if place.document == chunk.document and (label.whole or shared >= SHARE * max(shorter, 1)):
            return True
    return False


def is_judged(chunk: DocumentSpan, labels: Sequence[JudgedSpan]) -> bool:
    """Return whether any of the labels covers a chunk."""
    return any(covers(label, chunk) for label in labels)


def judged_share(found: Iterable[Sequence[DocumentSpan]], labels: Sequence[JudgedSpan]) -> tuple[int, int]:
    """Return the numbers of judged chunks and of all chunks in ``found``, the rankings for one question.

    A chunk is counted once per ranking that contains it.
    """
    judged = [is_judged(chunk, labels) for chunks in found for chunk in chunks]
    return sum(judged), len(judged)


def first_rank(found: Sequence[DocumentSpan], label: JudgedSpan) -> int:
    """Return the rank, from 1, of the first chunk that a label covers; 0 if the label covers no chunk."""
    return next((rank for rank, chunk in enumerate(found, start=1) if covers(label, chunk)), 0)


def ndcg(found: Sequence[DocumentSpan], labels: Sequence[JudgedSpan], depth: int) -> float:
    """Return the nDCG at ``depth`` of the chunks ``found``; 0 without relevant labels.

    Relevant labels that are first covered at the same rank are credited at successive ranks, highest grade first.
    """
    relevant = [label for label in labels if label.grade > 0]
    ranked = sorted((rank, -label.grade) for label in relevant if (rank := first_rank(found, label)))
    gained, last = 0.0, 0
    for rank, negative in ranked:
        last = max(rank, last + 1)
        gained -= negative * discount(last) if last <= depth else 0.0
    best = ideal([label.grade for label in relevant], depth)
    return min(gained / best, 1.0) if best else 0.0


def discount(rank: int) -> float:
    """Return the discount of a rank, counted from 1: 1 / log2(rank + 1)."""
    return float(1 / np.log2(rank + 1))


def ideal(grades: Sequence[float], depth: int) -> float:
    """Return the discounted cumulative gain at ``depth`` of the ideal ranking of items with these grades."""
    return sum(grade * discount(rank) for rank, grade in enumerate(sorted(grades, reverse=True)[:depth], start=1))


def difference_bounds(
    baseline: Sequence[DocumentSpan], candidate: Sequence[DocumentSpan], labels: Sequence[JudgedSpan], depth: int
) -> tuple[float, float]:
    """Return the lowest and the highest possible difference in nDCG at ``depth``, candidate minus baseline.

    The difference depends on the unjudged chunks, each of which is assumed to be irrelevant or to have grade 1. Every
    possible number of relevant unjudged chunks is tried. For a given number, the ideal ranking is fixed, and each
    relevant chunk adds a term to the difference, so the difference is lowest with the smallest terms.
    """
    lists = [list(some)[:depth] for some in (baseline, candidate)]
    unjudged = [chunk for chunk in dict.fromkeys([*lists[0], *lists[1]]) if not is_judged(chunk, labels)]
    grades = [label.grade for label in labels if label.grade > 0]
    before, after = (ndcg(some, labels, depth) * ideal(grades, depth) for some in lists)
    gains = [tuple(discount(some.index(chunk) + 1) if chunk in some else 0.0 for some in lists) for chunk in unjudged]

    def lowest(first: float, second: float, terms: Iterable[tuple[float, ...]]) -> float:
        differences = []
        for number, term in enumerate([(0.0, 0.0), *sorted(terms, key=lambda one: one[1] - one[0])]):
            first, second = first + term[0], second + term[1]
            best = ideal([*grades, *[1.0] * number], depth)
            differences.append(min(second / best, 1.0) - min(first / best, 1.0) if best else 0.0)
        return min(differences)

    return lowest(before, after, gains), -lowest(after, before, [one[::-1] for one in gains])
