"""The distances within which configs are called equal, and the losses that a cheaper choice may cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ragsweep.stats.inference.matrix import Matrix, has_ratios

MARGIN = 0.05
"""Default of ``recommend.margin``: points of a metric without a unit, else this share of the reference's mean."""
LOSS = 0.005
"""Default of ``recommend.loss``: points of a metric without a unit, else this share of the choice's mean."""


def find_margin(config: Mapping[str, Any], matrix: Matrix, unit: str) -> float:
    """Return the distance within which two configs are called equal, in the unit of what is compared."""
    return _tolerance(config, "margin", MARGIN, matrix, unit)


def find_loss(config: Mapping[str, Any], matrix: Matrix, unit: str) -> float:
    """Return the mean loss against the best that a choice may have, in the unit of what is compared."""
    return _tolerance(config, "loss", LOSS, matrix, unit)


def _tolerance(config: Mapping[str, Any], key: str, default: float, matrix: Matrix, unit: str) -> float:
    """Return a distance as configured, else the default, in the unit of what is compared: of amounts a logarithm.

    Shares of a mean are of that over all configs, so that no single one of them matters.
    """
    given, mean = (config.get("recommend") or {}).get(key), abs(float(matrix.values.mean()))
    if has_ratios(matrix, unit):
        return math.log1p(default if given is None else float(given) / mean)
    if given is not None:
        return float(given)
    return default * mean if unit else default
