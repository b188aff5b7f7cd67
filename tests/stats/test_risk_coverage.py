"""The curve of coverage and quality, by hand and by its laws."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.stats.answer_outcomes import CoveragePoint, best_point, coverage_curve

NAN = math.nan


def test_curve_by_hand() -> None:
    points = coverage_curve([0.9, 0.8, 0.8, 0.3], [1.0, 0.5, 0.0, 0.0], [True, True, False, True], [False] * 4)
    assert points[0] == (math.inf, 0, 0.0, pytest.approx(NAN, nan_ok=True), 1 / 4, 0.0)  # refusing all: one is right
    assert points[1:] == [
        CoveragePoint(0.9, 1, 1 / 4, 1.0, (1 + 0 + 1 + 0) / 4, 0.0),
        CoveragePoint(0.8, 3, 3 / 4, 0.5, (1 + 0.5 + 0 + 0) / 4, 1.0),  # both of one support, or neither
        CoveragePoint(0.3, 4, 1.0, 1.5 / 4, 1.5 / 4, 1.0),
    ]
    assert best_point(points).threshold == 0.9


def test_refusals_stay_refusals_and_unscored_answers_are_left_out() -> None:
    points = coverage_curve([0.9, 0.1, NAN, 0.5, NAN], [1, 0, 1, NAN, 0.2], [True, True, False, True, True],
                   [False, True, True, False, False])  # fmt: skip
    assert [point[:3] for point in points] == [(math.inf, 0, 0), (0.9, 1, 1 / 3)]
    assert points[1].score == pytest.approx((1 + 0 + 1) / 3)


def test_there_is_no_curve_without_support_and_no_hallucination_without_unanswerable_questions() -> None:
    assert coverage_curve([NAN, NAN], [1, 1], [True, False], [False, True]) == []
    assert all(math.isnan(point.hallucinated) for point in coverage_curve([1, 2], [1, 0], [True, True], [False, False]))


ROWS = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, NAN]), st.sampled_from([0.0, 0.5, 1.0, NAN]), st.booleans(),
                          st.booleans()), max_size=12)  # fmt: skip


@given(ROWS)
def test_laws(rows: list[tuple[float, float, bool, bool]]) -> None:
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    points = coverage_curve(*columns)
    turned = coverage_curve(*(list(column)[::-1] for column in columns))
    np.testing.assert_allclose(np.array(points), np.array(turned), atol=1e-12)
    assert all(one.threshold > other.threshold for one, other in pairwise(points))
    assert all(one.answered < other.answered for one, other in pairwise(points))
    assert all(0 <= point.coverage <= 1 and 0 <= point.score <= 1 for point in points)
    scored = [row for row in rows if not math.isnan(row[1])]
    if points and all(row[3] or not math.isnan(row[0]) for row in scored):
        as_measured = [(not row[2] if row[3] else row[1]) for row in scored]
        assert points[-1].score == pytest.approx(float(np.mean(as_measured)))  # the end is what was measured
