"""Critical values of Student's t beside those of the normal distribution, against scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from ragsweep.stats.inference.resampling import as_normal, as_student, student_quantile


@pytest.mark.parametrize("degrees", [9, 99, 10**6])
@pytest.mark.parametrize("share", [0.6, 0.975, 0.00135])
def test_quantiles_are_those_of_scipy(share: float, degrees: int) -> None:
    expected = stats.t.ppf(share, degrees)
    assert student_quantile(share, degrees) == pytest.approx(expected, rel=1e-9)
    assert as_student(stats.norm.ppf(share), degrees) == pytest.approx(expected, rel=0.006)


@pytest.mark.parametrize("degrees", [1, 9, 99])
def test_there_and_back(degrees: int) -> None:
    values = np.linspace(-4, 4, 17)
    there = np.array([as_student(value, degrees) for value in values.tolist()])
    assert as_normal(there, degrees) == pytest.approx(values, abs=1e-9)


def test_nothing_is_infinite() -> None:
    assert math.isfinite(as_student(40.0, 9))
    assert as_student(-40.0, 9) == -as_student(40.0, 9)
    assert math.isnan(as_student(2.0, 0))
