"""The input of gates and admission tests: a golden set, its corpus, and the passages of its evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import Corpus, Spans
from ragsweep.golden.anchors import resolve
from ragsweep_golden.sets.entries import Entry, is_rejected, relevant_evidence, value

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Subject:
    """A golden set and the data it is checked against. A gate is not measured where its data is None.

    ``spans`` are the corpus' chunks. ``questions``, ``answers`` and ``passages`` are unit vectors, one row for each
    kept entry; NaN rows for entries without an answer or a passage.
    """

    entries: Sequence[Entry]
    corpus: Corpus | None = None
    spans: Spans | None = None
    questions: Floats | None = None
    answers: Floats | None = None
    passages: Floats | None = None
    strata: Mapping[str, str] = field(default_factory=dict)  # document -> stratum

    @cached_property
    def rejected(self) -> int:
        """Count the rejected entries."""
        return sum(map(is_rejected, self.entries))

    @cached_property
    def kept(self) -> list[Entry]:
        """The entries that were not rejected."""
        return [one for one in self.entries if not is_rejected(one)]

    @cached_property
    def answerable(self) -> list[Entry]:
        """The kept entries that the corpus answers; conversation excluded."""
        return [one for one in self.kept if one.get("answerable", True) and one.get("needs_retrieval", True)]

    @cached_property
    def unanswerable(self) -> list[Entry]:
        """The kept entries that the corpus does not answer."""
        return [one for one in self.kept if not one.get("answerable", True)]

    @cached_property
    def evidence_spans(self) -> list[list[tuple[int, int, int]]]:
        """The evidence of each answerable entry as (document, start, end); an empty list if it is not found."""
        assert self.corpus is not None
        return [
            [span for label in relevant_evidence(one) if (span := _span(self.corpus, label))] for one in self.answerable
        ]


def _span(corpus: Corpus, label: Mapping[str, object]) -> tuple[int, int, int] | None:
    position = corpus.position.get(str(label.get("document")))
    if position is None:
        return None
    text, anchor, start = corpus.texts[position], label.get("anchor"), label.get("start")
    if anchor is None:
        return position, 0, len(text)
    found = resolve(text, str(anchor), start if isinstance(start, int) else None)
    return (position, *found[0]) if found else None


def passage_of(subject: Subject, number: int) -> str:
    """Return the text of the chunks that overlap the evidence of an answerable entry; empty if it is unknown."""
    entry = subject.answerable[number]
    if given := value(entry, "content", "passage"):
        return str(given)
    if subject.corpus is None or subject.spans is None:
        return ""
    texts = []
    for document, start, end in subject.evidence_spans[number]:
        for chunk in touching(subject.spans, document, start, end):
            begin, stop = int(subject.spans.start[chunk]), int(subject.spans.end[chunk])
            texts.append(subject.corpus.texts[document][begin:stop])
    return "\n".join(texts)


def touching(spans: Spans, document: int, start: int, end: int) -> list[int]:
    """Return the chunks that overlap a span of a document."""
    inside = (spans.document == document) & (spans.start < end) & (spans.end > start)
    return [int(chunk) for chunk in np.flatnonzero(inside)]


_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,}).*$", re.MULTILINE)


def is_verbatim(answer: str, passage: str) -> bool:
    """Return whether a passage contains every line of an answer verbatim, case and typography included."""
    lines = [line for line in answer.splitlines() if line.strip()]
    # A chunk may begin or end inside a code block, and then its fences mark the wrong parts.
    unfenced = _FENCE.sub("", passage)
    return bool(lines) and all(resolve(passage, line) or resolve(unfenced, line) for line in lines)
