"""The layouts of records that are recognised, and what their fields become."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ragsweep.core.errors import InputError
from ragsweep.curation.entries import GROUPS
from ragsweep.curation.exchange.records import as_mapping, as_passages, as_texts, is_filled
from ragsweep.golden.golden_format import QUESTION_KEYS
from ragsweep.golden.reading import plain_number
from ragsweep.golden.structured_cells import decoded, plain_text, plain_texts

PASSAGES = "passages"
"""The field of a draft with the texts in which the answer stands."""
CARRIED = "ragsweep"
"""The field of other tools' metadata in which an export keeps the whole entry."""

RANKED = {
    "question": (("question",), ("user_input", "query", "prompt", "input", "instruction", "messages")),
    "reference": (
        ("correction",), ("reference",),
        ("ground_truth", "ground_truths", "golden_answers", "expected_response", "expected_answer", "expected_output"),
        ("answer", "answers"),
    ),
    "keywords": (("keywords",), ("expected_keywords", "expected_facts")),
    PASSAGES: (
        (PASSAGES, "relevant_chunks", "reference_contexts", "expected_retrieved_context"),
        ("passage", "context", "contexts"),
    ),
    "documents": (("reference_context_ids",),),
    "category": (("category",), ("synthesizer_name",)),
}  # fmt: skip
"""What fields become: place -> groups of fields, of which the first that a record fills wins. Fields of one group are
equals: a record in which two of them differ is refused. A field with a name of our own format becomes that."""
_PLACES = {name: (place, rank) for place, groups in RANKED.items() for rank, group in enumerate(groups)
           for name in group}  # fmt: skip
_SAID, _SHOWN = RANKED["reference"][-1], RANKED[PASSAGES][-1]
"""Right answers and evidence in a set of questions; in the results of a system what it said, and what it retrieved."""
_RIGHT = (*(name for group in RANKED["reference"][:-1] for name in group), "references")

