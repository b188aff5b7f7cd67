"""Score questions by metrics, and compare ranks before and after reranking."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core import interruption
from ragsweep.core.errors import RagsweepError
from ragsweep.core.missing import UNEXPLAINED
from ragsweep.core.secrets import mask_text
from ragsweep.core.types import (
    NO_CHUNK,
    Answer,
    Answers,
    Case,
    Chunks,
    Corpus,
    Dataset,
    EvaluationView,
    GoldenSet,
    JudgedMetric,
    Judgement,
    Metric,
    Passage,
    Question,
    Rankings,
    Route,
    Scores,
    Spans,
)
from ragsweep.evaluation.evidence import Coverage, cover, view

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


class Movement(NamedTuple):
    """What reranking did to the evidences that either list holds: shares of them, and places.

    An evidence is lost where only the first list covers it. ``mean_change`` is over those in both lists, positive where
    they moved towards the top; NaN where there are none. ``scores`` are quantiles (see QUANTILES) of the
    candidates' scores after reranking, NaN where there are none.
    """

    evidences: int
    up: float
    down: float
    kept: float
    lost: float
    mean_change: float
    scores: dict[float, float]

    def plain(self) -> dict[str, float]:
        """Name each number: ``evidences``, ``up`` ... ``mean_change``, ``score_p0`` to ``score_p100``."""
        moved = {name: float(value) for name, value in self._asdict().items() if name != "scores"}
        return {**moved, **{f"score_p{100 * share:g}": value for share, value in self.scores.items()}}


def compare(before: Rankings, after: Rankings, coverage: Coverage, scored: Rankings) -> Movement:
    """Compare the ranks of evidence before and after reranking.

    ``before`` and ``after`` have one row a question of ``coverage``, over its chunking. ``scored`` are the candidates
    in their new order, of the chunking that was searched, be it another one. Shares are NaN where neither list covers
    any evidence.
    """
    first, last = coverage.first_ranks(before), coverage.first_ranks(after)
    asked, both = (first > 0) | (last > 0), (first > 0) & (last > 0)
    change = (first - last)[both]
    count = int(asked.sum())

    def share(places: int) -> float:
        return places / count if count else float("nan")

    known = scored.scores[scored.positions != NO_CHUNK]
    return Movement(
        evidences=count,
        up=share(int((change > 0).sum() + (asked & (first == 0)).sum())),
        down=share(int((change < 0).sum())),
        kept=share(int((change == 0).sum())),
        lost=share(int((asked & (last == 0)).sum())),
        mean_change=float(change.mean()) if len(change) else float("nan"),
        scores={q: float(np.quantile(known, q)) if len(known) else float("nan") for q in QUANTILES},
    )


LONGEST = 200
"""Characters of an error's message that become a reason."""

EXCERPT = 2000
"""Characters of a document that stand for it when a metric is tried."""

Done = Callable[[int, Judgement], None]

Judging = Callable[[Sequence[Case], Done], None]

_log = logging.getLogger(__name__)


def scored(metric: Metric, looked: EvaluationView) -> Scores:
    """Score every question; where the metric raises, or returns no scores, each is NaN with the reason.

    Raises:
        RagsweepError: The metric raised it: every config would fail.
    """
    found = _attempted(metric, looked)
    count = len(looked.questions)
    return Scores(np.full(count, np.nan), np.full(count, found)) if isinstance(found, str) else found


def judged(metric: JudgedMetric, judge: Judging) -> Judging:
    """Wrap a metric's judge: where it raises, each case without a verdict gets one with the reason."""

    def ask(cases: Sequence[Case], done: Done) -> None:
        given: set[int] = set()

        def take(number: int, verdict: Judgement) -> None:
            given.add(number)
            done(number, verdict)

        try:
            judge(cases, take)
        except Exception as fault:
            reason = _reason(fault, metric, "judge")
            for number in sorted(set(range(len(cases))) - given):
                done(number, Judgement(reason=reason))

    return ask


def faults(metrics: Sequence[Metric], dataset: Dataset, answered: bool, routed: bool) -> dict[str, str]:
    """Try the metrics of other packages on one question; return the errors of those that fail, by metric.

    The question is one of the dataset, answered as it should be from the passages of its evidence: no stage runs, no
    service is called, and no judge either.

    Args:
        metrics: Of one config; ours are not tried.
        dataset: Its questions and documents.
        answered: There will be answers.
        routed: There will be routes.
    """
    foreign = [one for one in metrics if not _is_ours(one)]
    if not foreign or not dataset.golden.questions:
        return {}
    looked = _example(dataset, answered, routed)
    verdicts = {one.name: [Judgement(one.bounds[1] or 1.0)] for one in metrics if isinstance(one, JudgedMetric)}
    found = {one.name: _attempted(one, replace(looked, judgements=verdicts)) for one in foreign}
    return {name: fault for name, fault in found.items() if isinstance(fault, str)}


