"""Statements on how much of a lead on the tune questions remains on the holdout, and on the use of the holdout."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragsweep.core.results import DROPPED, Result, Run
from ragsweep.report.document import Statement
from ragsweep.report.naming import short
from ragsweep.report.numbers import signed, with_interval
from ragsweep.stats.comparable import scoring_parameters
from ragsweep.stats.inference.best import winner
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.resampling import cluster_scores

NORMAL = 1.96


class Gap(NamedTuple):
    """The lead of one config over another on the tune questions and on the holdout; positive means better.

    ``change`` is the lead on the holdout minus the lead on the tune questions; ``low`` and ``high`` are the ends of its
    95 % interval (normal, with clustered errors). Leads are compared rather than means, because one of the two sets may
    have harder questions.
    """

    config: str
    over: str
    metric: str
    tune: float
    holdout: float
    change: float
    low: float
    high: float
    unit: str = ""


def holdout_gap(results: Sequence[Result], tuned: Sequence[Result], metric: str) -> Gap | None:
    """Compare a lead on the tune questions with the same lead on the holdout.

    ``results`` are the results on the holdout, and ``tuned`` the results on the tune questions. They are matched by the
    parameters that can change a score; configs that were not measured on both sets are ignored. The lead is the lead of
    the config with the best mean on the tune questions over the first config in ``results`` that has a value of the
    metric.

    Return None if this first config is the best or was not measured on the tune questions, or if either set of
    questions has fewer than ten effective clusters.
    """
    tuned_by_identity = {_identity(result.run): result for result in tuned if _usable(result, metric)}
    pairs = [(tuned_by_identity.get(_identity(result.run)), result) for result in results if _usable(result, metric)]
    both = [(before, after) for before, after in pairs if before is not None]
    if not both or pairs[0][0] is None:
        return None
    best = both[winner(score_matrix([before for before, _ in both], metric))]
    if best is both[0]:
        return None
    (before, first), (after, second) = (_lead(base, other, metric) for base, other in zip(both[0], best, strict=True))
    half = NORMAL * math.hypot(first, second)
    if not math.isfinite(half):
        return None
    change, unit = after - before, best[1].summaries.metrics[metric].unit
    return Gap(best[1].name, both[0][1].name, metric, before, after, change, change - half, change + half, unit)


def _lead(base: Result, other: Result, metric: str) -> tuple[float, float]:
    """Return the lead of ``other`` over ``base`` and the standard error of the lead (NaN with too few clusters)."""
    matrix = score_matrix([base, other], metric)
    found = cluster_scores(matrix.better[1:] - matrix.better[:1], matrix.clusters, matrix.weights)
    return float(found.means[0]), float(found.errors[0]) if found.enough else math.nan


def _identity(run: Run) -> frozenset[tuple[str, str]]:
    return frozenset(scoring_parameters(run).items())


def _usable(result: Result, metric: str) -> bool:
    found = result.summaries.metrics.get(metric)
    known = found is not None and math.isfinite(found.value) and found.higher_is_better is not None
    return known and result.run.state != DROPPED


SHORT_LIST = 10
"""Maximum number of configs on the holdout without a warning: choosing among more configs amounts to a search."""


def holdout_use(views: int, configs: int = 1) -> Iterator[Statement]:
    """Yield a statement on how often the holdout was used, with a warning if ``configs`` exceeds `SHORT_LIST`.

    Yield nothing if ``views`` is 0.
    """
    if views:
        times = {1: "once", 2: "twice"}.get(views, f"{views} times")
        way = "choose among them on the tune questions"
        many = f" {configs:,} configs are too many for the holdout: {way}." if configs > SHORT_LIST else ""
        text = f"The holdout was used {times}; each use that leads to a choice makes the next one less reliable.{many}"
        yield Statement("", text, {"views": views, "configs": configs})


def gap_line(gap: Gap | None) -> Iterator[Statement]:
    """Yield a statement on the lead on the tune questions and on the holdout; nothing if ``gap`` is None."""
    if gap is not None:
        unit = f" {gap.unit}" if gap.unit else ""
        tune, holdout = (f"{signed(lead, gap.unit)}{unit}" for lead in (gap.tune, gap.holdout))
        change = f"{with_interval(gap.change, gap.low, gap.high, gap.unit)}{unit}"
        leads = f"{short(gap.over)} there by {tune}, and leads by {holdout} on the holdout"
        text = f"gap: {short(gap.config)}, the best of these on the tune questions, led {leads}, a change of {change}"
        yield Statement("", text, gap._asdict())
