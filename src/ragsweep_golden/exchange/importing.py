"""Convert records in other formats to entries: map fields, merge rows, and count what is lost."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsweep.core.errors import ConfigError, Faults, InputError, nearest
from ragsweep.core.identity import content_hash
from ragsweep.core.types import Corpus
from ragsweep.evaluation.question_table import COLUMNS
from ragsweep.golden.golden_format import GROUPS, read_question
from ragsweep.golden.qrels import Grades
from ragsweep.golden.reading import Row, UniqueIds, normal_id
from ragsweep.golden.tables import is_table
from ragsweep.golden.text_files import collect_faults
from ragsweep.parts.datasets.csv import QUESTION_COLUMNS, read_question_table
from ragsweep_golden.exchange.drafts import (
    PASSAGES,
    RANKED,
    FlatRecord,
    RecordDraft,
    as_note,
    fields_of_system,
    place_of,
    read_draft,
)
from ragsweep_golden.exchange.evidence import Imported, add_evidence, correct_labels
from ragsweep_golden.exchange.layouts import LAYOUTS, NAME_FIELDS, Layout, layout_of_columns, recognise
from ragsweep_golden.exchange.records import read_records
from ragsweep_golden.sets.entries import SCHEMA_VERSION, as_entry, is_filled, value

AUTO = "auto"
NAMED = "columns"  # the format in which the command line names the fields
RowDraft = tuple[Row, RecordDraft]


def import_file(
    path: Path, name: str, corpus: Corpus | None, columns: Mapping[str, str] | None = None, encoding: str | None = None
) -> Imported:
    """Return the questions of a file in another format as entries, with evidence located in the corpus.

    ``name`` is the format, or "auto" to recognise it by the fields. ``columns`` maps a role in COLUMNS to a field, for
    the format "columns". Without a corpus, only texts with a document id become evidence. Raises InputError for an
    unknown format and for faults of the file; ConfigError for an unknown encoding, for the format "columns" without a
    field for the question, and for ``columns`` with any other format than "auto".
    """
    if name not in (known := [AUTO, NAMED, *LAYOUTS]):
        raise InputError(f'golden import: no format "{name}"{nearest(name, known)}')
    if columns and name not in (AUTO, NAMED):
        given = " ".join(f"{place}={column}" for place, column in columns.items())
        raise ConfigError(f"golden import: format={name} has fixed fields; omit format={name}, or {given}")
    named = layout_of_columns(columns or {}) if columns or name == NAMED else None
    faults = collect_faults(encoding, "encoding")
    rows = read_records(path, faults)
    faults.raise_any()
    if not rows:
        raise InputError(f"{path}: contains no questions; add at least one")
    seen = list(dict.fromkeys(column for row in rows for column in row.values))
    found = NAMED if named else recognise(path, seen) if name == AUTO else name
    layout = named or LAYOUTS[found]
    needs = layout.needs[:2] if found == "csv" else layout.needs  # the third group only serves to recognise the layout
    missing = [either for either in needs if not set(either) & set(seen)]
    if missing:
        needed = " and ".join(" or ".join(either) for either in missing)
        way = "correct that name" if named else f"omit format=, or {NAME_FIELDS}"
        raise InputError(
            f"{path}: format={found} needs {needed}, but the file has {', '.join(seen) or 'no fields'}; {way}"
        )
    imported = Imported(found, notes=faults.notes)
    if found == "csv" and is_table(path):
        return _import_table(path, seen, imported, rows, corpus, faults)
    drafts = _read_drafts(rows, layout, imported, faults, corpus.position if corpus else ())
    drafts = _merged(drafts, columns or {}, faults) if named else drafts
    faults.raise_any()
    add_evidence([draft for _, draft in drafts], corpus, imported)
    unique = UniqueIds("question")
    for row, draft in drafts:
        entry = Row(row.where, draft.entry, faults)
        unique.check(read_question(entry).id, entry)
    faults.raise_any()
    return finish([draft.entry for _, draft in drafts], imported)


def finish(entries: Sequence[dict[str, Any]], imported: Imported) -> Imported:
    """Add entries to ``imported`` with the import as their creator and the status silver, and return ``imported``.

    An evaluation cannot use a label that has the name of a filled field in a group (such as ``status``) or of a column
    of the results (such as ``source``). Such a label is moved to the notes.
    """
    by = f"ragsweep golden import {imported.format}"
    for entry in entries:
        imported.gold += value(entry, "audit", "status") == "gold"
        audit = {**(entry.get("audit") or {}), "status": "silver", "created_by": by}
        whole = {"schema_version": SCHEMA_VERSION, **entry, "audit": audit}
        labels = dict(whole.get("labels") or {})
        fields = [name for group in GROUPS for name in GROUPS[group] if is_filled(value(whole, group, name))]
        hidden = [name for name in (*fields, *COLUMNS) if is_filled(labels.get(name))]
        if hidden:
            notes = [f"{name}: {as_note(labels.pop(name))}" for name in hidden]
            whole |= {"labels": labels, "notes": "; ".join(filter(None, [whole.get("notes"), *notes]))}
            imported.in_notes.update(hidden)
        imported.entries.append(whole)
    return imported


def _import_table(
    path: Path, columns: Sequence[str], found: Imported, rows: Sequence[Row], corpus: Corpus | None, faults: Faults
) -> Imported:
    """Import a table in ragsweep's own columns.

    The first of the known answer columns becomes the reference. Without a column ``document``, columns of passages and
    of their documents are the evidence. Other aliases of ragsweep's columns, and the outputs of a system, are dropped.
    """
    try:
        of_system = fields_of_system(columns)
    except ValueError as fault:
        way = "name the fields with question=FIELD reference=answer passages=contexts, or remove both fields"
        raise InputError(f"{path}:1: {fault}; {way}") from None
    ranked = [name for group in RANKED["reference"] for name in group if name in columns]
    own = {*QUESTION_COLUMNS, *ranked[:1]}.difference(ranked[1:])
    lost = [name for name in columns if name not in own and (name in of_system or place_of(name) in RANKED)]
    grades = Grades(None, f"dataset=csv dataset.corpus=FOLDER dataset.questions={path} ")
    raw, _ = read_question_table(path, dict(zip(["reference"], ranked, strict=False)), grades, faults, lost)
    faults.raise_any()
    shown = [] if "document" in columns else [name for name in lost if place_of(name) in (PASSAGES, "documents")]
    dropped = [name for name in lost if name not in shown]
    found.left.update(name for row in rows for name in dropped if is_filled(row.values.get(name)))
    known = corpus.position if corpus else ()
    drafts = {question.id: RecordDraft(as_entry(question)) for question in raw.questions}
    for draft in drafts.values():
        labels = {name: label for name, label in draft.entry.pop("labels", {}).items() if name not in lost}
        draft.entry.update({"labels": labels} if labels else {})
    for row in rows:
        earlier = drafts[row.identifier("id")]
        try:
            draft = read_draft(FlatRecord({name: row.values[name] for name in shown}, earlier.entry), of_system, known)
        except ValueError as fault:
            row.fault(str(fault))
        else:
            found.left.update(draft.left)
            drafts[earlier.entry["id"]] = draft._replace(passages=[*earlier.passages, *draft.passages])
    faults.raise_any()
    if corpus:
        correct_labels([draft.entry for draft in drafts.values()], corpus, found)
    add_evidence(list(drafts.values()), corpus, found)
    return finish([draft.entry for draft in drafts.values()], found)


def _read_drafts(
    rows: Sequence[Row], layout: Layout, imported: Imported, faults: Faults, known: Container[str]
) -> list[RowDraft]:
    """Return (record, draft) pairs; a record that cannot be read is a fault.

    A record without an id gets the hash of its content as id; of several such records with the same content, the first
    is kept. If it is ambiguous which fields are outputs of a system, the fault refers to the first record.
    """
    flat: list[tuple[Row, FlatRecord]] = []
    for row in rows:
        try:
            flat.append((row, layout.fields(row.values)))
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            fact = f"no field {fault}" if isinstance(fault, KeyError) else fault
            faults.add(row.where, f"differs from format={imported.format} ({fact}); {NAME_FIELDS}")
    names = {name for _, record in flat for name, value in record.fields.items() if is_filled(value)}
    try:
        of_system = fields_of_system(names)
    except ValueError as fault:
        faults.add(rows[0].where, f'{fault}; rename these two to "reference" and "reference_contexts", or remove them')
        return []
    drafts: list[RowDraft] = []
    made: set[str] = set()
    for row, record in flat:
        try:
            draft = read_draft(record, of_system, known)
        except ValueError as fault:
            faults.add(row.where, str(fault))
            continue
        if "id" not in draft.entry:
            draft.entry["id"] = identifier = content_hash([draft.entry, draft.passages])[:16]
            if identifier in made:
                imported.repeated += 1
                continue
            made.add(identifier)
        imported.in_notes.update(draft.in_notes)
        imported.left.update(draft.left)
        drafts.append((row, draft))
    return drafts


def _merged(drafts: Sequence[RowDraft], columns: Mapping[str, str], faults: Faults) -> list[RowDraft]:
    """Return a draft for each id, with the passages and notes of all its rows; other fields that differ are faults.

    The passages of an unanswerable question are dropped.
    """
    merged: dict[str, RowDraft] = {}
    for row, draft in drafts:
        first, earlier = merged.setdefault(name := normal_id(draft.entry["id"]), (row, draft))
        if first is row:
            continue
        both = [one.entry.pop("notes") for one in (earlier, draft) if one.entry.get("notes")]
        for key in (key for key, given in draft.entry.items() if given != earlier.entry.get(key)):
            fact = f'question "{name}" has a different "{columns.get(key, key)}" in {first.where}'
            faults.add(row.where, f"{fact}; rows with the same id must agree")
        notes = {"notes": "; ".join(dict.fromkeys(both))} if both else {}
        passages = [] if earlier.entry.get("answerable") is False else [*earlier.passages, *draft.passages]
        merged[name] = first, RecordDraft(earlier.entry | notes, passages)
    return list(merged.values())
