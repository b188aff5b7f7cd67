"""What each question of a golden set is worth, by the scores of many configs; and sets of a few that rank as all do."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import kendalltau, pearsonr

from ragsweep.stats.items import (
    agreements,
    analyse_items,
    choose_mini,
    distinct_rows,
    estimate_mini,
    find_redundant,
    find_suspects,
    find_unanimous,
    fit_logistic,
    item_information,
    quotas,
)
from support.matrices import matrix, planted

Doubles = NDArray[np.float64]
BY_HAND = np.array([[0.0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 0]])
"""Four configs; beside the second question the mean of the others is .5 for all of them."""


def test_difficulty_discrimination_and_interval_are_those_of_the_hand() -> None:
    """Question 0 by (-.5, -.5, .5, .5), the others' mean by (0, .5, -.5, 0): -.5 / sqrt(1 * .5); z -.881 +- 1.960."""
    found = analyse_items(BY_HAND)
    assert found.difficulty.tolist() == [0.5, 0.5, 0.5]
    assert found.discrimination.tolist() == pytest.approx([-math.sqrt(0.5), math.nan, -math.sqrt(0.5)], nan_ok=True)
    assert (found.low[0], found.high[0]) == pytest.approx((math.tanh(-2.84134), math.tanh(1.07859)), abs=1e-5)


def test_information_of_graded_scores_is_discrimination_times_spread() -> None:
    scores = BY_HAND / 2  # a standard deviation of .25
    assert item_information(scores)[0] == pytest.approx(-math.sqrt(0.5) * 0.25)
    constant = np.column_stack([scores, np.full(4, 0.5)])
    assert item_information(constant)[3] == 0
    assert math.isnan(analyse_items(constant).discrimination[3])


def test_information_of_hits_is_that_of_the_two_parameter_logistic() -> None:
    """Slope and intercept maximise the posterior, as scipy finds them; the information is the mean of a^2 P (1 - P)."""
    hits = planted(10, 20, 1)
    rest = (hits.sum(axis=1) - hits[:, 8] + 0.5) / 20
    ability = np.log(rest / (1 - rest))
    ability = (ability - ability.mean()) / ability.std()

    def loss(both: Doubles) -> float:
        line = both[0] * ability + both[1]
        return float((np.log1p(np.exp(line)) - hits[:, 8] * line).sum() + (both**2).sum() / 8)

    slope, intercept = minimize(loss, [0, 0], tol=1e-12).x
    found = fit_logistic(hits[:, [8]], ability[:, None])
    assert [float(one[0]) for one in found] == pytest.approx([slope, intercept], abs=1e-4)
    chance = 1 / (1 + np.exp(-slope * ability - intercept))
    expected = math.copysign(1, slope) * slope**2 * (chance * (1 - chance)).mean()
    assert item_information(hits)[8] == pytest.approx(expected, abs=1e-4)


def test_informative_questions_are_told_from_noise_and_reversed_ones_are_below_0() -> None:
    hits = planted(40, 80, 2)
    information = item_information(hits)
    assert np.median(information[20:]) > 4 * abs(np.median(information[:20]))
    best = int(information.argmax())
    hits[:, best] = 1 - hits[:, best]
    assert item_information(hits)[best] < 0


def test_a_mislabelled_question_is_found() -> None:
    """The label of question 30 is exchanged: what the better configs find counts as wrong."""
    for seed in range(5):
        hits = planted(16, 120, seed)
        hits[:, 30] = 0
        hits[:8, 30] = 1  # configs are in the order of their ability
        (first, *_), items = find_suspects(hits, analyse_items(hits)), analyse_items(hits)
        assert first.question == 30
        assert first.reversed
        assert items.high[30] < 0


def test_the_good_configs_are_the_best_quarter_by_the_other_questions() -> None:
    """Of 8 configs the best two fail question 0, six others do not; nobody has question 1, all have question 2."""
    scores = np.column_stack([[1] * 6 + [0] * 2, [0] * 8, [1] * 8, *np.tri(8, 5, -2).T])
    found = find_suspects(scores, analyse_items(scores))
    assert (found[0].question, found[0].good, found[0].others, found[0].failed_by_best) == (0, 2, 6, True)
    assert 1 not in [one.question for one in found]
    assert find_unanimous(scores) == ([1], [2])
    scores[7, 0] = 0.1  # one of the two does not fail
    assert not any(one.question == 0 and one.failed_by_best for one in find_suspects(scores, analyse_items(scores)))


