"""The results of one config by question: typed columns with one row per question."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

JUDGE = "judge/"
"""Prefix of the names of judging steps: the step of a judged metric is named ``judge/`` + the metric's name."""

UNKNOWN: Mapping[str, Any] = {
    **dict.fromkeys(("ms", "tokens_in", "tokens_out", "money"), math.nan),
    **dict.fromkeys(("model", "words"), ""),
}
"""Name of a fact about a step -> the value that marks the fact as unknown."""


def number_within(question: Numbers) -> Numbers:
    """Number the rows of each question from 1; return the number of each row.

    ``question`` contains the index of each row's question, in ascending order.
    """
    return np.arange(1, len(question) + 1) - np.searchsorted(question, question)


@dataclass(frozen=True)
class StepResults:
    """The facts about one step, such as generation or judging, for every question: columns (questions,).

    An unknown fact is NaN or "". ``ms`` is the duration in milliseconds, which is known for every answer and for
    questions whose latency is probed. ``tokens_in``, ``tokens_out`` and ``money`` are the cost of the calls when they
    were made, even if the result is read from the store. ``model`` is the model's name as the service returned it
    or, for a judge, as in the config; ``words`` are a judge's reasons.
    """

    ms: Sequence[float]
    tokens_in: Sequence[float]
    tokens_out: Sequence[float]
    money: Sequence[float]
    model: Sequence[str]
    words: Sequence[str]

    @classmethod
    def of(cls, count: int, columns: Mapping[str, Sequence[Any]]) -> StepResults:
        """Return the facts about a step for ``count`` questions; a fact whose column is missing or empty is unknown."""
        return cls(**{name: columns.get(name) or [unknown] * count for name, unknown in UNKNOWN.items()})

    @property
    def known(self) -> dict[str, Sequence[Any]]:
        """The columns with at least one known fact, by name."""
        return {name: column for name, column in vars(self).items() if any(map(is_known, column))}


def is_known(value: Any) -> bool:
    """Return whether a fact about a step is known, that is, not NaN, "" or None."""
    return value not in ("", None) and value == value  # NaN differs from itself


BY_QUESTION = ("top", "scores")
"""The fields of EvidenceRanks whose arrays have one value per question, not per piece of evidence."""


@dataclass(frozen=True, eq=False)
class EvidenceRanks:
    """The rank of each piece of evidence after each stage (pieces,), from 1; 0 if the stage does not return the piece.

    The pieces are in the order of the questions and, within a question, in the order of the golden set. Scores have six
    significant digits.
    """

    question: Numbers  # the row of the question
    held: Doubles  # 1 if one chunk covers the piece, else the largest share of it in a chunk, to 3 decimals
    legs: Mapping[str, Numbers]  # in each leg of a hybrid, by name
    exact: Mapping[str, Numbers]  # by exact search, for each leg with an approximate index
    first: Numbers | None  # before reranking, after fusion; None if there is no reranker
    ranked: Numbers  # in the final ranking
    context: Numbers | None  # 1 if in the context, else 0; None if there is no token budget
    top: Doubles | None  # (questions,): score of the first reranked chunk, NaN without evidence; None if not reranked
    scores: Mapping[str, Mapping[str, Doubles]]
    """leg -> metric -> score of this leg alone (questions,), NaN if unknown; leg "" is the ranking before reranking."""

    @property
    def stages(self) -> dict[str, Numbers]:
        """The ranks by name of the stage, in this order: the legs, "before reranking" (with a reranker), "final"."""
        first = {} if self.first is None else {"before reranking": self.first}
        return {**self.legs, **first, "final": self.ranked}

    def of_question(self, question: int) -> slice:
        """Return the slice of the evidence of the question in row ``question``; it is empty without evidence."""
        low, high = np.searchsorted(self.question, [question, question + 1]).tolist()
        return slice(low, high)

    def without(self, lost: Flags) -> EvidenceRanks:
        """Return a copy in which the flagged questions (questions,) have no evidence, and NaN as scores."""
        kept = ~lost[self.question]

        def change(name: str, column: Any) -> Any:
            return np.where(lost, math.nan, column) if name in BY_QUESTION else column[kept]

        return EvidenceRanks(**{name: map_arrays(one, partial(change, name)) for name, one in vars(self).items()})


def map_arrays(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested mappings with ``change`` applied to every array in them; None remains None."""
    if isinstance(value, Mapping):
        return {name: map_arrays(one, change) for name, one in value.items()}
    return None if value is None else change(value)


class JudgedCases(NamedTuple):
    """The judgements of repeated answers by one metric: arrays (questions, repetitions)."""

    cases: NDArray[np.str_]  # hash of the judged case; "" if the error is unknown
    errors: Doubles  # standard error of the judgement; NaN if unknown


@dataclass(frozen=True, eq=False)
class Repetitions:
    """The repeated answers to every question, and their scores: arrays (questions, repetitions)."""

    answers: Numbers  # the index of the first repetition with the same text
    scores: Mapping[str, Doubles]  # by metric; NaN where a repetition has no score
    judged: Mapping[str, JudgedCases] = field(default_factory=dict)  # by metric with repeated judgements


@dataclass(frozen=True, eq=False)
class QuestionResults(Mapping[str, Sequence[Any]]):
    """The results of one config by question: a mapping of names to columns of single values, and nested results.

    ``columns`` has ``question_id``, ``question``, ``category`` and other labels, facts about the ranking and the
    answer, and one column per metric (NaN where not measured). The other fields have nested results; they are empty or
    None if the config has no such results or if the record is from a release without them.
    """

    columns: Mapping[str, Sequence[Any]]
    unscored: Sequence[Mapping[str, str]] = ()  # by question: metric -> reason for its missing score
    steps: Mapping[str, StepResults] = field(default_factory=dict)
    evidence: EvidenceRanks | None = None
    repetitions: Repetitions | None = None

    def __getitem__(self, name: str) -> Sequence[Any]:
        """Return the column of single values with this name."""
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the columns of single values."""
        return iter(self.columns)

    def __len__(self) -> int:
        """Return the number of ``columns``; ``rows`` is the number of questions."""
        return len(self.columns)

    @property
    def rows(self) -> int:
        """The number of questions; 0 without columns."""
        return len(next(iter(self.columns.values()), ()))

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each question, by the question's id."""
        return {name: row for row, name in enumerate(self["question_id"])}

    @property
    def judged(self) -> list[str]:
        """The names of the judged metrics."""
        return [name.removeprefix(JUDGE) for name in self.steps if name.startswith(JUDGE)]

    def with_columns(self, columns: Mapping[str, Sequence[Any]]) -> QuestionResults:
        """Return a copy with columns of single values added or replaced."""
        return replace(self, columns={**self.columns, **columns})

    def steps_of(self, question: int) -> dict[str, dict[str, Any]]:
        """Return a mapping of steps to the known facts about the question in row ``question``.

        The steps are in the order of ``steps``; steps without known facts are omitted.
        """
        rows = (
            (name, {fact: value for fact, column in columns.items() if is_known(value := column[question])})
            for name, columns in self._known_steps.items()
        )
        return {name: row for name, row in rows if row}

    @cached_property
    def _known_steps(self) -> dict[str, dict[str, Sequence[Any]]]:
        return {name: step.known for name, step in self.steps.items()}

    def words_of(self, question: int) -> dict[str, str]:
        """Return a mapping of judged metrics to the judge's reasons for the question in row ``question``.

        Metrics without reasons are omitted.
        """
        words = {metric: self.steps[f"{JUDGE}{metric}"].words[question] for metric in self.judged}
        return {metric: text for metric, text in words.items() if text}
