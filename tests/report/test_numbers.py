"""Numbers as text are total: every float has one, and NaN is that of a missing value."""

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragsweep.core.results import Summary
from ragsweep.parts.metrics.bases import clamp
from ragsweep.report import numbers
from ragsweep.report.numbers import (
    NOT_MEASURED,
    about,
    ago,
    amount,
    chance,
    duration,
    factor,
    number,
    ratio_with_interval,
    signed,
    spelled,
    with_interval,
)

WRITERS: Mapping[Callable[..., Any], Callable[[float, str], object]] = {
    numbers.cell: lambda value, unit: numbers.cell(Summary("m", value, value, value, 1, 1, 0, 0, unit)),
    number: number,
    signed: signed,
    numbers.least_decimals: lambda value, _: numbers.least_decimals(value, 3),
    amount: amount,
    with_interval: lambda value, unit: with_interval(0.5, value, value, unit),
    ratio_with_interval: lambda value, _: ratio_with_interval(value, value, value),
    numbers.change_with_interval: lambda value, unit: numbers.change_with_interval(value, -1.0, value, unit, False),
    factor: lambda value, _: factor(value),
    chance: lambda value, _: chance(value),
    numbers.likelihood: lambda value, _: numbers.likelihood(value),
    spelled: lambda value, _: spelled(value),
    duration: lambda value, _: duration(value),
    ago: lambda value, _: ago(value),
    about: lambda value, _: about(value),
}


def test_every_function_that_writes_a_number_is_tried() -> None:
    own = {one for _, one in inspect.getmembers(numbers, inspect.isfunction) if one.__module__ == numbers.__name__}
    assert set(WRITERS) == own


@given(st.floats(width=64, allow_nan=True, allow_infinity=True, allow_subnormal=True))
@example(math.nan)
@example(math.inf)
@example(-math.inf)
@example(-0.0)
@example(1e308)
@example(-sys.float_info.max)
@example(5e-324)
def test_every_float_can_be_written(value: float) -> None:
    for write in WRITERS.values():
        for unit in ("", "ms", "tokens"):
            text = str(write(value, unit))
            assert text
            assert "nan" not in text


BOUNDS = [(0.0, 1.0), (-1.0, 1.0), (0.0, None), (None, 0.0), (None, None)]


@given(st.floats(), st.sampled_from(BOUNDS))
@example(math.nan, (0.0, 1.0))
@example(math.inf, (0.0, None))
def test_values_beyond_bounds_become_the_nearest_bound(value: float, bounds: tuple[float | None, float | None]) -> None:
    lowest, highest = (-math.inf if bounds[0] is None else bounds[0]), (math.inf if bounds[1] is None else bounds[1])
    kept = clamp(value, bounds)
    if math.isnan(value):
        assert math.isnan(kept)
    else:
        assert kept == min(max(value, lowest), highest)


@pytest.mark.parametrize("unit", ["", "ms"])
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_zero_has_no_sign_and_any_other_number_has_its_own(unit: str, value: float) -> None:
    text = number(value, unit)
    digits = any(digit in text for digit in "123456789")
    assert text.startswith("-") == (value < 0 and digits)


def test_a_share_has_two_decimals_and_no_zero_before_them() -> None:
    shares = (0.9949, 0.995, 0.9951, -0.995, -0.9951, 0.9999999, 1.0)  # the float 0.995 is a little below 0.995
    assert [number(share) for share in shares] == [".99", ".99", "1.00", "-.99", "-1.00", "1.00", "1.00"]


def test_an_amount_keeps_two_significant_digits_below_one() -> None:
    amounts = (0.0, 0.049, 0.051, 0.06, 0.149, -0.5, 1.04)
    assert [amount(one, "EUR") for one in amounts] == ["0", "0.049", "0.051", "0.06", "0.15", "-0.50", "1.0"]
    assert with_interval(0.06, 0.051, 0.14, "EUR") == "+0.06 [+0.051, +0.14]"


def test_a_ratio_has_no_more_digits_than_its_terms() -> None:
    """From 11,330 instead of 12.04, which is printed as 12, a reader gets 944."""
    ratios = (11_330 / 12.04, 12_345.0, 99.5, 1.52, 1.0, 0.0312, 0.0, math.nan)
    assert [factor(one) for one in ratios] == ["x 940", "x 12,000", "x 100", "x 1.5", "x 1", "x 0.031", "x 0", "-"]


def test_missing_numbers_are_a_dash() -> None:
    assert [number(math.nan), number(math.nan, "ms"), number(-0.0), number(-0.001)] == [NOT_MEASURED] * 2 + [".00"] * 2
    assert [duration(math.nan), spelled(math.inf), ago(math.nan), about(math.nan)] == ["-", "-", "-", "time unknown"]
