"""Measure generated sets: for each gate in ``BUILT_GATES``, its value and the questions that fail it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ragsweep.core.types import Question
from ragsweep.core.words import is_question
from ragsweep.golden.clusters import normalised
from ragsweep_golden.evidence.passages import is_verbatim
from ragsweep_golden.gates.subject import (
    NO_CORPUS,
    NO_EMBEDDER,
    Gates,
    Measure,
    Measured,
    NotMeasured,
    Subject,
    count_faults,
    find_faults,
    share,
    without_fault,
)
from ragsweep_golden.sets import entries as schema
from ragsweep_golden.sets.entries import SINGLE_FACT, VALIDATED, Entry, references, relevant_evidence, value

DUPLICATE = 0.95  # lowest cosine at which two questions count as duplicates
EXTRACTED = 0.95  # lowest cosine at which an answer counts as taken from its passage
HARD = 0.7  # lowest difficulty of a hard entry
_NO_QUESTION = "the set has no question that this gate measures; add one, or use profile=hand"


def _of_field(entries: Sequence[Entry], group: str, name: str) -> list[Any]:
    """Return each entry's value of a field. Raises NotMeasured if a value is missing, or if there are no entries."""
    values = [value(one, group, name) for one in entries]
    missing = sum(one is None for one in values)
    if not values:
        raise NotMeasured(_NO_QUESTION)
    if missing:
        raise NotMeasured(f"{missing:,} of {len(values):,} entries without {group}.{name}; add it, or use profile=hand")
    return values


def _strata(subject: Subject) -> Measured:
    named = {value(one, "classification", "stratum") for one in subject.kept} - {None, ""}
    documents = {label.get("document") for one in subject.answerable for label in relevant_evidence(one)}
    named = named or {subject.strata[document] for document in documents if document in subject.strata}
    named = named or (set() if subject.kept else set(subject.strata.values()))
    if not named:
        raise NotMeasured(
            "no entry has classification.stratum or evidence in the corpus; add this field, or evidence and"
            " corpus=FOLDER"
        )
    return Measured(len(named), ", ".join(sorted(map(str, named))[:8]))


def _documents(subject: Subject) -> Measured:
    found = {span[0] for spans in subject.evidence_spans for span in spans}
    return share(len(found), len(subject.documents.ids), "document")


def _provenance(subject: Subject) -> Measured:
    judged = []
    for entry, spans in zip(subject.answerable, subject.evidence_spans, strict=True):
        labels = relevant_evidence(entry)
        quoted = ", ".join(f'{one.get("document")} "{one.get("anchor") or ""}"' for one in labels)
        lack = f"{len(spans)} of {len(labels)} labels found: {quoted}" if labels else "has no evidence"
        judged.append((entry, "" if labels and len(spans) == len(labels) else lack))
    return without_fault(judged, "answerable question")


def _extractable(subject: Subject) -> Measured:
    if subject.corpus is None:
        raise NotMeasured(NO_CORPUS)
    if not any(map(references, subject.answerable)):
        raise NotMeasured('no answerable question has a right answer; add the field "reference", or use profile=hand')
    judged, literal = [], 0
    rows = {id(one): row for row, one in enumerate(subject.kept)}
    for one, passage in zip(subject.answerable, subject.evidence_texts, strict=True):
        answers, cosine = references(one), -1.0
        is_literal = any(is_verbatim(answer, passage) for answer in answers)
        literal += is_literal
        if not is_literal and subject.answers is not None and subject.passages is not None:
            cosine = float(subject.answers[rows[id(one)]] @ subject.passages[rows[id(one)]])
        is_found = is_literal or cosine >= EXTRACTED
        lack = f'the passage does not contain the answer "{answers[0]}"' if answers else "no answer is given"
        judged.append((one, "" if is_found else lack))
    found = without_fault(judged, "answerable question")
    if subject.answers is None:
        missing = f"{literal:,} literally; embedder=minilm compares the others by similarity"
        return replace(found, note=missing if found.faults else "all literally", is_least=True)
    near = len(judged) - len(found.faults) - literal
    return replace(found, note=f"{literal:,} literally, {near:,} by similarity")


def _single_facts(subject: Subject) -> Measured:
    """Return the share of single-fact questions among the kept questions that have a reasoning class.

    Conversational questions, and unanswerable questions without a class, are ignored. Raises NotMeasured if there is no
    answerable question, or if an answerable question has no class.
    """
    found = _of_field(subject.answerable, "classification", "reasoning_class")
    others = [value(one, "classification", "reasoning_class") for one in subject.unanswerable]
    classes = [*found, *(one for one in others if one)]
    return share(classes.count(SINGLE_FACT), len(classes), "question")


def _question_marks(subject: Subject) -> Measured:
    judged = [(one, "" if is_question(one["question"]) else "has no question mark") for one in subject.kept]
    return without_fault(judged, "question")


def _marked_unanswerable(subject: Subject) -> Measured:
    types = schema.UNANSWERABLE_TYPES
    judged = []
    for one in subject.unanswerable:
        kind = one.get("unanswerable_type")
        fact = f"has the unknown unanswerable_type {kind!r}" if kind else "has no unanswerable_type"
        judged.append((one, "" if kind in types else f"{fact}; known: {', '.join(types)}"))
    return without_fault(judged, "unanswerable question")


def _unanswerable_share(subject: Subject) -> Measured:
    return share(len(subject.unanswerable), len(subject.kept), "question")


def _unanswerable_types(subject: Subject) -> Measured:
    return _count_kinds(one["unanswerable_type"] for one in subject.unanswerable if one.get("unanswerable_type"))


