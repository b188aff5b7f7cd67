"""Read golden files in ragsweep's own format, with one question per line (see docs/datasets.md)."""

import math
from collections.abc import Mapping
from pathlib import Path

from ragsweep.core.errors import Faults, nearest
from ragsweep.core.types import Evidence, Question, Turn
from ragsweep.golden.golden_set import BLANK, RawGoldenSet
from ragsweep.golden.reading import Row, UniqueIds, normal_id, read_rows

QUESTION_KEYS = (
    "id", "question", "category", "answerable", "unanswerable_type", "needs_retrieval", "history", "reference",
    "references", "keywords", "evidence", "language", "content_type", "expected_section", "expected_count",
    "distractors", "notes", "corpus_version", "labels", "weight",
)  # fmt: skip
GROUPS = {
    "content": (),
    "multiple_choice": (),
    "provenance": (),
    "validation": (),
    "processing": (),
    "audit": ("status",),
    "classification": ("question_type", "bloom", "reasoning_class"),
}
"""Group of fields in the full schema (docs/datasets.md) -> the fields that become labels, which group results.

The other fields in these groups are not read, except ``validation.status`` (see REJECTED).
"""
REJECTED = "rejected"
"""The value of ``validation.status`` that excludes a question."""
ROLES = ("assistant", "user")
_LABELS = ("language", "content_type", "unanswerable_type")


def read_questions(path: Path, corpus_version: str, faults: Faults) -> RawGoldenSet:
    """Return the questions of a golden file, except rejected ones; add its errors to ``faults``.

    A question that states a corpus version other than ``corpus_version`` is a fault. The result includes the questions
    of faulty lines, so check ``faults`` before using it.
    """
    unique, questions, rejected = UniqueIds("question"), [], 0
    for row in read_rows(path, faults):
        question = read_question(row)
        unique.check(question.id, row)
        version = row.text("corpus_version", corpus_version)
        if version != corpus_version:
            stated = f'has version "{corpus_version}"' if corpus_version else "states no version"
            row.fault(
                f'written for corpus version "{version}", but the corpus {stated}; correct or remove "corpus_version"'
            )
        if row.row("validation").text("status") == REJECTED:
            rejected += 1
        else:
            questions.append(question)
    left_out = {"questions rejected by their validation": rejected}
    return RawGoldenSet(str(path), questions, left_out=left_out, notes=faults.notes)


def read_question(row: Row) -> Question:
    """Return the question in a row; add errors to the faults of the row."""
    row.check_keys((*QUESTION_KEYS, "schema_version", *GROUPS))
    section = row.text("expected_section")
    answerable, needs_retrieval = row.flag("answerable", True), row.flag("needs_retrieval", True)
    unanswerable_type = group_name(row.text("unanswerable_type")) or None
    if answerable and unanswerable_type:
        fact = f'is answerable, but has the unanswerable_type "{unanswerable_type}"'
        row.fault(f'{fact}; remove it, or set "answerable" to false')
    text = row.given_text("question")
    labels = {name: row.text(name) for name in _LABELS} | row.row("labels").only_scalars()
    for group, fields in GROUPS.items():
        labels |= {name: label for name in fields if group in row and (label := row.row(group).text(name))}
    references = row.texts("references")
    if any(not reference.strip() for reference in references):
        row.fault('"references" contains a blank string; remove it')
    row.refuse_structure("question", "reference", "category")
    answers = dict.fromkeys(answer for answer in (row.text("reference"), *references) if answer.strip())
    return Question(
        id=row.identifier("id"),
        text=text,
        category=group_name(row.text("category", default_category(text, answerable, needs_retrieval))),
        answerable=answerable,
        unanswerable_type=unanswerable_type,
        needs_retrieval=needs_retrieval,
        references=tuple(answers),
        keywords=row.texts("keywords"),
        evidence=tuple(read_evidence(item) for item in row.rows("evidence")),
        labels=group_names(labels),
        distractors=tuple(map(normal_id, row.texts("distractors"))),
        section=section,
        expected_count=row.position("expected_count"),
        notes=row.text("notes"),
        history=tuple(read_turn(part) for part in row.parts("history")),
        weight=read_weight(row),
        where=row.where,
    )


def default_category(text: str, answerable: bool, needs_retrieval: bool) -> str:
    """Return the category of a question that states none; ``text`` is the question."""
    usual = "unanswerable" if not answerable else "" if needs_retrieval else "conversational"
    return usual if text.strip() else BLANK


def group_name(text: str) -> str:
    """Return a category or label in the form in which groups of questions are compared.

    That form is Unicode's composed form, without white space at the ends.
    """
    return normal_id(text).strip()


def group_names(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that are not blank, in the form of ``group_name``."""
    return {name: given for name, label in labels.items() if (given := group_name(label))}


def read_weight(row: Row) -> float | None:
    """Return the weight of the question in a row; None if the row has no weight.

    If the weight is not a number above 0, add a fault, and return a number of at most 0, or NaN.
    """
    weight = row.number("weight", math.nan)
    if weight <= 0:
        row.fault(f'"weight" is {weight:g}; use a number above 0, or remove the question')
    return weight if "weight" in row else None


def read_turn(row: Row) -> Turn:
    """Return the conversation turn that a row contains; add errors to the faults of the row."""
    row.check_keys(("role", "text"))
    role = row.filled_text("role")
    if role and role not in ROLES:
        row.fault(f'"role" is "{role}"{nearest(role, ROLES)}')
    return Turn(role, row.filled_text("text"))


def read_evidence(row: Row) -> Evidence:
    """Return the piece of evidence in a row; add errors to the faults of the row."""
    row.check_keys(("document", "anchor", "start", "grade"))
    anchor, start = row.text("anchor") if "anchor" in row else None, row.position("start")
    if anchor is not None and not anchor.strip():
        row.fault('"anchor" is blank; quote a few words, or omit it to use the whole document as evidence')
    if anchor is None and start is not None:
        row.fault('"start" requires an "anchor", which is missing; add one that quotes the passage, or remove "start"')
    return Evidence(row.identifier("document"), anchor, start, row.number("grade", 1.0), row.where)
