"""Read and write TREC run and qrels files, so that rankings can be judged by other tools, and theirs by our metrics.

A run has lines ``question Q0 document rank score tag``, qrels have ``question iteration document grade``, separated by
white space. Runs are ordered as trec_eval (https://github.com/usnistgov/trec_eval) does: by score, kept in single
precision, falling; equal scores by document id, falling; the rank column is ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.types import NO_CHUNK, Chunks, Corpus, Evidence, Floats, GoldenSet, Question, Rankings, Spans
from ragsweep.golden.reading import plain_number

Run = Mapping[str, Sequence[tuple[str, float]]]
"""The documents of each question with their scores, best first."""

Qrels = Mapping[str, Mapping[str, float]]
"""The grades of each question's documents; above 0 is relevant."""

_SIGN = np.int64(1 << 31)


class Imported(NamedTuple):
    """A run and its qrels as the arrays that coverage and metrics read: every document is a chunk without text."""

    chunks: Chunks
    golden: GoldenSet
    rankings: Rankings


# --- reading -----------------------------------------------------------------------------------------------------


def read_run(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Read a run; whatever follows the sixth field of a line is ignored.

    Raises:
        InputError: The file cannot be read or is empty; or all faults of its lines: too few fields, a score that is no
            number, a document named twice for a question.
    """
    table = _read(path, 6, (0, 2, 4), "question Q0 document rank score tag", extra=True)
    return {question: _in_order(scores) for question, scores in table.items()}


def read_qrels(path: Path) -> dict[str, dict[str, float]]:
    """Read qrels.

    Raises:
        InputError: The file cannot be read or is empty; or all faults of its lines: not four fields, a grade that is no
            number, a document judged twice for a question.
    """
    return _read(path, 4, (0, 2, 3), "question iteration document grade", extra=False)


def _in_order(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    kept = [(float(np.float32(score)), document) for document, score in scores.items()]
    return [(document, score) for score, document in sorted(kept, reverse=True)]


def _read(
    path: Path, width: int, columns: tuple[int, int, int], form: str, *, extra: bool
) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    faults = Faults()
    for where, fields in _lines(path, faults):
        if len(fields) < width or (len(fields) > width and not extra):
            faults.add(where, f"{len(fields)} fields where {width} are expected: {form}")
            continue
        question, document, text = (fields[column] for column in columns)
        number = _number(text)
        if number is None:
            faults.add(where, f'"{text}" is no number; a line reads: {form}')
        elif document in table.setdefault(question, {}):
            faults.add(where, f'document "{document}" appears twice for question "{question}"; keep one line of them')
        else:
            table[question][document] = number
    faults.raise_any()
    if not table:
        raise InputError(f"{path}: the file is empty; a line reads: {form}")
    return table


def _lines(path: Path, faults: Faults) -> Iterator[tuple[str, list[str]]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    for n, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        where = f"{path}:{n}"
        try:
            fields = [field.decode("utf-8") for field in line.split()]  # bytes: only ASCII white space separates
        except UnicodeDecodeError:
            faults.add(where, "the line is not UTF-8; convert the file")
            continue
        if fields:
            yield where, fields


def _number(text: str) -> float | None:
    number = plain_number(text)
    return number if math.isfinite(number) else None


# --- from files to arrays ----------------------------------------------------------------------------------------


def align(run: Run, qrels: Qrels, *, complete: bool = True) -> Imported:
    """Turn a run and its qrels into arrays; the order of equal scores is the run's, not that of chunk positions.

    Args:
        run: As read, or made otherwise: best first.
        qrels: As read.
        complete: Whether questions that have qrels and are absent from the run count as empty rankings (``trec_eval
            -c``), or are left out. Questions of the run without qrels always are. Both are counted in the golden set.
    """
    kept = [question for question in qrels if complete or question in run]
    judged = {document for question in kept for document in qrels[question]}
    ids = sorted(judged.union(document for question in kept for document, _ in run.get(question, ())))
    corpus = Corpus(ids, [""] * len(ids), [""] * len(ids))
    nothing = np.zeros(len(ids), dtype=np.int64)
    chunks = Chunks(corpus, Spans(np.arange(len(ids), dtype=np.int32), nothing, nothing))
    left_out = {
        "in the run, not in the qrels": len(set(run).difference(qrels)),
        "in the qrels, not in the run": len(qrels) - len(kept),
    }
    golden = GoldenSet(
        tuple(_question(question, qrels[question]) for question in kept), {k: n for k, n in left_out.items() if n}
    )
    return Imported(chunks, golden, _rankings([run.get(question, ()) for question in kept], corpus.position))


def _question(identifier: str, grades: Mapping[str, float]) -> Question:
    evidence = tuple(Evidence(document, grade=grade) for document, grade in grades.items())
    return Question(identifier, "", evidence=evidence)


def _rankings(rows: Sequence[Sequence[tuple[str, float]]], position: Mapping[str, int]) -> Rankings:
    shape = (len(rows), max((len(row) for row in rows), default=0))
    positions = np.full(shape, NO_CHUNK, dtype=np.int32)
    scores = np.full(shape, -np.inf, dtype=np.float32)
    for n, row in enumerate(rows):
        positions[n, : len(row)] = [position[document] for document, _ in row]
        scores[n, : len(row)] = [score for _, score in row]
    return Rankings(positions, scores)


# --- writing -----------------------------------------------------------------------------------------------------


def write_run(run: Run, tag: str = "ragsweep") -> str:
    """Write rankings in the format of a run.

    Scores are written strictly falling, each lowered to the next smaller single-precision number where it is not below
    the one before, so that every tool keeps our order, ties included. White space in ids is percent-encoded, and so is
    what looks encoded already: ``urllib.parse.unquote`` gives every id back.

    Args:
        run: Best first.
        tag: The last field of every line: which system made the run.
    """
    lines: list[str] = []
    end = f" {_field(tag)}\n"
    for question, row in run.items():
        start = f"{_field(question)} Q0 "
        falling = strictly_falling(np.array([score for _, score in row], dtype=np.float32)).tolist()
        lines += [
            f"{start}{_field(document)} {rank} {score:.9g}{end}"  # nine digits tell all single-precision numbers apart
            for rank, ((document, _), score) in enumerate(zip(row, falling, strict=True), start=1)
        ]
    return "".join(lines)


def write_qrels(qrels: Qrels) -> str:
    """Write grades in the format of qrels; trec_eval reads whole numbers only."""
    rows = [(question, *grade) for question, grades in qrels.items() for grade in grades.items()]
    return "".join(f"{_field(question)} 0 {_field(document)} {grade:g}\n" for question, document, grade in rows)


def grades(questions: Sequence[Question]) -> dict[str, dict[str, float]]:
    """Make qrels of labels: the grade of a document is the best of its evidences."""
    table: dict[str, dict[str, float]] = {}
    for question in questions:
        row = table.setdefault(question.id, {})
        for evidence in question.evidence:
            row[evidence.document] = max(evidence.grade, row.get(evidence.document, evidence.grade))
    return table


def strictly_falling(scores: Floats) -> Floats:
    """Lower scores (documents,), best first, just as far as needed to fall strictly in single precision."""
    # Numbered in their order, neighbouring floats differ by 1; min(number, lowest before - 1) is a running minimum.
    step = np.arange(len(scores))
    bits = scores.view(np.uint32).astype(np.int64)
    numbers = np.where(bits & _SIGN, -(bits & ~_SIGN), bits)
    lowered = np.minimum.accumulate(numbers + step) - step
    return np.where(lowered < 0, -lowered | _SIGN, lowered).astype(np.uint32).view(np.float32)


@lru_cache(maxsize=65_536)
def _field(identifier: str) -> str:
    return re.sub(r"\s|%(?=[0-9a-fA-F]{2})", lambda match: quote(match[0]), identifier)
