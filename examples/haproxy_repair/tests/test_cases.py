"""Every case is broken, and repaired; together they cover categories, difficulties and the manual."""

from collections import Counter
from typing import Any

import pytest

from haproxy_repair.cases import DIFFICULTIES, faults, read_cases
from haproxy_repair.findings import KINDS
from haproxy_repair.validator import check

CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_input_is_broken_and_expected_repair_is_accepted(case: dict[str, Any], manual: dict[str, str]) -> None:
    assert list(faults(case, set(manual))) == []
    assert case["errors"] == check(case["input"]).report


def test_a_case_that_is_not_broken_or_not_repaired_has_faults(manual: dict[str, str]) -> None:
    case = CASES[0]
    assert any("finds nothing" in fault for fault in faults({**case, "input": case["expected"]}, set(manual)))
    assert any("expected repair" in fault for fault in faults({**case, "expected": case["input"]}, set(manual)))


def test_cases_cover_categories_difficulties_and_sections() -> None:
    assert len(CASES) >= 60
    assert len({case["id"] for case in CASES}) == len(CASES)
    categories = Counter(case["category"] for case in CASES)
    assert set(categories) == set(KINDS)
    assert min(categories.values()) >= 7
    difficulties = Counter(case["difficulty"] for case in CASES)
    assert set(difficulties) == set(DIFFICULTIES)
    assert min(difficulties.values()) >= 15
    assert len({case["evidence"][0]["document"] for case in CASES}) >= 25
    assert all(8 <= len(case["input"].splitlines()) <= 40 for case in CASES)
