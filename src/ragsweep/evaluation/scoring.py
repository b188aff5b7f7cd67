"""Score questions by metrics, find the failures behind missing scores, and measure the effect of reranking."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core import interruption
from ragsweep.core.answers import describe_wrong_type
from ragsweep.core.errors import RagsweepError
from ragsweep.core.missing import (
    INAPPLICABLE,
    NO_ANSWERS,
    NO_CONTEXTS,
    NOT_PROBED,
    UNEXPLAINED,
    UNREADABLE,
    score_where,
)
from ragsweep.core.secrets import mask_text
from ragsweep.core.trust import is_ours
from ragsweep.core.types import NO_CHUNK, Case, EvaluationView, JudgedMetric, Judgement, Metric, Rankings, Scores
from ragsweep.evaluation.config_graph import ConfigGraph

if TYPE_CHECKING:
    from ragsweep.evaluation.evidence import Coverage
    from ragsweep.evaluation.question_table import QuestionTable
    from ragsweep.stages.executor import Executor

OF_RANKINGS = frozenset({"evidence", "retrieval", "distractors", "section", "count"})
"""A metric that has no needs other than these can also be scored on the ranking before reranking."""

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def compare(before: Rankings, after: Rankings, coverage: Coverage, scored: Rankings) -> dict[str, float]:
    """Compare the ranks of evidence before and after reranking; questions whose search failed are skipped.

    ``scored`` contains the reranked candidates with their scores; the candidates are the searched chunks, which may be
    smaller than the chunks in ``before`` and ``after``.

    The returned mapping contains:

    - ``evidences``: the number of pieces of evidence that are found in at least one of the rankings;
    - ``up``: the share of these pieces whose rank is better after reranking, or that are found only after it;
    - ``down`` and ``kept``: the shares of these pieces whose rank is worse, and whose rank is the same;
    - ``lost``: the share of these pieces that are found only before reranking;
    - ``mean_change``: the mean number of ranks by which the pieces found in both rankings moved up;
    - ``score_p0`` to ``score_p100``: quantiles of the candidates' scores.

    A value is NaN if there are no pieces, or no candidates, to compute it from.
    """
    first, last = coverage.first_ranks(before), coverage.first_ranks(after)
    first, last = (np.where((before.failed | after.failed)[coverage.question], 0, ranks) for ranks in (first, last))
    either, both = (first > 0) | (last > 0), (first > 0) & (last > 0)
    change = (first - last)[both]
    count = int(either.sum())
    moved = {
        "up": (change > 0).sum() + (either & (first == 0)).sum(),
        "down": (change < 0).sum(),
        "kept": (change == 0).sum(),
        "lost": (either & (last == 0)).sum(),
    }
    scores = scored.scores[scored.positions != NO_CHUNK]
    return {
        "evidences": float(count),
        **{name: float(evidences / count) if count else float("nan") for name, evidences in moved.items()},
        "mean_change": float(change.mean()) if len(change) else float("nan"),
        **{f"score_p{100 * q:g}": float(np.quantile(scores, q)) if len(scores) else float("nan") for q in QUANTILES},
    }


LONGEST = 200
"""Maximum number of characters of an exception's message in a reason."""

Done = Callable[[int, Judgement], None]

Judging = Callable[[Sequence[Case], Done], None]

_log = logging.getLogger(__name__)


def score_metric(metric: Metric, view: EvaluationView) -> Scores:
    """Score every question as `try_metric` does; if the metric fails, every score is NaN, with the error as reason."""
    count, scores = len(view.questions), try_metric(metric, view)
    return Scores(np.full(count, np.nan), np.full(count, scores)) if isinstance(scores, str) else scores


def try_metric(metric: Metric, view: EvaluationView) -> Scores | str:
    """Score every question; if the metric raises an exception or returns invalid scores, return the error as a string.

    The string contains the exception and its location in the code. A RagsweepError is re-raised, because it would recur
    in every config. After the job's ``timeout``, every exception is re-raised. The scores of built-in metrics are not
    checked.
    """
    try:
        scores = metric.score(view)
        return scores if is_ours(metric) else checked_scores(scores, len(view.questions), metric.bounds)
    except Exception as fault:
        return _reason(fault, metric, "score")


