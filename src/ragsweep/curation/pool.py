"""Label holes: which retrieved chunks nobody has judged, and what their judgements could change.

Chunks and labels are places in the corpus, so that configs with different chunkers share one pool. A label covers a
chunk as in an evaluation: the chunk has half of the label's characters, or any part of a document that is a label as a
whole. Documents in ``distractors`` are judged, and not relevant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.types import Corpus, Evidence
from ragsweep.curation.evidence_quotes import shortest_anchor
from ragsweep.golden.anchors import resolve
from ragsweep.parts.languages import content_words, detect_language
from ragsweep.parts.sentences import sentences

SHARE = 0.5
"""Share of a label's characters, or of a chunk's where that is shorter, that they have in common."""


class DocumentSpan(NamedTuple):
    """A span of a document; of a chunk, or of a label."""

    document: str
    start: int
    end: int


class JudgedSpan(NamedTuple):
    """A judgement of a place: its grade, above 0 where it is relevant; ``whole``: it is about the document."""

    place: DocumentSpan
    grade: float
    whole: bool = False


Found = Mapping[str, Sequence[DocumentSpan]]
"""The first chunks that each config retrieved for one question, best first."""


class Hole(NamedTuple):
    """An unjudged passage of one question.

    ``place`` is the sentence that would be the evidence, ``chunk`` a retrieved chunk that contains it. ``ranks`` has
    the rank in each config that found it, and ``impact`` what a judgement could change (see :func:`find_holes`).
    """

    question: str
    place: DocumentSpan
    chunk: DocumentSpan
    ranks: Mapping[str, int]
    impact: float


def locate_labels(evidence: Iterable[Evidence], distractors: Iterable[str], corpus: Corpus) -> list[JudgedSpan]:
    """Find a question's labels in the corpus; those that are not there are left out."""
    labels = []
    for one in evidence:
        if (position := corpus.position.get(one.document)) is None:
            continue
        if one.anchor is None:
            labels.append(JudgedSpan(DocumentSpan(one.document, 0, len(corpus.texts[position])), one.grade, True))
        else:
            spans = resolve(corpus.texts[position], one.anchor, one.start)
            labels += [JudgedSpan(DocumentSpan(one.document, *span), one.grade) for span in spans[:1]]
    return [*labels, *(JudgedSpan(DocumentSpan(name, 0, 0), 0.0, True) for name in distractors)]


def covers(label: JudgedSpan, chunk: DocumentSpan) -> bool:
    """Return whether a label judges a chunk."""
    if label.place.document != chunk.document:
        return False
    shared = min(label.place.end, chunk.end) - max(label.place.start, chunk.start)
    shorter = min(label.place.end - label.place.start, chunk.end - chunk.start)
    return label.whole or shared >= SHARE * max(shorter, 1)


def is_judged(chunk: DocumentSpan, labels: Sequence[JudgedSpan]) -> bool:
    """Return whether a label covers a chunk."""
    return any(covers(label, chunk) for label in labels)


def judged_share(found: Iterable[Sequence[DocumentSpan]], labels: Sequence[JudgedSpan]) -> tuple[int, int]:
    """Count the chunks of some rankings of one question: those that are judged, and all."""
    judged = [is_judged(chunk, labels) for chunks in found for chunk in chunks]
    return sum(judged), len(judged)


def find_holes(question: str, text: str, found: Found, labels: Sequence[JudgedSpan], corpus: Corpus) -> list[Hole]:
    """List the unjudged passages of a question, the one whose judgement could change most first.

    The rule: if the passage were relevant (grade 1), the question's nDCG of each config would change by an amount; the
    impact is the largest of these less the smallest, and so the most by which the difference of two configs can change.
    Equal ones are ordered by the number of configs that found the passage, and by its best rank.

    Of every unjudged chunk the passage is the sentence that shares most words with the question, so that one sentence
    in the chunks of several chunkers is judged once.

    Args:
        question: The question's id.
        text: Its text.
        found: What each config retrieved; the length of the longest is the cutoff of nDCG.
        labels: What is judged.
        corpus: The documents.
    """
    depth = max(map(len, found.values()), default=0)
    chunks = dict.fromkeys(chunk for some in found.values() for chunk in some if not is_judged(chunk, labels))
    passages: dict[DocumentSpan, DocumentSpan] = {}
    for chunk in chunks:
        passages.setdefault(nearest_sentence(chunk, text, corpus), chunk)
    before = {name: ndcg(some, labels, depth) for name, some in found.items()}
    holes = []
    for place, chunk in passages.items():
        label = JudgedSpan(place, 1.0)
        changes = [ndcg(some, [*labels, label], depth) - before[name] for name, some in found.items()]
        ranks = {name: rank for name, some in found.items() if (rank := first_rank(some, label))}
        holes.append(Hole(question, place, chunk, ranks, max(changes) - min(changes)))
    return order_holes(holes)


