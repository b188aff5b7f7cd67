"""Several objectives: the Pareto front, and the config's key."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result, objectives, pareto_front
from support.results import changed, scored


def point(name: str, quality: float, latency: float) -> Result:
    return changed(scored({"ndcg": [quality], "latency_mean_ms": [latency]}), name=name)


METRICS = ("ndcg", "latency_mean_ms")  # of the second less is better


def names(results: list[Result]) -> list[str]:
    return [one.name for one in pareto_front(results, METRICS)]


def test_a_config_is_on_the_front_unless_another_is_as_good_in_all_and_better_in_one() -> None:
    both = [point("best", 0.8, 90), point("quick", 0.5, 10), point("worse", 0.5, 11), point("slow", 0.8, 91)]
    assert names(both) == ["best", "quick"]
    assert names([*both, point("twin", 0.8, 90)]) == ["best", "quick", "twin"]


def test_what_was_not_measured_is_on_no_front_and_beats_nobody() -> None:
    assert names([point("a", 0.4, 20), point("b", math.nan, 10), point("c", 0.9, math.nan)]) == ["a"]
    assert names([point("a", 0.4, 20), changed(scored({"ndcg": [1.0]}), name="b")]) == ["a"]


@given(some.lists(some.tuples(some.integers(0, 4), some.integers(0, 4)), min_size=1, max_size=12))
def test_every_config_off_the_front_is_beaten_by_one_on_it(values: list[tuple[int, int]]) -> None:
    results = [point(str(n), quality, latency) for n, (quality, latency) in enumerate(values)]
    on = [values[int(name)] for name in names(results)]
    assert on
    for one in values:
        beaten = any(o != one and o[0] >= one[0] and o[1] <= one[1] for o in on)
        assert beaten != (one in on)


def test_an_objective_is_a_metric_or_a_list_of_different_ones() -> None:
    assert objectives({"objective": "mrr"}) == ("mrr",)
    assert objectives({"objective": ["mrr", "map"]}) == ("mrr", "map")
    assert objectives({}) == ()
    for wrong in ([], ["mrr", "mrr"], ["mrr", 3], 3, {"mrr": 1}):
        with pytest.raises(ConfigError, match="objective: must be a metric"):
            objectives({"objective": wrong})
