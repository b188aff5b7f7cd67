"""Quality gates of a golden set: each a measured value against a threshold, blocking or a warning.

A gate that could not be measured has that as its own verdict: never passed. Gates judge the entries that are kept;
rejected ones are counted apart.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import Corpus, Spans
from ragsweep.core.words import is_question
from ragsweep.curation.entries import (
    METHODS,
    SINGLE_FACT,
    UNANSWERABLE_TYPES,
    VALIDATED,
    Entry,
    count_filled,
    is_rejected,
    relevant_evidence,
    value,
)
from ragsweep.golden.anchors import resolve

Floats = NDArray[np.float32]

PASSED, FAILED, WARNED, NOT_MEASURED = "passed", "failed", "warned", "not_measured"
DUPLICATE = 0.95
"""Cosine of two questions from which they are the same."""
EXTRACTED = 0.95
"""Cosine of an answer and its passage from which the answer counts as taken from it."""
HARD = 0.7
"""Difficulty from which an entry is hard."""


class GateRule(NamedTuple):
    """The configured part of a gate. ``highest``: the upper end of a share that must lie between two."""

    threshold: float
    blocking: bool
    highest: float | None = None


class GateResult(NamedTuple):
    """A gate's verdict. ``value`` is NaN where it was not measured, and ``note`` says why."""

    gate: str
    title: str
    value: float
    rule: GateRule
    verdict: str
    note: str = ""


@dataclass(frozen=True)
class Measured:
    """A value that gates compare, or NaN and why there is none; ``is_least``: more could only raise it."""

    value: float
    note: str = ""
    is_least: bool = False


