"""The layouts of records that are recognised, and what their fields become."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ragsweep.core.errors import InputError
from ragsweep.curation.entries import GROUPS
from ragsweep.curation.exchange.records import as_mapping, as_passages, as_texts, decoded, is_filled
from ragsweep.golden.golden_format import QUESTION_KEYS
from ragsweep.golden.reading import plain_number

PASSAGES = "passages"
"""The field of a draft with the texts in which the answer stands."""
CARRIED = "ragsweep"
"""The field of other tools' metadata in which an export keeps the whole entry."""

_PLACES = {
    "query": "question", "user_input": "question", "prompt": "question", "input": "question", "instruction": "question",
    "messages": "question", "answer": "reference", "expected_response": "reference", "expected_answer": "reference",
    "ground_truth": "reference", "expected_keywords": "keywords", "expected_facts": "keywords",
    "relevant_chunks": PASSAGES, "reference_contexts": PASSAGES, "expected_retrieved_context": PASSAGES,
    "passage": PASSAGES, "context": PASSAGES, "contexts": PASSAGES, PASSAGES: PASSAGES,
    "reference_context_ids": "documents", "synthesizer_name": "category",
}  # fmt: skip
"""Field -> what it becomes; a field with a name of our own format becomes that."""

_LABELS = ("persona_name", "query_style", "query_length")
_LISTS = ("keywords", "references", "distractors", "documents")
_OBJECTS = ("history", "evidence", "labels", *GROUPS)
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_OUTPUTS = (
    "response", "multi_responses", "retrieved_contexts", "retrieved_context_ids", "rubrics", "reference_tool_calls",
)  # fmt: skip
"""Fields with what a system answered, or how it was judged: no part of a golden set."""
_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}


class FlatRecord(NamedTuple):
    """The fields of a record by name, the entry that an earlier export kept in it, and fields that are left out."""

    fields: Mapping[str, Any]
    carried: Mapping[str, Any] = {}
    left: Sequence[str] = ()


class RecordDraft(NamedTuple):
    """An entry whose evidence is still to be found in texts, and which of the record's fields have no place in it."""

    entry: dict[str, Any]
    passages: Sequence[tuple[str, str | None]] = ()
    in_notes: Sequence[str] = ()
    left: Sequence[str] = ()


class Layout(NamedTuple):
    """The fields of which a record has at least one of each group, and how they are flattened."""

    needs: tuple[tuple[str, ...], ...]
    flatten: Callable[[Mapping[str, Any]], FlatRecord]


def _of_mlflow(record: Mapping[str, Any]) -> FlatRecord:
    tags = dict(as_mapping(record.get("tags")))
    carried = as_mapping(tags.pop(CARRIED, None))
    labels = {name: tag for name, tag in tags.items() if not name.startswith("mlflow.")}
    own = {"id": record.get("dataset_record_id"), "labels": labels}
    inputs, expectations = as_mapping(record["inputs"]), as_mapping(record.get("expectations"))
    return FlatRecord({**own, **inputs, **expectations}, carried, _others(record, "inputs", "expectations", "tags",
                                                                    "dataset_record_id"))  # fmt: skip


def _of_argilla(record: Mapping[str, Any]) -> FlatRecord:
    metadata = dict(as_mapping(record.get("metadata")))
    carried = as_mapping(metadata.pop(CARRIED, None))
    answers = {name: [one["value"]] for name, one in as_mapping(record.get("suggestions")).items()}
    answers |= {name: [one["value"] for one in given] for name, given in as_mapping(record.get("responses")).items()}
    given = _answered(answers)
    fields = {"id": record.get("id"), **metadata, **as_mapping(record["fields"]), **given}
    return FlatRecord(
        fields, carried, _others(record, "id", "fields", "metadata", "suggestions", "responses", "_server_id")
    )


def _of_label_studio(record: Mapping[str, Any]) -> FlatRecord:
    data = dict(as_mapping(record["data"]))
    carried = as_mapping(data.pop(CARRIED, None))
    done = [one for one in decoded(record.get("annotations")) or () if not one.get("was_cancelled")]
    answers: dict[str, list[Any]] = {}
    for one in done or decoded(record.get("predictions")) or ():
        for result in one["result"]:
            value = result.get("value", {})
            marked = result["type"] not in value or result["type"].endswith("labels")
            name = PASSAGES if marked and "start" in value else result["from_name"]
            texts = value.get("text" if marked else result["type"])
            answers.setdefault(name, []).extend(texts if isinstance(texts, list) else [texts])
    fields = {"id": record.get("id"), **data, **_answered(answers)}
    return FlatRecord(fields, carried, _others(record, "id", "data", "annotations", "predictions"))


