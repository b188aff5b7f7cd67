"""Define the input of a measure (a golden set with its corpus and vectors), and its result (a value with faults)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ragsweep.core.types import Corpus, Floats, Spans
from ragsweep_golden.evidence.passages import locate_label
from ragsweep_golden.sets.entries import Entry, is_rejected, relevant_evidence, value

NO_CORPUS = "no corpus; add corpus=FOLDER or corpus=FILE"
NO_EMBEDDER = "no embedder; add embedder=minilm"

Embed = Callable[[Sequence[str]], Floats]  # embeds texts as unit vectors; the vector of a blank text is NaN


class NotMeasured(Exception):
    """Raised if a gate cannot be measured; the message is the reason."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A golden set, and the data to check it against.

    ``spans`` are the chunks of the corpus. ``questions``, ``answers`` and ``passages`` are arrays of unit vectors, one
    row per kept entry. A row is NaN if the entry has no such text; in ``passages``, only answerable entries have a
    vector. A property that needs the corpus or its chunks raises NotMeasured without them, except ``evidence_texts``.
    """

    entries: Sequence[Entry]
    corpus: Corpus | None = None
    spans: Spans | None = None
    questions: Floats | None = None
    answers: Floats | None = None
    passages: Floats | None = None
    strata: Mapping[str, str] = field(default_factory=dict)  # document -> stratum

    @cached_property
    def kept(self) -> list[Entry]:
        """The entries that are not rejected."""
        return [one for one in self.entries if not is_rejected(one)]

    @property
    def rejected(self) -> int:
        """The number of rejected entries."""
        return len(self.entries) - len(self.kept)

    @cached_property
    def answerable(self) -> list[Entry]:
        """The kept entries whose questions the corpus should answer; conversational entries are excluded."""
        return [one for one in self.kept if one.get("answerable", True) and one.get("needs_retrieval", True)]

    @cached_property
    def unanswerable(self) -> list[Entry]:
        """The kept entries that are marked as unanswerable."""
        return [one for one in self.kept if not one.get("answerable", True)]

    @property
    def documents(self) -> Corpus:
        """The corpus; raises NotMeasured if there is none."""
        if self.corpus is None:
            raise NotMeasured(NO_CORPUS)
        return self.corpus

    @property
    def chunking(self) -> Spans:
        """The chunks of the corpus; raises NotMeasured without ``spans``."""
        if self.spans is None:
            raise NotMeasured(NO_CORPUS)
        return self.spans

    @cached_property
    def evidence_spans(self) -> list[list[tuple[int, int, int]]]:
        """For each answerable entry, the spans (document index, start, end) of the labels that are found."""
        located = ([locate_label(label, self.documents) for label in relevant_evidence(one)] for one in self.answerable)
        return [[span for span in spans if span] for spans in located]

    @cached_property
    def chunks(self) -> list[str]:
        """The texts of all chunks."""
        return chunk_texts(self.documents, self.chunking)

    @cached_property
    def evidence_chunks(self) -> list[list[int]]:
        """For each answerable entry, the indices of the chunks that overlap its evidence.

        A chunk that overlaps several pieces of evidence is repeated for each piece.
        """
        spans = self.chunking
        return [[chunk for span in found for chunk in touching(spans, *span)] for found in self.evidence_spans]

    @cached_property
    def evidence_texts(self) -> list[str]:
        """For each answerable entry, its passage or, if it has none, the texts of the chunks that overlap its evidence.

        The text is "" if the entry has no passage, and no such chunk is known.
        """
        given = [str(value(one, "content", "passage") or "") for one in self.answerable]
        if self.corpus is None or self.spans is None:
            return given
        found = zip(given, self.evidence_chunks, strict=True)
        return [text or "\n".join(self.chunks[chunk] for chunk in chunks) for text, chunks in found]

    def with_vectors(self, embed: Embed) -> Subject:
        """Return a copy of the subject with the vectors of the questions, answers and passages of the kept entries."""
        passages = {id(one): text for one, text in zip(self.answerable, self.evidence_texts, strict=True)}
        return replace(
            self,
            questions=embed([one["question"] for one in self.kept]),
            answers=embed([str(one.get("reference") or "") for one in self.kept]),
            passages=embed([passages.get(id(one), "") for one in self.kept]),
        )


def chunk_texts(corpus: Corpus, spans: Spans) -> list[str]:
    """Return the texts of all chunks."""
    rows = zip(spans.document.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)
    return [corpus.texts[document][start:end] for document, start, end in rows]


def touching(spans: Spans, document: int, start: int, end: int) -> list[int]:
    """Return the indices of the chunks that overlap a span of a document."""
    inside = (spans.document == document) & (spans.start < end) & (spans.end > start)
    return [int(chunk) for chunk in np.flatnonzero(inside)]


class Fault(NamedTuple):
    """A question that fails a gate, with the reason (``why``)."""

    id: str
    question: str
    why: str


@dataclass(frozen=True)
class Measured:
    """The value of a gate, NaN if it is not measured, and its faults; ``is_least``: the value is a lower bound.

    If the threshold of the gate applies to single questions, ``each`` lists a (value, fault) pair for each question.
    The fault counts only if the value does not meet the threshold.
    """

    value: float
    note: str
    is_least: bool = False
    faults: tuple[Fault, ...] = ()
    each: tuple[tuple[float, Fault], ...] = ()


Measure = Callable[[Subject], Measured]
Gates = Mapping[str, tuple[str, str, Measure]]
"""Gate -> its title, the operator that compares its value with its threshold, and its measure."""
Judged = Sequence[tuple[Entry, str]]  # (entry, reason why it fails a gate) pairs; the reason is "" if it passes


def share(part: int, whole: int, what: str) -> Measured:
    """Return ``part / whole`` as a measured value; raises NotMeasured if ``whole``, the number of ``what``, is 0."""
    if not whole:
        raise NotMeasured(f"no {what}")
    return Measured(part / whole, f"{part:,} of {whole:,}")


def find_faults(judged: Judged) -> tuple[Fault, ...]:
    """Return a fault for each entry in ``judged`` that does not pass, that is, has a reason."""
    return tuple(Fault(one["id"], one["question"], why) for one, why in judged if why)


def without_fault(judged: Judged, what: str) -> Measured:
    """Return the share of entries without a fault, and the faults; raises NotMeasured if ``judged`` is empty."""
    faults = find_faults(judged)
    return replace(share(len(judged) - len(faults), len(judged), what), faults=faults)


def with_fault(judged: Judged, what: str) -> Measured:
    """Return the share of entries with a fault, and the faults; raises NotMeasured if ``judged`` is empty."""
    faults = find_faults(judged)
    return replace(share(len(faults), len(judged), what), faults=faults)


def count_faults(judged: Judged, note: str) -> Measured:
    """Return the number of faults as a measured value, with a note and the faults."""
    faults = find_faults(judged)
    return Measured(len(faults), note, faults=faults)