@dataclass(frozen=True, eq=False)
class Subject:
    """A golden set, and what it is judged against. None: not given, so that gates on it are not measured.

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
        """The kept entries whose answer the corpus has; conversation aside."""
        return [one for one in self.kept if one.get("answerable", True) and one.get("needs_retrieval", True)]

    @cached_property
    def unanswerable(self) -> list[Entry]:
        """The kept entries whose answer the corpus has not."""
        return [one for one in self.kept if not one.get("answerable", True)]

    @cached_property
    def evidence_spans(self) -> list[list[tuple[int, int, int]]]:
        """The evidence of each answerable entry: (document, start, end); empty lists where it is not found."""
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
    """Return the text around the evidence of an answerable entry: the chunks that it touches; empty where unknown."""
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
    """Return the chunks that touch a span of a document."""
    inside = (spans.document == document) & (spans.start < end) & (spans.end > start)
    return [int(chunk) for chunk in np.flatnonzero(inside)]


Measure = Callable[[Subject], Measured]
NO_CORPUS = Measured(math.nan, "no corpus given: corpus=FOLDER or FILE")
NO_EMBEDDER = Measured(math.nan, "no embedder given: embedder=minilm")


def _share(part: int, whole: int, what: str) -> Measured:
    return Measured(part / whole, f"{part:,} of {whole:,}") if whole else Measured(math.nan, f"no {what}")


def _of_field(subject: Subject, entries: Sequence[Entry], group: str, name: str) -> list[object] | Measured:
    """Return the field of every entry; not measured where one lacks it."""
    values = [value(one, group, name) for one in entries]
    missing = sum(one is None for one in values)
    if not values:
        return Measured(math.nan, "no question")
    if missing:
        return Measured(math.nan, f"{missing:,} of {len(values):,} entries have no {group}.{name}")
    return values


def _strata(subject: Subject) -> Measured:
    named = {value(one, "classification", "stratum") for one in subject.kept} - {None, ""}
    documents = {label.get("document") for one in subject.answerable for label in relevant_evidence(one)}
    named = named or {subject.strata[document] for document in documents if document in subject.strata}
    named = named or (set() if subject.kept else set(subject.strata.values()))
    if not named:
        return Measured(math.nan, "no entry names its stratum, and no corpus in folders is given")
    return Measured(len(named), ", ".join(sorted(map(str, named))[:8]))


def _documents(subject: Subject) -> Measured:
    if subject.corpus is None:
        return NO_CORPUS
    found = {span[0] for spans in subject.evidence_spans for span in spans}
    return _share(len(found), len(subject.corpus.ids), "document")


def _provenance(subject: Subject) -> Measured:
    if subject.corpus is None:
        return NO_CORPUS
    whole = [
        len(spans) == len(relevant_evidence(one) or [1])
        for one, spans in zip(subject.answerable, subject.evidence_spans, strict=True)
    ]
    return _share(sum(whole), len(whole), "answerable question")


def _extractable(subject: Subject) -> Measured:
    if subject.corpus is None:
        return NO_CORPUS
    if subject.answerable and not any(one.get("reference") or one.get("references") for one in subject.answerable):
        return Measured(math.nan, "no question has an answer")
    literal, near = 0, 0
    rows = {id(one): row for row, one in enumerate(subject.kept)}
    for number, one in enumerate(subject.answerable):
        answers = [str(answer) for answer in (one.get("reference"), *(one.get("references") or [])) if answer]
        passage = passage_of(subject, number)
        if any(is_verbatim(answer, passage) for answer in answers):
            literal += 1
        elif subject.answers is not None and subject.passages is not None:
            row = rows[id(one)]
            near += bool(float(subject.answers[row] @ subject.passages[row]) >= EXTRACTED)
    found = _share(literal + near, len(subject.answerable), "answerable question")
    if subject.answers is None:
        note = (
            f"{literal:,} literally; the others by similarity: embedder=minilm" if found.value < 1 else "all literally"
        )
        return Measured(found.value, note, is_least=True)
    return Measured(found.value, f"{literal:,} literally, {near:,} by similarity")


_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,}).*$", re.MULTILINE)


def is_verbatim(answer: str, passage: str) -> bool:
    """Return whether a passage has every line of an answer literally; case and typography count."""
    lines = [line for line in answer.splitlines() if line.strip()]
    # A chunk may begin or end inside a block of code, so that its fences mark the wrong parts.
    unfenced = _FENCE.sub("", passage)
    return bool(lines) and all(resolve(passage, line) or resolve(unfenced, line) for line in lines)


def _single_facts(subject: Subject) -> Measured:
    """Count those of a single fact among all that have a class; every answerable one must have one."""
    found = _of_field(subject, subject.answerable, "classification", "reasoning_class")
    if isinstance(found, Measured):
        return found
    others = [value(one, "classification", "reasoning_class") for one in subject.unanswerable]
    classes = [*found, *(one for one in others if one)]
    return _share(classes.count(SINGLE_FACT), len(classes), "question")


def _question_marks(subject: Subject) -> Measured:
    marked = sum(is_question(str(one.get("question") or "")) for one in subject.kept)
    return _share(marked, len(subject.kept), "question")


def _marked_unanswerable(subject: Subject) -> Measured:
    marked = sum(one.get("unanswerable_type") in UNANSWERABLE_TYPES for one in subject.unanswerable)
    return _share(marked, len(subject.unanswerable), "unanswerable question")


def _unanswerable_share(subject: Subject) -> Measured:
    return _share(len(subject.unanswerable), len(subject.kept), "question")


def _unanswerable_types(subject: Subject) -> Measured:
    kinds = Counter(str(one.get("unanswerable_type")) for one in subject.unanswerable if one.get("unanswerable_type"))
    return Measured(len(kinds), ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))


def _validated(subject: Subject) -> Measured:
    found = _of_field(subject, subject.kept, "validation", "status")
    return found if isinstance(found, Measured) else _share(found.count(VALIDATED), len(found), "question")


def _rejected(subject: Subject) -> Measured:
    """Count the kept entries that their own validation rejects: its score is below what the method asks for."""
    found = [(value(one, "validation", "method"), value(one, "validation", "score")) for one in subject.kept]
    scored = [(METHODS[method], float(score)) for method, score in found if method in METHODS and score is not None]
    if not scored:
        return Measured(math.nan, "no entry has validation.method and validation.score")
    return Measured(sum(score < least for least, score in scored), f"{subject.rejected:,} rejected, which are left out")


def _fields(subject: Subject) -> Measured:
    filled = [count_filled(one) for one in subject.answerable]
    return Measured(min(filled), "fewest of an answerable entry") if filled else Measured(math.nan, "no question")


def _by_design(subject: Subject) -> Measured:
    found = _of_field(subject, subject.kept, "processing", "by_design")
    return found if isinstance(found, Measured) else _share(found.count(True), len(found), "question")


def _duplicates(subject: Subject) -> Measured:
    if subject.questions is None:
        return NO_EMBEDDER
    cosines = subject.questions @ subject.questions.T
    pairs = int(np.count_nonzero(np.triu(cosines >= DUPLICATE, 1)))
    return Measured(pairs, f"pairs of questions with a similarity of {DUPLICATE} or more")


def _independence(subject: Subject) -> Measured:
    if subject.questions is None or subject.passages is None:
        return NO_EMBEDDER
    cosines = np.einsum("ij,ij->i", subject.questions, subject.passages)
    if np.isnan(cosines).all():
        return Measured(math.nan, "no passage to compare with")
    return Measured(float(np.nanmax(cosines)), "highest similarity of a question and its passage")


def _hard(subject: Subject) -> Measured:
    found = _of_field(subject, subject.answerable, "classification", "difficulty")
    if isinstance(found, Measured):
        return found
    return _share(sum(float(str(one)) >= HARD for one in found), len(found), "answerable question")


def _kinds(name: str) -> Measure:
    def measure(subject: Subject) -> Measured:
        counts = Counter(
            str(kind) for one in subject.answerable if (kind := value(one, "classification", name)) not in (None, "")
        )
        if not counts:
            return Measured(math.nan, f"no entry has classification.{name}")
        return Measured(len(counts), ", ".join(f"{kind} {count}" for kind, count in counts.most_common()))

    return measure


def _chunks(subject: Subject) -> Measured:
    if subject.corpus is None or subject.spans is None:
        return NO_CORPUS
    covered: set[int] = set()
    for spans in subject.evidence_spans:
        for span in spans:
            covered.update(touching(subject.spans, *span))
    return _share(len(covered), len(subject.spans.document), "chunk")


AT_LEAST, BELOW, AT_MOST, BETWEEN = ">=", "<", "<=", "in"

GATES: Mapping[str, tuple[str, str, Measure]] = {
    "G0-1": ("strata of documents", AT_LEAST, _strata),
    "G0-2": ("documents with a question", AT_LEAST, _documents),
    "G1-1": ("evidence found in the corpus", AT_LEAST, _provenance),
    "G1-2": ("answers found in their passage", AT_LEAST, _extractable),
    "G1-3": ("answerable questions of a single fact", BELOW, _single_facts),
    "G1-4": ("questions that end with a question mark", AT_LEAST, _question_marks),
    "G2-1": ("unanswerable questions with a known type", AT_LEAST, _marked_unanswerable),
    "G2-2": ("unanswerable questions", BETWEEN, _unanswerable_share),
    "G2-3": ("types of unanswerable questions", AT_LEAST, _unanswerable_types),
    "G3-1": ("questions validated", AT_LEAST, _validated),
    "G3-2": ("kept questions that their validation rejects", AT_MOST, _rejected),
    "G4-1": ("filled fields", AT_LEAST, _fields),
    "G4-2": ("questions made by design from their chunk", AT_LEAST, _by_design),
    "G5-1": ("duplicates", AT_MOST, _duplicates),
    "G5-2": ("similarity of question and passage", BELOW, _independence),
    "G5-3": ("questions of a single fact", BELOW, _single_facts),
    "G5-4": ("hard answerable questions", AT_LEAST, _hard),
    "G5-5": ("unanswerable questions in the final set", BETWEEN, _unanswerable_share),
    "G5-6": ("levels of Bloom's taxonomy", AT_LEAST, _kinds("bloom")),
    "G5-7": ("question types", AT_LEAST, _kinds("question_type")),
    "G5-8": ("chunks with a question", AT_LEAST, _chunks),
}
"""Gate -> title, comparison of the value with the threshold, measure."""


def judge_gates(subject: Subject, rules: Mapping[str, GateRule]) -> list[GateResult]:
    """Measure every gate that has a rule."""
    results = []
    for gate, rule in rules.items():
        title, comparison, measure = GATES[gate]
        found = measure(subject)
        holds = _holds(found.value, comparison, rule)
        if math.isnan(found.value) or (found.is_least and not holds):
            found, verdict = replace(found, value=math.nan), NOT_MEASURED
        else:
            verdict = PASSED if holds else FAILED if rule.blocking else WARNED
        results.append(GateResult(gate, title, found.value, rule, verdict, found.note))
    return results


def _holds(measured: float, comparison: str, rule: GateRule) -> bool:
    if comparison == BETWEEN:
        return rule.threshold <= measured <= (1.0 if rule.highest is None else rule.highest)
    return {
        AT_LEAST: measured >= rule.threshold,
        BELOW: measured < rule.threshold,
        AT_MOST: measured <= rule.threshold,
    }[comparison]


def exit_status(results: Sequence[GateResult]) -> int:
    """Return 1 where a blocking gate failed, 3 where one was not measured, else 0."""
    verdicts = {one.verdict for one in results if one.rule.blocking}
    return 1 if FAILED in verdicts else 3 if NOT_MEASURED in verdicts else 0
