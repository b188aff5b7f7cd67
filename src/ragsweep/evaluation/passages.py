"""Find the passages of a corpus that labels name: an anchor becomes spans of the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import Faults
from ragsweep.core.types import Corpus, Evidence, Question
from ragsweep.golden.anchors import composed, in_order, resolve, visible_words

Numbers = NDArray[np.int64]
Row = tuple[int, int, int, int, bool]


class AskedEvidence(NamedTuple):
    """A relevant evidence and the question it belongs to."""

    n: int  # of the question
    question: Question
    evidence: Evidence

    @property
    def where(self) -> str:
        """Return the place of a label, for messages."""
        return self.evidence.where or f'question "{self.question.id}"'


class Places(NamedTuple):
    """The passages of evidences; an evidence with a repeated anchor has several, any of which counts.

    A whole document counts as a passage of one character: it is found as soon as any chunk of it is.
    """

    evidence: Numbers
    document: Numbers
    start: Numbers
    end: Numbers
    whole: NDArray[np.bool_]


def relevant(questions: Sequence[Question]) -> list[AskedEvidence]:
    """List the relevant evidences (grade > 0) of all questions, in their order."""
    return [
        AskedEvidence(n, q, evidence) for n, q in enumerate(questions) for evidence in q.evidence if evidence.grade > 0
    ]


def find_places(corpus: Corpus, asked: Sequence[AskedEvidence], repeated: bool) -> Places:
    """Find all passages of all evidences, ordered by evidence, document and start.

    Args:
        corpus: Where to look.
        asked: The evidences.
        repeated: Whether an anchor also marks every other document in which it occurs.

    Raises:
        InputError: Labels that name unknown documents, or anchors that do not occur; all of them at once.
    """
    faults = Faults()
    rows = sorted([*_own(corpus, asked, faults), *(_repeated(corpus, asked) if repeated else ())])
    faults.raise_any()
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    return Places(table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4].astype(bool))


def _own(corpus: Corpus, asked: Sequence[AskedEvidence], faults: Faults) -> Iterator[Row]:
    # by document, because an anchor is found faster in a text that has just been looked at
    for n in sorted(range(len(asked)), key=lambda n: asked[n].evidence.document):
        evidence = asked[n].evidence
        document = corpus.position.get(evidence.document)
        if document is None:
            fact = f'the label names the document "{evidence.document}", which the corpus does not hold'
            faults.add(asked[n].where, fact)
        elif evidence.anchor is None:
            yield n, document, 0, 1, True
        else:
            spans = resolve(corpus.texts[document], evidence.anchor, evidence.start)
            yield from ((n, document, start, end, False) for start, end in spans)
            if not spans:
                place = "" if evidence.start is None else f" at character {evidence.start}"
                fact = f'the anchor "{evidence.anchor}" does not occur in "{evidence.document}"{place}'
                faults.add(asked[n].where, fact)


def _repeated(corpus: Corpus, asked: Sequence[AskedEvidence]) -> Iterator[Row]:
    anchored = [(n, row.evidence.document, row.evidence.anchor or "") for n, row in enumerate(asked)]
    # the longest word is looked for first, then all of them: that is much cheaper than to resolve
    rows = [(n, own, anchor, visible_words(anchor)) for n, own, anchor in anchored]
    longest = [max(words, key=len, default="") for *_, words in rows]
    for document, (identifier, text) in enumerate(zip(corpus.ids, corpus.texts, strict=True)):
        plain = composed(text)
        for (n, own, anchor, words), word in zip(rows, longest, strict=True):
            if word in plain and own != identifier and in_order(plain, words):
                yield from ((n, document, start, end, False) for start, end in resolve(text, anchor, None))
