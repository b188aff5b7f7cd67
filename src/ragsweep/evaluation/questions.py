"""Question columns shared by all configs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.types import Question
from ragsweep.evaluation.answering import question_key, wording_key
from ragsweep.golden.clusters import clusters
from ragsweep.stages.latency import sample

MOST_GROUPS = 40
"""A label with more values than this tells questions apart rather than grouping them."""

Numbers = NDArray[np.int64]


def has_evidence(question: Question) -> bool:
    """Return whether a question has relevant evidence."""
    return any(evidence.grade > 0 for evidence in question.evidence)


def labels(questions: Sequence[Question]) -> list[str]:
    """List what questions can be grouped by."""
    return ["category", *sorted({label for question in questions for label in question.labels} - {"category"})]


def label_of(question: Question, label: str) -> str:
    """Return a question's value for a label, or an empty string."""
    return question.category if label == "category" else str(question.labels.get(label, ""))


@dataclass(frozen=True, eq=False)
class QuestionTable:
    """The questions of one golden set as columns; each is made once, when it is first read."""

    questions: Sequence[Question]
    routed: bytes = b""  # a byte a question, 1 where a router says that it is searched for; empty without a router
    written: str = ""  # a JSON list of what each question is searched with; empty where that is its text

    @cached_property
    def searched(self) -> NDArray[np.bool_]:
        """Which questions are searched for: the router's word, or else the golden set's."""
        if self.routed:
            return np.frombuffer(self.routed, dtype=np.bool_)
        return np.array([question.needs_retrieval for question in self.questions], dtype=np.bool_)

    @cached_property
    def rows(self) -> Numbers:
        """The numbers of the questions that are searched for."""
        return np.flatnonzero(self.searched)

    @cached_property
    def texts(self) -> Sequence[str]:
        """The search text of each question: its own, unless another query was written for it."""
        written: list[str] = json.loads(self.written) if self.written else []
        return written or [question.text for question in self.questions]

    @cached_property
    def queries(self) -> tuple[str, ...]:
        """The distinct search texts."""
        return tuple(self.texts[n] for n in self.rows.tolist())

    @cached_property
    def probed(self) -> tuple[str, ...]:
        """The texts whose latency is measured."""
        return sample(self.queries)

    @cached_property
    def probe(self) -> Numbers:
        """Where each question's text stands among those probed (questions,); behind them if it is not probed."""
        place = {text: n for n, text in enumerate(self.probed)}
        return np.array([place.get(text, len(place)) for text in self.texts], dtype=np.int64)

    @cached_property
    def answered(self) -> tuple[str, ...]:
        """The questions to answer, conversation among them, as keys."""
        return tuple(question_key(*one).key for one in self._asked)

    @cached_property
    def judged(self) -> tuple[str, ...]:
        """The same with a right answer each, for judges."""
        return tuple(question_key(*one, reference=True).key for one in self._asked)

    @cached_property
    def wordings(self) -> tuple[str, ...]:
        """The same as keys of their wording alone."""
        return tuple(wording_key(question).key for question in self.questions)

    @cached_property
    def conversations(self) -> Numbers:
        """The numbers of the questions that are searched for and have a history."""
        return np.array([n for n in self.rows.tolist() if self.questions[n].history], dtype=np.int64)

    @property
    def _asked(self) -> list[tuple[Question, bool, str]]:
        return list(zip(self.questions, self.searched.tolist(), self.texts, strict=True))

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The columns of the question table that do not depend on the config."""
        return {
            "question_id": [question.id for question in self.questions],
            "question": [question.text for question in self.questions],
            "answerable": [question.answerable for question in self.questions],
            "source": list(clusters(self.questions)),
            **({"query": list(self.texts)} if self.written else {}),
        }

    @cached_property
    def places(self) -> dict[str, str]:
        """Each label beside the category, and where the first question that has it stands."""
        return {label: question.where for question in reversed(self.questions) for label in question.labels}

    @cached_property
    def labels(self) -> dict[str, list[str]]:
        """Each label, and the questions' values."""
        return {label: [label_of(question, label) for question in self.questions] for label in labels(self.questions)}

    @cached_property
    def groups(self) -> dict[str, dict[str, Numbers]]:
        """The labels that group the questions: label -> value -> numbers of the questions."""
        grouped = {}
        for label, values in self.labels.items():
            names = sorted({value for value in values if value})
            if 2 <= len(names) <= MOST_GROUPS:
                grouped[label] = {name: np.flatnonzero([value == name for value in values]) for name in names}
        return grouped


tabulate = memoize_by_identity(QuestionTable)
"""Return what is shared by all who ask these questions."""
