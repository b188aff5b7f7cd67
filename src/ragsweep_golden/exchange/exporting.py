"""Convert golden sets to the formats of other tools, and count what is lost."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragsweep.core.types import Corpus
from ragsweep.golden.structured_cells import is_structure
from ragsweep.parts.datasets.csv import EVIDENCE_COLUMNS, QUESTION_COLUMNS
from ragsweep.report.tables import csv_table
from ragsweep_golden.evidence.passages import locate_label, sentence_around
from ragsweep_golden.exchange.drafts import CARRIED, RAGAS_LABELS
from ragsweep_golden.sets.entries import GROUPS, Entry, is_filled, relevant_evidence, value


@dataclass
class Exported:
    """The files of an export, and its losses.

    ``files`` maps paths within the folder of the export to contents. The path "" is the export itself, if it is a
    single file.
    """

    files: dict[str, str]
    lost: Counter[str] = field(default_factory=Counter)  # field -> number of entries that lose it
    notes: Counter[str] = field(default_factory=Counter)  # other change -> how often it occurred


def filled_fields(entry: Entry) -> Iterator[str]:
    """Yield the names of an entry's filled fields.

    The name of a field in a group, in ``labels`` or in ``evidence`` is dotted: ``evidence.anchor``. The fields
    ``answerable`` and ``needs_retrieval`` are omitted if they are true, which is the default.
    """
    for name, content in entry.items():
        if name in (*GROUPS, "labels"):
            yield from (f"{name}.{inner}" for inner, one in content.items() if is_filled(one))
        elif name == "evidence":
            yield from dict.fromkeys(f"evidence.{key}" for label in content or () for key in label)
        elif is_filled(content) and not (name in ("answerable", "needs_retrieval") and content is True):
            yield name


def count_lost(entries: Sequence[Entry], kept: Collection[str]) -> Counter[str]:
    """Return a mapping of each filled field that is not in ``kept`` to the number of entries that have it.

    A name in ``kept`` that ends with a dot, such as ``evidence.``, means all fields of that group.
    """
    return Counter(
        name
        for entry in entries
        for name in filled_fields(entry)
        if name not in kept and f"{name.partition('.')[0]}." not in kept
    )


def whole_grade(label: Mapping[str, Any], notes: Counter[str]) -> int:
    """Return the grade of a label, rounded up to an integer of at least 0; count a changed grade in ``notes``."""
    grade = label.get("grade", 1)
    whole = max(0, math.ceil(float(grade)))
    notes["grades became whole numbers of 0 or more"] += whole != grade
    return whole


def context(label: Mapping[str, Any], corpus: Corpus | None) -> str:
    """Return the sentence around a label's quote, or the whole document if the label has no quote.

    Without a corpus, or if the label is not found in the corpus, return the quote, or "" if the label has none.
    """
    found = locate_label(label, corpus) if corpus else None
    if corpus is None or found is None:
        return str(label.get("anchor") or "")
    text = corpus.texts[found[0]]
    return text if label.get("anchor") is None else sentence_around(text, found[1:])


def labels_as_texts(entry: Entry) -> Mapping[str, Any]:
    """Return the language, the content type and the ``labels`` of an entry as strings, without null values."""
    own = {name: entry[name] for name in ("language", "content_type") if entry.get(name)}
    labels = own | (entry.get("labels") or {})
    return {name: one if isinstance(one, str) else json.dumps(one) for name, one in labels.items() if one is not None}


def _to_ragas(entry: Entry, corpus: Corpus | None) -> dict[str, Any]:
    labels = [(context(label, corpus), label["document"]) for label in relevant_evidence(entry)]
    labels = [one for one in labels if one[0]] or labels  # if no label has a text, an import reads the ids alone
    record = {
        "user_input": entry["question"] or " ",  # an importer would treat an empty text as a missing question
        "reference": entry.get("reference"),
        "reference_contexts": [text for text, _ in labels if text],
        "reference_context_ids": [document for _, document in labels],
        **{name: value(entry, "labels", name) for name in RAGAS_LABELS},
    }
    filled = {name: one for name, one in record.items() if one not in (None, [])}
    return filled | {"synthesizer_name": entry.get("category") or ""}


def _to_mlflow(entry: Entry, corpus: Corpus | None) -> dict[str, Any]:
    expectations: dict[str, Any] = {}
    if entry.get("reference"):
        expectations["expected_response"] = entry["reference"]
    elif entry.get("keywords"):  # a judge accepts only one of the two
        expectations["expected_facts"] = entry["keywords"]
    if labels := relevant_evidence(entry):
        documents = [{"doc_uri": label["document"], "content": context(label, corpus)} for label in labels]
        expectations["expected_retrieved_context"] = documents
    return {
        "inputs": {"question": entry["question"]},
        "expectations": expectations,
        "tags": {CARRIED: json.dumps(entry, ensure_ascii=False)},
    }


def _to_argilla(entry: Entry, corpus: Corpus | None) -> dict[str, Any]:
    suggestion = {"value": entry.get("reference"), "score": None, "agent": value(entry, "audit", "created_by")}
    return {
        "id": entry["id"],
        "fields": {"question": entry["question"], "context": _contexts(entry, corpus)},
        "metadata": {CARRIED: json.dumps(entry, ensure_ascii=False)},
        "suggestions": {"reference": suggestion} if entry.get("reference") else {},
        "responses": {},
        "vectors": {},
    }


def _to_label_studio(entry: Entry, corpus: Corpus | None) -> dict[str, Any]:
    shown = {"question": entry["question"], "context": _contexts(entry, corpus)}
    place = {"id": "reference", "from_name": "reference", "to_name": "question", "type": "textarea"}
    answer = {**place, "value": {"text": [entry.get("reference")]}}
    predictions = [{"model_version": "golden", "result": [answer]}] if entry.get("reference") else []
    return {"data": {**shown, CARRIED: dict(entry)}, "predictions": predictions}


def _contexts(entry: Entry, corpus: Corpus | None) -> str:
    return "\n\n".join(dict.fromkeys(filter(None, (context(label, corpus) for label in relevant_evidence(entry)))))


RECORDS = {"ragas": _to_ragas, "mlflow": _to_mlflow, "argilla": _to_argilla, "labelstudio": _to_label_studio}
"""Format -> function that converts an entry to a record; only records of the format ragas lose fields."""
_KEPT_BY_RAGAS = (
    "question", "reference", "category", "evidence.document", *(f"labels.{name}" for name in RAGAS_LABELS),
)  # fmt: skip


def export_records(name: str, entries: Sequence[Entry], corpus: Corpus | None, lines: bool) -> Exported:
    """Return a file with a record per entry in the format ``name``: JSON lines if ``lines``, else one JSON array."""
    records = [RECORDS[name](entry, corpus) for entry in entries]
    rows = [json.dumps(one, ensure_ascii=False) for one in records]
    text = "".join(f"{row}\n" for row in rows) if lines else "[\n" + ",\n".join(rows) + "\n]\n"
    exported = Exported({"": text})
    if name == "ragas":
        exported.lost = count_lost(entries, _KEPT_BY_RAGAS)
        exported.notes = +_changed_by_ragas(entries, records)
    if name == "mlflow" and (repeated := len(entries) - len({entry["question"] for entry in entries})):
        exported.notes["questions have the same text as another: MLflow keeps one record for equal inputs"] = repeated
    return exported


def _changed_by_ragas(entries: Sequence[Entry], records: Sequence[Mapping[str, Any]]) -> Counter[str]:
    notes = Counter[str]()
    for entry, record in zip(entries, records, strict=True):
        labels = relevant_evidence(entry)
        omitted = len(labels) - len(record.get("reference_context_ids", ()))
        whole = sum(label.get("anchor") is None for label in labels) if "reference_contexts" in record else 0
        notes["whole documents without text are omitted beside quotes"] += omitted
        notes["whole documents became passages"] += whole - omitted
    return notes


def export_table(entries: Sequence[Entry]) -> Exported:
    """Return a CSV file with a row for each piece of evidence, and a row for each question without evidence.

    Each name in the ``labels`` of the entries is a column. Other columns without a filled cell are omitted.
    """
    own = {*QUESTION_COLUMNS, *EVIDENCE_COLUMNS}
    named = dict.fromkeys(name for entry in entries for name in labels_as_texts(entry) if name not in own)
    notes = Counter[str]()
    rows = [row for entry in entries for row in _rows(entry, notes)]
    columns = [name for name in (*QUESTION_COLUMNS, *EVIDENCE_COLUMNS) if any(is_filled(row.get(name)) for row in rows)]
    header = list(dict.fromkeys(["id", "question", *columns, *named]))
    table = csv_table(header, ([row.get(name) for name in header] for row in rows))
    of_labels = (*(f"evidence.{name}" for name in EVIDENCE_COLUMNS), *(f"labels.{name}" for name in named))
    kept = (*own, "language", "content_type", *of_labels)
    return Exported({"": table.decode()}, count_lost(entries, kept), +notes)


def _rows(entry: Entry, notes: Counter[str]) -> list[dict[str, Any]]:
    given = entry.get("keywords") or ()
    keywords = [one for one in given if ";" not in one and one.strip() == one]
    notes["keywords with a semicolon, or with leading or trailing white space, are omitted"] += len(given) - len(
        keywords
    )
    cells = {name: entry.get(name) for name in QUESTION_COLUMNS} | {"keywords": "; ".join(keywords)}
    cells |= {name: "false" for name in ("answerable", "needs_retrieval") if entry.get(name) is False}
    cells = {name: cell for name, cell in labels_as_texts(entry).items() if name not in EVIDENCE_COLUMNS} | cells
    read = [name for name in cells if name not in ("id", "question")]
    structures = [name for name in read if isinstance(cells[name], str) and is_structure(cells[name])]
    notes["texts that look like a list or an object are omitted"] += len(structures)
    cells |= dict.fromkeys(structures)
    labels = [{**label, "grade": whole_grade(label, notes)} for label in entry.get("evidence") or ()]
    return [cells | label for label in labels or [{}]]