class Failures(NamedTuple):
    """For each question (questions,), why a stage failed ("" if none did), and whether the latency is measured."""

    upstream: NDArray[np.str_]  # failure of the route, query, search or external system; no result follows
    answer: NDArray[np.str_]  # failure of the answer
    probed: NDArray[np.bool_]  # whether the question's latency is measured
    contextless: int = 0  # number of answered questions if an external system returned no context at all, else 0

    @property
    def unanswered(self) -> NDArray[np.bool_]:
        """Flags of the questions for which an upstream stage or the answer failed (questions,)."""
        return np.asarray((self.upstream != "") | (self.answer != ""))

    def drop(self, scores: Scores, metric: Metric) -> Scores:
        """Return the scores, with NaN (and the failure as the reason) for questions with an upstream failure.

        Scores that are missing because the metric does not apply keep their reason. A metric of answers never applies
        to a system that only searches, even if a search failed. If the latency of a probed question is missing, the
        reason is the upstream failure or, if there is none, the failure of the answer. A metric of rankings, and a
        weighted sum or task success that includes one, has no value if ``contextless`` is above 0.
        """
        if self.contextless and _reads_only_contexts(metric):
            why = np.where(self.upstream != "", self.upstream, NO_CONTEXTS)
            reasons = np.where(np.isin(scores.reasons, list(INAPPLICABLE)), scores.reasons, why)
            return score_where(np.zeros(len(reasons), dtype=bool), scores.values, reasons)
        if not self.unanswered.any():
            return scores
        applies = ~np.isin(scores.reasons, list(INAPPLICABLE))
        if (scores.reasons == NO_ANSWERS).any():
            unasked = self.unanswered & applies
            return Scores(np.where(unasked, np.nan, scores.values), np.where(unasked, NO_ANSWERS, scores.reasons))
        untimed = (scores.reasons == NOT_PROBED) & self.probed
        why = np.where((self.upstream == "") & untimed, self.answer, self.upstream)
        lost = (why != "") & (untimed | applies)
        return Scores(np.where(lost, np.nan, scores.values), np.where(lost, why, scores.reasons))


def _reads_only_contexts(metric: Metric) -> bool:
    """Return whether a metric, or one of the ``parts`` from which it is computed, is scored on rankings alone."""
    is_of_rankings = bool(metric.needs) and {*metric.needs} <= OF_RANKINGS | {"passages"}
    return is_of_rankings or any(map(_reads_only_contexts, getattr(metric, "parts", ())))


def find_failures(executor: Executor, graph: ConfigGraph, view: EvaluationView, table: QuestionTable) -> Failures:
    """Collect the failures of the stages before scoring; a search includes reranking and exact searches.

    An external system searches and answers in one call, so a failure of its answer counts as an upstream failure,
    except for an unreadable output.
    """
    searches = [(graph.ranking, view.rankings)]
    for leg, nodes in graph.approximate.items():
        searches += zip(nodes[:2], view.approximate[leg][:2], strict=True)
    searched = [""] * len(view.questions)
    for node, found in reversed(searches):
        for n in np.flatnonzero(found.failed).tolist():
            searched[n] = executor.failure(node, table.texts[n]).reason
    answers = [one.failed for one in view.answers.answers] if view.answers else [""] * len(view.questions)
    contextless = answers.count("") if graph.located and not view.rankings.lengths.any() else 0
    answers = ["" if reason == NO_ANSWERS else reason for reason in answers]  # a system without answers
    stages = [[one.failed for one in some] for some in (view.routes, view.queries) if some is not None]
    responses = [reason if graph.located and reason != UNREADABLE else "" for reason in answers]
    columns = [*stages, searched, responses]
    upstream = [next(filter(None, row), "") for row in zip(*columns, strict=True)]
    probed = table.probe < len(table.probed)
    return Failures(np.array(upstream, dtype=np.str_), np.array(answers, dtype=np.str_), probed, contextless)


