"""The schema has 46 fields in eight groups, and entries that contradict themselves are found."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.types import Question
from ragsweep.golden.golden_format import read_question, read_questions
from ragsweep.golden.reading import Row
from ragsweep_golden.sets.entries import (
    BLOOM,
    FIELDS,
    GROUPS,
    METHODS,
    REASONING,
    ROOT,
    SCHEMA_VERSION,
    UNANSWERABLE_TYPES,
    incoherences,
    lacks_evidence,
    read_set,
    relevant_evidence,
)
from ragsweep_golden.sets.files import write_rows

COHERENT: dict[str, Any] = {
    "id": "q1", "question": "How tall is the alder?", "answerable": True, "reference": "10 metres",
    "evidence": [{"document": "alder", "anchor": "10 metres"}],
    "multiple_choice": {"choices": ["9 metres", "10 metres"], "correct": 1, "answer": "10 metres"},
    "provenance": {"document": "alder", "start": 0, "end": 20},
    "classification": {"bloom": "remember", "reasoning_class": "single_fact", "difficulty": 0.7},
    "validation": {"status": "validated", "method": "verbatim", "score": 1.0},
    "audit": {"status": "gold", "reviews": [{"who": "ann", "when": "2026-01-01", "change": "none"}]},
}  # fmt: skip


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of an entry."""
    groups: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    for field in FIELDS:
        groups[field.group][field.name] = {"type": [field.kind, "null"], "description": field.meaning}
    root = groups.pop(ROOT)
    for name in ("id", "question"):
        root[name]["type"] = "string"
    others = {
        name: {"type": "object", "properties": fields, "additionalProperties": False} for name, fields in groups.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Entry of a golden set, schema {SCHEMA_VERSION}",
        "type": "object",
        "required": ["id", "question"],
        "properties": {**root, **others},
    }


def test_the_schema_has_46_fields_in_eight_groups() -> None:
    assert len(FIELDS) == len({(field.group, field.name) for field in FIELDS}) == 46
    assert len(GROUPS) == 8


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("C1", {"question": "How tall?"}),
        ("C2", {"reference": "10 m."}),
        ("C3", {"evidence": []}),
        ("C3", {"unanswerable_type": "nonsensical"}),
        ("C4", {"answerable": False, "unanswerable_type": "nonsensical"}),
        ("C4", {"answerable": False, "evidence": [], "provenance": {}}),
        ("C5", {"multiple_choice": {"choices": ["9", "9"], "correct": 0, "answer": "9"}}),
        ("C5", {"multiple_choice": {"choices": ["9", "10"], "correct": 0, "answer": "10"}}),
        ("C5", {"multiple_choice": {"choices": ["9", "10"], "correct": 2, "answer": "10"}}),
        ("C5", {"multiple_choice": {"choices": [{"text": "9"}, {"text": "10"}], "correct": 0, "answer": "9"}}),
        ("C6", {"provenance": {"document": "alder", "start": 20, "end": 20}}),
        ("C6", {"provenance": {"document": "birch", "start": 0, "end": 20}}),
        ("C7", {"classification": {"bloom": "wonder"}}),
        ("C7", {"classification": {"difficulty": 1.01}}),
        ("C8", {"validation": {"status": "validated", "method": "hope"}}),
        ("C8", {"audit": {"status": "bronze"}}),
        ("C8", {"audit": {"status": "gold", "reviews": []}}),
    ],
)
def test_an_incoherent_entry_breaks_its_constraint_and_no_other(code: str, change: dict[str, Any]) -> None:
    assert list(incoherences(COHERENT)) == []
    assert [found for found, _ in incoherences(COHERENT | change)] == [code]


def test_a_wide_character_counts_as_two() -> None:
    short = {"question": "快照保留多久\uff1f", "reference": "三十天"}  # "How long are snapshots kept?" "Thirty days"
    assert list(incoherences(COHERENT | short)) == []
    assert [code for code, _ in incoherences(COHERENT | {"question": "多久\uff1f", "reference": "三"})] == ["C1", "C2"]


def read(folder: Path, *entries: dict[str, Any]) -> list[tuple[dict[str, Any], Question]]:
    """Write entries to a golden file and read them; raise InputError for its faults."""
    write_rows(folder / "golden.jsonl", entries)
    return read_set(folder / "golden.jsonl")


