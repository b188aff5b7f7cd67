"""Reasons for missing scores: a score that cannot be measured is NaN with a reason, never 0 and never dropped."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.data import EvaluationView, Question, Scores
from ragsweep.core.memoize import memoize_by_identity

CONVERSATIONAL = "conversational"
UNANSWERABLE = "unanswerable"
NO_EVIDENCE = "no evidence"
NOT_PROBED = "not probed"
NO_REFERENCE = "no reference answer"
NO_KEYWORDS = "no keywords"
NO_DISTRACTORS = "no distractors"
NO_SECTION = "no expected section"
NO_COUNT = "no expected count"
SECTION_UNKNOWN = "the expected section is not a heading of its documents"
NOTHING_RETRIEVED = "nothing retrieved"
NO_TEXT = "no text"
EXACT = "exact"
NO_ANSWERS = "no answers asked for"
NO_CONTEXTS = "no contexts returned"
ANSWERABLE = "answerable"
ABSTAINED = "abstained"
NOTHING_SAID = "nothing said"
NO_CITATIONS = "no citations"
UNKNOWN_LANGUAGE = "unknown language"
NOT_TOLD = "not told"
NOT_CONFIGURED = "not configured"
NO_QUOTES = "no quoted evidence"
NO_STATEMENTS = "no statements"
NOTHING_JUDGED = "nothing judged"
JUDGED_ONCE = "judged once"
NOT_JUDGED = "not judged"
NOT_SAMPLED = "not sampled"
NO_ROUTER = "no router"
NEEDS_RETRIEVAL = "needs retrieval"
TOO_LONG = "prompt too long"
UNREADABLE = "unreadable output"
UNEXPLAINED = "the metric states no reason"

# Reasons why calls to services and systems fail or have no price.
RATE_LIMITED = "rate limited"
TIMED_OUT = "timed out"
SERVER_ERROR = "server error"
CONNECTION_LOST = "connection lost"
MALFORMED = "malformed"
TRUNCATED = "truncated"
THINKING = "the reply ended while the model was thinking (raise its limit of tokens)"
FILTERED = "filtered"
REFUSED_BY_SERVICE = "refused by service"
CIRCUIT_OPEN = "circuit open"
BUDGET_SPENT = "budget spent"
NO_PRICE = "no price"
SYSTEM_RAISED = "the system raised an error"

CALL_FAILURES = frozenset({RATE_LIMITED, TIMED_OUT, SERVER_ERROR, CONNECTION_LOST, MALFORMED, TRUNCATED, THINKING,
                           FILTERED, REFUSED_BY_SERVICE, TOO_LONG, CIRCUIT_OPEN, BUDGET_SPENT})  # fmt: skip
"""Reasons why a call failed. The result of a failed call is never stored, and the next run repeats the call."""

REPEATING = frozenset({FILTERED, REFUSED_BY_SERVICE, TOO_LONG, TRUNCATED, THINKING})
"""Reasons in ``CALL_FAILURES`` for which an identical call would fail again."""

INAPPLICABLE = frozenset({
    CONVERSATIONAL, UNANSWERABLE, NO_EVIDENCE, NOT_PROBED, NO_REFERENCE, NO_KEYWORDS, NO_DISTRACTORS, NO_SECTION,
    NO_COUNT, EXACT, NO_ANSWERS, NO_CONTEXTS, ANSWERABLE, NOT_CONFIGURED, NO_ROUTER, NEEDS_RETRIEVAL, JUDGED_ONCE,
    NOT_SAMPLED,
})  # fmt: skip
"""Reasons that depend neither on the ranking of chunks nor on the answer.