def _is_ours(metric: object) -> bool:
    return type(metric).__module__.startswith("ragsweep.")


def _attempted(metric: Metric, looked: EvaluationView) -> Scores | str:
    """Score; where the metric fails, return the exception and its place."""
    try:
        found = metric.score(looked)
        return found if _is_ours(metric) else _checked(found, len(looked.questions))
    except Exception as fault:
        return _reason(fault, metric, "score")


def _checked(found: Scores, questions: int) -> Scores:
    values, reasons = np.asarray(found.values, dtype=np.float64), np.asarray(found.reasons, dtype=np.str_)
    if values.shape != (questions,) or reasons.shape != (questions,):
        shapes = f"values of shape {values.shape} and reasons of shape {reasons.shape}"
        raise ValueError(f"{shapes} for {questions} questions; return one value and one reason a question")
    if np.isinf(values).any():
        raise ValueError("an infinite score; return NaN and a reason where there is none")
    return Scores(values, np.where(np.isnan(values) & (reasons == ""), UNEXPLAINED, reasons))


def _reason(fault: Exception, metric: Any, method: str) -> str:
    """Return the exception and its place as text; raise again what is not the metric's own fault."""
    if isinstance(fault, RagsweepError) or interruption.is_overdue():
        raise fault
    _log.error("the metric %s failed", metric.name, exc_info=fault)
    message = " ".join(str(fault).split())[:LONGEST]
    return mask_text(f"{type(fault).__name__}: {message} ({_place(fault, metric, method)})")


def _place(fault: Exception, metric: object, method: str) -> str:
    """Return file and line of the error: the last line of the metric's own package that was run, else the method's."""
    package = type(metric).__module__.partition(".")[0]
    frames = list(traceback.walk_tb(fault.__traceback__))
    own = [
        (one.f_code, line) for one, line in frames if str(one.f_globals.get("__name__")).partition(".")[0] == package
    ]
    code, line = own[-1] if own else (getattr(type(metric), method).__code__, None)
    return f"{Path(code.co_filename).name}:{line or code.co_firstlineno}"


def _example(dataset: Dataset, answered: bool, routed: bool) -> EvaluationView:
    """Make a view of one question, over documents that hold its evidence and nothing else."""
    questions = dataset.golden.questions
    question = next((one for one in questions if one.evidence and one.needs_retrieval), questions[0])
    texts = _excerpts(question, dataset.corpus)
    count = len(texts)
    corpus = Corpus(list(texts), [""] * count, list(texts.values()))
    ends = np.array([len(text) for text in texts.values()], dtype=np.int64)
    chunks = Chunks(corpus, Spans(np.arange(count, dtype=np.int32), np.zeros(count, dtype=np.int64), ends))
    evidence = tuple(replace(one, start=None) for one in question.evidence)
    asked = (replace(question, evidence=evidence),)
    positions = np.arange(count, dtype=np.int32)[None, :]
    rankings = Rankings(positions, np.linspace(0.9, 0.1, count, dtype=np.float32)[None, :])
    looked = view(cover(chunks, GoldenSet(asked)), rankings, count, {"retrieve": np.array([0.01])})
    passages = tuple(Passage(name, text) for name, text in texts.items())
    said = Answer(" ".join(question.expected[:1]) or passages[0].text)
    answers = Answers([said], [passages], np.zeros(1, dtype=np.int64)) if answered else None
    return replace(looked, answers=answers, routes=[Route()] if routed else None)


def _excerpts(question: Question, corpus: Corpus) -> dict[str, str]:
    """Excerpt the documents of a question's evidence, by id; the first document where it has none."""
    texts: dict[str, str] = {}
    for one in question.evidence:
        whole = corpus.texts[corpus.position[one.document]][:EXCERPT] if one.document in corpus.position else ""
        texts[one.document] = " ".join(filter(None, [texts.get(one.document), one.anchor or whole]))
    return texts or {corpus.ids[0]: corpus.texts[0][:EXCERPT]}
