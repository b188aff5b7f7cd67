"""Measures for any golden set: wording, repetitions, ambiguous evidence, size and balance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragsweep.core.types import Evidence, Question
from ragsweep.golden.clusters import clusters, normalised
from ragsweep.stats.inference.planning import METHOD, PARAMETER, Design, detectable, find_variation
from ragsweep_golden.gates.admission import COPIED, find_ambiguous, find_copied
from ragsweep_golden.gates.built_measures import (
    AT_LEAST,
    AT_MOST,
    NO_CORPUS,
    Measure,
    Measured,
    share,
    without_fault,
)
from ragsweep_golden.gates.subject import Subject
from ragsweep_golden.sets.entries import Entry, incoherences, relevant_evidence

_METRIC = "context_ndcg"
_FEWEST_ANSWER_WORDS = 2  # of an answer that is searched for in its question, which may offer "yes" or a name


def _breaking(one: Entry, *codes: str) -> str:
    return "; ".join(why for code, why in incoherences(one) if code in codes)


def _short_questions(subject: Subject) -> Measured:
    asked = [one for one in subject.kept if one.get("needs_retrieval", True)]
    return without_fault([(one, _breaking(one, "C1")) for one in asked], "question")


def _short_answers(subject: Subject) -> Measured:
    return without_fault([(one, _breaking(one, "C2")) for one in subject.answerable], "answerable question")


def _coherence(subject: Subject) -> Measured:
    """Check C3 to C8; gate G1-1 checks missing evidence, G2-1 unknown unanswerable types."""
    judged = []
    for one in subject.kept:
        contradicts = one.get("unanswerable_type") if one.get("answerable", True) else relevant_evidence(one)
        codes = ("C3", "C4") if contradicts else ()
        judged.append((one, _breaking(one, *codes, "C5", "C6", "C7", "C8")))
    return without_fault(judged, "question")


def _copied(subject: Subject) -> Measured:
    if subject.corpus is None:
        return NO_CORPUS
    judged = [
        (one, f"{found:.0%} of its words are those of the passage" if found >= COPIED else "")
        for one, found in find_copied(subject)
    ]
    faults = without_fault(judged, "question").faults
    return replace(share(len(faults), len(judged), "passage to compare with"), faults=faults)


def _repeated(subject: Subject) -> Measured:
    first: dict[str, Entry] = {}
    judged = []
    for one, question in zip(subject.kept, _questions(subject.kept), strict=True):
        earlier = first.setdefault(normalised(question), one)
        judged.append((one, "" if earlier is one else f"has the words of {earlier.get('id')}"))
    faults = without_fault(judged, "question").faults
    return Measured(len(faults), "questions with the words of an earlier one", faults=faults)


def _questions(entries: Sequence[Entry]) -> list[Question]:
    """Return the data on which the clusters of entries depend."""
    return [
        Question(
            str(one.get("id")),
            str(one.get("question") or ""),
            evidence=tuple(Evidence(str(label.get("document"))) for label in relevant_evidence(one)),
            distractors=tuple(one.get("distractors") or ()),
        )
        for one in entries
    ]


def _ambiguous(subject: Subject) -> Measured:
    if subject.corpus is None or subject.spans is None:
        return NO_CORPUS
    judged = [(one, f"is answered by {other} too" if other else "") for one, other in find_ambiguous(subject)]
    faults = without_fault(judged, "question").faults
    return replace(share(len(faults), len(judged), "question has an answer and evidence"), faults=faults)


def _given_away(subject: Subject) -> Measured:
    judged = []
    for one in subject.answerable:
        question, answer = (normalised(Question("", str(one.get(name) or ""))) for name in ("question", "reference"))
        found = len(answer.split()) >= _FEWEST_ANSWER_WORDS and f" {answer} " in f" {question} "
        judged.append((one, f'contains its answer, "{one.get("reference")}"' if found else ""))
    faults = without_fault(judged, "question").faults
    return Measured(len(faults), "questions that contain their answer", faults=faults)


def _independent(subject: Subject) -> Measured:
    """Count the clusters of questions, and report the smallest difference that this number can show."""
    count = len(set(clusters(_questions(subject.kept))))
    if count < 2:
        return Measured(count, "shows no difference")
    _, variation = find_variation(_METRIC)
    design = Design(len(subject.kept), count)
    shown = {kind: detectable(variation.spreads[kind], variation.correlation, design) for kind in (PARAMETER, METHOD)}
    sizes = ", ".join(f"{size:.2f} from {kind}" for kind, size in shown.items())
    return Measured(count, f"shows a difference in {_METRIC} of {sizes}")


def _largest(names: Sequence[str], what: str) -> Measured:
    if not names:
        return Measured(math.nan, f"no question has a {what}")
    ((name, count),) = Counter(names).most_common(1)
    return Measured(count / len(names), f"{name}: {count:,} of {len(names):,}")


def _largest_document(subject: Subject) -> Measured:
    labels = (relevant_evidence(one) for one in subject.answerable)
    return _largest([str(each[0].get("document")) for each in labels if each], "document")


def _largest_category(subject: Subject) -> Measured:
    return _largest([str(one["category"]) for one in subject.kept if one.get("category")], "category")


SET_GATES: Mapping[str, tuple[str, str, Measure]] = {
    "G1-5": ("questions of 10 characters or more", AT_LEAST, _short_questions),
    "G1-6": ("answers of 6 characters or more", AT_LEAST, _short_answers),
    "G3-3": ("questions whose fields agree", AT_LEAST, _coherence),
    "G6-1": ("questions worded as their evidence", AT_MOST, _copied),
    "G6-2": ("repeated questions", AT_MOST, _repeated),
    "G6-3": ("questions that another chunk answers too", AT_MOST, _ambiguous),
    "G6-4": ("questions that contain their answer", AT_MOST, _given_away),
    "G6-5": ("independent questions", AT_LEAST, _independent),
    "G6-6": ("questions of the most asked document", AT_MOST, _largest_document),
    "G6-7": ("questions of the largest category", AT_MOST, _largest_category),
}
"""Gate -> title, comparison of the value with the threshold, measure."""
