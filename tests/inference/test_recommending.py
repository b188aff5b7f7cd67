"""What to ship: the cheapest that cannot be told from the best, within limits."""

from __future__ import annotations

import numpy as np
import pytest

from ragsweep.errors import InputError
from ragsweep.inference.confidence_set import Kept
from ragsweep.inference.recommending import recommend

NAN = np.nan
KEPT = Kept(np.array([True, False, True, True]), np.array([0.4, 0.01, 1.0, 0.6]))
TOKENS = np.array([900.0, 100.0, 700.0, 800.0])
MONEY = np.array([2.0, 1.0, 3.0, 4.0])


def test_the_cheapest_of_the_set() -> None:
    found = recommend(KEPT, {"context_tokens": TOKENS}, {})
    assert found == (2, "the cheapest by context tokens of 3 that cannot be told from the best")


def test_money_decides_before_tokens_and_tokens_where_money_is_not_known() -> None:
    assert recommend(KEPT, {"context_tokens": TOKENS, "cost_per_1000": MONEY}, {}).config == 0
    unknown = np.array([2.0, 1.0, NAN, 4.0])
    assert recommend(KEPT, {"context_tokens": TOKENS, "cost_per_1000": unknown}, {}).config == 2
    same = np.array([2.0, 1.0, 2.0, 2.0])
    found = recommend(KEPT, {"cost_per_1000": same, "context_tokens": TOKENS}, {})
    assert found.config == 2
    assert "context tokens" in found.why


def test_limits_exclude_what_is_beyond_and_what_is_not_known() -> None:
    latency = np.array([500.0, 10.0, 900.0, NAN])
    found = recommend(KEPT, {"context_tokens": TOKENS, "latency_p95_ms": latency}, {"latency_p95_ms": 800})
    assert found == (0, "the only one that cannot be told from the best, within latency_p95_ms 800")
    nobody = recommend(KEPT, {"latency_p95_ms": latency}, {"latency_p95_ms": 400})
    assert nobody.config is None
    assert nobody.why == "none of the 3 that cannot be told from the best is known to be within latency_p95_ms 400"
    assert recommend(KEPT, {}, {"latency_p95_ms": 400}).config is None


def test_no_limit_is_none() -> None:
    limits = {"latency_p95_ms": None, "cost_per_1000": None}
    assert recommend(KEPT, {"context_tokens": TOKENS}, limits).config == 2


def test_no_winner_without_anything_to_choose_by() -> None:
    assert recommend(KEPT, {}, {}) == (
        None,
        "3 configs that cannot be told from the best, and what they cost is not known",
    )
    assert recommend(KEPT, {"context_tokens": np.full(4, 5.0)}, {}).why.endswith("they cost the same")


def test_one_alone_needs_no_cost() -> None:
    alone = Kept(np.array([False, True]), np.array([0.0, 1.0]))
    assert recommend(alone, {}, {}).config == 1


def test_where_nothing_can_be_told_apart_it_is_said() -> None:
    everyone = Kept(np.ones(4, dtype=bool), np.ones(4))
    found = recommend(everyone, {"context_tokens": TOKENS}, {})
    assert found == (1, "the cheapest by context tokens of 4 that cannot be told apart")


def test_a_limit_on_what_is_no_cost_is_refused() -> None:
    with pytest.raises(InputError, match=r'"latency_p95".*latency_p95_ms'):
        recommend(KEPT, {}, {"latency_p95": 3})


def test_never_one_that_is_not_in_the_set() -> None:
    generator = np.random.default_rng(0)
    for _ in range(100):
        mask = generator.random(5) < 0.5
        mask[0] = True
        costs = {"context_tokens": generator.integers(0, 4, 5).astype(float)}
        found = recommend(Kept(mask, mask.astype(float)), costs, {"context_tokens": 2.0})
        assert found.config is None or (mask[found.config] and costs["context_tokens"][found.config] <= 2)