def order_holes(holes: Iterable[Hole]) -> list[Hole]:
    """Order passages by the impact of their judgement."""
    return sorted(holes, key=lambda one: (-round(one.impact, 9), -len(one.ranks), min(one.ranks.values(), default=0)))


def nearest_sentence(chunk: DocumentSpan, text: str, corpus: Corpus) -> DocumentSpan:
    """Return the sentence of a chunk that shares most words with a text; the first of several."""
    body = corpus.texts[corpus.position[chunk.document]][chunk.start : chunk.end]
    wanted = content_words(text)
    spans = [
        (start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip()))
        for start, end in sentences(body, "french" if detect_language(body) == "fr" else "english")
        if (piece := body[start:end]).strip()
    ]
    start, end = max(spans or [(0, len(body))], key=lambda span: len(wanted & content_words(body[span[0] : span[1]])))
    return DocumentSpan(chunk.document, chunk.start + start, chunk.start + end)


def first_rank(found: Sequence[DocumentSpan], label: JudgedSpan) -> int:
    """Return the first rank, from 1, whose chunk a label covers; 0 where there is none."""
    return next((rank for rank, chunk in enumerate(found, start=1) if covers(label, chunk)), 0)


def ndcg(found: Sequence[DocumentSpan], labels: Sequence[JudgedSpan], depth: int) -> float:
    """Return the nDCG of a ranking, each label credited once; two in one chunk count as at two ranks."""
    relevant = [label for label in labels if label.grade > 0]
    ranked = sorted((rank, -label.grade) for label in relevant if (rank := first_rank(found, label)))
    gained, last = 0.0, 0
    for rank, negative in ranked:
        last = max(rank, last + 1)
        gained -= negative * discount(last) if last <= depth else 0.0
    best = ideal([label.grade for label in relevant], depth)
    return min(gained / best, 1.0) if best else 0.0


def discount(rank: int) -> float:
    """Return what a rank, from 1, counts."""
    return float(1 / np.log2(rank + 1))


def ideal(grades: Sequence[float], depth: int) -> float:
    """Return the gain of the ideal ranking."""
    return sum(grade * discount(rank) for rank, grade in enumerate(sorted(grades, reverse=True)[:depth], start=1))


def difference_bounds(
    baseline: Sequence[DocumentSpan], candidate: Sequence[DocumentSpan], labels: Sequence[JudgedSpan], depth: int
) -> tuple[float, float]:
    """Return between what the difference of nDCG lies, candidate less baseline, whichever unjudged chunks are relevant.

    Of a given number of relevant ones the ideal ranking is given, and the difference is a sum over them: the worst
    choice is that of the smallest terms. All numbers are tried.
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


def as_row(hole: Hole, text: str, corpus: Corpus) -> dict[str, Any]:
    """Return a hole as a line of a pool file: the passage as it is shown, and the evidence that it would be."""
    position = corpus.position[hole.place.document]
    anchor, start = shortest_anchor(corpus.texts[position], hole.place.start, hole.place.end)
    return {
        "id": hole.question,
        "question": text,
        "document": hole.place.document,
        "title": corpus.titles[position],
        "anchor": anchor,
        **({} if start is None else {"start": start}),
        "passage": corpus.texts[position][hole.chunk.start : hole.chunk.end],
        "sentence": corpus.texts[position][hole.place.start : hole.place.end],
        "impact": round(hole.impact, 6),
        "ranks": dict(hole.ranks),
    }
