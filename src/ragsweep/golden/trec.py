"""Write TREC run and qrels files, so that other tools can evaluate our rankings.

A run has lines ``question Q0 document rank score tag``, qrels have ``question iteration document grade``. Tools such as
trec_eval (https://github.com/usnistgov/trec_eval) order a run by score, kept in single precision, and ignore the rank.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote

import numpy as np

from ragsweep.core.types import Floats, Question

Run = Mapping[str, Sequence[tuple[str, float]]]
"""Question id -> its documents, each with its score, in descending order of score."""

Qrels = Mapping[str, Mapping[str, float]]
"""Question id -> document id -> grade; a grade above 0 means relevant."""

_SIGN = np.int64(1 << 31)


def write_run(run: Run, tag: str = "ragsweep") -> str:
    """Write rankings in TREC run format.

    Scores have six significant digits and are strictly decreasing: each score that is not below the previous one is
    lowered to the next smaller single-precision number, so that every tool keeps our order of ties. White space in ids
    is percent-encoded, and so are existing percent codes: ``urllib.parse.unquote`` restores every id. The last field,
    ``tag``, names the system.
    """
    lines: list[str] = []
    end = f" {encode_id(tag)}\n"
    for question, row in run.items():
        start = f"{encode_id(question)} Q0 "
        scores = np.array([score for _, score in row], dtype=np.float32)
        written = strictly_falling(six_digits(scores)).astype(np.str_).tolist()
        lines += [
            f"{start}{encode_id(document)} {rank} {score}{end}"
            for rank, ((document, _), score) in enumerate(zip(row, written, strict=True), start=1)
        ]
    return "".join(lines)


def write_qrels(qrels: Qrels) -> str:
    """Write grades in qrels format; trec_eval reads whole numbers only."""
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
    """Round scores to six significant digits."""
    magnitude = np.where(scores == 0, 1, np.abs(scores.astype(np.float64)))
    scale = 10.0 ** (5 - np.floor(np.log10(magnitude)))
    return (np.round(scores * scale) / scale).astype(np.float32)


def strictly_falling(scores: Floats) -> Floats:
    """Lower the scores of a ranking just enough that they strictly decrease in single precision."""
    # As integers in the order of the floats, neighbours differ by 1. Each becomes min(itself, preceding result - 1),
    # which is a running minimum after adding each position.
    step = np.arange(len(scores))
    bits = scores.view(np.uint32).astype(np.int64)
    numbers = np.where(bits & _SIGN, -(bits & ~_SIGN), bits)
    lowered = np.minimum.accumulate(numbers + step) - step
    return np.where(lowered < 0, -lowered | _SIGN, lowered).astype(np.uint32).view(np.float32)


@lru_cache(maxsize=65_536)
def encode_id(identifier: str) -> str:
    """Percent-encode white space and existing percent codes."""
    return re.sub(r"\s|%(?=[0-9a-fA-F]{2})", lambda match: quote(match[0]), identifier)
