"""Define the entries of a golden set: 46 fields in eight groups (schema.toml), and the constraints on their values.

An entry is a JSON object. The fields of the group ``root`` are keys of this object, and every other group is a nested
object. An entry may have other keys, such as ``weight``, which docs/datasets.md describes. Of the nested objects, an
evaluation reads only the validation status and the fields by which results are grouped.
"""

import json
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.errors import Faults
from ragsweep.core.types import Evidence, Question
from ragsweep.golden.golden_format import REJECTED, read_question
from ragsweep.golden.golden_set import STATUSES
from ragsweep.golden.reading import Row, UniqueIds, normal_id, read_rows
from ragsweep.golden.structured_cells import is_structure

Entry = Mapping[str, Any]

SCHEMA_VERSION = "1"
LANGUAGES = {"en": "english", "fr": "french"}  # code -> name of each language that has question rules
NEEDS_REVIEW = "needs_review"  # prefix of the notes of a question that no person has confirmed
ROOT = "root"
_PLACES = ("evidence", "distractors", "provenance")  # keys whose values contain ids of documents
VALIDATED = "validated"
METHODS = {"verbatim": 1.0, "keywords": 0.8, "similarity": 0.9, "person": 0.0, "retrieval": 0.0, "rule": 0.0}
"""Validation method -> the minimum score at which the method accepts an entry."""
UNANSWERABLE_TYPES = (
    "out_of_database", "false_presupposition", "underspecified", "nonsensical", "modality_limited", "safety_concerned",
)  # fmt: skip
"""The reasons why a corpus cannot answer a question."""
BLOOM = ("remember", "understand", "apply", "analyse")
SINGLE_FACT = "single_fact"
REASONING = (SINGLE_FACT, "summary", "reasoning")
SHORTEST_QUESTION, SHORTEST_ANSWER = 10, 6
"""Minimum number of characters of a question, and of the answer to an answerable question."""

_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "a text"),
    "boolean": ((bool,), "true or false"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "array": ((list,), "a list"),
}


class Field(NamedTuple):
    """A field of the schema: its group, its name, its JSON type (``kind``) and its meaning."""

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
    """Return the value of a field of an entry; None if the field or its group is missing."""
    return (entry if group == ROOT else entry.get(group) or {}).get(name)


def is_rejected(entry: Entry) -> bool:
    """Return whether a build or a reviewer has rejected an entry: its validation status is "rejected"."""
    return bool(value(entry, "validation", "status") == REJECTED)


def relevant_evidence(entry: Entry) -> list[Any]:
    """Return the evidence labels of an entry that have a grade above 0; a label without a grade has grade 1."""
    return [one for one in entry.get("evidence") or () if one.get("grade", 1) > 0]


def references(entry: Entry) -> list[str]:
    """Return the right answers of an entry, ``reference`` first, then ``references``; empty ones are omitted."""
    return [str(one) for one in (entry.get("reference"), *(entry.get("references") or ())) if one]


def lacks_evidence(entry: Entry) -> bool:
    """Return whether an entry needs evidence and has none, or only evidence that was judged not relevant.

    Rejected, unanswerable and conversational entries need no evidence.
    """
    is_answerable = entry.get("answerable", True) and entry.get("needs_retrieval", True)
    return bool(is_answerable and not relevant_evidence(entry) and not is_rejected(entry))


def count_filled(entry: Entry) -> int:
    """Return the number of schema fields that are filled in an entry (see ``is_filled``)."""
    return sum(is_filled(value(entry, field.group, field.name)) for field in FIELDS)


def is_filled(value: Any) -> bool:
    """Return whether a value is filled: not None, and not an empty string, list or object; 0 and False are filled."""
    return value not in (None, "", [], {})


def read_set(path: Path) -> list[tuple[dict[str, Any], Question]]:
    """Return (entry, question) pairs of a golden file (see ``read_entries``); raises InputError for its faults."""
    faults = Faults()
    read = read_entries(path, faults)
    faults.raise_any()
    return read


def read_entries(path: Path, faults: Faults) -> list[tuple[dict[str, Any], Question]]:
    """Return (entry, question) pairs of a golden file in file order, and add its faults to ``faults``.

    The question contains what an evaluation reads from the entry; ids and categories are normalised in both. Keys with
    null values are omitted from the entry, because they count as missing. Entries with faulty fields are included, but
    lines that are not JSON objects are omitted.
    """
    unique, entries = UniqueIds("question"), []
    for row in read_rows(path, faults):
        question = read_question(row)
        unique.check(question.id, row)
        for group in GROUPS[1:]:
            _check_group(row.row(group), group)
        filled = {name: one for name, one in row.values.items() if name in row}
        places = {name: _normal(name, one) for name, one in filled.items() if name in _PLACES}
        category = {"category": question.category} if "category" in filled else {}
        entries.append((filled | places | category | {"id": question.id}, question))
    return entries


