"""The curve over a swept number: its flat region, and a choice that is not made in sample."""

import math

import numpy as np
import pytest

from ragsweep.core.results import Result
from ragsweep.stats.curves import curves
from support.results import changed, compared, scored


def config(alpha: float, scores: list[float], **parameters: str) -> Result:
    given = {"retriever.alpha": str(alpha), **parameters}
    return scored({"ndcg": scores}, parameters=given, name=f"alpha={alpha}")


def swept(means: dict[float, float], noise: float = 0.3) -> list[Result]:
    generator = np.random.default_rng(1)
    common = generator.normal(0, 0.2, 200)
    rows = {alpha: mean + common + generator.normal(0, noise, 200) for alpha, mean in means.items()}
    return [config(alpha, row.tolist()) for alpha, row in rows.items()]


def test_the_flat_region_holds_what_cannot_be_told_from_the_best() -> None:
    (curve,) = curves(swept({0.0: 0.2, 0.25: 0.5, 0.5: 0.51, 0.75: 0.5, 1.0: 0.2}), "retriever.alpha", "ndcg")
    assert [point.value for point in curve.points] == [0, 0.25, 0.5, 0.75, 1]
    assert curve.flat == (0.25, 0.75)
    assert curve.best in (0.25, 0.5, 0.75)
    assert all(point.low < point.mean < point.high for point in curve.points)
    assert sum(point.chosen for point in curve.points) == pytest.approx(1)


def test_a_value_beyond_a_worse_one_may_be_the_best_too() -> None:
    (curve,) = curves(swept({0.0: 0.5, 0.5: 0.2, 1.0: 0.5}), "retriever.alpha", "ndcg")
    assert curve.may_be_best == (True, False, True)
    assert curve.flat == (curve.best, curve.best)


def test_the_best_of_equals_is_worth_less_on_unseen_questions() -> None:
    equal = swept(dict.fromkeys(np.linspace(0, 1, 11).tolist(), 0.5), noise=1.0)
    (curve,) = curves(equal, "retriever.alpha", "ndcg")
    assert curve.held_out < curve.best_mean - 0.02
    assert curve.flat == (0, 1)
    assert max(point.chosen for point in curve.points) < 1
    (clear,) = curves(swept({0.0: 0.1, 0.5: 0.9, 1.0: 0.1}), "retriever.alpha", "ndcg")
    assert (clear.chosen, clear.flat) == (0.5, (0.5, 0.5))
    assert clear.held_out == pytest.approx(clear.best_mean)


def test_each_setting_of_the_other_parameters_has_its_own_curve() -> None:
    results = [
        config(alpha, [alpha, 0.5], top_k=top_k, **{"store.path": f"{alpha}"})
        for top_k in ("3", "5")
        for alpha in (0.0, 0.5, 1.0)
    ]
    found = curves([*results, config(0.5, [1.0, 1.0], top_k="9")], "retriever.alpha", "ndcg")
    assert len(found) == 2
    assert all(curve.best == curve.chosen == 1 and math.isnan(curve.held_out) for curve in found)
    assert curves(results, "retriever.k", "ndcg") == []


def test_a_curve_of_amounts_agrees_with_the_comparison_of_its_configs() -> None:
    """By ratios .5 is the best value, although one slow question gives it the longest mean."""
    generator = np.random.default_rng(1)
    rows = np.array([[100.0], [80.0], [200.0]]) * generator.lognormal(0, 0.3, (3, 40))
    rows[1, 0] = 20_000.0
    results = [
        scored({"latency_ms": row.tolist()}, parameters={"retriever.alpha": alpha}, name=alpha)
        for alpha, row in zip(("0", "0.5", "1"), rows, strict=True)
    ]
    (curve,) = curves(results, "retriever.alpha", "latency_ms")
    verdict = compared(results)
    assert curve.best == curve.chosen == 0.5
    assert curve.may_be_best == tuple(verdict.pairs.may_be_best)
    assert (curve.best_mean, curve.held_out) == (verdict.selection_bias.observed, verdict.selection_bias.crossfitted)


def test_a_part_that_no_config_uses_does_not_split_a_curve() -> None:
    """The embedder of `retriever=bm25`; a vector retriever contains its embedder, which then counts."""
    bm25, embedders = {"_target_": "x.Bm25"}, ("hashing", "minilm", "static")
    for used, count in ((False, 1), (True, 0)):
        nodes = [{"_target_": f"x.{name}"} for name in embedders]
        given = [{"embedder": one, "retriever": {**bm25, "embedder": one} if used else bm25} for one in nodes]
        results = [
            changed(config(alpha, [alpha, 0.5], embedder=name), config=node)
            for alpha, name, node in zip((0.0, 0.5, 1.0), embedders, given, strict=True)
        ]
        assert len(curves(results, "retriever.alpha", "ndcg")) == count
