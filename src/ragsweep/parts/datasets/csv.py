"""Read questions from a table (CSV, TSV or JSON lines), and documents from a table, a Parquet file or a folder."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError, Faults, nearest
from ragsweep.core.types import Dataset, PartTraits, Question
from ragsweep.golden.corpora import DOCUMENT_COLUMNS, read_documents
from ragsweep.golden.golden_format import group_name, read_evidence, read_question
from ragsweep.golden.golden_set import NO_LABEL_LEFT, RawGoldenSet, Selection, golden_set
from ragsweep.golden.qrels import LEFT_OUT, GradedQrels, Grades, Qrel
from ragsweep.golden.reading import Row
from ragsweep.golden.structured_cells import FLAGS, is_structure, plain_number, plain_text, plain_texts
from ragsweep.golden.tables import Columns, is_table, read_table
from ragsweep.golden.text_files import collect_faults, path_of, plain_or_gzipped

QUESTION_COLUMNS = (
    "id", "question", "category", "answerable", "unanswerable_type", "needs_retrieval", "reference", "keywords",
    "notes", "weight",
)  # fmt: skip
EVIDENCE_COLUMNS = ("document", "anchor", "start", "grade")
_COLUMNS = (*QUESTION_COLUMNS, *EVIDENCE_COLUMNS)
_LISTS = ("reference", "keywords")


@dataclass(eq=False)
class Csv:
    """A dataset that consists of a corpus and a table of questions.

    A row contains at most one piece of evidence; rows with the same id form one question. The cells of unknown columns
    become labels of the question, unless they contain lists or objects. Questions whose category is in ``conversation``
    need no retrieval.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    corpus: str
    questions: str
    columns: Mapping[str, str] | None
    corpus_columns: Mapping[str, str] | None
    grades: Mapping[str | float, float | None] | None
    unknown: str
    limit: int | None
    seed: int
    encoding: str | None = None
    conversation: Sequence[str] | None = None

    def load(self) -> Dataset:
        """Return the dataset. Raises ConfigError for invalid settings, and InputError for faults in the files."""
        selection = Selection(self.unknown, self.limit, self.seed).check()
        grades, faults = Grades(self.grades).check(), collect_faults(self.encoding)
        file = path_of(self.questions, "dataset.questions")
        documents = Columns("dataset.corpus_columns", self.corpus_columns or {}, DOCUMENT_COLUMNS, ("id", "text"))
        source = path_of(self.corpus, "dataset.corpus")
        if self.corpus_columns and not is_table(source):
            raise ConfigError(
                f"dataset.corpus_columns: {source} is not a table (.csv, .tsv); remove dataset.corpus_columns"
            )
        corpus, notes = read_documents(source, faults, documents)
        raw, rows = read_question_table(file, self.columns or {}, grades, faults)
        faults.raise_any()
        chat = {*(self.conversation or ())}
        if missing := chat - {question.category for question in raw.questions}:
            name, known = min(missing), {question.category for question in raw.questions} - {""}
            way = nearest(name, known) or "; add a column named category, or name another column in dataset.columns"
            raise ConfigError(f'dataset.conversation: no question of {file} has the category "{name}"{way}')
        others = [(name, cell) for row in rows for name, cell in row.scalars().items() if name not in _COLUMNS]
        facts = {True: "columns read as labels", False: "columns whose lists and objects are not read as labels"}
        for is_label, fact in facts.items():
            if names := dict.fromkeys(name for name, cell in others if is_structure(cell) != is_label):
                notes = (*notes, f"{fact}: {', '.join(names)}")
        questions = [replace(one, needs_retrieval=False) if one.category in chat else one for one in raw.questions]
        golden = golden_set(raw._replace(questions=questions, notes=faults.notes), corpus, selection)
        return Dataset(file.name.removesuffix(".gz"), corpus, golden, (*notes, *faults.notes))