def _normal(name: str, given: Any) -> Any:
    """Return the value of the key ``name`` with normalised ids of documents, as in the question.

    Null fields of evidence are omitted.
    """
    if isinstance(given, list):
        return [_normal(name, one) for one in given]
    if isinstance(given, dict):
        kept = {key: one for key, one in given.items() if name != "evidence" or one is not None}
        return {key: _normal(key, one) for key, one in kept.items()}
    is_id = name in ("document", "chunk_id", "distractors") and type(given) in (str, int)
    return normal_id(str(given)) if is_id else given


def as_entry(question: Question) -> dict[str, Any]:
    """Return a question as an entry without nested groups; empty fields are omitted, except the question."""
    labels = {name: label for name, label in question.labels.items() if name != "unanswerable_type"}
    entry = {
        "id": question.id,
        "question": question.text,
        "category": question.category,
        "answerable": question.answerable,
        "unanswerable_type": question.unanswerable_type,
        "needs_retrieval": question.needs_retrieval,
        "history": [{"role": turn.role, "text": turn.text} for turn in question.history],
        **as_references(question.references),
        "keywords": list(question.keywords),
        "evidence": [as_label(one) for one in question.evidence],
        "distractors": list(question.distractors),
        "expected_section": question.section,
        "expected_count": question.expected_count,
        "labels": labels,
        "weight": question.weight,
        "notes": question.notes,
    }
    return {name: given for name, given in entry.items() if name == "question" or is_filled(given)}


def as_references(texts: Sequence[str]) -> dict[str, Any]:
    """Return the fields ``reference`` and ``references`` of an entry with these right answers.

    If the first answer looks like a list or an object, it would be rejected as ``reference``, so all answers are in
    ``references``.
    """
    first = texts[0] if texts and not is_structure(texts[0]) else ""
    others = list(texts[bool(first) :])
    return {"reference": first, **({"references": others} if others else {})}


def as_label(one: Evidence) -> dict[str, Any]:
    """Return a piece of evidence as an entry stores it: without fields that are None, and without a grade of 1."""
    label = {"document": one.document, "anchor": one.anchor, "start": one.start}
    label = {name: given for name, given in label.items() if given is not None}
    return label | ({"grade": one.grade} if one.grade != 1 else {})


def _check_group(row: Row, group: str) -> None:
    fields = [field for field in FIELDS if field.group == group]
    row.check_keys([field.name for field in fields])
    for field in fields:
        types, expected = _KINDS[field.kind]
        if field.name in row and type(row.values[field.name]) not in types:
            given = json.dumps(row.values[field.name])
            row.fault(f'"{field.group}.{field.name}" is {given[:40]}, not {expected}')


def is_group(group: str, given: Any) -> bool:
    """Return whether a value is an object with only fields of a group, each with a value of the field's type."""
    faults = Faults()
    if isinstance(given, dict):
        _check_group(Row("", given, faults), group)
    return isinstance(given, dict) and not faults.found


def _width(text: str) -> int:
    """Return the number of characters of ``text``; a wide character, such as a Chinese one, counts as two."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text.strip())


def incoherences(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield (constraint, reason) for each violation of a constraint by an entry; the constraints are "C1" to "C8"."""
    is_unanswerable = not entry.get("answerable", True)
    answerable = not is_unanswerable and entry.get("needs_retrieval", True)
    answer, evidence = next(iter(references(entry)), ""), relevant_evidence(entry)
    kind = entry.get("unanswerable_type")
    if _width(entry["question"]) < SHORTEST_QUESTION:
        yield "C1", f"the question has fewer than {SHORTEST_QUESTION} characters"
    if answerable and _width(answer) < SHORTEST_ANSWER:
        yield "C2", f"the answer has fewer than {SHORTEST_ANSWER} characters"
    if answerable and (kind or not evidence):
        yield "C3", "is answerable, but has " + ("an unanswerable_type" if kind else "no evidence")
    if is_unanswerable and (evidence or kind not in UNANSWERABLE_TYPES):
        lack = f"the unknown unanswerable_type {kind!r}" if kind else "no unanswerable_type"
        yield "C4", f"is unanswerable, but has {'evidence' if evidence else lack}"
    choices, correct = value(entry, "multiple_choice", "choices"), value(entry, "multiple_choice", "correct")
    if choices and any(choices.count(one) > 1 for one in choices):
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
        yield "C6", f'the provenance names document "{document}", but no evidence is in it'
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
