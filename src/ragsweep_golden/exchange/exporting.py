"""Convert golden sets to the formats of other tools, and count the losses."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ragsweep.core.escaping import harmless_cell
from ragsweep.core.types import Corpus
from ragsweep.parts.datasets.csv import EVIDENCE_COLUMNS, QUESTION_COLUMNS
from ragsweep_golden.exchange.drafts import CARRIED, RAGAS_LABELS
from ragsweep_golden.exchange.fields import Exported, context, count_lost, labels_as_texts, whole_grade
from ragsweep_golden.sets.entries import Entry, relevant_evidence, value


class RecordFormat(NamedTuple):
    """The function that converts an entry to a record, and the fields that the record keeps; None: all."""

    write: Callable[[Entry, Corpus | None], dict[str, Any]]
    kept: tuple[str, ...] | None = None


def _to_ragas(entry: Entry, corpus: Corpus | None) -> dict[str, Any]:
    labels = relevant_evidence(entry)
    record = {
        "user_input": entry["question"],
        "reference": entry.get("reference"),
        "reference_contexts": [context(label, corpus) for label in labels],
        "reference_context_ids": [label["document"] for label in labels],
        **{name: value(entry, "labels", name) for name in RAGAS_LABELS},
    }
    filled = {name: one for name, one in record.items() if one not in (None, [])}
    return filled | {"synthesizer_name": entry.get("category") or ""}


def _to_mlflow(entry: Entry, corpus: Corpus | None) -> dict[str, Any]:
    expectations: dict[str, Any] = {}
    if entry.get("reference"):
        expectations["expected_response"] = entry["reference"]
    elif entry.get("keywords"):  # a judge accepts either
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


RECORDS = {
    "ragas": RecordFormat(
        _to_ragas,
        ("question", "reference", "category", "evidence.document", *(f"labels.{name}" for name in RAGAS_LABELS)),
    ),
    "mlflow": RecordFormat(_to_mlflow),
    "argilla": RecordFormat(_to_argilla),
    "labelstudio": RecordFormat(_to_label_studio),
}


def export_records(name: str, entries: Sequence[Entry], corpus: Corpus | None, lines: bool) -> Exported:
    """Return a file with one record per entry in a format of RECORDS, as JSON ``lines`` or else one JSON array."""
    form = RECORDS[name]
    records = [json.dumps(form.write(entry, corpus), ensure_ascii=False) for entry in entries]
    text = "".join(f"{one}\n" for one in records) if lines else "[\n" + ",\n".join(records) + "\n]\n"
    exported = Exported({"": text})
    if form.kept is not None:
        exported.lost = count_lost(entries, form.kept)
    if name == "mlflow" and (repeated := len(entries) - len({entry["question"] for entry in entries})):
        exported.notes["questions have the same text as another: MLflow keeps one record for equal inputs"] = repeated
    return exported


def export_table(entries: Sequence[Entry]) -> Exported:
    """Return a CSV table with a row per piece of evidence, or per question without any, and a column per label."""
    own = {*QUESTION_COLUMNS, *EVIDENCE_COLUMNS}
    named = dict.fromkeys(name for entry in entries for name in labels_as_texts(entry) if name not in own)
    notes = Counter[str]()
    rows = [row for entry in entries for row in _rows(entry, notes)]
    columns = [name for name in (*QUESTION_COLUMNS, *EVIDENCE_COLUMNS) if any(row.get(name) for row in rows)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(["id", "question", *columns, *named])), extrasaction="ignore")
    writer.writerow({name: harmless_cell(name) for name in writer.fieldnames})
    writer.writerows({name: harmless_cell(cell) for name, cell in row.items()} for row in rows)
    of_labels = (*(f"evidence.{name}" for name in EVIDENCE_COLUMNS), *(f"labels.{name}" for name in named))
    kept = (*own, "language", "content_type", *of_labels)
    return Exported({"": text.getvalue()}, count_lost(entries, kept), +notes)


def _rows(entry: Entry, notes: Counter[str]) -> list[dict[str, Any]]:
    given = entry.get("keywords") or ()
    keywords = [one for one in given if ";" not in one and one.strip() == one]
    notes["keywords with a semicolon, or white space at an end, are omitted"] += len(given) - len(keywords)
    cells = {name: entry.get(name) for name in QUESTION_COLUMNS} | {"keywords": "; ".join(keywords)}
    cells |= {name: "false" for name in ("answerable", "needs_retrieval") if entry.get(name) is False}
    cells = {name: cell for name, cell in labels_as_texts(entry).items() if name not in EVIDENCE_COLUMNS} | cells
    labels = [{**label, "grade": whole_grade(label, notes)} for label in entry.get("evidence") or ()]
    return [cells | label for label in labels or [{}]]
