"""Map labels to the passages that they mark: spans of documents, independent of any chunking."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import Faults
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.question_results import Numbers
from ragsweep.core.types import Corpus, Evidence, GoldenSet
from ragsweep.golden.anchors import composed, in_order, resolve, visible_words

Row = tuple[int, int, int, int, bool]


class Label(NamedTuple):
    """A piece of evidence with a grade above 0, and its question."""

    n: int  # the question's index
    evidence: Evidence
    where: str  # "file:line", or the id of the question, for messages


class Places(NamedTuple):
    """The passages of the evidence, as columns; a piece whose anchor is repeated has several alternative passages.

    A whole document counts as a passage of one character, so that any of its chunks covers it.
    """

    evidence: Numbers  # the index of the piece, in the order of `relevant_labels`
    document: Numbers  # the position of the document in the corpus
    start: Numbers
    end: Numbers
    whole: NDArray[np.bool_]


def relevant_labels(golden: GoldenSet) -> list[Label]:
    """List the labels with a grade above 0, in the order of the questions."""
    return [
        Label(n, evidence, evidence.where or f'question "{question.id}"')
        for n, question in enumerate(golden.questions)
        for evidence in question.relevant
    ]


@memoize_by_identity
def find_places(corpus: Corpus, golden: GoldenSet) -> Places:
    """Find the passages of all relevant labels, sorted by label, document and start; the result is cached.

    If ``golden.repeated_passages`` is set, an anchor also marks its occurrences in all other documents. Raises a single
    InputError for all labels that name an unknown document, or whose anchor does not occur in the named document.
    """
    faults, labels = Faults(), relevant_labels(golden)
    rows = sorted(
        [*_labelled(corpus, labels, faults), *(_repeated(corpus, labels) if golden.repeated_passages else ())]
    )
    faults.raise_any()
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    return Places(table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4].astype(bool))


def copied_places(corpus: Corpus, golden: GoldenSet) -> dict[Evidence, list[tuple[str, int, int]]]:
    """Map evidence to the spans (id, start, end) of its anchor in other documents; {} without ``repeated_passages``."""
    evidence = (one for question in golden.questions for one in question.evidence)
    labels = [Label(0, one, "") for one in dict.fromkeys(evidence)]
    found = defaultdict[Evidence, list[tuple[str, int, int]]](list)
    for n, document, start, end, _ in _repeated(corpus, labels) if golden.repeated_passages else ():
        found[labels[n].evidence].append((corpus.ids[document], start, end))
    return found


def _labelled(corpus: Corpus, labels: Sequence[Label], faults: Faults) -> Iterator[Row]:
    # Labels are sorted by document, because `resolve` caches the normalised forms of recent texts.
    for n in sorted(range(len(labels)), key=lambda n: labels[n].evidence.document):
        evidence = labels[n].evidence
        document = corpus.position.get(evidence.document)
        if document is None:
            fact = f'the label names the document "{evidence.document}", which is not in the corpus; correct the label'
            faults.add(labels[n].where, fact)
        elif evidence.anchor is None:
            yield n, document, 0, 1, True
        else:
            spans = resolve(corpus.texts[document], evidence.anchor, evidence.start)
            yield from ((n, document, start, end, False) for start, end in spans)
            if not spans:
                place = "" if evidence.start is None else f" at character {evidence.start}"
                fact = f'the anchor "{evidence.anchor}" does not occur in "{evidence.document}"{place}'
                faults.add(labels[n].where, f"{fact}; quote the passage again")


def _repeated(corpus: Corpus, labels: Sequence[Label]) -> Iterator[Row]:
    # Searching first for the longest word, then for all words, is much cheaper than calling `resolve` directly.
    anchors = [(n, label.evidence.document, label.evidence.anchor or "") for n, label in enumerate(labels)]
    rows = [(n, own, anchor, visible_words(anchor)) for n, own, anchor in anchors]
    longest = [max(words, key=len, default="") for *_, words in rows]
    for document, (identifier, text) in enumerate(zip(corpus.ids, corpus.texts, strict=True)):
        plain = composed(text)
        for (n, own, anchor, words), word in zip(rows, longest, strict=True):
            if word in plain and own != identifier and in_order(plain, words):
                yield from ((n, document, start, end, False) for start, end in resolve(text, anchor, None))