def _count_kinds(kinds: Iterable[str]) -> Measured:
    counts = Counter(kinds).most_common()
    return Measured(len(counts), ", ".join(f"{kind} {count}" for kind, count in counts))


def _validated(subject: Subject) -> Measured:
    found = _of_field(subject.kept, "validation", "status")
    reasons = ("" if status == VALIDATED else f"its status is {status}" for status in found)
    judged = list(zip(subject.kept, reasons, strict=True))
    return without_fault(judged, "question")


def _rejected(subject: Subject) -> Measured:
    """Return the number of kept entries with a validation score below the minimum of their method (see METHODS)."""
    judged = []
    for one in subject.kept:
        least, score = schema.METHODS.get(value(one, "validation", "method")), value(one, "validation", "score")
        if least is not None and score is not None:
            judged.append((one, f"scored {float(score):.2f}, below {least:g}" if float(score) < least else ""))
    if not judged:
        raise NotMeasured(
            "no entry has a known validation.method and a validation.score; review the questions (ragsweep golden"
            " review FILE), or use profile=hand"
        )
    return count_faults(judged, f"{subject.rejected:,} rejected and excluded")


def _fields(subject: Subject) -> Measured:
    counts = list(map(schema.count_filled, subject.answerable))
    if not counts:
        raise NotMeasured(_NO_QUESTION)
    faults = find_faults([(one, f"{n} fields are filled") for one, n in zip(subject.answerable, counts, strict=True)])
    each = tuple(zip(counts, faults, strict=True))
    return Measured(min(counts), "the fewest in an answerable entry", each=each)


def _by_design(subject: Subject) -> Measured:
    found = _of_field(subject.kept, "processing", "by_design")
    return share(found.count(True), len(found), "question")


def _history(entry: Entry) -> str:
    return normalised(Question("", " ".join(turn["text"] for turn in entry.get("history") or ())))


def _duplicates(subject: Subject) -> Measured:
    if subject.questions is None:
        raise NotMeasured(NO_EMBEDDER)
    cosines = subject.questions @ subject.questions.T
    pairs = np.argwhere(np.triu(cosines >= DUPLICATE, 1)).tolist()
    kept, turns = subject.kept, [_history(one) for one in subject.kept]
    judged = [(kept[b], f"similarity {cosines[a, b]:.2f} to {kept[a]['id']}") for a, b in pairs if turns[a] == turns[b]]
    return count_faults(judged, f"pairs of questions with a similarity of {DUPLICATE} or more")


def _independence(subject: Subject) -> Measured:
    if subject.questions is None or subject.passages is None:
        raise NotMeasured(NO_EMBEDDER)
    cosines = np.einsum("ij,ij->i", subject.questions, subject.passages)
    if np.isnan(cosines).all():
        raise NotMeasured("no question has a passage to compare with; add evidence, and corpus=FOLDER")
    known = [(n, float(cosines[n])) for n in np.flatnonzero(~np.isnan(cosines)).tolist()]
    faults = find_faults([(subject.kept[n], f"similarity {cosine:.2f} to its passage") for n, cosine in known])
    each = tuple((cosine, fault) for (_, cosine), fault in zip(known, faults, strict=True))
    return Measured(float(np.nanmax(cosines)), "highest similarity of a question and its passage", each=each)


def _hard(subject: Subject) -> Measured:
    found = _of_field(subject.answerable, "classification", "difficulty")
    return share(sum(float(one) >= HARD for one in found), len(found), "answerable question")


def _kinds(name: str) -> Measure:
    def measure(subject: Subject) -> Measured:
        kinds = [kind for one in subject.answerable if (kind := value(one, "classification", name))]
        if not kinds:
            raise NotMeasured(f"no answerable entry has classification.{name}; add it, or use profile=hand")
        return _count_kinds(kinds)

    return measure


def _chunks(subject: Subject) -> Measured:
    covered = {chunk for chunks in subject.evidence_chunks for chunk in chunks}
    return share(len(covered), len(subject.chunking.document), "chunk")


BUILT_GATES: Gates = {
    "G0-1": ("strata of documents", ">=", _strata),
    "G0-2": ("documents with a question", ">=", _documents),
    "G1-1": ("evidence found in the corpus", ">=", _provenance),
    "G1-2": ("answers found in their passage", ">=", _extractable),
    "G1-3": ("answerable questions about a single fact", "<", _single_facts),
    "G1-4": ("questions that end with a question mark", ">=", _question_marks),
    "G2-1": ("unanswerable questions with a known type", ">=", _marked_unanswerable),
    "G2-2": ("unanswerable questions", "in", _unanswerable_share),
    "G2-3": ("types of unanswerable questions", ">=", _unanswerable_types),
    "G3-1": ("questions validated", ">=", _validated),
    "G3-2": ("questions kept despite a validation score below the minimum", "<=", _rejected),
    "G4-1": ("filled fields", ">=", _fields),
    "G4-2": ("questions generated from their chunk", ">=", _by_design),
    "G5-1": ("duplicates", "<=", _duplicates),
    "G5-2": ("similarity of question and passage", "<", _independence),
    "G5-3": ("questions about a single fact", "<", _single_facts),
    "G5-4": ("hard answerable questions", ">=", _hard),
    "G5-5": ("unanswerable questions in the final set", "in", _unanswerable_share),
    "G5-6": ("levels of Bloom's taxonomy", ">=", _kinds("bloom")),
    "G5-7": ("question types", ">=", _kinds("question_type")),
    "G5-8": ("chunks with a question", ">=", _chunks),
}
