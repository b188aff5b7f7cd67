"""The questions of a golden set as columns, the results of a config by question, and the names of chunks."""

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import Faults
from ragsweep.core.identity import content_hash
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import ReasonCodes
from ragsweep.core.ordering import in_order
from ragsweep.core.question_results import Numbers
from ragsweep.core.question_texts import FIELDS
from ragsweep.core.types import NO_CHUNK, Chunks, Corpus, EvaluationView, Question, Scores, weights_of
from ragsweep.evaluation.answering import QuestionKey, question_key
from ragsweep.evaluation.evidence import lowest_ranks
from ragsweep.golden.clusters import clusters
from ragsweep.parts.answer_outputs import read_outputs

COLUMNS = ("question_id", "question", "reference", "case_fields", "answerable", "needs_retrieval", "source", "weight",
           "query", "evidence", "searched", "first_evidence_rank", "retrieved", "context", "context_scores",
           "context_cut", "answer", "abstained", "answer_failed", "answer_thoughts", "category", "output_fault",
           "unscored", "answer_repetitions", "evidence_trace", "steps")  # fmt: skip
"""The fixed columns of the table of results (outcomes.parquet); its other columns are labels and metrics."""

MOST_GROUPS = 40
"""Maximum number of values of a label by which results are grouped; more values indicate an identifier."""

MOST_PROBED = 60
"""Maximum number of search texts probed; the longest of 59 times exceeds the p95 with 95 % confidence."""


SPAN = re.compile(r"\d+-\d+")
"""Matches START-END, the span after the last colon of a chunk's name."""


