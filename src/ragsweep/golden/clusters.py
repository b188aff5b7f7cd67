"""Group questions into clusters by common documents or nearly equal texts.

The scores of the questions in a cluster are correlated, so the questions are resampled together and are all on the same
side of a partition.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.types import Question

ALIKE = 0.7
"""Minimum Jaccard similarity of the shingles (character n-grams) of two near-duplicates."""

SHINGLE = 4
"""Length of a shingle in characters. Shingles of words would not suit languages that are written without spaces."""

TINY = 1e-9
"""Tolerance for rounding errors, so that the filter before the exact comparison loses no pair."""

LARGEST = 0.1
"""Maximum size of a connected component, as a share of all questions; a larger component is split."""


def _components(size: int, links: Iterable[Sequence[int]]) -> list[int]:
    """Return, for each number below ``size``, the smallest number in its connected component.

    Each of the ``links`` connects all of its numbers.
    """
    parent = list(range(size))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for first, *others in links:
        for other in others:
            low, high = sorted((root(first), root(other)))
            parent[high] = low
    return [root(number) for number in range(size)]


@memoize_by_identity
def clusters(questions: Sequence[Question]) -> tuple[str, ...]:
    """Return the name of each question's cluster, in the order of the questions.

    Questions that share a document (see ``_documents``), or whose texts are near-duplicates, are linked, and clusters
    are the connected components. A component of more than a tenth of all questions is split, so that only questions
    with the same main document or the same words remain together. Without the split, chains of links could join all
    questions if each has many relevant documents.

    The main document of a question is its document with the highest grade. A cluster is named ``document ID`` after the
    most frequent main document of its questions or, if they have none, ``question ID`` after the smallest question id.
    """
    texts = [normalised(question) for question in questions]
    documents = [_documents(question) for question in questions]
    frequency = Counter(document for names in documents for document in names)
    main = [_main_document(question, names, frequency) for question, names in zip(questions, documents, strict=True)]
    clusters = _components(len(questions), [*_sharing(enumerate(documents)), *near_duplicates(texts)])
    large = {cluster for cluster, size in Counter(clusters).items() if size > max(LARGEST * len(questions), 1)}
    inside = [n for n, cluster in enumerate(clusters) if cluster in large]
    links = [*_sharing((n, [main[n]] if main[n] else []) for n in inside), *_sharing((n, [texts[n]]) for n in inside)]
    parts = _components(len(questions), links)
    clusters = [parts[n] if cluster in large else cluster for n, cluster in enumerate(clusters)]
    members: dict[int, list[int]] = defaultdict(list)
    for n, cluster in enumerate(clusters):
        members[cluster].append(n)
    names = {}
    for cluster, inside in members.items():
        about = Counter(main[n] for n in inside if main[n])
        if about:
            names[cluster] = f"document {min(about, key=lambda document: (-about[document], document))}"
        else:
            names[cluster] = f"question {min(questions[n].id for n in inside)}"
    return tuple(names[cluster] for cluster in clusters)


def normalised(question: Question) -> str:
    """Return the words of a question's history and text, case-folded and separated by single spaces.

    Combining marks, such as the vowel signs of Devanagari, belong to the word before them.
    """
    texts = " ".join([*(turn.text for turn in question.history), question.text])
    folded = unicodedata.normalize("NFKC", texts).casefold()
    kept = (letter if letter.isalnum() or unicodedata.category(letter)[0] == "M" else " " for letter in folded)
    return " ".join(word for word in "".join(kept).split() if any(map(str.isalnum, word)))


def near_duplicates(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of indices of texts whose shingles have a Jaccard similarity of at least ``ALIKE``.

    Only two texts of similar length that share one of their rarest shingles can reach this similarity; other pairs are
    not compared (the prefix filter of Chaudhuri, Ganti and Kaushik 2006). No text is similar to an empty text.
    """
    shingles = [_shingles(text) for text in texts]
    return [
        (one, other)
        for one, other in _candidates(shingles)
        if (common := len(shingles[one] & shingles[other]))
        >= ALIKE * (len(shingles[one]) + len(shingles[other]) - common)
    ]


def _candidates(shingles: Sequence[frozenset[str]]) -> list[tuple[int, int]]:
    sizes = np.array(list(map(len, shingles)), dtype=np.int64)
    if not sizes.sum():
        return []
    vocabulary: dict[str, int] = {}
    numbers = (vocabulary.setdefault(shingle, len(vocabulary)) for members in shingles for shingle in members)
    number = np.fromiter(numbers, dtype=np.int64, count=int(sizes.sum()))
    rarity = np.argsort(np.argsort(np.bincount(number), kind="stable"))[number]
    owner = np.repeat(np.arange(len(shingles)), sizes)
    order = np.lexsort((rarity, owner))
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    prefix = order[place < (sizes - np.ceil(ALIKE * sizes - TINY) + 1)[owner]]
    prefix = prefix[np.lexsort((owner[prefix], rarity[prefix]))]
    owners, shingle = owner[prefix], rarity[prefix]
    codes = []
    for apart in range(1, int(np.bincount(shingle).max())):
        same = np.flatnonzero(shingle[apart:] == shingle[:-apart])
        one, other = owners[same], owners[same + apart]
        small, large = np.minimum(sizes[one], sizes[other]), np.maximum(sizes[one], sizes[other])
        codes.append((one * len(shingles) + other)[small >= ALIKE * large - TINY])
    pairs = np.unique(np.concatenate(codes)) if codes else np.empty(0, dtype=np.int64)
    return list(zip((pairs // len(shingles)).tolist(), (pairs % len(shingles)).tolist(), strict=True))


def _shingles(text: str) -> frozenset[str]:
    padded = f" {text} "
    return frozenset(padded[n : n + SHINGLE] for n in range(max(len(padded) - SHINGLE + 1, 1))) if text else frozenset()


def _documents(question: Question) -> list[str]:
    """Return the documents of a question's relevant evidence, else its first distractor; [] if it has neither.

    Further distractors are omitted, because an unanswerable question should not link several documents.
    """
    return list(dict.fromkeys(label.document for label in question.relevant)) or list(question.distractors[:1])


def _main_document(question: Question, documents: Sequence[str], frequency: Counter[str]) -> str:
    """Return the document with the highest grade or, on a tie, the highest ``frequency``; "" without documents."""
    grades = {label.document: label.grade for label in sorted(question.evidence, key=lambda label: label.grade)}
    return min(documents, key=lambda name: (-grades.get(name, 0.0), -frequency[name], name), default="")


def _sharing(names_of: Iterable[tuple[int, Sequence[str]]]) -> list[list[int]]:
    """Group question numbers by the names paired with them; return one group per name."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number, names in names_of:
        for name in names:
            groups[name].append(number)
    return list(groups.values())
