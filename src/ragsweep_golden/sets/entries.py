"""The entries of a golden set: 46 fields in eight groups (schema.toml), and the constraints between them.

An entry is a JSON object. Its root has the keys that an evaluation reads (docs/datasets.md); each other group is a
nested object that an evaluation does not need.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.errors import Faults
from ragsweep.core.types import Evidence, Question
from ragsweep.golden.golden_format import REJECTED, read_question
from ragsweep.golden.golden_set import STATUSES
from ragsweep.golden.reading import Row, UniqueIds, read_rows

Entry = Mapping[str, Any]

SCHEMA_VERSION = "1"
LANGUAGES = {"en": "english", "fr": "french"}  # languages supported by the question rules, by code
NEEDS_REVIEW = "needs_review"  # prefix of the notes of an unconfirmed question
ROOT = "root"
VALIDATED = "validated"
METHODS = {"verbatim": 1.0, "keywords": 0.8, "similarity": 0.9, "person": 0.0, "retrieval": 0.0, "rule": 0.0}
"""Validation methods, and the lowest score of each at which an entry is accepted."""
UNANSWERABLE_TYPES = (
    "out_of_database", "false_presupposition", "underspecified", "nonsensical", "modality_limited", "safety_concerned",
)  # fmt: skip
"""Reasons why the corpus has no answer."""
BLOOM = ("remember", "understand", "apply", "analyse")
SINGLE_FACT = "single_fact"
REASONING = (SINGLE_FACT, "summary", "reasoning")
SHORTEST_QUESTION, SHORTEST_ANSWER = 10, 6
"""Minimum characters of a question, and of the answer of an answerable question."""
FILLED_FIELDS = 42  # minimum filled fields of an answerable entry


_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "a text"),
    "boolean": ((bool,), "true or false"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "array": ((list,), "a list"),
}


class Field(NamedTuple):
    """A field of the schema: its JSON type and its meaning."""

    group: str
    name: str
    kind: str
    meaning: str


FIELDS = tuple(
    Field(group, name, kind, meaning)
    for group, fields in tomllib.loads(files(__package__).joinpath("schema.toml").read_text("utf-8")).items()
    for name, (kind, meaning) in fields.items()
)
GROUPS = tuple(dict.fromkeys(field.group for field in FIELDS))


def value(entry: Entry, group: str, name: str) -> Any:
    """Return a field of an entry; None if it or its group is missing."""
    if group == ROOT:
        return entry.get(name)
    values = entry.get(group)
    return values.get(name) if isinstance(values, Mapping) else None


def is_rejected(entry: Entry) -> bool:
    """Return whether an entry's validation, or a person, rejected it."""
    return bool(value(entry, "validation", "status") == REJECTED)


def relevant_evidence(entry: Entry) -> list[Any]:
    """List the evidence of an entry, without labels that are judged irrelevant."""
    return [one for one in entry.get("evidence") or () if one.get("grade", 1) > 0]


def references(entry: Entry) -> list[str]:
    """Return the right answers, the reference first."""
    return [str(one) for one in (entry.get("reference"), *(entry.get("references") or ())) if one]


def lacks_evidence(entry: Entry) -> bool:
    """Return whether an entry needs evidence but has none; False for rejected and conversational ones."""
    is_answerable = entry.get("answerable", True) and entry.get("needs_retrieval", True)
    return bool(is_answerable and not entry.get("evidence") and not is_rejected(entry))


def count_filled(entry: Entry) -> int:
    """Count the fields that are neither missing, null nor empty."""
    return sum(is_filled(value(entry, field.group, field.name)) for field in FIELDS)


def is_filled(value: Any) -> bool:
    """Return whether a field is neither missing, null nor empty."""
    return value not in (None, "", [], {})


def read_set(path: Path) -> list[tuple[dict[str, Any], Question]]:
    """Read the entries of a golden file as ``read_entries`` does. Raises InputError for its faults."""
    faults = Faults()
    read = read_entries(path, faults)
    faults.raise_any()
    return read


def read_entries(path: Path, faults: Faults) -> list[tuple[dict[str, Any], Question]]:
    """Read the entries of a golden file, each with the question that an evaluation reads; collect the faults."""
    unique, entries = UniqueIds("question"), []
    for row in read_rows(path, faults):
        question = read_question(row)
        unique.check(question.id, row)
        for group in GROUPS[1:]:
            _check_group(row.row(group), [field for field in FIELDS if field.group == group])
        entries.append((dict(row.values) | {"id": question.id}, question))
    return entries