@dataclass(frozen=True, eq=False)
class QuestionTable:
    """The questions of one golden set as columns; each column is computed when it is first read."""

    questions: Sequence[Question]
    routed: bytes = b""  # one byte per question, 1 if the router chose to search, else 0; empty if there is no router
    written: str = ""  # a JSON list of all search texts; empty if no queries were written

    @cached_property
    def searched(self) -> NDArray[np.bool_]:
        """Flags of the questions that are searched (questions,): from the router, else from the golden set."""
        if self.routed:
            return np.frombuffer(self.routed, dtype=np.bool_)
        return np.array([question.needs_retrieval for question in self.questions], dtype=np.bool_)

    @cached_property
    def rows(self) -> Numbers:
        """The indices of the questions that are searched."""
        return np.flatnonzero(self.searched)

    @cached_property
    def texts(self) -> Sequence[str]:
        """The search text of each question.

        The search text is the written query, else the golden set's query, else the question's text.
        """
        written: list[str] = json.loads(self.written) if self.written else []
        return written or [question.query or question.text for question in self.questions]

    @cached_property
    def queries(self) -> tuple[str, ...]:
        """The search texts of the questions that are searched."""
        return tuple(self.texts[n] for n in self.rows.tolist())

    @cached_property
    def probed(self) -> tuple[str, ...]:
        """The MOST_PROBED distinct search texts with the lowest hashes, for which latency is measured.

        The order of the questions therefore has no effect, and a few additional questions replace few of the chosen
        texts.
        """
        return tuple(sorted(set(self.queries), key=content_hash)[:MOST_PROBED])

    @cached_property
    def probe(self) -> Numbers:
        """The index in ``probed`` of each question's search text (questions,); if absent, the length of ``probed``."""
        place = {text: n for n, text in enumerate(self.probed)}
        return np.array([place.get(text, len(place)) for text in self.texts], dtype=np.int64)

    @cached_property
    def answered(self) -> tuple[QuestionKey, ...]:
        """The keys of the questions to answer: all questions, including those that need no retrieval."""
        return tuple(question_key(*one) for one in self._rows())

    @cached_property
    def judged(self) -> tuple[QuestionKey, ...]:
        """The keys in ``answered``, each with the question's first correct answer, if any, for judges."""
        return tuple(question_key(*one, reference=True) for one in self._rows())

    @cached_property
    def wordings(self) -> tuple[QuestionKey, ...]:
        """A key for each question, made only from its text and history."""
        return tuple(QuestionKey(question.text, question.history) for question in self.questions)

    @cached_property
    def conversations(self) -> Numbers:
        """The indices of the questions that are searched and have a history."""
        return np.array([n for n in self.rows.tolist() if self.questions[n].history], dtype=np.int64)

    def _rows(self) -> Iterator[tuple[Question, bool, str]]:
        return zip(self.questions, self.searched.tolist(), self.texts, strict=True)

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """The weight of each question; None if all are equal."""
        weights = weights_of(self.questions)
        return None if weights is None else np.array(weights, dtype=np.float64)

    @cached_property
    def clusters(self) -> Numbers:
        """The number of each question's cluster (questions,)."""
        return np.unique(np.array(self.columns["source"], dtype=np.str_), return_inverse=True)[1]

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The columns of the table of results that describe the questions.

        They are the same for every config, except ``query`` if a query writer or external system replaces the queries.
        """
        needed = [question.needs_retrieval for question in self.questions]
        fields = [dict(question.fields) for question in self.questions]
        references = ["\n".join(question.references) for question in self.questions]
        return {
            "question_id": [question.id for question in self.questions],
            "question": [question.text for question in self.questions],
            **({"reference": references} if any(references) else {}),
            **({FIELDS: fields} if any(fields) else {}),
            "answerable": [question.answerable for question in self.questions],
            "source": list(clusters(self.questions)),
            **({"needs_retrieval": needed} if not all(needed) else {}),
            **({} if self.weights is None else {"weight": self.weights.tolist()}),
            **({"query": list(self.texts)} if self.written or any(one.query for one in self.questions) else {}),
        }

    @cached_property
    def labels(self) -> dict[str, list[str]]:
        """Label -> its value for every question ("" if the question lacks it); the category is the first label."""
        others = sorted({label for question in self.questions for label in question.labels} - {"category"})
        return {
            "category": [question.category for question in self.questions],
            **{label: [str(question.labels.get(label, "")) for question in self.questions] for label in others},
        }

    @cached_property
    def groups(self) -> dict[str, dict[str, Numbers]]:
        """The labels with 2 to MOST_GROUPS values: label -> value -> indices of the questions with this value."""
        grouped = {}
        for label, values in self.labels.items():
            names = in_order(sorted({value for value in values if value}))
            if 2 <= len(names) <= MOST_GROUPS:
                grouped[label] = {name: np.flatnonzero([value == name for value in values]) for name in names}
        return grouped


tabulate = memoize_by_identity(QuestionTable)
"""Return the table of questions; calls with the same arguments return the same object while it is cached."""


@dataclass(frozen=True, eq=False)
class ChunkNames:
    """The names of a chunking's chunks in tables and files; each name is computed when it is first needed.

    A name is DOCUMENT:START-END, with the id of the document and the span of the chunk. The span is omitted if the
    chunk is the whole document and the id alone cannot be mistaken for the name of another document's chunk.
    """

    chunks: Chunks
    _names: dict[int, str] = field(default_factory=dict)

    def of(self, positions: NDArray[np.int32]) -> list[list[str]]:
        """Return the names of the chunks in each row of ``positions`` (questions, depth), without the padding."""
        is_chunk = positions != NO_CHUNK
        numbers = positions[is_chunk].tolist()
        for position in set(numbers).difference(self._names):
            self._names[position] = self._name(position)
        names = list(map(self._names.__getitem__, numbers))
        ends = np.cumsum(is_chunk.sum(axis=1)).tolist()
        return [names[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _name(self, position: int) -> str:
        spans, corpus = self.chunks.spans, self.chunks.corpus
        document, start, end = (int(column[position]) for column in spans)
        whole = start == 0 and end == len(corpus.texts[document])
        identifier = corpus.ids[document]
        mistakable = identifier.rpartition(":")[0] in corpus.position
        return identifier if whole and not mistakable else f"{identifier}:{start}-{end}"


def chunk_place(corpus: Corpus, name: str) -> tuple[int, int, int] | None:
    """Return the location of a chunk by its name (see `ChunkNames`): position of the document, start and end.

    Return None if the name matches no document, or if its span is malformed.
    """
    identifier, _, span = name.rpartition(":")
    if identifier not in corpus.position:  # the name of a whole document
        identifier, span = name, f"0-{sys.maxsize}"
    document = corpus.position.get(identifier)
    if document is None or not SPAN.fullmatch(span):
        return None
    start, end = map(int, span.split("-"))
    return document, start, min(end, len(corpus.texts[document]))


def chunk_text(corpus: Corpus, name: str) -> str:
    """Return the title and text of a chunk, as indexed, by its name; "" if `chunk_place` does not find the chunk."""
    if (place := chunk_place(corpus, name)) is None:
        return ""
    document, start, end = place
    return " ".join(filter(None, (corpus.titles[document], corpus.texts[document][start:end])))


def beginning(text: str, most: int) -> str:
    """Return the first ``most`` characters of ``text``, on one line; " ..." is added if ``text`` is longer."""
    line = " ".join(text[: 2 * most].split())  # usually enough, and much cheaper for a long text
    text = line if len(line) > most else " ".join(text.split())
    return text if len(text) <= most else f"{text[:most].rstrip()} ..."


def check_labels(questions: Sequence[Question], metrics: Collection[str], faults: Faults) -> None:
    """Add a fault for each label with the same name as a metric or as a fixed column of the table of results."""
    first = {label: question.where for question in reversed(questions) for label in question.labels}
    for label, where in first.items():
        if label in COLUMNS or label in metrics:
            what = "a metric" if label in metrics else "a column of the table of questions"
            faults.add(where, f'the label "{label}" has the same name as {what}; rename it')


def tabulate_results(
    view: EvaluationView,
    table: QuestionTable,
    scores: Mapping[str, Scores],
    names: ChunkNames,
    failed: NDArray[np.bool_],
) -> dict[str, list[Any]]:
    """Return the columns of the table of results: the questions, labels, retrieval, answers and scores.

    ``failed`` (questions,) flags questions whose search, or a stage before it, failed. For these questions, the first
    rank of evidence and the numbers of retrieved chunks and of cut chunks are NaN.
    """
    count = len(view.questions)
    columns: dict[str, list[Any]] = {name: list(column) for name, column in table.columns.items()}
    columns["searched"] = table.searched.tolist()
    columns["evidence"] = np.bincount(view.evidence_question, minlength=count).tolist()
    first = lowest_ranks(view.first_rank, view.evidence_question, count)
    columns["first_evidence_rank"] = _measured(first, failed)
    columns["retrieved"] = _measured(view.rankings.lengths, failed)
    columns["context"] = names.of(view.context)
    columns["context_scores"] = _context_scores(view)
    if view.context_length is not None:
        columns["context_cut"] = _measured(view.rankings.first(view.top_k).lengths - view.context_length, failed)
    if view.answers is not None:
        answers = view.answers.answers
        columns["answer"] = [answer.text for answer in answers]
        columns["abstained"] = [answer.abstained for answer in answers]
        columns["answer_failed"] = [answer.failed for answer in answers]
        columns["answer_thoughts"] = [answer.thoughts for answer in answers]
        if view.output and any(faults := [one.unreadable for one in read_outputs(view.answers, view.output)]):
            columns["output_fault"] = faults
    columns |= {label: list(values) for label, values in table.labels.items()}
    return columns | {name: scored.values.tolist() for name, scored in scores.items()}


def _context_scores(view: EvaluationView) -> list[list[float]]:
    """Return the scores of the chunks in each context, rounded to six significant digits to keep records small."""
    inside = view.context != NO_CHUNK
    scores = view.rankings.scores[:, : inside.shape[1]]
    return [[float(f"{score:.6g}") for score in row[kept].tolist()] for row, kept in zip(scores, inside, strict=True)]


def _measured(counts: Numbers, failed: NDArray[np.bool_]) -> list[Any]:
    """Return counts as a list of Python numbers, with NaN for the questions flagged by ``failed``."""
    values: list[Any] = (np.where(failed, np.nan, counts) if failed.any() else counts).tolist()
    return values


def missing_reasons(reasons: Mapping[str, ReasonCodes], questions: int) -> list[Mapping[str, str]]:
    """Return, for each question, a mapping from unscored metrics to reasons; equal mappings are the same object."""
    distinct = {id(codes): codes for codes in reasons.values() if len(codes.names) > 1}.values()
    combinations = list(zip(*(codes.numbers.tolist() for codes in distinct), strict=True)) or [()] * questions
    rows: dict[tuple[int, ...], Mapping[str, str]] = {}
    for n, combination in enumerate(combinations):
        if combination not in rows:
            row = {metric: codes.names[codes.numbers[n]] for metric, codes in reasons.items()}
            rows[combination] = {metric: reason for metric, reason in row.items() if reason}
    return [rows[combination] for combination in combinations]
