"""Group dependent questions: those with a common source document, or nearly the same words.

Their scores rise and fall together, so that a resampling draws them together and a partition keeps them on one side.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.types import Question

ALIKE = 0.7
"""Share of common shingles from which on two texts are near-duplicates."""

SHINGLE = 4
"""Characters of a shingle: letters rather than words, for languages without spaces."""

TINY = 1e-9
"""So much a product may be off by rounding: no pair is lost to it before it is compared."""

LARGEST = 0.1
"""Share of all questions that chains of documents or texts may join; a larger group is cut."""


class _Sets:
    """Disjoint sets of numbers; joining keeps the smallest as the name of a set."""

    def __init__(self, size: int) -> None:
        self._above = list(range(size))

    def find(self, one: int) -> int:
        while self._above[one] != one:
            self._above[one] = self._above[self._above[one]]
            one = self._above[one]
        return one

    def join(self, numbers: Iterable[int]) -> None:
        first, *others = map(self.find, numbers)
        for other in others:
            low, high = sorted((self.find(first), self.find(other)))
            self._above[high] = low


@memoize_by_identity
def clusters(questions: Sequence[Question]) -> tuple[str, ...]:
    """Name the cluster of each question: ``document ID`` of the document it is about, or ``question ID``.

    Questions are linked that share a document of their evidence, or whose texts are near-duplicates; a cluster is
    whatever such links connect. Where a chain of links joins more than a tenth of all questions (in a collection
    with many relevant documents a question it may join all of them), that group is cut: only questions
    with the same main document, or the same words, stay together.
    """
    texts = [normalised(question) for question in questions]
    documents = [_documents(question) for question in questions]
    shared = Counter(document for named in documents for document in named)
    main = [_main(question, named, shared) for question, named in zip(questions, documents, strict=True)]
    joined = _Sets(len(questions))
    for numbers in (*_having(documents), *near_duplicates(texts)):
        joined.join(numbers)
    names = [joined.find(n) for n in range(len(questions))]
    large = {name for name, size in Counter(names).items() if size > max(LARGEST * len(questions), 1)}
    cut = _Sets(len(questions))
    inside = [n for n, name in enumerate(names) if name in large]
    for numbers in (*_having([[main[n]] if main[n] else [] for n in inside]), *_having([[texts[n]] for n in inside])):
        cut.join(inside[n] for n in numbers)
    return _named(questions, main, [cut.find(n) if name in large else name for n, name in enumerate(names)])


def normalised(question: Question) -> str:
    """Normalise a question and its history: words in small letters with one space between them."""
    said = " ".join([*(turn.text for turn in question.history), question.text])
    text = unicodedata.normalize("NFKC", said).casefold()
    return " ".join("".join(letter if letter.isalnum() else " " for letter in text).split())


def near_duplicates(texts: Sequence[str]) -> list[tuple[int, int]]:
    """List the pairs of texts with a Jaccard similarity of their shingles of at least ``ALIKE``.

    Only pairs that share one of their rarest shingles, and are about as long, can be so similar, and only they are
    compared (the prefix filter of Chaudhuri, Ganti and Kaushik 2006). An empty text is like no other.
    """
    shingles = [_shingles(text) for text in texts]
    return [
        (one, other)
        for one, other in _candidates(shingles)
        if (common := len(shingles[one] & shingles[other]))
        >= ALIKE * (len(shingles[one]) + len(shingles[other]) - common)
    ]


def _candidates(shingles: Sequence[frozenset[str]]) -> list[tuple[int, int]]:
    """List the pairs that may be near-duplicates, in order."""
    sizes = np.array([len(found) for found in shingles], dtype=np.int64)
    if not sizes.sum():
        return []
    seen: dict[str, int] = {}
    numbers = (seen.setdefault(shingle, len(seen)) for found in shingles for shingle in found)
    number = np.fromiter(numbers, dtype=np.int64, count=int(sizes.sum()))
    rarity = np.argsort(np.argsort(np.bincount(number), kind="stable"))[number]
    owner = np.repeat(np.arange(len(shingles)), sizes)
    order = np.lexsort((rarity, owner))
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    prefix = order[place < (sizes - np.ceil(ALIKE * sizes - TINY) + 1)[owner]]
    prefix = prefix[np.lexsort((owner[prefix], rarity[prefix]))]
    owners, shingle = owner[prefix], rarity[prefix]
    found = []
    for apart in range(1, int(np.bincount(shingle).max())):
        same = np.flatnonzero(shingle[apart:] == shingle[:-apart])
        one, other = owners[same], owners[same + apart]
        small, large = np.minimum(sizes[one], sizes[other]), np.maximum(sizes[one], sizes[other])
        found.append((one * len(shingles) + other)[small >= ALIKE * large - TINY])
    pairs = np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)
    return list(zip((pairs // len(shingles)).tolist(), (pairs % len(shingles)).tolist(), strict=True))


def _shingles(text: str) -> frozenset[str]:
    padded = f" {text} "
    return frozenset(padded[n : n + SHINGLE] for n in range(max(len(padded) - SHINGLE + 1, 1))) if text else frozenset()


def _documents(question: Question) -> list[str]:
    """List the documents of a question: those of its evidence, or else the first one that resembles it.

    Only the first, so that a question without an answer links no two documents.
    """
    named = [evidence.document for evidence in question.evidence if evidence.grade > 0]
    return list(dict.fromkeys(named)) or list(question.distractors[:1])


def _main(question: Question, named: Sequence[str], shared: Counter[str]) -> str:
    """Choose one document: of the best grade, and among those the one that most questions name."""
    grades = {evidence.document: evidence.grade for evidence in sorted(question.evidence, key=lambda one: one.grade)}
    return min(named, key=lambda document: (-grades.get(document, 0.0), -shared[document], document), default="")


def _having(named: Sequence[Sequence[str]]) -> list[list[int]]:
    """List for each name the numbers of those that have it."""
    found: dict[str, list[int]] = defaultdict(list)
    for n, names in enumerate(named):
        for name in names:
            found[name].append(n)
    return list(found.values())


def _named(questions: Sequence[Question], main: Sequence[str], numbers: Sequence[int]) -> tuple[str, ...]:
    """Name each cluster by the document that most of its questions are about, or by the smallest of their ids."""
    members: dict[int, list[int]] = defaultdict(list)
    for n, number in enumerate(numbers):
        members[number].append(n)
    names = {}
    for number, inside in members.items():
        about = Counter(main[n] for n in inside if main[n])
        document = min(about, key=lambda one: (-about[one], one), default=None)
        first = min(questions[n].id for n in inside)
        names[number] = f"question {first}" if document is None else f"document {document}"
    return tuple(names[number] for number in numbers)
