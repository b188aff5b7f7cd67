"""Convert a record in another format to a draft: the fields of an entry, and the texts to locate as its evidence."""

import math
from collections.abc import Collection, Container, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from ragsweep.golden.golden_format import QUESTION_KEYS
from ragsweep.golden.structured_cells import FLAGS, decoded, plain_number, plain_text, plain_texts
from ragsweep_golden.exchange.records import FIELD_NAMES, as_documents, as_mapping, as_passages, as_texts
from ragsweep_golden.sets.entries import GROUPS, as_references, is_filled, is_group

PASSAGES = "passages"  # the field of a draft with the texts that contain the answer
CARRIED = "ragsweep"  # the metadata field in which an export to another tool stores the whole entry

RANKED: Mapping[str, Sequence[Sequence[str]]] = FIELD_NAMES["ranked"]
PLACES = {name: (to, rank) for to, groups in RANKED.items() for rank, group in enumerate(groups) for name in group}
SAID, _SHOWN = RANKED["reference"][-1], RANKED[PASSAGES][-1]
"""Fields with the right answer or the evidence in a question set, but with a system's outputs in a file of results."""
RIGHT = (*(name for group in RANKED["reference"][:-1] for name in group), "references")

RAGAS_LABELS = ("persona_name", "query_style", "query_length")
LISTS = ("keywords", "references", "distractors", "documents")
_NESTED = ("labels", *GROUPS)
_OBJECTS = ("history", "evidence", *_NESTED)
_OUTPUTS: Sequence[str] = FIELD_NAMES["records"]["outputs"]
_NO_ANSWER = ["No Answer Present."]  # the answers of an unanswerable question in MS MARCO
_TEXTS = ("text", "input_text", "output_text")  # types of text parts; the others are from OpenAI's Responses API
_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}


class FlatRecord(NamedTuple):
    """The fields of a record, without nesting.

    ``carried`` is the entry that an earlier export stored in the record, and ``left`` lists the names of dropped
    fields.
    """

    fields: Mapping[str, Any]
    carried: Mapping[str, Any] = {}
    left: Sequence[str] = ()


class RecordDraft(NamedTuple):
    """The fields of an entry, and the ``passages`` to locate as its evidence: (text, document id or None) pairs.

    ``in_notes`` lists the fields that were added to the notes, and ``left`` lists the dropped fields, by name.
    """

    entry: dict[str, Any]
    passages: Sequence[tuple[str, str | None]] = ()
    in_notes: Sequence[str] = ()
    left: Sequence[str] = ()


def place_of(name: str) -> str:
    """Return the field of an entry to which a field of a record is mapped; "" if the name is unknown."""
    if name in QUESTION_KEYS or name in GROUPS or name == "schema_version":
        return name
    return "labels" if name in RAGAS_LABELS else PLACES.get(name, ("", 0))[0]


def fields_of_system(names: Collection[str]) -> list[str]:
    """Return the fields that contain a system's answers or retrieved texts, given the field names of all records.

    The fields ``answer`` and ``answers`` contain a system's answers if another field has the right answer (see RIGHT).
    The fields ``passage``, ``context`` and ``contexts`` contain retrieved texts if any field has an output of a system,
    or if another field has the evidence. With a field ``supporting_facts``, these three contain the evidence. Raises
    ValueError if it is ambiguous whether a system wrote ``answer`` and retrieved ``contexts``.
    """
    right, gold = set(names).intersection(RIGHT), set(names).intersection(RANKED[PASSAGES][0])
    said = [name for name in (*(SAID if right else ()), *_OUTPUTS) if name in names]
    if not said and not gold and "contexts" in names and "answer" in names:
        of_system = '"answer" and "contexts" may be the answer and contexts of a system'
        raise ValueError(f"{of_system}, or the right answer and its evidence")
    is_retrieved = (said or gold) and "supporting_facts" not in names
    return [*said, *(name for name in _SHOWN if is_retrieved and name in names)]