_LABELS = ("persona_name", "query_style", "query_length")
_LISTS = ("keywords", "references", "distractors", "documents")
_OBJECTS = ("history", "evidence", "labels", *GROUPS)
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_OUTPUTS = (
    "response", "multi_responses", "retrieved_contexts", "retrieved_context_ids", "rubrics", "reference_tool_calls",
    "prediction", "predicted_answer", "generated_answer", "model_answer", "actual_output", "retrieval_context",
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
    """Return people's answers by field: of several right answers and passages all are kept, of other fields the first.

    The right answer is a correction: it wins over what the record has.
    """
    fields: dict[str, Any] = {}
    ranked = sorted(answers, key=lambda name: _PLACES.get(name, ("", 0))[1])
    for name in ranked:
        given = [value for value in answers[name] if is_filled(value)]
        place = place_of(name)
        if place == "reference" and given:
            fields.setdefault("correction", [text for value in given for text in plain_texts(value)])
        elif place in (*_LISTS, PASSAGES):
            fields[name] = [one for value in given for one in (value if isinstance(value, list) else [value])]
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
    "faq": Layout((("question", "query"), (*_SAID, *_RIGHT)), FlatRecord),
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
    return "labels" if name in _LABELS else _PLACES.get(name, ("", 0))[0]


def fields_of_system(names: Collection[str]) -> list[str]:
    """Return the fields with what a system said and retrieved, by the names of the fields of all records.

    Beside a field that can only be the right answer, ``answer`` is the system's; where a system's answers are, or
    evidence by name, so are ``context`` and ``contexts``. Raises ValueError for contexts beside an answer alone, which
    may be either.
    """
    right, gold = set(names).intersection(_RIGHT), set(names).intersection(RANKED[PASSAGES][0])
    said = [name for name in (*(_SAID if right else ()), *_OUTPUTS) if name in names]
    if not said and not gold and "contexts" in names and "answer" in names:
        fact = '"answer" and "contexts" may be what a system said and retrieved, or the right answer and its evidence'
        raise ValueError(f'{fact}: rename them to "reference" and "reference_contexts", or leave them out')
    is_retrieved = (said or gold) and "supporting_facts" not in names
    return [*said, *(name for name in _SHOWN if is_retrieved and name in names)]


def read_draft(flat: FlatRecord, of_system: Collection[str] = ()) -> RecordDraft:
    """Read one record; fields without a place go to the notes if they are plain, and are left out otherwise.

    Raises ValueError, with the field, for structure that is not readable, and for two fields in one place that differ.
    """
    entry: dict[str, Any] = dict(flat.carried)
    chosen, in_notes, left = _chosen(flat, of_system)
    labels, notes = dict(entry.get("labels") or {}), []
    passages: list[tuple[str, str | None]] = []
    documents: list[str] = []
    for name, value in chosen.items():
        place = place_of(name)
        try:
            if name in _LABELS:
                labels[name] = decoded(value)
            elif place == "labels":
                labels |= as_mapping(value)
            elif place == PASSAGES:
                passages = as_passages(value, flat.fields.get("supporting_facts"))
            elif place == "documents":
                documents = as_texts(value)
            elif place == "question":
                entry |= read_turns(decoded(value))
            elif place:
                entry |= _converted(place, value)
            else:
                notes.append(f"{name}: {as_note(value)}")
        except ValueError as fault:
            raise ValueError(f'"{name}" {fault}') from None
    if len(documents) == len(passages):
        passages = [(text, document) for (text, _), document in zip(passages, documents, strict=True)]
    elif not passages:
        passages = [("", document) for document in documents]
    if notes:
        entry["notes"] = "; ".join(filter(None, [entry.get("notes"), *notes]))
    if labels:
        entry["labels"] = labels
    return RecordDraft(entry, () if "evidence" in entry else passages, in_notes, left)


def _chosen(flat: FlatRecord, of_system: Collection[str]) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the fields that are read, the names of those for the notes, and of those that are left out.

    Raises ValueError where two fields of one place differ, and neither is before the other.
    """
    chosen, in_notes, left = dict[str, Any](), list[str](), list(flat.left)
    ranked = sorted(flat.fields, key=lambda name: _PLACES.get(name, ("", 0))[1])
    winners: dict[str, str] = {}
    for name in ranked:
        value, place = flat.fields[name], place_of(name)
        if not is_filled(value) or (name == "id" and "id" in flat.carried):
            continue
        first = winners.setdefault(place, name) if place in RANKED else name
        if name == "supporting_facts":
            continue  # read with the passages
        if name in of_system or name in _OUTPUTS:
            left.append(name)
            if first == name:
                winners.pop(place, None)
        elif first != name:
            if _PLACES[first] == _PLACES[name] and _listed(flat.fields[first]) != _listed(value):
                raise ValueError(f'"{first}" and "{name}" both give the {place}, and differ; rename one to "{place}"')
            left.append(name)
        elif place or as_note(value):
            chosen[name] = value
            in_notes += [] if place else [name]
        else:
            left.append(name)
    return {name: chosen[name] for name in flat.fields if name in chosen}, in_notes, left


def _listed(value: Any) -> list[Any]:
    found = decoded(value)
    return found if isinstance(found, list) else [found]


def read_turns(value: Any) -> dict[str, Any]:
    """Return the question of a text, or of the turns of a conversation with those before it as its history.

    Raises ValueError for structure that is neither.
    """
    if not isinstance(value, list):
        return {"question": plain_text(value)}
    turns = [
        {"role": _ROLES[role], "text": _content(one["content"])}
        for one in value
        if isinstance(one, dict) and (role := str(one.get("role") or one.get("type"))) in _ROLES and one.get("content")
    ]
    asked = max((n for n, turn in enumerate(turns) if turn["role"] == "user"), default=None)
    if asked is None:
        return {"question": plain_text(value)} if value and not any(isinstance(one, dict) for one in value) else {}
    return {"question": turns[asked]["text"], **({"history": turns[:asked]} if asked else {})}


def _content(value: Any) -> str:
    """Return the text of a message, or of its parts; parts of other kinds, such as images, are left out."""
    found = decoded(value)
    parts = found if isinstance(found, list) else [found]
    texts = [one for one in parts if not isinstance(one, dict) or one.get("type", "text") == "text"]
    return " ".join(map(plain_text, texts))


def as_note(value: Any) -> str:
    """Return a plain value, or a list of such, as a text; empty for anything else."""
    try:
        return "; ".join(plain_texts(value))
    except ValueError:
        return ""


def _converted(place: str, value: Any) -> dict[str, Any]:
    """Return the fields of an entry that a value gives. Raises ValueError for structure that has no place there."""
    if place == "reference":
        texts = plain_texts(value)
        return {"reference": texts[0] if texts else "", **({"references": texts[1:]} if texts[1:] else {})}
    if place in _LISTS:
        return {place: plain_texts(value) if place == "references" else as_texts(value)}
    if place in _OBJECTS:
        return {place: decoded(value)}
    if place in ("answerable", "needs_retrieval"):
        return {place: _FLAGS.get(str(value).strip().lower(), value)}
    if place == "weight":
        number = plain_number(str(value))
        return {place: value if math.isnan(number) else number}
    return {place: as_note(value) if place == "notes" else plain_text(value)}