def catch_judge_errors(metric: JudgedMetric, judge: Judging) -> Judging:
    """Return a function that calls ``judge``; if ``judge`` fails, each remaining case gets a verdict with the reason.

    ``judge`` also fails if it does not report exactly one Judgement for each case. A RagsweepError, and any exception
    after the job's ``timeout``, is not caught.
    """

    def ask(cases: Sequence[Case], done: Done) -> None:
        judged: set[int] = set()

        def take(number: int, verdict: Judgement) -> None:
            if not isinstance(verdict, Judgement):
                raise TypeError(f"judge reported {type(verdict).__name__}; it must report a Judgement")
            if wrong := describe_wrong_type(verdict, Judgement):
                raise TypeError(wrong)
            if not 0 <= number < len(cases):
                raise ValueError(f"there is no case {number}")
            if number in judged:
                raise ValueError(f"judge reported case {number} twice")
            judged.add(number)
            done(number, verdict)

        try:
            judge(cases, take)
            if len(judged) < len(cases):
                raise ValueError(f"judge reported {len(judged)} of {len(cases)} cases; call done once for each case")
        except Exception as fault:
            reason = _reason(fault, metric, "judge")
            for number in sorted(set(range(len(cases))) - judged):
                done(number, Judgement(reason=reason))

    return ask


def checked_scores(scores: Any, questions: int, bounds: tuple[float | None, float | None]) -> Scores:
    """Return a metric's result for ``questions`` questions, with a reason for every missing score.

    Raises TypeError if the result is not of the type Scores, and ValueError for wrong shapes, infinite values, values
    outside ``bounds``, and values with a reason.
    """
    if not isinstance(scores, Scores):
        returned = type(scores).__name__
        raise TypeError(
            f"score returned {returned}; return ragsweep.core.types.Scores, as score_with_evidence of"
            " ragsweep.core.missing does"
        )
    values, reasons = np.asarray(scores.values, dtype=np.float64), np.asarray(scores.reasons, dtype=np.str_)
    if values.shape != (questions,) or reasons.shape != (questions,):
        shapes = f"values of shape {values.shape} and reasons of shape {reasons.shape}"
        raise ValueError(f"{shapes} for {questions} questions; return one value and one reason per question")
    if np.isinf(values).any():
        raise ValueError("score returned an infinite value; return NaN and a reason for a missing score")
    low, high = (number if number is not None else end for number, end in zip(bounds, (-np.inf, np.inf), strict=True))
    if ((values < low) | (values > high)).any():
        worst = values[(values < low) | (values > high)][0]
        raise ValueError(f"the score {worst:g} is outside the metric's bounds, {bounds}; correct the score or bounds")
    if (both := ~np.isnan(values) & (reasons != "")).any():
        raise ValueError(
            f"the score {values[both][0]:g} has the reason '{reasons[both][0]}'; only a missing score (NaN) has one"
        )
    return Scores(values, np.where(np.isnan(values) & (reasons == ""), UNEXPLAINED, reasons))


def _reason(fault: Exception, metric: Any, method: str) -> str:
    """Describe an exception and its location; re-raise a RagsweepError or, after the job's ``timeout``, any exception.

    The location is the last executed line in the package of the metric's class, else the first line of the method.
    """
    if isinstance(fault, RagsweepError) or interruption.is_overdue():
        raise fault
    _log.error("the metric %s failed", metric.name, exc_info=fault)
    package = type(metric).__module__.partition(".")[0]
    own = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(fault.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package
    ]
    code = getattr(type(metric), method).__code__ if not own else None
    file, line = own[-1] if code is None else (code.co_filename, code.co_firstlineno)
    message = " ".join(str(fault).split())[:LONGEST]
    return mask_text(f"{type(fault).__name__}: {message} ({Path(file).name}:{line})")
