"""Read TREC runs and qrels as trec_eval does, and convert them to the arrays that our metrics read."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ragsweep.core.types import NO_CHUNK, Chunks, Corpus, Evidence, GoldenSet, Question, Rankings, Spans


class Imported(NamedTuple):
    """A run and its qrels as arrays: every document is a chunk without text."""

    chunks: Chunks
    golden: GoldenSet
    rankings: Rankings


def read_run(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Read a run, sorted by score in single precision, then by document id, both descending."""
    rows = defaultdict(list)
    for line in path.read_bytes().splitlines():
        question, _, document, _, score, *_ = (field.decode() for field in line.split())
        rows[question].append((float(np.float32(score)), document))
    return {
        question: [(document, score) for score, document in sorted(row, reverse=True)] for question, row in rows.items()
    }


def read_qrels(path: Path) -> dict[str, dict[str, float]]:
    """Read qrels as question id -> document id -> grade."""
    table: dict[str, dict[str, float]] = defaultdict(dict)
    for line in path.read_text("utf-8").splitlines():
        question, _, document, grade = line.split()
        table[question][document] = float(grade)
    return dict(table)


def align(run: Mapping[str, Sequence[tuple[str, float]]], qrels: Mapping[str, Mapping[str, float]]) -> Imported:
    """Convert a run and its qrels to arrays; a question that is absent from the run has an empty ranking."""
    judged = {document for grades in qrels.values() for document in grades}
    ids = sorted(judged.union(document for question in qrels for document, _ in run.get(question, ())))
    corpus = Corpus(ids, [""] * len(ids), [""] * len(ids))
    nothing = np.zeros(len(ids), dtype=np.int64)
    chunks = Chunks(corpus, Spans(np.arange(len(ids), dtype=np.int32), nothing, nothing))
    questions = tuple(
        Question(name, "", evidence=tuple(Evidence(document, grade=grade) for document, grade in grades.items()))
        for name, grades in qrels.items()
    )
    rows = [run.get(question, ()) for question in qrels]
    shape = (len(rows), max(map(len, rows), default=0))
    positions, scores = np.full(shape, NO_CHUNK, dtype=np.int32), np.full(shape, -np.inf, dtype=np.float32)
    for n, row in enumerate(rows):
        positions[n, : len(row)] = [corpus.position[document] for document, _ in row]
        scores[n, : len(row)] = [score for _, score in row]
    return Imported(chunks, GoldenSet(questions), Rankings(positions, scores))
