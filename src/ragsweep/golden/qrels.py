"""Read relevance labels (qrels), map them to grades, and attach them to their questions as evidence."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ragsweep.core.errors import ConfigError, Faults
from ragsweep.core.plurals import counted
from ragsweep.core.types import Evidence, Question
from ragsweep.golden.golden_set import NO_LABEL_LEFT, RawGoldenSet, UnusableLabel
from ragsweep.golden.reading import normal_id
from ragsweep.golden.structured_cells import plain_number
from ragsweep.golden.text_files import read_lines

LEFT_OUT = "labels without a grade in dataset.grades"
_HIGHEST = 1e9
_MOST_SHOWN = 8


class Qrel(NamedTuple):
    """One label in a qrels file; ``code`` is the relevance as the file states it."""

    question: str
    evidence: Evidence
    code: str


class GradedQrels(NamedTuple):
    """Labels with their grades; ``lost``: question id -> number of its omitted labels (with the grade None)."""

    graded: Sequence[Qrel]
    lost: Mapping[str, int]


class Grades:
    """A mapping of the codes of labels to the grades in ``given``; labels whose code has the grade None are omitted.

    If ``given`` is None, the codes are the grades: whole numbers, where 0 means judged as irrelevant. ``reader`` is the
    text that must precede ``dataset.grades`` on the command line.
    """

    def __init__(self, given: Mapping[str | float, float | None] | None, reader: str = "") -> None:
        self._reader = reader
        self._given = None if given is None else {str(code): grade for code, grade in given.items()}

    def check(self) -> Grades:
        """Return self; raise ConfigError unless each grade is null or a number from -1e9 to 1e9.

        Call this before reading any file.
        """
        for code, grade in (self._given or {}).items():
            number = isinstance(grade, int | float) and not isinstance(grade, bool)
            if grade is not None and not (number and abs(grade) <= _HIGHEST):
                wanted = f"a number from {-_HIGHEST:g} to {_HIGHEST:g}, or null to omit its labels"
                raise ConfigError(f'dataset.grades: the grade of "{code}" must be {wanted}, got {grade!r}')
        return self

    def names_no_score(self, code: str) -> bool:
        """Return whether a code is the name of a column: it has no digits, and the configured codes are numbers."""
        named = not any(map(str.isdigit, code))
        return named and not any(math.isnan(plain_number(one)) for one in self._given or ())

    def apply(self, labels: Sequence[Qrel], faults: Faults) -> GradedQrels:
        """Return the labels with their grades; a code without a grade is a fault at the first label that has it."""
        counts = Counter(label.code for label in labels)
        grades = {code: self._grade(code) for code in counts}
        first = {label.code: label.evidence.where for label in reversed(labels)}
        for code in counts:
            if math.isnan(grades[code] or 0):
                faults.add(first[code], self._fact(code, counts))
        kept = [
            label._replace(evidence=replace(label.evidence, grade=grade))
            for label in labels
            if (grade := grades[label.code]) is not None
        ]
        return GradedQrels(kept, Counter(label.question for label in labels if grades[label.code] is None))

    def _grade(self, code: str) -> float | None:
        """Return the grade of a code; None if its labels are to be omitted, NaN if it has no grade."""
        if self._given is not None:
            grade = self._given.get(code, math.nan)
            return None if grade is None else float(grade)
        number = plain_number(code)
        return number if 0 <= number <= _HIGHEST and number.is_integer() else math.nan

    def _fact(self, code: str, counts: Mapping[str, int]) -> str:
        shown = [f'"{code}" ({count})' for code, count in sorted(counts.items())[:_MOST_SHOWN]]
        seen = ", ".join([*shown, "..."] if len(counts) > _MOST_SHOWN else shown)
        if self._given is not None:
            way = "add one, or null to omit its labels or the header"
            return f'score "{code}" has no grade in dataset.grades; {way}; scores (counts): {seen}'
        key = re.sub(r"([(){}\[\]:=,])", r"\\\1", code)  # as Hydra requires in a mapping
        way = f"define the grade of each score, e.g. {self._reader}dataset.grades='{{{key}: null, 1: 1}}'"
        fact = f'score "{code}" is not a whole number from 0 to {_HIGHEST:g}'
        return f"{fact}; correct it, or {way}; scores (counts): {seen}"


def read_qrels(path: Path, faults: Faults, grades: Grades) -> list[Qrel]:
    """Return the labels of whole documents in a file.

    A line is "query-id corpus-id score" with tabs, or TREC's "query-id 0 corpus-id score". The first line is skipped as
    a header if its score has no digits, unless ``grades`` maps codes that are not numbers. Lines in any other format
    are faults.
    """
    labels = []
    for number, (where, line) in enumerate(read_lines(path, faults)):
        fields = [field.strip() for field in line.rstrip().split("\t")]  # a table may end its lines with tabs
        columns = line.split()
        if len(fields) == 4 and grades.names_no_score(fields[3]) <= grades.names_no_score(fields[2]):
            columns = fields  # not three columns and a comment
        if len(fields) != 3 and len(columns) == 4:
            question, _, document, score = columns
            fields = [question, document, score]
        if len(fields) != 3 or not all(fields):
            wanted = "query-id, corpus-id and score, with tabs between them, or TREC's query-id 0 corpus-id score"
            faults.add(where, f"{counted(sum(map(bool, fields)), 'filled column')} where three are required: {wanted}")
            continue
        if number == 0 and grades.names_no_score(fields[2]):
            continue
        question, document, score = map(normal_id, fields)
        labels.append(Qrel(question, Evidence(document, where=where), score))
    return labels


def attach_evidence(questions: Sequence[Question], labels: GradedQrels, source: Path, unlabelled: str) -> RawGoldenSet:
    """Return the questions that have labels, with their labels as evidence, and the unanswerable questions.

    Labels of unknown questions are unusable. Answerable questions without labels are omitted and counted: with the
    reason NO_LABEL_LEFT if they had labels with the grade None, otherwise with the reason ``unlabelled``. ``source`` is
    the file of the labels.
    """
    evidence: dict[str, list[Evidence]] = {question.id: [] for question in questions}
    unusable = []
    for label in labels.graded:
        if label.question in evidence:
            evidence[label.question].append(label.evidence)
        else:
            fact = f'question "{label.question}" is not in the queries'
            unusable.append(UnusableLabel(label.evidence.where, "labels of an unknown question", fact))
    chosen = [
        replace(question, evidence=tuple(evidence[question.id]))
        for question in questions
        if evidence[question.id] or not question.answerable
    ]
    dropped = {question.id for question in questions}.difference(question.id for question in chosen)
    left_out = {
        LEFT_OUT: sum(labels.lost.values()),
        NO_LABEL_LEFT: len(dropped.intersection(labels.lost)),
        unlabelled: len(dropped.difference(labels.lost)),
    }
    return RawGoldenSet(str(source), chosen, unusable, left_out)
