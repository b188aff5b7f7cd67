"""Latency per question, from the probe that times questions one by one."""

from __future__ import annotations

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import NOT_PROBED, score_where
from ragsweep.core.types import EvaluationView, Scores


class Latency:
    """Milliseconds of a question, of one probed stage or summed over all.

    Args:
        quantile: Aggregation over questions: .95 for the 95th percentile; None for the mean.
        stage: The stage; None for the sum of all.

    Raises:
        ConfigError: The quantile is not between 0 and 1.
    """

    VERSION = "1"
    needs = ("latency",)
    unit = "ms"
    higher_is_better = False
    bounds = (0.0, None)

    def __init__(self, quantile: float | None = None, stage: str | None = None) -> None:
        if quantile is not None and not 0 < quantile < 1:
            raise ConfigError(f"the quantile of a latency must lie between 0 and 1, not {quantile}; null is the mean")
        kind = "mean" if quantile is None else f"p{quantile * 100:g}"
        self.name = "_".join(part for part in ("latency", stage, kind, "ms") if part)
        self.quantile = quantile
        self.stage = stage

    def score(self, view: EvaluationView) -> Scores:
        """Score every question that was probed in every stage."""
        stages = [seconds for name, seconds in view.latency.items() if self.stage in (None, name)]
        total = np.sum(stages, axis=0) * 1000.0 if stages else np.full(len(view.questions), np.nan)
        return score_where(~np.isnan(total), total, NOT_PROBED)
