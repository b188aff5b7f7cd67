"""A folder in the format of the BEIR benchmark: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv, each also gzipped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragsweep.core.errors import Faults, InputError, nearest
from ragsweep.core.types import Dataset, Question
from ragsweep.golden.corpora import read_corpus
from ragsweep.golden.golden_set import BLANK, Selection, golden_set
from ragsweep.golden.qrels import Grades, judged, read_qrels
from ragsweep.golden.reading import Row, Seen, read_rows
from ragsweep.golden.text_files import check_folder, existing


class Beir:
    """Read a BEIR folder; evidence is a whole document, its grade the label's score.

    The questions are those that the split labels and those whose metadata says ``"unanswerable": true``; all others are
    counted and left out.

    Args:
        path: The folder.
        split: Name of the file of labels in qrels, without its ending.
        grades: What each score stands for, where it is no grade itself; None leaves a label out, and counts it.
        unknown: "error", or "drop" to leave out and count labels that name unknown documents or questions.
        limit: How many questions to draw; None for all.
        seed: Chooses which questions are drawn.
    """

    VERSION = "1"

    def __init__(
        self,
        path: str,
        split: str,
        grades: Mapping[str | float, float | None] | None,
        unknown: str,
        limit: int | None,
        seed: int,
    ) -> None:
        self._path = Path(path).expanduser()
        self._split = split
        self._grades = grades
        self._selection = Selection(unknown, limit, seed)

    def load(self) -> Dataset:
        """Read corpus, queries and labels.

        Raises:
            ConfigError: ``grades``, ``unknown`` or ``limit`` make no sense.
            InputError: the folder or split does not exist, or faults of the files, all at once.
        """
        selection, grades, faults = self._selection.check(), Grades(self._grades).check(), Faults()
        labels_file = self._labels_file()
        corpus = read_corpus(existing(self._path / "corpus.jsonl"), faults)
        questions = _read_questions(existing(self._path / "queries.jsonl"), faults)
        labels = grades.apply(read_qrels(labels_file, faults), faults)
        faults.raise_any()
        found = judged(questions, labels, labels_file, f"not in split {self._split}")
        return Dataset(self._path.resolve().name, corpus, golden_set(found, corpus, selection))

    def _labels_file(self) -> Path:
        """Look the split up among the files of labels: a name is never made a path."""
        check_folder(self._path, "dataset.path needs corpus.jsonl, queries.jsonl and qrels")
        check_folder(self._path / "qrels", "the files of labels, SPLIT.tsv, belong there")
        files = [self._path / "qrels" / file.name.removesuffix(".gz") for file in self._path.glob("qrels/*.tsv*")]
        known = {file.name.removesuffix(".tsv"): file for file in files}
        if self._split not in known:
            raise InputError(f'{self._path / "qrels"}: no split "{self._split}"{nearest(self._split, known)}')
        return existing(known[self._split])


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
    text = row.given_text("text")
    category = labels.pop("category", "" if text.strip() else BLANK)
    return Question(
        id=row.identifier("_id"),
        text=text,
        category="unanswerable" if unanswerable and text.strip() else category,
        answerable=not unanswerable,
        labels=labels,
        where=row.where,
    )
