"""The config to run if one must be run today: laws of the choice, and what is expected of it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from ragsweep.core.results import Result
from ragsweep.stats.choice import Choice, ConfigCosts, against, choose
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.shrinkage import Posterior, posterior
from support import nightly
from support.results import METRIC, changed, one_metric, with_cost

LOSS = 0.005


def drawn(*means: float, tokens: Sequence[float] = (), spread: float = 0.1) -> list[Result]:
    """Draw correlated scores whose means are exactly these, so that a test states what follows from them."""
    generator = np.random.default_rng(0)
    rows = generator.normal(0, 0.1, 200) + generator.normal(0, spread, (len(means), 200))
    rows += np.array(means)[:, None] - rows.mean(axis=1, keepdims=True)
    tokens = tokens or [500.0] * len(means)
    return [one_metric(f"c{n}", row, context_tokens=tokens[n]) for n, row in enumerate(rows)]


def believed(results: Sequence[Result]) -> Posterior:
    return posterior(score_matrix(results, METRIC))


def chosen(
    results: Sequence[Result], loss: float = LOSS, refusing: Any = (), baseline: int | None = None, **limits: Any
) -> Choice:
    return choose(believed(results), ConfigCosts(results), limits, loss, refusing, baseline)


def turned(results: Sequence[Result]) -> list[Result]:
    """Return the same configs with a metric of which less is better."""
    found = []
    for one in results:
        less = {"value": -one.summaries.metrics[METRIC].value, "higher_is_better": False}
        found.append(changed(one, {METRIC: [-score for score in one.questions[METRIC]]}, measured={METRIC: less}))
    return found


def test_largest_expected_mean_is_chosen_whichever_direction_is_better() -> None:
    for results in (drawn(0.5, 0.6, 0.65), turned(drawn(0.5, 0.6, 0.65))):
        one = chosen(results)
        assert (one.row, one.best, one.cost, one.within, one.sacrificed) == (2, 2, "", 3, None)
        assert one.runner_up.row == 1


@st.composite
def sweeps(draw: st.DrawFn) -> list[Result]:
    """Draw a few configs, some with equal scores or costs."""
    generator = np.random.default_rng(draw(st.integers(0, 2**20)))
    count, questions = draw(st.integers(2, 5)), draw(st.integers(8, 40))
    rows = np.round(generator.normal(0.5, 0.1, questions) + generator.normal(0, 0.1, (count, questions)), 1)
    rows[-1] = rows[0] if draw(st.booleans()) else rows[-1]
    tokens = [draw(st.sampled_from([100.0, 104.0, 200.0, 400.0])) for _ in rows]
    return [one_metric(f"c{n}", row, context_tokens=tokens[n]) for n, row in enumerate(rows)]


@settings(max_examples=40)
@given(sweeps(), st.randoms(use_true_random=False), st.sampled_from([0.0, LOSS, 0.05]), st.booleans(), st.booleans())
def test_order_and_names_permute_the_choice_and_change_nothing_else(
    results: list[Result], random: object, loss: float, refuses: bool, limited: bool
) -> None:
    order = list(range(len(results)))
    random.shuffle(order)
    moved = [changed(results[row], name=f"x{place}") for place, row in enumerate(order)]
    limit = 200.0 if limited else None
    one = chosen(results, loss, {0} if refuses else (), len(results) - 1, context_tokens=limit)
    refusing, last = {order.index(0)} if refuses else (), order.index(len(results) - 1)
    other = chosen(moved, loss, refusing, last, context_tokens=limit)

    def same(row: int | None, place: int | None) -> bool:
        return (
            row == place if row is None or place is None else results[row].run.signature == moved[place].run.signature
        )

    assert same(one.row, other.row)
    assert same(one.best, other.best)
    assert (one.cost, one.within) == (other.cost, other.within)
    for first, second in ((one.baseline, other.baseline), (one.sacrificed, other.sacrificed),
                          (one.runner_up, other.runner_up)):  # fmt: skip
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            assert same(first.row, second.row)
            assert [second.probability, second.gain, second.lost] == pytest.approx(
                [first.probability, first.gain, first.lost], nan_ok=True
            )


def test_of_equal_configs_the_cheapest_is_chosen() -> None:
    one, scores = drawn(0.5)[0], drawn(0.5)[0].questions[METRIC]
    results = [one_metric(f"c{n}", scores, context_tokens=tokens) for n, tokens in enumerate((300.0, 100.0, 200.0))]
    found = chosen(results)
    assert (found.row, found.best, found.sacrificed, found.runner_up) == (1, 1, None, None)
    alike = [changed(one, name=name, signature=signature) for name, signature in (("a", "2"), ("b", "1"))]
    assert [chosen(alike).row, chosen(alike[::-1]).row] == [1, 0]


def test_runner_up_is_the_best_other_config_even_if_its_mean_is_equal() -> None:
    up = np.tile([0.25, 0.75, 0.5], 12)
    results = [one_metric(f"c{n}", scores) for n, scores in enumerate((up, up[::-1], up, up - 0.125))]
    means = believed(results).means
    assert means[0] == means[1] == means[2] > means[3]
    for order in ([0, 1, 3], [3, 1, 0], [0, 1, 2, 3]):
        found = chosen([results[n] for n in order])
        assert found.runner_up.gain == 0
        assert found.runner_up.probability == pytest.approx(0.5)
        assert order[found.runner_up.row] != 3
        assert (order[found.row] == 1) != (order[found.runner_up.row] == 1)  # equal scores are not a runner-up
    assert chosen([results[n] for n in (0, 2, 3)]).runner_up.row == 2


def test_fewer_than_ten_questions_still_have_a_choice_without_a_probability() -> None:
    found = chosen([one_metric("a", [0.1] * 9), one_metric("b", [0.9] * 9)], baseline=0)
    assert found.row == 1
    assert found.baseline.gain == pytest.approx(0.8)
    assert math.isnan(found.baseline.probability)
    assert math.isnan(found.baseline.lost)


def test_of_fewer_than_ten_questions_too_the_runner_up_may_have_an_equal_mean() -> None:
    """The best mean is that of a, b and c; b has the scores of a on every question, and c has others."""
    scores = {"a": [0.9, 0.1] * 4, "b": [0.9, 0.1] * 4, "c": [0.1, 0.9] * 4, "d": [0.3, 0.3] * 4}
    found = chosen([one_metric(name, row) for name, row in scores.items()])
    assert found.row is not None
    assert found.runner_up.row in ((2,) if found.row < 2 else (0, 1))
    assert found.runner_up.gain == pytest.approx(0)


def test_a_baseline_with_the_scores_of_the_best_is_kept_however_few_the_questions() -> None:
    """The fewer tokens of another config are not shown to be fewer, because nine questions show nothing."""
    scores = {"a": [0.9] * 9, "b": [0.9] * 9, "c": [0.1] * 9}
    results = [one_metric(name, row, context_tokens=8.0 if name == "b" else 9.0) for name, row in scores.items()]
    for base in (0, 1):
        found = chosen(results, baseline=base)
        assert (found.row, found.baseline, found.cost) == (base, None, "")
    assert believed(results).expected_loss(0, 1) == 0
    assert believed(results).probability_better(0, 1) == 0.5


@pytest.mark.parametrize("repeats", [4, 8])
@pytest.mark.parametrize("loss", [0.0, LOSS])
def test_a_baseline_with_the_best_mean_is_kept_whatever_its_scores(repeats: int, loss: float) -> None:
    """The mean of each config is .5, so that none has evidence against another; the tokens differ by chance at most."""
    for row in ([0.1, 0.9], [0.9, 0.1], [0.5, 0.5]):
        scores = {"a": [0.1, 0.9] * repeats, "b": row * repeats}
        results = [one_metric(name, each, context_tokens=90 + len(scores)) for name, each in scores.items()]
        for base in (0, 1):
            found = chosen(results, loss=loss, baseline=base)
            assert (found.row, found.best, found.baseline, found.sacrificed) == (base, base, None, None)


def test_a_config_that_refuses_every_question_is_not_chosen_over_one_that_answers() -> None:
    results = drawn(0.7, 0.5, 0.55, tokens=(10, 500, 900))
    assert chosen(results).row == 0
    found = chosen(results, refusing={0})
    assert (found.row, found.best, found.runner_up and found.runner_up.row) == (2, 2, 1)
    assert chosen(results, refusing={0, 1, 2}).row == 0
    assert chosen(results, refusing={0}, context_tokens=100).row == 0


def test_limits_leave_the_largest_expected_mean_within_them() -> None:
    results = drawn(0.5, 0.6, 0.7, tokens=(100, 500, 900))
    found = chosen(results, context_tokens=500)
    assert (found.row, found.best, found.within, found.limits) == (1, 1, 2, {"context_tokens": 500})
    assert chosen(results, context_tokens=None).row == 2
    assert chosen(results, cost_per_1000=None, context_tokens=100).row == 0
    unknown = chosen(drawn(0.5, 0.6, 0.7, tokens=(100, math.nan, 900)), context_tokens=500)
    assert (unknown.row, unknown.within) == (0, 1)


def test_no_config_within_the_limits_is_no_choice_beside_the_best_without_them() -> None:
    found = chosen(drawn(0.5, 0.7, 0.6), context_tokens=5)
    assert (found.row, found.best, found.within, found.baseline, found.runner_up) == (None, 1, 0, None, None)
    assert chosen(drawn(0.5, 0.6), latency_p95_ms=5).row is None  # no latency is known


def test_the_cheapest_that_loses_less_than_the_tolerance_is_chosen() -> None:
    results = drawn(0.5, 0.501, 0.45, 0.5005, tokens=(300, 900, 10, 200), spread=0.02)
    found = chosen(results)
    assert (found.row, found.best, found.cost) == (3, 1, "context_tokens")
    assert found.sacrificed == against(believed(results), 3, 1)
    assert found.runner_up.row == 1
    assert believed(results).expected_loss(3, 1) < LOSS < believed(results).expected_loss(2, 1)
    assert chosen(results, loss=1e-6).row == 1
    assert chosen(results, loss=0.06).row == 2


@pytest.mark.parametrize("tokens", [(900, 850), (900, math.nan), (900, 900), (900, 1000)])
def test_what_does_not_cost_less_by_a_tenth_is_not_chosen_for_its_cost(tokens: tuple[float, float]) -> None:
    assert chosen(drawn(0.501, 0.5, tokens=tokens, spread=0.02)).row == 0


def priced(results: Sequence[Result], prices: np.ndarray) -> list[Result]:
    return [with_cost(one, "cost_per_1000", row) for one, row in zip(results, prices, strict=True)]


def test_a_saving_that_may_be_chance_is_none() -> None:
    generator, results = np.random.default_rng(0), drawn(0.501, 0.5, spread=0.02)
    costs = generator.exponential(1.0, (2, 200))
    costs *= (np.array([1.0, 0.85]) / costs.mean(axis=1))[:, None]  # by 15 %, whose standard error is 10 %
    assert chosen(priced(results, costs)).row == 0
    assert chosen(priced(results, np.array([costs[0], costs[0] * 0.85]))).row == 1


def test_money_decides_before_tokens_and_tokens_where_money_is_equal() -> None:
    results = drawn(0.501, 0.5, 0.5, tokens=(900, 100, 300), spread=0.02)
    equal, cheap = np.full((3, 200), 2.0), np.tile([[2.0], [2.0], [1.0]], 200)
    assert chosen(priced(results, cheap)).row == 2
    assert chosen(priced(results, equal)).row == 1


@settings(max_examples=30)
@given(sweeps())
def test_probability_gain_and_loss_are_those_of_one_posterior(results: list[Result]) -> None:
    beliefs, count = believed(results), len(results)
    for row in range(count):
        for other in range(count):
            found, back = against(beliefs, row, other), against(beliefs, other, row)
            assert found.gain == pytest.approx(beliefs.means[row] - beliefs.means[other])
            if not beliefs.known:
                continue
            assert found.probability + back.probability == pytest.approx(1.0)
            losses = (beliefs.expected_loss(row, other), beliefs.expected_loss(other, row))
            assert losses[1] - losses[0] == pytest.approx(found.gain, abs=1e-9)  # gains less losses are the mean
            assert found.lost * (1 - found.probability) == pytest.approx(losses[0], abs=1e-9)


def test_a_declared_baseline_has_the_choice_against_it() -> None:
    results = drawn(0.5, 0.6, 0.55, spread=0.05)
    found = chosen(results, baseline=0)
    assert found.baseline == against(believed(results), 1, 0)
    assert 0.09 < found.baseline.gain < 0.1
    assert found.baseline.probability > 0.999
    kept = chosen(drawn(0.6, 0.5), baseline=0)
    assert (kept.row, kept.baseline) == (0, None)


CASES = [(np.linspace(0, 0.1, 12), 5), (np.zeros(12), 5), (np.linspace(0, 0.1, 12), 11)]


@pytest.mark.parametrize(
    ("means", "base", "questions", "sweeps"),
    [(*CASES[0], 50, 40), *(nightly(*case, n, 100) for case in CASES for n in (50, 200))],
)
def test_config_called_better_is_seldom_none(means: np.ndarray, base: int, questions: int, sweeps: int) -> None:
    """Quality rises with cost, or is flat; benchmarks/planted.py has more of these, and counts how much is found."""
    wrong = 0
    for seed in range(sweeps):
        generator = np.random.default_rng(seed)
        values = generator.normal(0.5, 0.36, questions) + generator.normal(0, 0.18, (12, questions)) + means[:, None]
        results = [one_metric(f"c{n}", row, context_tokens=float(n + 1)) for n, row in enumerate(values)]
        one = compare_configs(results, baseline=f"c{base}")
        wrong += one.is_better and means[one.choice.row or 0] <= means[base]
    assert wrong <= binom.ppf(0.986, sweeps, 0.05)  # 5 % would be exceeded by chance in 1.4 % of such tests
