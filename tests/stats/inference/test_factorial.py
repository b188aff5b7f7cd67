"""What each parameter of a grid does."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.stats.inference.factorial import Effects, effects
from ragsweep.stats.inference.resampling import bound, cluster_scores
from support.matrices import matrix, normal


def grid(**levels: str) -> list[dict[str, str]]:
    return [dict(zip(levels, chosen, strict=True)) for chosen in product(*levels.values())]


def estimates(found: Effects) -> dict[tuple[str, ...], float]:
    return {(*one.factors, *one.levels): one.estimate for one in found.effects}


def noisy(means: np.ndarray) -> np.ndarray:
    """Scores whose means are exactly as given."""
    own = np.random.default_rng(0).normal(0, 0.1, (len(means), 40))
    return means[:, None] + own - own.mean(axis=1, keepdims=True)


def test_two_by_two_by_hand() -> None:
    means = np.array([0.1, 0.2, 0.4, 0.9])  # a: x, x, y, y; b: p, q, p, q
    found = effects(grid(a="xy", b="pq"), matrix(noisy(means)))
    assert found.method == "full grid"
    assert estimates(found) == {
        ("a", "y"): pytest.approx((0.4 + 0.9) / 2 - (0.1 + 0.2) / 2),
        ("b", "q"): pytest.approx((0.2 + 0.9) / 2 - (0.1 + 0.4) / 2),
        ("a", "b", "y", "q"): pytest.approx((0.9 - 0.4) - (0.2 - 0.1)),
    }
    assert [one.against for one in found.effects] == [("x",), ("p",), ("x", "p")]


def test_effects_of_a_full_grid_are_plain_averages_question_by_question() -> None:
    one = normal(12, 60)
    found = effects(grid(a="xyz", b="pq", c="st"), one)
    cells = one.values.reshape(3, 2, 2, 60)
    rows = [cells[n].mean(axis=(0, 1)) - cells[0].mean(axis=(0, 1)) for n in (1, 2)]
    expected = bound(cluster_scores(np.array(rows), one.clusters))
    for effect, mean, error in zip(found.effects[:2], expected.means, expected.errors, strict=True):
        assert (effect.estimate, effect.standard_error) == (pytest.approx(mean), pytest.approx(error))
        assert effect.low < effect.estimate < effect.high
    assert len(found.effects) == 4 + 2 + 2 + 1
    between = cells.mean(axis=2)
    crossed = (between[2, 1] - between[2, 0] - between[0, 1] + between[0, 0]).mean()
    assert estimates(found)["a", "b", "z", "q"] == pytest.approx(crossed)


def test_a_grid_with_a_hole_is_fitted_by_least_squares() -> None:
    """Main effects and interactions that are really there are found exactly, whichever config is missing."""
    settings = grid(a="xyz", b="pqr")
    truth = {"x": 0, "y": 0.1, "z": 0.3, "p": 0, "q": 0.2, "r": 0.0}
    means = np.array([truth[s["a"]] + truth[s["b"]] for s in settings])
    for hole in range(9):
        left = [n for n in range(9) if n != hole]
        found = effects([settings[n] for n in left], matrix(noisy(means[left])))
        assert found.method == "least squares without interactions"
        told = {(*one.factors, *one.levels, *one.against): one.estimate for one in found.effects}
        for (_, level, first), estimate in told.items():
            assert estimate == pytest.approx(truth[level] - truth[first])


def test_three_factors_with_a_hole_keep_their_interactions() -> None:
    settings = grid(a="xy", b="pq", c="st")
    means = np.array([(s["a"] == "y") * 0.1 + (s["a"] == "y" and s["c"] == "t") * 0.2 for s in settings])
    found = effects(settings[:-1], matrix(noisy(means[:-1])))
    assert found.method == "least squares"
    told = estimates(found)
    assert told["a", "y"] == pytest.approx(0.1 + 0.2 / 2)
    assert told["a", "c", "y", "t"] == pytest.approx(0.2)
    assert told["b", "q"] == pytest.approx(0)


def test_one_change_at_a_time_has_main_effects_only() -> None:
    settings = [{"a": "x", "b": "p"}, {"a": "y", "b": "p"}, {"a": "x", "b": "q"}]
    found = effects(settings, matrix(noisy(np.array([0.5, 0.6, 0.4]))))
    assert found.method == "least squares without interactions"
    assert estimates(found) == {("a", "y"): pytest.approx(0.1), ("b", "q"): pytest.approx(-0.1)}


def test_what_always_changes_together_cannot_be_told_apart() -> None:
    settings = [{"a": "x", "b": "p", "c": "s"}, {"a": "y", "b": "q", "c": "s"}, {"a": "x", "b": "p", "c": "t"}]
    found = effects(settings, matrix(noisy(np.array([0.5, 0.6, 0.7]))))
    told = {one.factors: one for one in found.effects}
    for name in ("a", "b"):
        assert math.isnan(told[name,].estimate)
        assert told[name,].note == "it cannot be distinguished from another effect with these configs"
    assert told["c",].estimate == pytest.approx(0.2)


def test_a_parameter_that_only_some_have_has_an_empty_level() -> None:
    settings = [{"retriever": "rrf"}, {"retriever": "convex", "alpha": ".3"}, {"retriever": "convex", "alpha": ".7"}]
    found = effects(settings, matrix(noisy(np.array([0.5, 0.6, 0.7]))))
    assert {one.levels for one in found.effects} == {("convex",), (".3",), (".7",)}
    assert all(math.isnan(one.estimate) for one in found.effects)


def test_many_values_of_many_factors_take_no_time_of_their_product() -> None:
    settings = [{name: str(one) for name in "abcdefgh"} for one in range(30)]
    found = effects(settings, normal(30, 20))
    assert all(math.isnan(one.estimate) for one in found.effects)


def test_nothing_swept_has_no_effects() -> None:
    assert effects([{"a": "x"}, {"a": "x"}], normal(2, 20)).effects == ()


@given(st.permutations(range(6)))
def test_the_order_of_configs_changes_no_effect(order: list[int]) -> None:
    settings, one = grid(a="xyz", b="pq"), normal(6, 30)
    first = next(n for n in order if settings[n]["a"] == "x" and settings[n]["b"] == "p")
    order = [first, *(n for n in order if n != first)]
    found = effects([settings[n] for n in order], one.select_configs(order), resamples=100)
    expected = estimates(effects(settings, one, resamples=100))
    for key, value in estimates(found).items():
        if key in expected:
            assert value == pytest.approx(expected[key])


def test_interactions_that_an_additive_model_leaves_out_are_detected() -> None:
    """A grid with a hole: additive means fit; one combination that is better by .2 does not."""
    settings = [one for one in grid(a="xyz", b="pqr") if one != {"a": "z", "b": "r"}]
    additive = np.array([{"x": 0, "y": 0.1, "z": 0.3}[s["a"]] + {"p": 0, "q": 0.2, "r": 0.1}[s["b"]] for s in settings])
    crossed = additive + [0.2 * (s == {"a": "y", "b": "q"}) for s in settings]
    assert effects(settings, matrix(noisy(additive))).interactions == "not shown"
    assert effects(settings, matrix(noisy(crossed))).interactions == "present"
    one_by_one = [{"a": "x", "b": "p"}, {"a": "y", "b": "p"}, {"a": "x", "b": "q"}]
    assert effects(one_by_one, matrix(noisy(np.array([0.5, 0.6, 0.4])))).interactions == "untestable"
    assert effects(grid(a="xy", b="pq"), normal(4, 40)).interactions == "estimated"


def test_what_cannot_lose_is_not_exposed() -> None:
    """A fifth of 60 questions gain a little: an unseen loss could undo it, unless a longer context excludes one."""
    one = normal(2, 60)
    one.values[1] = one.values[0] + np.where(np.arange(60) % 5, 0.0, 0.1)
    settings = [{"top_k": "3"}, {"top_k": "5"}]
    assert [effect.exposed for effect in effects(settings, one).effects] == [True]
    assert [effect.exposed for effect in effects(settings, one, lengthening=["top_k"]).effects] == [False]
    one.values[1, 0] -= 0.2
    assert [effect.exposed for effect in effects(settings, one, lengthening=["top_k"]).effects] == [True]


@pytest.mark.parametrize("hits", [range(0, 40), range(0, 40, 3)])
def test_an_interaction_that_is_zero_on_every_question_is_not_exposed(hits: range) -> None:
    """The computed numbers differ from 0 by rounding errors, all of one sign."""
    own = np.isin(np.arange(40), hits) * 0.1
    scores = np.array([own, own + 0.1, own + 0.7, own + 0.8])
    (together,) = (one for one in effects(grid(a="xy", b="pq"), matrix(scores)).effects if len(one.factors) == 2)
    assert (together.estimate, together.low, together.high, together.exposed) == (0, 0, 0, False)