def _answered(answers: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return people's answers by field: of several right answers all are kept, of other fields the first."""
    fields: dict[str, Any] = {}
    for name, values in answers.items():
        given = list(dict.fromkeys(str(value) for value in values if is_filled(value)))
        if place_of(name) == "reference" and given:
            fields |= {"reference": given[0], **({"references": given[1:]} if given[1:] else {})}
        elif place_of(name) in (*_LISTS, PASSAGES):
            fields[name] = given
        elif given:
            fields[name] = given[0]
    return fields


def _others(record: Mapping[str, Any], *known: str) -> list[str]:
    return [name for name, value in record.items() if name not in known and is_filled(value)]


LAYOUTS = {
    "mlflow": Layout((("inputs",),), _of_mlflow),
    "argilla": Layout((("fields",),), _of_argilla),
    "labelstudio": Layout((("data",), ("annotations", "predictions", "data")), _of_label_studio),
    "ragas": Layout((("user_input",),), FlatRecord),
    "keywords": Layout((("question", "query"), ("expected_keywords",)), FlatRecord),
    "chunks": Layout((("query", "question"), ("relevant_chunks",)), FlatRecord),
    "csv": Layout((("id",), ("question",), ("document", "reference", "answerable")), FlatRecord),
    "faq": Layout((("question", "query"), ("answer",)), FlatRecord),
}
"""Layouts by the name of their format, those with fields of their own first."""


def recognise(columns: Iterable[str]) -> str:
    """Return the format of records with these columns. Raises InputError for an unknown one."""
    seen = list(columns)
    for name, layout in LAYOUTS.items():
        if all(any(field in seen for field in either) for either in layout.needs):
            return name
    known = [f"{name} ({', '.join(' or '.join(either) for either in one.needs)})" for name, one in LAYOUTS.items()]
    raise InputError(
        f"the layout is unknown: it has {', '.join(seen) or 'no column'}; known are {'; '.join(known)}; and"
        " beir, trec and squad by their readers: dataset=squad dataset.path=FILE"
    )


def place_of(name: str) -> str:
    """Return what a field becomes; empty where nothing is known of it."""
    if name in QUESTION_KEYS or name in GROUPS or name == "schema_version":
        return name
    return "labels" if name in _LABELS else _PLACES.get(name, "")


def read_draft(record: Mapping[str, Any], layout: Layout) -> RecordDraft:
    """Read one record; fields without a place go to the notes if they are plain, and are left out otherwise."""
    flat = layout.flatten(record)
    entry: dict[str, Any] = dict(flat.carried)
    labels, notes, in_notes, left = dict(entry.get("labels") or {}), [], [], list(flat.left)
    passages: list[tuple[str, str | None]] = []
    documents: list[str] = []
    for name, value in flat.fields.items():
        place = place_of(name)
        if not is_filled(value) or (name == "id" and "id" in entry):
            continue
        if name in _OUTPUTS:
            left.append(name)
        elif name in _LABELS:
            labels[name] = value
        elif place == "labels":
            labels |= as_mapping(value)
        elif place == PASSAGES:
            passages += as_passages(value)
        elif place == "documents":
            documents = as_texts(value)
        elif place == "question":
            entry |= read_turns(decoded(value))
        elif place:
            entry[place] = _converted(place, value)
        elif plain := as_note(decoded(value)):
            notes.append(f"{name}: {plain}")
            in_notes.append(name)
        else:
            left.append(name)
    if len(documents) == len(passages):
        passages = [(text, document) for (text, _), document in zip(passages, documents, strict=True)]
    elif not passages:
        passages = [("", document) for document in documents]
    if notes:
        entry["notes"] = "; ".join(filter(None, [entry.get("notes"), *notes]))
    if labels:
        entry["labels"] = labels
    return RecordDraft(entry, () if "evidence" in entry else passages, in_notes, left)


def read_turns(value: Any) -> dict[str, Any]:
    """Return the question of a text, or of the turns of a conversation with those before it as its history."""
    if not isinstance(value, list):
        return {"question": str(value)}
    turns = [
        {"role": _ROLES[role], "text": str(one["content"])}
        for one in value
        if isinstance(one, dict) and (role := str(one.get("role") or one.get("type"))) in _ROLES and one.get("content")
    ]
    asked = max((n for n, turn in enumerate(turns) if turn["role"] == "user"), default=None)
    if asked is None:
        return {}
    return {"question": turns[asked]["text"], **({"history": turns[:asked]} if asked else {})}


def as_note(value: Any) -> str:
    """Return a plain value, or a list of such, as a text; empty for anything else."""
    values = value if isinstance(value, list) else [value]
    return "; ".join(map(str, values)) if all(isinstance(one, str | int | float) for one in values) else ""


def _converted(place: str, value: Any) -> Any:
    if place in _LISTS:
        return [value] if place == "references" and isinstance(decoded(value), str) else as_texts(value)
    if place in _OBJECTS:
        return decoded(value)
    if place in ("answerable", "needs_retrieval"):
        return _FLAGS.get(str(value).strip().lower(), value)
    if place == "weight":
        number = plain_number(str(value))
        return value if math.isnan(number) else number
    return str(value)