def test_an_evaluation_reads_an_entry_with_all_groups(tmp_path: Path) -> None:
    ((entry, _), _) = read(tmp_path, COHERENT, {**COHERENT, "id": "q2", "validation": {"status": "rejected"}})
    assert entry == COHERENT
    raw = read_questions(tmp_path / "golden.jsonl", "", Faults())
    assert list(raw.left_out.values()) == [1]
    (question,) = raw.questions
    assert question.labels == {"bloom": "remember", "reasoning_class": "single_fact", "status": "gold"}


def test_a_group_without_a_field_leaves_the_label_of_the_same_name() -> None:
    labels, faults = {"status": "gold", "question_type": "factual"}, Faults()
    entry = {"id": "q1", "question": "How tall?", "labels": labels, "audit": {"created_by": "Ann"}}
    entry |= {"classification": {"question_type": ""}}
    assert read_question(Row("", entry, faults)).labels == labels
    assert faults.found == []


def test_a_null_key_of_an_entry_or_its_evidence_counts_as_missing(tmp_path: Path) -> None:
    null: dict[str, Any] = dict.fromkeys(("answerable", "needs_retrieval", "history", "labels", "weight", "audit"))
    label = COHERENT["evidence"][0]
    ((entry, question),) = read(tmp_path, COHERENT | null | {"evidence": [label | {"start": None, "grade": None}]})
    assert entry == {name: given for name, given in COHERENT.items() if name not in null}
    assert ([one.grade for one in question.evidence], question.answerable) == ([1], True)
    assert (relevant_evidence(entry), lacks_evidence(entry | {"evidence": []})) == ([label], True)


def test_ids_of_documents_are_read_in_their_composed_form(tmp_path: Path) -> None:
    def named(name: str) -> dict[str, Any]:
        places = {"evidence": [{"document": name}], "provenance": {"document": name, "chunk_id": f"{name}#0"}}
        return {"id": "q1", "question": "How tall?", "reference": "cafe\u0301", "distractors": [name], **places}

    ((entry, question),) = read(tmp_path, named("cafe\u0301"))
    assert entry == named("caf\u00e9")
    assert (question.evidence[0].document, question.distractors) == ("caf\u00e9", ("caf\u00e9",))


def test_categories_are_read_as_an_evaluation_compares_them(tmp_path: Path) -> None:
    ((entry, question),) = read(tmp_path, {"id": "q1", "question": "How tall?", "category": "cafe\u0301 "})
    assert entry["category"] == question.category == "caf\u00e9"


def test_numbers_are_ids_of_questions_and_documents(tmp_path: Path) -> None:
    ((entry, question),) = read(tmp_path, {"id": 17, "question": "How tall?", "evidence": [{"document": 4}]})
    assert (entry["id"], entry["evidence"]) == ("17", [{"document": "4"}])
    assert (question.id, question.evidence[0].document) == ("17", "4")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classification": {"difficulty": "hard"}}, 'difficulty" is "hard", not a number'),
        ({"multiple_choice": {"correct": True}}, 'correct" is true, not a whole number'),
        ({"audit": {"reviewer": "ann"}}, 'unknown key "reviewer"; did you mean "reviews"'),
        ({"provenance": "chapter 3"}, '"provenance" is "chapter 3", not an object'),
    ],
)
def test_a_field_of_another_type_is_a_fault_with_its_line(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"golden\.jsonl:1: .*{re.escape(message)}"):
        read(tmp_path, COHERENT | change)


def test_the_published_schema_is_that_of_the_code() -> None:
    published = Path(__file__).parents[2] / "docs" / "golden.schema.json"
    assert json.loads(published.read_text("utf-8")) == json_schema()


def test_the_schema_names_the_values_that_the_code_accepts() -> None:
    meanings = {field.name: field.meaning for field in FIELDS}
    accepted = {"bloom": BLOOM, "reasoning_class": REASONING, "method": METHODS}
    for name, values in {**accepted, "unanswerable_type": UNANSWERABLE_TYPES}.items():
        assert meanings[name].endswith(": " + ", ".join(values))
