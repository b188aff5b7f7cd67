"""Numbers as text are total: every float has one, and NaN is that of a missing value."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragsweep.report.numbers import (
    NOT_MEASURED,
    about,
    ago,
    amount,
    chance,
    duration,
    number,
    ratio_with_interval,
    signed,
    spelled,
    with_interval,
)

WRITERS: list[Callable[[float], str]] = [
    number, signed, amount, chance, duration, spelled, ago, about, lambda value: number(value, "ms"),
    lambda value: signed(value, "ms"), lambda value: ratio_with_interval(value, value, value),
    lambda value: with_interval(0.5, value, value),
]  # fmt: skip


@given(st.floats(width=64, allow_nan=True, allow_infinity=True, allow_subnormal=True))
@example(math.nan)
@example(math.inf)
@example(-math.inf)
@example(-0.0)
@example(1e308)
@example(-sys.float_info.max)
@example(5e-324)
def test_every_float_can_be_written(value: float) -> None:
    for write in WRITERS:
        text = write(value)
        assert text
        assert "nan" not in text


@pytest.mark.parametrize("unit", ["", "ms"])
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_zero_has_no_sign_and_any_other_number_has_its_own(unit: str, value: float) -> None:
    text = number(value, unit)
    digits = any(digit in text for digit in "123456789")
    assert text.startswith("-") == (value < 0 and digits)


def test_missing_numbers_are_a_dash() -> None:
    assert [number(math.nan), number(math.nan, "ms"), number(-0.0), number(-0.001)] == [NOT_MEASURED] * 2 + [".00"] * 2
    assert [duration(math.nan), spelled(math.inf), ago(math.nan), about(math.nan)] == ["-", "-", "-", "time unknown"]
