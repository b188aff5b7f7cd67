"""The base of most metrics, proportions between 0 and 1, and arithmetic over evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.types import EvaluationView


class Proportion:
    """Attributes of a proportion; a metric adds its name and ``score``."""

    VERSION = "1"
    needs: tuple[str, ...] = ("evidence",)
    unit = ""
    higher_is_better: bool | None = True
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    quantile: float | None = None


def per_question(view: EvaluationView, weights: NDArray[Any]) -> NDArray[np.float64]:
    """Sum one number per evidence (evidences,) to one per question (questions,)."""
    size = len(view.questions)
    return np.bincount(view.evidence_question, weights, size).astype(np.float64, copy=False)


def evidences(view: EvaluationView) -> NDArray[np.float64]:
    """Count the evidences of each question (questions,)."""
    return _evidences(view.evidence_question, len(view.questions))


@memoize_by_identity
def _evidences(evidence_question: NDArray[np.int64], questions: int) -> NDArray[np.float64]:
    return np.bincount(evidence_question, minlength=questions).astype(np.float64)


def divide(sums: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """Divide; a quotient by 0 is 0."""
    quotient = np.zeros(len(sums), dtype=np.float64)
    np.divide(sums, counts, out=quotient, where=counts != 0)
    return quotient


def is_within(ranks: NDArray[np.int64], cutoff: int | None) -> NDArray[np.bool_]:
    """Return which ranks are reached (not 0) and within the cutoff, where there is one."""
    reached: NDArray[np.bool_] = ranks > 0
    return reached if cutoff is None else reached & (ranks <= cutoff)


def name_at(name: str, cutoff: int | None) -> str:
    """Return a metric's name with its cutoff (``recall_at_10``), without where whole rankings are evaluated.

    Raises:
        ConfigError: The cutoff is below 1.
    """
    if cutoff is not None and cutoff < 1:
        raise ConfigError(f"the cutoff of {name} must be at least 1, not {cutoff}")
    return name if cutoff is None else f"{name}_at_{cutoff}"
