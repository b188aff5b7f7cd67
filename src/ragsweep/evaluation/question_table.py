"""The question table: outcomes by question, and rankings as text for other tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import Faults
from ragsweep.core.missing import ReasonCodes
from ragsweep.core.types import NO_CHUNK, Chunks, EvaluationView, Question, Rankings, Scores
from ragsweep.evaluation.evidence import Coverage
from ragsweep.evaluation.questions import QuestionTable
from ragsweep.golden.trec import Run, write_qrels, write_run

COLUMNS = ("question_id", "question", "answerable", "source", "query", "evidence", "first_evidence_rank", "retrieved",
           "context", "context_cut", "answer", "abstained", "answer_failed", "category", "unscored")  # fmt: skip
"""The columns of the table of outcomes beside further labels and metrics."""


@dataclass(frozen=True, eq=False)
class ChunkNames:
    """The chunks of one chunking as people and files name them; each name is made when it is first asked for.

    A name is the document's id, and the span where that is not the whole document, or where the id itself could be such
    a name of another document's chunk.
    """

    chunks: Chunks
    _names: dict[int, str] = field(default_factory=dict)

    def of(self, positions: NDArray[np.int32]) -> list[list[str]]:
        """Name the chunks of rankings (questions, depth); padding has no name."""
        found = positions != NO_CHUNK
        asked = positions[found].tolist()
        try:
            names = list(map(self._names.__getitem__, asked))
        except KeyError:
            for position in set(asked).difference(self._names):
                self._names[position] = self._name(position)
            names = list(map(self._names.__getitem__, asked))
        ends = np.cumsum(found.sum(axis=1)).tolist()
        return [names[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _name(self, position: int) -> str:
        spans, corpus = self.chunks.spans, self.chunks.corpus
        document, start, end = (int(column[position]) for column in spans)
        whole = start == 0 and end == len(corpus.texts[document])
        identifier = corpus.ids[document]
        mistakable = identifier.rpartition(":")[0] in corpus.position
        return identifier if whole and not mistakable else f"{identifier}:{start}-{end}"


class RunTexts(Mapping[str, str]):
    """Rankings in TREC run format, or their qrels, by the address of the ranking; a text is written when it is read."""

    def __init__(self, makers: Mapping[str, Callable[[], str]]) -> None:
        self._makers = dict(makers)

    def __getitem__(self, address: str) -> str:
        """Write one text."""
        return self._makers[address]()

    def __iter__(self) -> Iterator[str]:
        """Name the rankings; this writes nothing."""
        return iter(self._makers)

    def __len__(self) -> int:
        """Count the rankings."""
        return len(self._makers)


def run_text(questions: Sequence[Question], rankings: Rankings, names: ChunkNames, tag: str) -> str:
    """Write rankings as a TREC run: question id, chunk name, rank, score; best first."""
    rows = zip(questions, names.of(rankings.positions), rankings.scores.tolist(), strict=True)
    run: Run = {question.id: list(zip(named, scores, strict=False)) for question, named, scores in rows}
    return write_run(run, tag=tag)


def qrels_text(coverage: Coverage, names: ChunkNames) -> str:
    """Write the relevant chunks as TREC qrels: those that cover evidence, with the best grade covered.

    Chunks have the names that they have in runs. Where several chunks cover one evidence each of them is relevant, and
    tools that know no evidence count each: our metrics credit the first.
    """
    found: dict[str, dict[str, float]] = {}
    named = names.of(coverage.chunk.astype(np.int32)[:, None])
    owners = coverage.question[coverage.evidence].tolist()
    for question, (name,), grade in zip(owners, named, coverage.grade[coverage.evidence].tolist(), strict=True):
        row = found.setdefault(coverage.questions[question].id, {})
        row[name] = max(grade, row.get(name, grade))
    return write_qrels(found)


def check_labels(asked: QuestionTable, metrics: Collection[str]) -> None:
    """Raise InputError for labels that would take the column of something else."""
    faults = Faults()
    for label, where in asked.places.items():
        if label in COLUMNS or label in metrics:
            what = "a metric" if label in metrics else "a column of the table of questions"
            faults.add(where, f'the label "{label}" has the name of {what}; rename it')
    faults.raise_any()


def outcomes(
    looked: EvaluationView,
    asked: QuestionTable,
    scores: Mapping[str, Scores],
    reasons: Mapping[str, ReasonCodes],
    names: ChunkNames,
) -> dict[str, list[Any]]:
    """Return one row a question: labels, retrieved evidence, every score, and why a score is missing."""
    positions = looked.rankings.positions
    return {
        **{name: list(column) for name, column in asked.columns.items()},
        "evidence": np.bincount(looked.evidence_question, minlength=len(looked.questions)).tolist(),
        "first_evidence_rank": _first_rank(looked).tolist(),
        "retrieved": np.count_nonzero(positions != NO_CHUNK, axis=1).tolist(),
        "context": names.of(looked.context),
        **_answered(looked),
        **{label: list(values) for label, values in asked.labels.items()},
        **{name: scored.values.tolist() for name, scored in scores.items()},
        "unscored": _unscored(reasons, len(looked.questions)),
    }


def _answered(looked: EvaluationView) -> dict[str, list[Any]]:
    """Return the columns of answers, and of chunks that the token budget left out; none without either."""
    columns: dict[str, list[Any]] = {}
    if looked.context_length is not None:
        handed = np.count_nonzero(looked.rankings.positions[:, : looked.top_k] != NO_CHUNK, axis=1)
        columns["context_cut"] = (handed - looked.context_length).tolist()
    if looked.answers is not None:
        said = looked.answers.answers
        columns["answer"] = [answer.text for answer in said]
        columns["abstained"] = [answer.abstained for answer in said]
        columns["answer_failed"] = [answer.failed for answer in said]
    return columns


def _unscored(reasons: Mapping[str, ReasonCodes], questions: int) -> list[str]:
    """Return for each question its unscored metrics and the reasons, as JSON."""
    kind = np.zeros(questions, dtype=np.int64)
    for one in {id(one): one for one in reasons.values() if len(one.names) > 1}.values():
        kind = np.unique(kind * len(one.names) + one.numbers, return_inverse=True)[1]
    texts = []
    for n in np.unique(kind, return_index=True)[1].tolist():
        said = {metric: one.names[one.numbers[n]] for metric, one in reasons.items()}
        texts.append(json.dumps({metric: reason for metric, reason in said.items() if reason}))
    return [texts[number] for number in kind.tolist()]


def _first_rank(looked: EvaluationView) -> NDArray[np.int64]:
    """Find the first rank that covers any evidence of each question; 0 where none does."""
    never = np.iinfo(np.int64).max
    first = np.full(len(looked.questions), never)
    np.minimum.at(first, looked.evidence_question, np.where(looked.first_rank > 0, looked.first_rank, never))
    return np.where(first == never, 0, first)
