"""Turn a critical value of the normal distribution into one of Student's t, and back."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
LARGEST = 1e6
"""What is further out is as far out: nothing here is ever infinite."""


def as_student(normal: float, degrees: int) -> float:
    """Return the t value that is exceeded as often as a value of the normal distribution.

    Wallace's second approximation (Annals of Mathematical Statistics 30, 1959), turned round; ``degrees`` of freedom.
    NaN without any.
    """
    if degrees < 1 or math.isnan(normal):
        return math.nan
    stretched = normal * (8 * degrees + 3) / (8 * degrees + 1)
    root = math.sqrt(degrees * math.expm1(min(stretched * stretched / degrees, 60.0)))
    return math.copysign(min(root, LARGEST), normal)


def as_normal(student: Doubles, degrees: int) -> Doubles:
    """Return the value of the normal distribution that is exceeded as often as a t value: :func:`as_student` back."""
    root = np.sqrt(degrees * np.log1p(np.square(student) / degrees))
    return np.asarray(np.sign(student) * root * (8 * degrees + 1) / (8 * degrees + 3))


def student_quantile(share: float, degrees: int) -> float:
    """Return a quantile of Student's t (Wallace 1959; within .6 % from nine degrees of freedom on)."""
    return as_student(NormalDist().inv_cdf(share), degrees)