def read_draft(flat: FlatRecord, of_system: Collection[str], known: Container[str]) -> RecordDraft:
    """Return the draft of an entry for one record; the fields in ``of_system`` are dropped.

    ``known`` contains the ids of the corpus. Documents that cannot be paired with the passages are dropped, and listed
    in ``left`` as "documents".

    An unknown field is added to the notes if its value is plain (see ``as_note``), and is dropped otherwise. A field
    with the name of a group but without the group's fields is also unknown. Raises ValueError, with the name of the
    field, if a value cannot be read, or if two fields with different values have the same target and precedence.
    """
    entry: dict[str, Any] = dict(flat.carried)
    chosen, in_notes, left = _chosen(flat, of_system)
    labels, notes = dict(entry.get("labels") or {}), []
    passages: list[tuple[str, str | None]] = []
    documents: list[str | None] = []
    others: list[str] = []  # right answers besides the reference, from one or two fields
    for name, value in chosen.items():
        place = "" if name in in_notes else place_of(name)
        is_shown = "evidence" in flat.carried and place in (PASSAGES, "documents")  # the texts around the evidence
        if is_shown or (place and flat.carried.get(place) == value):
            continue
        try:
            if name in RAGAS_LABELS:
                labels[name] = decoded(value)
            elif place == "labels":
                labels |= as_mapping(value)
            elif place == PASSAGES:
                passages = as_passages(value, flat.fields.get("supporting_facts"))
            elif place == "documents":
                documents = as_documents(value, known)
            elif place == "question":
                entry |= read_turns(decoded(value))
            elif place:
                converted = _converted(place, value)
                others += converted.get("references", [])
                entry |= converted | ({"references": others} if others else {})
            else:
                notes.append(f"{name}: {as_note(value)}")
        except ValueError as fault:
            raise ValueError(f'"{name}" {fault}') from None
    if not any(text.strip() or own for text, own in passages):
        passages = []
    if passages and (len(set(documents)) == 1 or len(documents) == len(passages)):
        passages = [(text, one or own) for (text, own), one in zip(passages, cycle(documents), strict=False)]
    elif not passages:
        passages = [("", document) for document in dict.fromkeys(filter(None, documents))]
    elif documents:
        left.append("documents")
    passages = [(text, document) for text, document in passages if text.strip() or document]
    if passages and entry.get("answerable") is False:
        left += [name for name in chosen if place_of(name) in (PASSAGES, "documents")]
        passages = []
    if notes:
        entry["notes"] = "; ".join(filter(None, [entry.get("notes"), *notes]))
    if labels:
        entry["labels"] = labels
    return RecordDraft(entry, () if "evidence" in entry else passages, in_notes, left)


def _chosen(flat: FlatRecord, of_system: Collection[str]) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the fields to read, the names of the fields to add to the notes, and the names of the dropped fields.

    Of several fields that are mapped to the same field of an entry, the one with the best rank in RANKED is read.
    Raises ValueError if another field has the same rank but a different value.
    """
    chosen, in_notes, left = dict[str, Any](), list[str](), list(flat.left)
    ranked = sorted(flat.fields, key=lambda name: PLACES.get(name, ("", 0))[1])
    winners: dict[str, str] = {}
    for name in ranked:
        value, place = flat.fields[name], place_of(name)
        if name in _NESTED and not _is_nested(name, value):
            place = ""  # another field of this name
        if not is_filled(value) or (name == "id" and "id" in flat.carried):
            continue
        first = winners.setdefault(place, name) if place in RANKED else name
        if name == "supporting_facts":
            continue  # is read together with the passages
        if name in of_system or name in _OUTPUTS:
            left.append(name)
            if first == name:
                winners.pop(place, None)
        elif first != name:
            if PLACES[first] == PLACES[name] and _listed(flat.fields[first]) != _listed(value):
                raise ValueError(f'"{first}" and "{name}" both contain the {place} but differ; remove one of them')
            left.append(name)
        elif place or as_note(value):
            chosen[name] = value
            in_notes += [] if place else [name]
        else:
            left.append(name)
    return {name: chosen[name] for name in flat.fields if name in chosen}, in_notes, left


def _is_nested(name: str, value: Any) -> bool:
    try:
        found = decoded(value)
    except ValueError:
        return False
    return isinstance(found, dict) if name == "labels" else is_group(name, found)


def _listed(value: Any) -> list[Any]:
    found = decoded(value)
    return found if isinstance(found, list) else [found]


def read_turns(value: Any) -> dict[str, Any]:
    """Return the field ``question`` of an entry for a string or a list of one string; for messages, also ``history``.

    The question is the last message of the user, and the history has the messages before it. Returns an empty dict if
    no message is from the user. Raises ValueError for any other value.
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
    """Return the text of a message, joined from its text parts; other parts, such as images, are dropped."""
    found = decoded(value)
    parts = found if isinstance(found, list) else [found]
    texts = [one for one in parts if not isinstance(one, dict) or one.get("type", "text") in _TEXTS]
    return " ".join(plain_text(one.get("text", one) if isinstance(one, dict) else one) for one in texts)


def as_note(value: Any) -> str:
    """Return a plain value as a string, or the values of a list joined by "; "; return "" for any other value."""
    try:
        return "; ".join(plain_texts(value))
    except ValueError:
        return ""


def _converted(place: str, value: Any) -> dict[str, Any]:
    if place == "reference":
        texts = plain_texts(value)
        if texts == _NO_ANSWER:
            return {"answerable": False}
        return as_references(texts)
    if place in LISTS:
        return {place: plain_texts(value) if place == "references" else as_texts(value)}
    if place in _OBJECTS:
        return {place: decoded(value)}
    if place in ("answerable", "needs_retrieval"):
        return {place: FLAGS.get(str(value).strip().lower(), value)}
    if place in ("weight", "expected_count"):
        number = plain_number(str(value))
        is_count = place == "expected_count" and number.is_integer()  # 3.0 in a table that pandas wrote
        return {place: value if math.isnan(number) else int(number) if is_count else number}
    is_id = place == "id" and isinstance(value, str)  # "[1]" is an id, not a list
    return {place: as_note(value) if place == "notes" else plain_text([value] if is_id else value)}
