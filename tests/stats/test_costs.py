"""What configs cost, and which of two is shown to cost less."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ragsweep.stats.choice import ConfigCosts
from support.results import METRIC, changed, noisy, one_metric, with_cost


def constant(**amounts: Sequence[float]) -> ConfigCosts:
    """Return configs that cost the same on every question."""
    count = len(next(iter(amounts.values())))
    rows = [{name: values[n] for name, values in amounts.items()} for n in range(count)]
    return ConfigCosts([one_metric(f"c{n}", noisy(0.5, seed=n), **row) for n, row in enumerate(rows)])


def by_question(name: str, columns: np.ndarray, unit: str = "EUR", **ends: Sequence[float]) -> ConfigCosts:
    """Return configs with a cost by question; with ``value``, ``low``, ``high`` it is a quantile, no mean of them."""
    results = [one_metric(f"c{n}", noisy(0.5, len(column), n)) for n, column in enumerate(columns)]
    return ConfigCosts(
        [
            with_cost(one, name, column, unit=unit, **{end: values[n] for end, values in ends.items()})
            for n, (one, column) in enumerate(zip(results, columns, strict=True))
        ]
    )


def test_only_costs_that_are_known_of_a_config_are_listed_with_nan_where_they_are_not() -> None:
    found = constant(context_tokens=(900.0, math.nan), cost_per_1000=(math.nan, math.nan)).values
    assert list(found) == ["context_tokens"]
    assert found["context_tokens"].tolist() == pytest.approx([900.0, math.nan], nan_ok=True)
    assert METRIC not in found


def test_first_cost_with_a_saving_decides_money_before_tokens_before_time() -> None:
    every = {"latency_p95_ms": (10.0, 5.0), "context_tokens": (900.0, 100.0), "cost_per_1000": (2.0, 1.0)}
    assert constant(**every).deciding([0, 1]) == "cost_per_1000"
    assert constant(**every | {"cost_per_1000": (2.0, 2.0)}).deciding([0, 1]) == "context_tokens"
    assert constant(**every | {"cost_per_1000": (2.0, math.nan)}).deciding([0, 1]) == "context_tokens"
    assert constant(latency_p95_ms=(10.0, 5.0)).deciding([0, 1]) == "latency_p95_ms"
    assert constant(latency_p95_ms=(10.0, 5.0)).deciding([0]) == ""


@pytest.mark.parametrize(
    ("name", "before", "after", "saved"),
    [
        ("context_tokens", 900.0, 810.0, True),  # a tenth
        ("context_tokens", 900.0, 811.0, False),
        ("context_tokens", 0.0, 0.0, False),
        ("latency_p95_ms", 10.0, 8.9, True),
        ("latency_p95_ms", 0.29, 0.03, False),  # by less than a millisecond
        ("cost_per_1000", 0.29, 0.03, True),
    ],
)
def test_a_saving_is_a_tenth_and_of_latency_1_ms(name: str, before: float, after: float, saved: bool) -> None:
    found = constant(**{name: (before, after)})
    assert (found.deciding([0, 1]) == name) == saved
    assert found.saves(name, 1, 0) == saved
    assert not found.saves(name, 0, 1)


def test_a_lower_mean_is_a_saving_only_where_the_interval_of_the_ratio_excludes_1() -> None:
    """The means of equal long-tailed costs often differ by a tenth: of e^N(0, 1.5²) they vary by 29 % at n = 100."""
    generator = np.random.default_rng(0)
    columns = np.exp(generator.normal(0, 1.5, (2, 100)))
    columns = columns[np.argsort(-columns.mean(axis=1))]
    columns[1] *= 0.7 * columns[0].mean() / columns[1].mean()
    columns[1] *= np.exp(np.log(columns[0]).mean() - np.log(columns[1]).mean())  # typically the same
    chance = by_question("cost_per_1000", columns)
    assert not chance.saves("cost_per_1000", 1, 0)
    assert not chance.saves("cost_per_1000", 0, 1)
    cheap = by_question("cost_per_1000", np.array([columns[0], columns[1] * 0.3]))
    found = cheap.difference("cost_per_1000", 1, 0)
    assert cheap.saves("cost_per_1000", 1, 0)
    assert found.ratios
    assert found.estimate[1] == pytest.approx(math.log(0.3))
    beside = by_question("cost_per_1000", np.array([columns[0], columns[1] * 0.3, columns[1] * math.nan]))
    assert beside.saves("cost_per_1000", 1, 0)  # a third config without scores changes nothing
    assert not beside.saves("cost_per_1000", 1, 2)


def test_a_quantile_is_compared_by_its_own_interval() -> None:
    columns = np.tile(np.linspace(1, 100, 100), (2, 1))
    apart = by_question("latency_p95_ms", columns, "ms", value=(95.0, 30.0), low=(90.0, 25.0), high=(99.0, 35.0))
    assert apart.difference("latency_p95_ms", 1, 0) is None
    probed = {"retrieve": {"p95_ms": 95.0, "work_p95_ms": 1.0, "work_quiet_ms": 1.0}}
    quiet = replace(apart, results=[changed(one, latency=probed) for one in apart.results])
    assert quiet.saves("latency_p95_ms", 1, 0)
    assert not apart.saves("latency_p95_ms", 1, 0)  # the state of the machine is unknown
    overlapping = by_question("latency_p95_ms", columns, "ms", value=(95.0, 60.0), low=(90.0, 50.0), high=(99.0, 80.0))
    assert overlapping.deciding([0, 1]) == "latency_p95_ms"
    assert not overlapping.saves("latency_p95_ms", 1, 0)