def read_question_table(
    file: Path, columns: Mapping[str, str], grades: Grades, faults: Faults, dropped: Collection[str] = ()
) -> tuple[RawGoldenSet, Sequence[Row]]:
    """Read a table; return its questions, with evidence that is not yet checked against a corpus, and its rows.

    Faults of the file are added to ``faults``. ``columns`` maps a field to the name of its column; a field that
    ``columns`` omits is read from the column with the same name as the field. The rows of a question may differ in the
    labels named in ``dropped``; the caller drops these labels.
    """
    named = Columns("dataset.columns", columns, _COLUMNS, ("id", "question"), ("reference",))
    rows = list(read_table(plain_or_gzipped(file), named, faults))
    questions = _read_questions(rows, dropped)
    labels = grades.apply([label for row in rows for label in _labels(row)], faults)
    return _attach_evidence(questions, labels, str(file)), rows


def _read_questions(rows: Sequence[Row], dropped: Collection[str]) -> list[Question]:
    first: dict[str, Row] = {}
    for row in rows:
        identifier = row.identifier("id")
        earlier = first.setdefault(identifier, row)
        labels = [name for name in row.values if name not in _COLUMNS and name not in dropped]
        for name in (*QUESTION_COLUMNS[1:], *labels):
            differs = name in row and group_name(row.text(name)) != group_name(earlier.text(name))
            if differs and (name in QUESTION_COLUMNS or not is_structure(row.text(name))):
                row.fault(
                    f'question "{identifier}" has a different "{name}" in {earlier.where};'
                    " rows with the same id must agree"
                )
    return [read_question(row.with_values(_question_values(row))) for row in first.values()]


def _question_values(row: Row) -> dict[str, Any]:
    cells = {"question": ""} | row.scalars()  # scalars() omits empty cells, but a question may be blank
    texts = {name: _texts(row, name) for name in QUESTION_COLUMNS[2:] if name in row}  # an id is never a list
    values: dict[str, Any] = {name: cells[name] for name in QUESTION_COLUMNS if name in cells}
    for name in ("answerable", "needs_retrieval"):
        if name in values:
            values[name] = FLAGS.get(values[name].strip().lower(), values[name])
    if "weight" in values and math.isfinite(weight := plain_number(values["weight"])):
        values["weight"] = weight
    keywords = [part.strip() for keyword in texts.get("keywords", ()) for part in keyword.split(";")]
    one = {name: "".join(cell) for name, cell in texts.items() if name not in _LISTS and is_structure(cells[name])}
    values |= one | {"reference": "", "references": texts["reference"]} if "reference" in texts else one
    labels = {name: cell for name, cell in cells.items() if name not in _COLUMNS and not is_structure(cell)}
    return values | {"keywords": [keyword for keyword in keywords if keyword], "labels": labels}


def _texts(row: Row, name: str) -> list[str]:
    """Return the strings in a cell; for an invalid cell, add a fault and return [].

    Only a cell of a column in _LISTS may contain several strings.
    """
    try:
        return plain_texts(row.text(name)) if name in _LISTS else [plain_text(row.text(name))]
    except ValueError as fault:
        row.fault(f'"{name}" {fault}')
        return []


def _labels(row: Row) -> list[Qrel]:
    """Return a list with the label that a row contains; the list is empty if the row names no document.

    Add a fault if the row names no document but has other cells of evidence.
    """
    cells = {name: row.text(name) for name in EVIDENCE_COLUMNS if name in row}
    if "document" not in cells:
        for name in cells:
            row.fault(f'"{name}" requires a "document", which is missing; fill in both cells or neither')
        return []
    code = cells.pop("grade", "1")
    start = plain_number(cells.get("start", ""))  # such as "3.0" in a table that pandas wrote
    values = cells | ({"start": int(start)} if start.is_integer() and start >= 0 else {})
    return [Qrel(row.identifier("id"), read_evidence(row.with_values(values)), code.strip())]


def _attach_evidence(questions: Sequence[Question], labels: GradedQrels, source: str) -> RawGoldenSet:
    evidence = defaultdict(list)
    for label in labels.graded:
        evidence[label.question].append(label.evidence)
    kept = [
        replace(question, evidence=tuple(evidence[question.id]))
        for question in questions
        if question.id in evidence or question.id not in labels.lost or not question.answerable
    ]
    left_out = {LEFT_OUT: sum(labels.lost.values()), NO_LABEL_LEFT: len(questions) - len(kept)}
    return RawGoldenSet(source, kept, left_out=left_out)
