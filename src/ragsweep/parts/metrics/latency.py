"""How long a question takes, from the probe that asked questions one by one."""

from __future__ import annotations

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.reasons import NOT_PROBED, score_where
from ragsweep.core.types import Scores, View


class Latency:
    """Sum the time of a question over all stages that were probed, or take that of one stage; milliseconds.

    Args:
        quantile: How the questions become one number: .95 for the 95th percentile; None for the mean.
        stage: One stage; None for the sum of all.

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

    def score(self, view: View) -> Scores:
        """Score every question; one that was not probed in every stage has no score."""
        stages = [seconds for name, seconds in view.latency.items() if self.stage in (None, name)]
        total = np.sum(stages, axis=0) * 1000.0 if stages else np.full(len(view.questions), np.nan)
        return score_where(~np.isnan(total), total, NOT_PROBED)
