"""Results by question: typed columns of one config, one row per question."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

JUDGE = "judge/"
"""The step of a judged metric is named by this prefix and the metric's name."""

UNKNOWN: Mapping[str, Any] = {
    **dict.fromkeys(("ms", "tokens_in", "tokens_out", "money"), math.nan),
    **dict.fromkeys(("model", "words"), ""),
}
"""Each fact of a step -> the value that means that the fact is unknown."""


@dataclass(frozen=True)
class StepResults:
    """The facts of one step, each (questions,): NaN or "" where unknown.

    ``ms`` is known for questions whose latency is probed, and for every answer. ``tokens_in``, ``tokens_out`` and
    ``money`` are the cost of the original calls; ``model`` is the model's name as the service returned it; ``words``
    are a judge's reasons.
    """

    ms: Sequence[float]
    tokens_in: Sequence[float]
    tokens_out: Sequence[float]
    money: Sequence[float]
    model: Sequence[str]
    words: Sequence[str]

    @classmethod
    def of(cls, count: int, columns: Mapping[str, Sequence[Any]]) -> StepResults:
        """Make a step of ``count`` questions from its known columns."""
        return cls(**{name: columns.get(name) or [unknown] * count for name, unknown in UNKNOWN.items()})

    @property
    def known(self) -> dict[str, Sequence[Any]]:
        """The columns that contain at least one known fact, by name."""
        return {name: column for name, column in vars(self).items() if any(map(is_known, column))}


def is_known(value: Any) -> bool:
    """Return whether a fact of a step is neither NaN nor empty."""
    return value not in ("", None) and value == value  # NaN differs from itself


BY_QUESTION = ("top", "scores")
"""Fields of EvidenceRanks with one value per question."""


@dataclass(frozen=True, eq=False)
class EvidenceRanks:
    """The rank of each piece of evidence after each stage (pieces,): from 1, or 0 if the stage does not return it.

    The pieces are in the order of the questions and, within a question, of the golden set. Scores have six significant
    digits.
    """

    question: Numbers  # the row of the question
    held: Doubles  # 1 if one chunk covers the piece, else the largest share of it in a chunk, to 3 decimals
    legs: Mapping[str, Numbers]  # in each leg of a hybrid, by name
    exact: Mapping[str, Numbers]  # by exact search, for each leg with an approximate index
    first: Numbers | None  # before reranking, after fusion; None without a reranker
    ranked: Numbers  # in the final ranking
    context: Numbers | None  # 1: in the context; None without a token budget
    top: Doubles | None  # (questions,): score of the first chunk, NaN without evidence; None without a reranker
    scores: Mapping[str, Mapping[str, Doubles]]
    """leg -> metric -> score of this leg alone (questions,), NaN where unknown; leg "": fused, before reranking."""

    @property
    def stages(self) -> dict[str, Numbers]:
        """The ranks by stage, in order: legs, "before reranking" if there is a reranker, "final"."""
        first = {} if self.first is None else {"before reranking": self.first}
        return {**self.legs, **first, "final": self.ranked}

    def of_question(self, question: int) -> slice:
        """Return the slice of the pieces that belong to the question at row ``question``."""
        low, high = np.searchsorted(self.question, [question, question + 1]).tolist()
        return slice(low, high)

    def without(self, lost: Flags) -> EvidenceRanks:
        """Return a copy without the evidence of questions flagged in ``lost`` (questions,); their scores are NaN."""
        kept = ~lost[self.question]
        changes: dict[bool, Callable[[Any], Any]] = {
            True: lambda column: np.where(lost, math.nan, column),
            False: lambda column: column[kept],
        }
        return EvidenceRanks(
            **{name: map_arrays(value, changes[name in BY_QUESTION]) for name, value in vars(self).items()}
        )


def map_arrays(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to every array in nested mappings; None stays None."""
    if isinstance(value, Mapping):
        return {name: map_arrays(one, change) for name, one in value.items()}
    return None if value is None else change(value)


class JudgedCases(NamedTuple):
    """Judgements of repeated answers (questions, repetitions)."""

    cases: NDArray[np.str_]  # hash of the judged case; "" if the error is unknown
    errors: Doubles  # standard error of the judgement; NaN if unknown


@dataclass(frozen=True, eq=False)
class Repetitions:
    """The repeated answers of every question (questions, repetitions)."""

    answers: Numbers  # the index of the first repetition with the same text
    scores: Mapping[str, Doubles]  # by metric; NaN where a repetition has none
    judged: Mapping[str, JudgedCases] = field(default_factory=dict)  # by metric with repeated judgements


@dataclass(frozen=True, eq=False)
class QuestionResults(Mapping[str, Sequence[Any]]):
    """The results of one config by question: a mapping of the columns with single values, and typed nested columns.

    ``columns`` has ``question_id``, ``question``, ``category`` and further labels, facts about ranking and answer, and
    one column per metric (NaN where not measured). The other fields are empty or None if the config has no such
    results, and in records of releases that lacked them.
    """

    columns: Mapping[str, Sequence[Any]]
    unscored: Sequence[Mapping[str, str]] = ()  # metric -> why it has no score
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
        """Count the columns of single values."""
        return len(self.columns)

    @property
    def rows(self) -> int:
        """The number of questions."""
        return len(next(iter(self.columns.values()), ()))

    @property
    def judged(self) -> list[str]:
        """The metrics decided by a judge."""
        return [name.removeprefix(JUDGE) for name in self.steps if name.startswith(JUDGE)]

    def with_columns(self, columns: Mapping[str, Sequence[Any]]) -> QuestionResults:
        """Return a copy with columns of single values added or replaced."""
        return replace(self, columns={**self.columns, **columns})

    def steps_of(self, question: int) -> dict[str, dict[str, Any]]:
        """Map each step, in order, to the known facts of one question; steps without any are omitted."""
        rows = (
            (name, {fact: value for fact, column in columns.items() if is_known(value := column[question])})
            for name, columns in self._known_steps.items()
        )
        return {name: row for name, row in rows if row}

    @cached_property
    def _known_steps(self) -> dict[str, dict[str, Sequence[Any]]]:
        return {name: step.known for name, step in self.steps.items()}

    def words_of(self, question: int) -> dict[str, str]:
        """Map each judged metric to the judge's reasons for one question; metrics without any are omitted."""
        words = {metric: self.steps[f"{JUDGE}{metric}"].words[question] for metric in self.judged}
        return {metric: text for metric, text in words.items() if text}
