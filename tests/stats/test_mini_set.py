"""A few questions that rank configs as all questions do."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr

from ragsweep.stats.items import agreements, choose_mini, estimate_mini, quotas
from support.matrices import matrix, planted


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
