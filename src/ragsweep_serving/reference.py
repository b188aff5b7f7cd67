"""The results of a config's evaluation by question and step, stored in its bundle for comparison with requests."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.core.identity import Node
from ragsweep.core.question_results import Doubles, StepResults, is_known
from ragsweep.core.results import Result
from ragsweep.core.types import NO_CHUNK, Dataset, Rankings
from ragsweep.core.words import words
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.parts.languages import content_words, detect_language, fold, question_form
from ragsweep.stages.executor import Executor, Listener

REFERENCE, WORDS = "reference.json", "words.txt"
"""Names of two files of a bundle: the reference, and the words of the corpus, one per line."""

TOTAL = "total"  # the name of the sum of all steps
Column = list[Any]


@dataclass(frozen=True)
class Reference:
    """The evaluated questions as columns, without their texts; an unmeasured number is NaN.

    ``numbers`` contains ``results`` (the number of chunks in the context; NaN unless a search succeeded), ``unknown``
    (the share of a question's content words that the corpus lacks) and, where they were measured, ``abstained``,
    ``failed``, ``tokens``, ``money``, ``ms/total`` and, for each step, ``top_score/STEP``, ``gap/STEP`` or ``ms/STEP``.
    """

    model: str
    bundle: str
    trace_sample: float
    cluster: Sequence[str]  # questions of one cluster are not independent
    weight: Sequence[float]
    language: Sequence[str]  # "" if not detected
    form: Sequence[str]
    numbers: Mapping[str, Sequence[float]]
    facts: Mapping[str, str] = field(default_factory=dict)  # name and signature of the config, digests of its data

    def write(self, folder: Path) -> None:
        """Write the reference to a bundle."""
        columns = {
            name: [None if math.isnan(value) else value for value in map(float, values)]
            for name, values in self.numbers.items()
        }
        (folder / REFERENCE).write_text(json.dumps({**vars(self), "numbers": columns}), "utf-8")

    @classmethod
    def read(cls, folder: Path) -> Reference:
        """Return the reference of a bundle; the caller must have verified the digest of the file `REFERENCE`."""
        document = json.loads((folder / REFERENCE).read_text("utf-8"))
        given = document.pop("numbers")
        numbers = {name: [math.nan if one is None else one for one in values] for name, values in given.items()}
        return cls(**document, numbers=numbers)


def read_words(folder: Path) -> frozenset[str]:
    """Return the words of a bundle's corpus."""
    return frozenset((folder / WORDS).read_text("utf-8").split())


def unknown_share(question: str, known: frozenset[str]) -> float:
    """Return the share of a question's content words that are not in the corpus; NaN if there are no content words."""
    said = content_words(question)
    return len(said - known) / len(said) if said else math.nan


def write_reference(
    folder: Path, names: tuple[str, str, float], result: Result, dataset: Dataset, at: tuple[ConfigGraph, Executor]
) -> None:
    """Write the reference and the words of the corpus to a bundle.

    ``names`` are the model's name, the bundle's id and the share of traced requests; ``at`` is the config's graph
    and the executor of its stages, which computes stages that are not stored.
    """
    texts = (*dataset.corpus.titles, *dataset.corpus.texts)
    known = frozenset(word for text in texts for word in words(fold(text)))
    (folder / WORDS).write_text("\n".join(sorted(known)), "utf-8")
    columns = result.questions
    questions = [str(text) for text in columns["question"]]
    is_searched = [
        is_sent and found == found  # NaN: the search failed
        for is_sent, found in zip(columns["searched"], columns["retrieved"], strict=True)
    ]
    lengths = [len(found) for found in columns["context"]]
    numbers: dict[str, Sequence[float]] = {
        "results": [length if one else math.nan for length, one in zip(lengths, is_searched, strict=True)],
        "unknown": [unknown_share(text, known) for text in questions],
    }
    if "answer" in columns:
        numbers["abstained"] = [float(bool(one)) for one in columns["abstained"]]
        numbers["failed"] = [float(bool(one)) for one in columns["answer_failed"]]
    numbers |= _score_columns(columns, *at)
    numbers |= _step_columns(columns.steps, at[0].route is None)
    Reference(
        *names,
        cluster=[str(one) for one in columns["source"]],
        weight=[float(one) for one in columns.get("weight", [1.0] * len(questions))],
        language=[detect_language(text) for text in questions],
        form=[question_form(text) for text in questions],
        numbers=numbers,
        facts={
            "name": result.name,
            "signature": result.run.signature,
            "golden_set": result.run.dataset.golden_digest,
            "corpus": result.run.dataset.corpus_digest,
        },
    ).write(folder)


def _score_columns(
    columns: Mapping[str, Sequence[Any]], graph: ConfigGraph, executor: Executor
) -> dict[str, list[float]]:
    """Return, by ranking step, the top score of each question and its gap to the second score (NaN: missing)."""
    texts = columns.get("query", columns["question"])
    searched = [n for n, found in enumerate(columns["retrieved"]) if found > 0]  # NaN: the search failed
    scores: dict[str, list[float]] = {}
    for step, node in ranking_nodes(graph).items() if searched else ():
        both = np.full((2, len(texts)), np.nan)
        both[:, searched] = top_scores(executor.get(node, [str(texts[n]) for n in searched]))
        scores |= {f"top_score/{step}": both[0].tolist(), f"gap/{step}": both[1].tolist()}
    return scores


def _step_columns(steps: Mapping[str, StepResults], is_whole: bool) -> dict[str, Sequence[float]]:
    """Return tokens, money, and milliseconds by step and in total; the total is NaN unless every step is timed.

    A step that a question did not take, such as writing a query without a history, has the time 0 in ``steps`` and NaN
    in the result. ``is_whole`` is false for a config with a router, whose time is not measured; there is then no total.
    """
    times = {f"ms/{name}": one.ms for name, one in steps.items() if _any(one.ms)}
    taken = {name: [ms or math.nan for ms in column] for name, column in times.items()}
    columns: dict[str, Sequence[float]] = {name: column for name, column in taken.items() if _any(column)}
    if times and is_whole:
        columns[f"ms/{TOTAL}"] = np.sum(list(times.values()), axis=0).tolist()
    generate = steps.get("generate")
    if generate and _any(generate.tokens_in):
        columns["tokens"] = np.add(generate.tokens_in, generate.tokens_out).tolist()
    if generate and _any(generate.money):
        columns["money"] = generate.money
    return columns


def _any(column: Sequence[float]) -> bool:
    return any(map(is_known, column))


TIMED = ("route", "query", "embed_queries", "retrieve", "fuse", "rerank", "generate")
"""Stages timed as steps of a question; other stages select from the results of these, or run once for all questions."""


class StepClock(Listener):
    """A clock that records the milliseconds of each step of a question, by the step's name in an evaluation."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}
        self._timed: set[str] = set()  # addresses

    def started(self, node: Node, rows: int) -> None:
        """Mark a node as timed if it computes rows of a stage in `TIMED`; without rows, there is no step to time."""
        if node.kind == "rows" and node.stage in TIMED and rows:
            self._timed.add(node.address)

    def finished(self, node: Node, seconds: float) -> None:
        """Record the time of the step if ``started`` has marked the node as timed."""
        if node.address in self._timed:
            self.steps[f"{node.stage}/{node.label}".strip("/")] = 1000 * seconds


def ranking_nodes(graph: ConfigGraph) -> Mapping[str, Node]:
    """Return a mapping from the name of each ranking step to the node that computes its ranking."""
    legs = {f"retrieve/{leg}": node for leg, node in graph.legs.items()}
    first = {"fuse" if legs else "retrieve": graph.first_stage}
    return {**legs, **first, **({"rerank": graph.ranking} if graph.candidates else {})}


def top_scores(rankings: Rankings) -> tuple[Doubles, Doubles]:
    """Return two arrays of shape (questions,): the top score, and its gap to the second score (NaN: missing)."""
    scores = np.full((len(rankings.scores), 2), np.nan)
    width = min(rankings.scores.shape[1], 2)
    is_chunk = rankings.positions[:, :width] != NO_CHUNK
    scores[:, :width] = np.where(is_chunk, rankings.scores[:, :width].astype(np.float64), np.nan)
    return scores[:, 0], scores[:, 0] - scores[:, 1]
