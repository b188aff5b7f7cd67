"""Settings of a config that no metric could keep are errors that name the key."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.sweep.settings import _check_constraints, _check_margin


@pytest.mark.parametrize("given", [-1, "much", True, math.inf])
def test_margin_that_is_no_margin_is_an_error(given: object) -> None:
    with pytest.raises(ConfigError, match=r"recommend.margin: must be a number of 0 or more, or null, given"):
        _check_margin({"margin": given})


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        ({"latency_p95": 800}, 'constraints.latency_p95: no such cost; did you mean "latency_p95_ms"'),
        ({"latency_p95_ms": "fast"}, "constraints.latency_p95_ms: must be a number above 0, or null"),
        ({"latency_p95_ms": 0}, "constraints.latency_p95_ms: must be a number above 0, or null"),
        ({"cost_per_1000": 3}, 'constraints.cost_per_1000: no metric "cost_per_1000" is measured'),
    ],
)
def test_constraint_that_could_never_be_kept_is_an_error(limits: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        _check_constraints(limits, {})
    assert fault in str(raised.value)
