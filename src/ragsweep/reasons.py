"""Why a question has no score: what is not measured is NaN with a reason, never 0 and never dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.types import Scores, View

CONVERSATIONAL = "conversational"
UNANSWERABLE = "unanswerable"
NO_EVIDENCE = "no evidence"
NOT_PROBED = "not probed"
NO_REFERENCE = "no reference answer"
NO_KEYWORDS = "no keywords"
NOTHING_RETRIEVED = "nothing retrieved"
NO_TEXT = "no text"

SKIPPED = frozenset({CONVERSATIONAL, UNANSWERABLE, NO_EVIDENCE, NOT_PROBED, NO_REFERENCE, NO_KEYWORDS})
"""Reasons that say the question lacks what the metric needs; any other reason says that measuring failed."""


def score_with_evidence(view: View, values: NDArray[Any]) -> Scores:
    """Keep the values of questions that have relevant evidence; the others get NaN and what they are instead."""
    lacking = np.bincount(view.evidence_question, minlength=len(view.questions)) == 0
    kinds = np.array([_kind(question.needs_retrieval, question.answerable) for question in view.questions], dtype=str)
    return score_where(~lacking, values, kinds)


def score_with_retrieval(view: View, values: NDArray[Any]) -> Scores:
    """Keep the values of all questions that need retrieval, the unanswerable ones among them."""
    needed = np.array([question.needs_retrieval for question in view.questions], dtype=bool)
    return score_where(needed, values, CONVERSATIONAL)


def score_where(measured: NDArray[np.bool_], values: NDArray[Any], reasons: NDArray[np.str_] | str) -> Scores:
    """Keep the values where measured is true; elsewhere the score is NaN for the reason given.

    Args:
        measured: (questions,), true where there is a value.
        values: (questions,), whatever stands where nothing was measured is ignored.
        reasons: One reason a question, or one for all.
    """
    kept = np.where(measured, values, np.nan).astype(np.float64)
    return Scores(kept, np.where(measured, "", reasons).astype(np.str_))


def _kind(needs_retrieval: bool, answerable: bool) -> str:
    if not needs_retrieval:
        return CONVERSATIONAL
    return NO_EVIDENCE if answerable else UNANSWERABLE