The question or the config lacks something that the metric requires.
"""

SKIPPED = INAPPLICABLE | {
    ABSTAINED, NOTHING_SAID, NO_CITATIONS, UNKNOWN_LANGUAGE, NOT_TOLD, NO_PRICE, NO_QUOTES, NO_STATEMENTS,
    NOTHING_JUDGED,
}  # fmt: skip
"""Reasons why a metric does not apply: it requires something that the question, its answer or the config lacks."""

UNDEFINED = frozenset({NOTHING_RETRIEVED, NO_TEXT, SECTION_UNKNOWN, UNREADABLE})
"""Reasons why a metric has nothing to measure. A reason in neither SKIPPED nor UNDEFINED marks a failed measurement."""

OWN_REASONS = UNDEFINED | {ABSTAINED, NOTHING_SAID}
"""Reasons that attribute a missing score to the config: an abstention, an empty answer, or nothing to measure."""


def failed(reason: str) -> bool:
    """Return whether a measurement failed: ``reason`` is neither "" nor in ``SKIPPED`` or ``UNDEFINED``."""
    return bool(reason) and reason not in SKIPPED and reason not in UNDEFINED


def repeatable(reasons: Iterable[str], failed_answers: Iterable[str] = ()) -> bool:
    """Return whether any of the reasons means that a call or an answer failed, so that the next run repeats it.

    ``failed_answers`` contains the values of ``Answer.failed``, because a generator or system may use reasons that
    this module does not define.
    """
    repeated = {SYSTEM_RAISED, *CALL_FAILURES, *failed_answers}
    return any(failed(reason) and reason in repeated for reason in reasons)


def remedy(reasons: Iterable[str], failed_answers: Iterable[str], coverage: float) -> str:
    """Return advice on completing a result: run it again, change settings, lower ``coverage``, or correct the metric.

    ``reasons`` and ``failed_answers`` are as in :func:`repeatable`. ``coverage`` is the coverage of the result (see
    ``Summary``). The advice may suggest lowering the config key ``coverage`` to this value, rounded down to a
    hundredth.
    """
    found = set(filter(failed, reasons))
    lasting = sorted(found & REPEATING)
    ways = {
        TRUNCATED: "raise max_tokens of the llm, router, judge or system.body, ",
        TOO_LONG: "lower top_k or set context_budget, ",
    }
    advice = []
    if repeatable(found - REPEATING, failed_answers):
        limit = " with a budget above 0" if BUDGET_SPENT in found else ""
        advice.append(f"run it again{limit}: only failed calls are repeated")
    if SYSTEM_RAISED in found:
        advice.append(
            "if the system's function raises an error or returns an invalid value again, correct the function: the log"
            " file in the run's output folder has the error of each question"
        )
    if lasting:
        accepted = f"coverage={math.floor(100 * coverage) / 100:g}"
        named, change = ", ".join(lasting), "".join(ways.get(reason, "") for reason in lasting)
        advice.append(
            f"an identical call would fail again ({named}): {change}{'or ' if change else ''}set {accepted} to accept"
            " the missing scores"
        )
    return "; ".join(advice) or (
        "correct the metric: a missing score counts as a failed measurement if the metric raises an error, gives no"
        " reason, or gives a reason that is not in ragsweep.core.missing"
    )


def score_with_evidence(view: EvaluationView, values: NDArray[Any]) -> Scores:
    """Return ``values`` (questions,) as scores; a question without relevant evidence gets NaN and a reason."""
    missing, reasons = _without_evidence(view.questions, view.evidence_question)
    return Scores(np.where(missing, np.nan, values).astype(np.float64, copy=False), reasons)


def score_with_retrieval(view: EvaluationView, values: NDArray[Any]) -> Scores:
    """Return ``values`` (questions,) as scores; a question that needs no retrieval gets NaN and a reason.

    Unanswerable questions keep their values if they need retrieval.
    """
    searched = np.array([question.needs_retrieval for question in view.questions], dtype=bool)
    return score_where(searched, values, CONVERSATIONAL)


def score_with_approximation(view: EvaluationView, scores: Scores) -> Scores:
    """Return the scores unchanged if an approximate index was searched; otherwise, replace every value with NaN.

    A replaced value without a reason gets the reason EXACT; other reasons are kept.
    """
    if view.approximate:
        return scores
    reasons = np.where(scores.reasons == "", EXACT, scores.reasons)
    return score_where(np.zeros(len(reasons), dtype=bool), scores.values, reasons)


@memoize_by_identity
def _without_evidence(
    questions: Sequence[Question], evidence_question: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.str_]]:
    missing = np.bincount(evidence_question, minlength=len(questions)) == 0
    reasons = [
        CONVERSATIONAL if not question.needs_retrieval else NO_EVIDENCE if question.answerable else UNANSWERABLE
        for question in questions
    ]
    return missing, _read_only(np.where(missing, np.array(reasons, dtype=np.str_), "").astype(np.str_))


def _read_only(reasons: NDArray[np.str_]) -> NDArray[np.str_]:
    """Return the array after making it read-only, because the metrics of many configs share it."""
    reasons.flags.writeable = False
    return reasons


def score_where(measured: NDArray[np.bool_], values: NDArray[Any], reasons: NDArray[np.str_] | str) -> Scores:
    """Return ``values`` as scores; where ``measured`` is false, the score is NaN with a reason.

    ``measured`` and ``values`` have the shape (questions,). ``reasons`` has one reason per question or is a single
    reason for all questions that are not measured.
    """
    kept = np.where(measured, values, np.nan).astype(np.float64, copy=False)
    if isinstance(reasons, str):
        return Scores(kept, _one_reason(measured.tobytes(), reasons))
    return Scores(kept, np.where(measured, "", reasons).astype(np.str_, copy=False))


@memoize_by_identity
def _one_reason(measured: bytes, reason: str) -> NDArray[np.str_]:
    return _read_only(np.where(np.frombuffer(measured, dtype=bool), "", reason).astype(np.str_, copy=False))


class ReasonCodes(NamedTuple):
    """Reasons for one metric's missing scores: ``numbers``, one per question, are indices into the reasons ``names``.

    The names are in the order of first appearance and may include "" (for a measured score).
    """

    names: tuple[str, ...]
    numbers: NDArray[np.int64]


def number_reasons(reasons: Sequence[NDArray[np.str_]]) -> list[ReasonCodes]:
    """Return the reasons of each metric (questions,) as codes.

    The codes of a read-only array are memoised, because many configs share such an array.
    """
    return [_number(column) if column.flags.writeable else _number_once(column) for column in reasons]


def _number(reasons: NDArray[np.str_]) -> ReasonCodes:
    texts = reasons.tolist()
    numbers = {name: n for n, name in enumerate(dict.fromkeys(texts))}
    return ReasonCodes(tuple(numbers), np.array([numbers[text] for text in texts], dtype=np.int64))


_number_once = memoize_by_identity(_number)
