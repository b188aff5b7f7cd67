"""Find the holes in the labels: unjudged retrieved chunks, and how much judging them could change a comparison.

Chunks and labels are spans of the corpus (``ragsweep.golden.judged_spans``), so configs with different chunkers
share one pool.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ragsweep.core.types import Corpus
from ragsweep.golden.judged_spans import DocumentSpan, JudgedSpan, first_rank, is_judged, ndcg
from ragsweep.parts.languages import content_words, detect_language
from ragsweep.parts.sentences import sentences
from ragsweep_golden.evidence.quotes import shortest_anchor

Found = Mapping[str, Sequence[DocumentSpan]]  # the first chunks that each config retrieved for one question, best first


class Hole(NamedTuple):
    """A passage that was retrieved for a question, but not judged.

    ``place`` is the sentence that would become the evidence, and ``chunk`` is a retrieved chunk that contains it.
    ``ranks`` maps each config that found the sentence to the rank of the first chunk with it. ``impact`` is how much a
    judgement could change (see :func:`find_holes`).
    """

    question: str
    place: DocumentSpan
    chunk: DocumentSpan
    ranks: Mapping[str, int]
    impact: float


def find_holes(question: str, text: str, found: Found, labels: Sequence[JudgedSpan], corpus: Corpus) -> list[Hole]:
    """List the unjudged passages of a question, largest impact first; ``question`` is its id, ``text`` its wording.

    The impact is computed as if the passage were relevant (grade 1), which may change the question's nDCG in each
    config. It is the largest of these changes minus the smallest: the difference between two configs cannot change by
    more. The passage of an unjudged chunk is its sentence that shares the most words with the question, so a sentence
    that occurs in chunks of several chunkers is judged once. The longest list of chunks sets the cutoff of nDCG. Blank
    chunks are omitted: they contain no passage to quote.
    """
    depth = max(map(len, found.values()), default=0)
    chunks = dict.fromkeys(chunk for some in found.values() for chunk in some if not is_judged(chunk, labels))
    passages: dict[DocumentSpan, DocumentSpan] = {}
    for chunk in chunks:
        if corpus.texts[corpus.position[chunk.document]][chunk.start : chunk.end].strip():
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
    """Order passages by impact, largest first, then by the number of configs that found them, then by best rank."""
    return sorted(holes, key=lambda one: (-round(one.impact, 9), -len(one.ranks), min(one.ranks.values(), default=0)))


def nearest_sentence(chunk: DocumentSpan, text: str, corpus: Corpus) -> DocumentSpan:
    """Return the sentence in a chunk with the most words of a text, the first on a tie; the chunk if it has none."""
    body = corpus.texts[corpus.position[chunk.document]][chunk.start : chunk.end]
    wanted = content_words(text)
    spans = [
        (start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip()))
        for start, end in sentences(body, "french" if detect_language(body) == "fr" else "english")
        if (piece := body[start:end]).strip()
    ]
    start, end = max(spans or [(0, len(body))], key=lambda span: len(wanted & content_words(body[span[0] : span[1]])))
    return DocumentSpan(chunk.document, chunk.start + start, chunk.start + end)


def as_row(hole: Hole, text: str, corpus: Corpus) -> dict[str, Any]:
    """Return a hole as a row of a pool file, with the texts of its question (``text``), its chunk and its sentence."""
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