def as_entry(question: Question) -> dict[str, Any]:
    """Return a question as an entry: the filled fields of the root, and no other group."""
    labels = {name: label for name, label in question.labels.items() if name != "unanswerable_type"}
    entry = {
        "id": question.id,
        "question": question.text,
        "category": question.category,
        "answerable": question.answerable,
        "unanswerable_type": question.unanswerable_type,
        "needs_retrieval": question.needs_retrieval,
        "history": [{"role": turn.role, "text": turn.text} for turn in question.history],
        "reference": question.references[0] if question.references else None,
        "references": list(question.references[1:]),
        "keywords": list(question.keywords),
        "evidence": [as_label(one) for one in question.evidence],
        "distractors": list(question.distractors),
        "expected_section": question.section,
        "expected_count": question.expected_count,
        "labels": labels,
        "weight": question.weight,
        "notes": question.notes,
    }
    return {name: given for name, given in entry.items() if is_filled(given)}


def as_label(one: Evidence) -> dict[str, Any]:
    """Return a piece of evidence as a label of an entry."""
    label = {"document": one.document, "anchor": one.anchor, "start": one.start}
    label = {name: given for name, given in label.items() if given is not None}
    return label | ({"grade": one.grade} if one.grade != 1 else {})


def _check_group(row: Row, fields: Sequence[Field]) -> None:
    row.check_keys([field.name for field in fields])
    for field in fields:
        types, expected = _KINDS[field.kind]
        if field.name in row and type(row.values[field.name]) not in types:
            given = json.dumps(row.values[field.name])
            row.fault(f'"{field.group}.{field.name}" is {given[:40]}, not {expected}')


def incoherences(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield each violation of a constraint by an entry: the constraint, C1 to C8, and the reason."""
    is_unanswerable = not entry.get("answerable", True)
    answerable = not is_unanswerable and entry.get("needs_retrieval", True)
    answer, evidence = str(entry.get("reference") or ""), relevant_evidence(entry)
    kind = entry.get("unanswerable_type")
    if len(str(entry.get("question") or "").strip()) < SHORTEST_QUESTION:
        yield "C1", f"the question has fewer than {SHORTEST_QUESTION} characters"
    if answerable and len(answer.strip()) < SHORTEST_ANSWER:
        yield "C2", f"the answer has fewer than {SHORTEST_ANSWER} characters"
    if answerable and (kind or not evidence):
        yield "C3", "is answerable, but has " + ("an unanswerable_type" if kind else "no evidence")
    if is_unanswerable and (evidence or kind not in UNANSWERABLE_TYPES):
        lack = f"the unknown unanswerable_type {kind!r}" if kind else "no unanswerable_type"
        yield "C4", f"is unanswerable, but has {'evidence' if evidence else lack}"
    choices, correct = value(entry, "multiple_choice", "choices"), value(entry, "multiple_choice", "correct")
    if choices and len(set(choices)) < len(choices):
        yield "C5", "a choice occurs twice"
    elif choices and (not isinstance(correct, int) or not 0 <= correct < len(choices)):
        yield "C5", "multiple_choice.correct is not the index of a choice"
    elif choices and choices[correct] != value(entry, "multiple_choice", "answer"):
        yield "C5", "multiple_choice.answer is not the choice at multiple_choice.correct"
    start, end = value(entry, "provenance", "start"), value(entry, "provenance", "end")
    if isinstance(start, int) and isinstance(end, int) and not 0 <= start < end:
        yield "C6", f"the passage ends at {end} but begins at {start}"
    document = value(entry, "provenance", "document")
    labels = [one.get("document") for one in entry.get("evidence") or []]
    if document and labels and document not in labels:
        yield "C6", f'the provenance names document "{document}", but the evidence another'
    for name, known in (("bloom", BLOOM), ("reasoning_class", REASONING)):
        given = value(entry, "classification", name)
        if given is not None and given not in known:
            yield "C7", f'{name} is "{given}"; known: {", ".join(known)}'
    difficulty = value(entry, "classification", "difficulty")
    if difficulty is not None and not 0 <= float(difficulty) <= 1:
        yield "C7", f"the difficulty is {difficulty}, not between 0 and 1"
    method, status = value(entry, "validation", "method"), value(entry, "validation", "status")
    if status == VALIDATED and method not in METHODS:
        yield "C8", f"is validated by {method!r}; known: {', '.join(METHODS)}"
    given = value(entry, "audit", "status")
    if given is not None and given not in STATUSES:
        yield "C8", f'the status is "{given}"; known: {", ".join(STATUSES)}'
    if given == "gold" and not value(entry, "audit", "reviews"):
        yield "C8", "is gold without a review"
