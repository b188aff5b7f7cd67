"""What to know of the judge's judgements themselves: planted instructions, and how sure the judge is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.reasons import JUDGED_ONCE, NOTHING_JUDGED, failed, score_where
from ragsweep.core.types import Scores, View
from ragsweep.parts.metrics.share import Share


class JudgeSuspicious(Share):
    """Say whether a text that was judged holds what looks like an instruction to the judge: 1 or 0.

    The mean is the share of the judged questions. Nothing is left out for it; look at those questions.
    """

    name = "judge_suspicious"
    needs = ("judge",)
    higher_is_better = False

    def score(self, view: View) -> Scores:
        """Score every question that any metric judged."""
        judged, flagged = np.zeros(len(view.questions), dtype=bool), np.zeros(len(view.questions), dtype=bool)
        for judgements in view.judgements.values():
            judged |= [not judgement.reason or judgement.suspicious for judgement in judgements]
            flagged |= [judgement.suspicious for judgement in judgements]
        return score_where(judged, flagged, _why_not(view))


class JudgeSpread(Share):
    """Average over the judged metrics how far a question's samples lie apart: their standard deviation.

    Needs judge.samples of 2 or more. It is the noise of one sample: of the mean of n it is the sqrt(n)-th part.
    """

    name = "judge_spread"
    needs = ("judge",)
    higher_is_better = False
    bounds = (0.0, None)

    def score(self, view: View) -> Scores:
        """Score every question that any metric judged more than once."""
        spread = np.full((len(view.judgements), len(view.questions)), np.nan)
        for row, judgements in zip(spread, view.judgements.values(), strict=True):
            row[:] = [judgement.spread for judgement in judgements]
        known = ~np.isnan(spread)
        count = known.sum(axis=0)
        values = np.where(known, spread, 0.0).sum(axis=0) / np.maximum(count, 1)
        reasons = _why_not(view)
        return score_where(count > 0, values, np.where(reasons == "", JUDGED_ONCE, reasons))


def _why_not(view: View) -> NDArray[np.str_]:
    """Say of every question why no metric judged it: what went wrong, else what it lacks; empty where one did."""
    told = []
    for n in range(len(view.questions)):
        reasons = [judgements[n].reason for judgements in view.judgements.values()]
        wrong = [reason for reason in reasons if failed(reason)]
        told.append("" if "" in reasons else [*wrong, *reasons, NOTHING_JUDGED][0])
    return np.array(told, dtype=np.str_)