def test_redundant_questions_share_a_cluster_and_the_scores_of_the_configs() -> None:
    """0 and 1 are alike; 2 is alike too, in another cluster; 3 differs; 4 and 5 have one score of all configs."""
    alike = np.array([0.0, 1, 1, 0, 1, 0, 0, 1])
    other = np.array([0.0, 1, 1, 0, 1, 0, 1, 1])
    scores = np.column_stack([alike, alike / 2, alike, other, np.ones(8), np.ones(8)])
    assert find_redundant(scores, np.array([0, 0, 1, 0, 0, 0])) == [[0, 1]]


def test_configs_with_the_same_scores_count_once() -> None:
    assert distinct_rows(np.array([[0.5, 1], [0, 1], [0.5, 1], [0, 0]])) == [0, 1, 3]


def test_agreement_is_kendalls_and_pearsons() -> None:
    generator = np.random.default_rng(0)
    whole, parts = generator.integers(0, 5, 9) / 4, generator.integers(0, 5, (20, 9)) / 4
    for part, (tau, pearson) in zip(parts, agreements(whole, parts).tolist(), strict=True):
        assert tau == pytest.approx(kendalltau(whole, part).statistic)
        assert pearson == pytest.approx(pearsonr(whole, part).statistic)
    assert agreements(whole, np.ones((1, 9))).tolist() == [[0, 0]]
    assert np.isnan(agreements(np.ones(9), parts)).all()


def test_places_are_divided_by_the_largest_remainders() -> None:
    """Three places for 5, 3 and 2 questions: 1.5, .9 and .6."""
    assert quotas(Counter({0: 5, 1: 3, 2: 2}), 3) == {0: 1, 1: 1, 2: 1}
    assert quotas(Counter({0: 8, 1: 2}), 5) == {0: 4, 1: 1}


def test_a_question_that_ranks_as_all_do_is_chosen_before_noise_and_reversed_ones() -> None:
    """Question 1 alone has the order of the sums (.1, 1.2, 2.0, 2.8)."""
    scores = matrix([[0, 0, 0.1], [0.9, 0.3, 0], [1, 1, 0], [0.9, 1.8, 0.1]])
    assert choose_mini(scores, [""] * 3, 1) == [1]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_categories_have_their_share_and_clusters_at_most_theirs(share: float) -> None:
    hits = planted(12, 100, 4)
    categories = ["how-to"] * 60 + ["fact"] * 30 + ["code"] * 10
    size, clusters = round(100 * share), np.repeat(np.arange(20), 5)
    chosen = choose_mini(matrix(hits, clusters), categories, size)
    assert len(set(chosen)) == size
    assert Counter(categories[n] for n in chosen) == {"how-to": 60 * share, "fact": 30 * share, "code": 10 * share}
    assert max(Counter(clusters[chosen].tolist()).values()) <= np.ceil(5 * share)


def test_a_mini_set_keeps_the_order_of_unseen_configs_better_than_random_ones() -> None:
    """Planted: a quarter of the questions is noise. Chosen on 12 configs, ranked are the 12 others."""
    gains = []
    for seed in range(3):
        found = estimate_mini(matrix(planted(24, 120, seed)), [""] * 120, 36)
        gains.append((found.chosen.tau - found.random.tau, found.chosen.pearson - found.random.pearson))
        assert found.low.tau < found.random.tau < found.high.tau
        assert found.configs == 12
    assert np.mean(gains, axis=0).min() > 0.02


def test_the_estimate_of_pure_noise_is_no_better_than_chance() -> None:
    """On the configs that it was chosen on, a set of noise agrees far better with the full set than random sets do."""
    noise = matrix(np.random.default_rng(5).integers(0, 2, (16, 60)))
    found = estimate_mini(noise, [""] * 60, 18)
    seen = agreements(noise.values.sum(axis=1), noise.values[:, choose_mini(noise, [""] * 60, 18)].sum(axis=1)[None])
    assert found.chosen.pearson == pytest.approx(found.random.pearson, abs=0.15)
    assert seen[0, 1] > found.chosen.pearson + 0.2


def test_less_is_better_chooses_the_same() -> None:
    one = matrix(planted(12, 40, 6))
    assert choose_mini(replace(one, values=-one.values), [""] * 40, 12) == choose_mini(one, [""] * 40, 12)
