"""Write rankings and labels as TREC run and qrels files, by chunk and by evidence, for other evaluation tools.

A run has lines ``question Q0 document rank score tag``, and qrels have lines ``question iteration document grade``.
Tools such as trec_eval (https://github.com/usnistgov/trec_eval) order a run by the score, which they read in single
precision, and ignore the rank.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from urllib.parse import quote

import numpy as np

from ragsweep.core.identity import content_hash
from ragsweep.core.question_results import Numbers, number_within
from ragsweep.core.types import NO_CHUNK, EvaluationView, Floats, Question
from ragsweep.evaluation.evidence import Coverage
from ragsweep.evaluation.question_table import ChunkNames, QuestionTable


class LazyTexts(Mapping[str, str]):
    """The contents of run or qrels files, by address; each string is generated whenever it is read."""

    def __init__(self, makers: Mapping[str, Callable[[], str]]) -> None:
        self._makers = dict(makers)

    def __getitem__(self, name: str) -> str:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def run_text(view: EvaluationView, names: ChunkNames, tag: str) -> str:
    """Return rankings as a TREC run, best chunks first: question id, Q0, chunk name, rank, score and tag."""
    positions, ids = view.rankings.positions, [question.id for question in view.questions]
    return write_run(ids, names.of(positions), view.rankings.scores[positions != NO_CHUNK], tag)


def run_address(table: QuestionTable, address: str, labels: tuple[str, float], failed: Collection[int]) -> str:
    """Return the address of a run and its qrels: the hash of everything that determines their contents.

    The hash covers the ranking's ``address``, the written queries, the searched and the failed questions, and
    ``labels``, which are the digest of the golden set and the threshold of evidence.
    """
    lost = sorted(table.questions[n].id for n in failed)
    return content_hash([address, table.written, table.rows.tolist(), *labels, lost])


def qrels_text(coverage: Coverage, names: ChunkNames, failed: Collection[int] = ()) -> str:
    """Return TREC qrels of the chunks that cover evidence, each with the highest grade of the evidence that it covers.

    Questions at the indices ``failed`` have no result and are omitted, because tools score 0 for a question that is in
    the qrels but not in the run. Chunks have the same names as in runs. If several chunks cover one piece of evidence,
    all are relevant, and other tools count each of them, whereas our metrics credit only the first.
    """
    found: dict[str, dict[str, float]] = {}
    named = names.of(coverage.chunk.astype(np.int32)[:, None])
    owners = coverage.question[coverage.evidence].tolist()
    for question, (name,), grade in zip(owners, named, coverage.grade[coverage.evidence].tolist(), strict=True):
        if question not in failed:
            row = found.setdefault(coverage.questions[question].id, {})
            row[name] = max(grade, row.get(name, grade))
    return write_qrels(found)


def evidence_run_texts(
    view: EvaluationView, tag: str, ranking: str, context: str, failed: Collection[int]
) -> LazyTexts:
    """Return runs by evidence: under the address ``ranking`` and, with a token budget, also under ``context``."""
    views = {ranking: replace(view, context_length=None)}
    if view.context_length is not None:
        views[context] = view
    return LazyTexts({address: partial(evidence_run_text, one, tag, failed) for address, one in views.items()})


def evidence_run_text(view: EvaluationView, tag: str, failed: Collection[int] = ()) -> str:
    """Return rankings as a TREC run by evidence, best ranks first.

    Each line represents a rank. Its document is ``evidence:N`` if our metrics credit the question's N-th piece of
    evidence at this rank, else the irrelevant document ``rank:R``. The scores -1, -2 and so on define the order. The
    rank field, which tools ignore, contains the rank of the covering chunk. It may be smaller than the credited rank,
    because several pieces of evidence in one chunk are credited at successive ranks. With a token budget, evidence
    counts as found only in chunks within the budget. Questions without evidence or in ``failed`` are omitted.
    """
    first = view.first_rank
    if view.context_length is not None:
        first = np.where(first > view.context_length[view.evidence_question], 0, first)
    found: dict[int, dict[int, str]] = {n: {} for n in view.evidence_question.tolist() if n not in failed}
    numbers = number_within(view.evidence_question).tolist()
    rows = zip(view.evidence_question.tolist(), numbers, first.tolist(), view.credited_rank.tolist(), strict=True)
    for question, number, rank, place in rows:
        if rank and question in found:
            found[question][place] = f"evidence:{number} {rank}"
    return "".join(
        f"{encode_id(view.questions[question].id)} Q0 {places.get(n, f'rank:{n} {n}')} {-n} {encode_id(tag)}\n"
        for question, places in found.items()
        for n in range(1, max(places, default=1) + 1)
    )


def evidence_qrels_text(coverage: Coverage, failed: Collection[int] = ()) -> str:
    """Return TREC qrels for runs by evidence; questions at the indices ``failed`` are omitted."""
    found: dict[str, dict[str, float]] = {}
    numbers = number_within(coverage.question).tolist()
    for question, number, grade in zip(coverage.question.tolist(), numbers, coverage.grade.tolist(), strict=True):
        if question not in failed:
            found.setdefault(coverage.questions[question].id, {})[f"evidence:{number}"] = grade
    return write_qrels(found)


Qrels = Mapping[str, Mapping[str, float]]
"""Question id -> document id -> grade; a grade above 0 means relevant."""

_SIGN = np.int64(1 << 31)


def write_run(
    questions: Sequence[str], documents: Sequence[Sequence[str]], scores: Floats, tag: str = "ragsweep"
) -> str:
    """Return rankings as text in TREC run format.

    Each question has a list of ``documents``, the best first. ``scores`` (single precision) are the scores of all
    lists, one list after another, and are rounded to six significant digits. A rounded score that is not below the
    preceding score of its list is replaced by the largest single-precision number below that score, so that every tool
    keeps the order of ties. White space and existing percent codes in ids are percent-encoded, so that
    ``urllib.parse.unquote`` restores every id. The last field, ``tag``, names the system.
    """
    lengths = [len(row) for row in documents]
    written = strictly_falling(six_digits(scores), np.repeat(np.arange(len(lengths)), lengths))
    lines: list[str] = []
    begin, end = 0, f" {encode_id(tag)}\n"
    for question, row in zip(questions, documents, strict=True):
        start, texts = f"{encode_id(question)} Q0 ", written[begin : begin + len(row)].astype(np.str_).tolist()
        begin += len(row)
        lines += [
            f"{start}{document} {rank} {score}{end}"
            for rank, (document, score) in enumerate(zip(map(encode_id, row), texts, strict=True), start=1)
        ]
    return "".join(lines)


def write_qrels(qrels: Qrels) -> str:
    """Return grades in qrels format; fractions are kept, although trec_eval reads only whole numbers."""
    rows = [(question, *grade) for question, grades in qrels.items() for grade in grades.items()]
    return "".join(f"{encode_id(question)} 0 {encode_id(document)} {grade:g}\n" for question, document, grade in rows)


def grades(questions: Sequence[Question]) -> dict[str, dict[str, float]]:
    """Return labels as qrels; a document's grade is the highest grade of the question's evidence in it."""
    table: dict[str, dict[str, float]] = {}
    for question in questions:
        row = table.setdefault(question.id, {})
        for evidence in question.evidence:
            row[evidence.document] = max(evidence.grade, row.get(evidence.document, evidence.grade))
    return table


def six_digits(scores: Floats) -> Floats:
    """Round scores to six significant digits in single precision; all scores must be finite."""
    magnitude = np.where(scores == 0, 1, np.abs(scores.astype(np.float64)))
    scale = 10.0 ** (5 - np.floor(np.log10(magnitude)))
    return (np.round(scores * scale) / scale).astype(np.float32)


def strictly_falling(scores: Floats, rows: Numbers | int = 0) -> Floats:
    """Return the scores of rankings, lowered just enough that they strictly decrease in single precision.

    ``rows`` has the number of each score's ranking, in ascending order.
    """
    # Map the floats to integers in the same order, so that neighbouring floats differ by 1. Each integer then becomes
    # min(itself, preceding result - 1), which is a running minimum after adding its position. Subtracting more than the
    # range of these integers for each ranking restarts the minimum at each ranking.
    step = np.arange(len(scores)) - (rows << 33)
    bits = scores.view(np.uint32).astype(np.int64)
    numbers = np.where(bits & _SIGN, -(bits & ~_SIGN), bits)
    lowered = np.minimum.accumulate(numbers + step) - step
    return np.where(lowered < 0, -lowered | _SIGN, lowered).astype(np.uint32).view(np.float32)


@lru_cache(maxsize=65_536)
def encode_id(identifier: str) -> str:
    """Return an id with white space and existing percent codes percent-encoded."""
    return re.sub(r"\s|%(?=[0-9a-fA-F]{2})", lambda match: quote(match[0]), identifier)
