"""A folder in the format of the BEIR benchmark: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv, each also gzipped."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ragsweep.errors import Faults, InputError
from ragsweep.golden import Found, Selection, Unusable, golden_set
from ragsweep.reading import Row, Seen, existing, read_lines, read_rows
from ragsweep.types import Corpus, Dataset, Evidence, Question

_HEADER = ["query-id", "corpus-id", "score"]


class _Label(NamedTuple):
    question: str
    evidence: Evidence


class Beir:
    """Read a BEIR folder; evidence is a whole document, its grade the label's score.

    The questions are those that the split labels and those whose metadata says ``"unanswerable": true``; all others are
    counted and left out.

    Args:
        path: The folder.
        split: Name of the file of labels in qrels, without its ending.
        unknown: "error", or "drop" to leave out and count labels that name unknown documents or questions.
        limit: How many questions to draw; None for all.
        seed: Chooses which questions are drawn.
    """

    VERSION = "1"

    def __init__(self, path: str, split: str, unknown: str, limit: int | None, seed: int) -> None:
        self._path = Path(path).expanduser()
        self._split = split
        self._selection = Selection(unknown, limit, seed)

    def load(self) -> Dataset:
        """Read corpus, queries and labels.

        Raises:
            ConfigError: ``unknown`` or ``limit`` make no sense.
            InputError: the folder or split does not exist, or faults of the files, all at once.
        """
        selection, faults = self._selection.check(), Faults()
        labels_file = self._labels_file()
        corpus = _read_corpus(existing(self._path / "corpus.jsonl"), faults)
        questions = _read_questions(existing(self._path / "queries.jsonl"), faults)
        labels = _read_labels(labels_file, faults)
        faults.raise_any()
        found = _choose(questions, labels, str(labels_file), self._split)
        return Dataset(self._path.resolve().name, corpus, golden_set(found, corpus, selection))

    def _labels_file(self) -> Path:
        if not self._path.is_dir():
            raise InputError(f"{self._path}: no such folder; dataset.path needs corpus.jsonl, queries.jsonl and qrels")
        path = existing(self._path / "qrels" / f"{self._split}.tsv")
        if not path.exists():
            names = {file.name.removesuffix(".gz") for file in path.parent.glob("*.tsv*")}
            known = ", ".join(sorted(name.removesuffix(".tsv") for name in names)) or "none"
            raise InputError(f'{path}: no such file, so there is no split "{self._split}"; known splits: {known}')
        return path


def _read_corpus(path: Path, faults: Faults) -> Corpus:
    seen, before = Seen("document"), len(faults.found)
    ids, titles, texts = [], [], []
    for row in read_rows(path, faults):
        ids.append(row.identifier("_id"))
        titles.append(row.text("title"))
        texts.append(row.given_text("text"))
        seen.note(ids[-1], row)
    if not ids and len(faults.found) == before:
        faults.add(str(path), "holds no document")
    return Corpus(ids, titles, texts)


def _read_questions(path: Path, faults: Faults) -> list[Question]:
    seen, questions = Seen("question"), []
    for row in read_rows(path, faults):
        questions.append(_question(row))
        seen.note(questions[-1].id, row)
    return questions


def _question(row: Row) -> Question:
    metadata = row.row("metadata")
    unanswerable = metadata.flag("unanswerable", False)
    labels = metadata.scalars()
    labels.pop("unanswerable", None)
    category = labels.pop("category", "")
    return Question(
        id=row.identifier("_id"),
        text=row.filled_text("text"),
        category="unanswerable" if unanswerable else category,
        answerable=not unanswerable,
        labels=labels,
        where=row.where,
    )


def _read_labels(path: Path, faults: Faults) -> list[_Label]:
    """Read "query-id corpus-id score" with tabs, or TREC's "query-id 0 corpus-id score"."""
    labels = []
    for number, (where, line) in enumerate(read_lines(path, faults)):
        fields = [field.strip() for field in line.split("\t")]
        if number == 0 and fields == _HEADER:
            continue
        if len(fields) != 3 and len(line.split()) == 4:
            question, _, document, score = line.split()
            fields = [question, document, score]
        if len(fields) != 3 or not all(fields):
            wanted = "query-id, corpus-id and score, with tabs between them"
            faults.add(where, f"{len(fields)} columns where three are needed: {wanted}")
            continue
        grade = _grade(fields[2])
        if math.isfinite(grade):
            question, document, _ = (unicodedata.normalize("NFC", field) for field in fields)
            labels.append(_Label(question, Evidence(document, grade=grade, where=where)))
        else:
            faults.add(where, f'score "{fields[2]}" is no number')
    return labels


def _grade(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _choose(questions: Sequence[Question], labels: Iterable[_Label], source: str, split: str) -> Found:
    """Give the questions their evidence, and keep those that belong to the split."""
    evidence: dict[str, list[Evidence]] = {question.id: [] for question in questions}
    unusable = []
    for label in labels:
        if label.question in evidence:
            evidence[label.question].append(label.evidence)
        else:
            fact = f'question "{label.question}" is not in the queries'
            unusable.append(Unusable(label.evidence.where, "labels naming an unknown question", fact))
    chosen = [
        replace(question, evidence=tuple(evidence[question.id]))
        for question in questions
        if evidence[question.id] or not question.answerable
    ]
    return Found(source, chosen, unusable, {f"not in split {split}": len(questions) - len(chosen)})
