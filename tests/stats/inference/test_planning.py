"""What a golden set is planned by, against planted clusters of equal size and against the power of such data."""

from dataclasses import replace

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.planning import (
    MEASURED,
    METHOD,
    PARAMETER,
    Design,
    check_design,
    detectable,
    find_variation,
    independent_questions,
    paired,
    pilot_variation,
    questions_for,
)
from ragsweep.stats.inference.power import estimate_power
from ragsweep.stats.inference.resampling import student_quantile
from support import nightly
from support.matrices import matrix

SPREAD, CORRELATION = 0.22, 0.4


def planted(design: Design, effect: float, seed: int, configs: int = 2) -> Matrix:
    """Scores whose differences to the first row have the spread and correlation above; the last is better by effect."""
    generator, size = np.random.default_rng(seed), round(design.size)
    each = SPREAD / np.sqrt(2)
    shared = generator.normal(0, each * np.sqrt(CORRELATION), (configs, design.clusters)).repeat(size, axis=1)
    scores = shared + generator.normal(0, each * np.sqrt(1 - CORRELATION), (configs, design.questions))
    scores[-1] += effect
    return matrix(scores, np.repeat(np.arange(design.clusters), size))


@pytest.mark.parametrize("design", [Design(200, 50), nightly(Design(60, 12)), nightly(Design(120, 40, 7))])
def test_interval_of_a_planned_difference_excludes_0_in_four_sets_of_five(design: Design) -> None:
    effect, found = detectable(SPREAD, CORRELATION, design), 0
    for seed in range(300):
        drawn = planted(design, effect, seed, design.comparisons + 1)
        found += bool(compare_with_baseline(drawn, 0, resamples=399).low[-1] > 0)
    assert 0.73 < found / 300 < 0.87  # .8 with three standard errors of 300 sets


@pytest.mark.parametrize(
    ("weights", "apart"),
    [
        (None, [-0.2, 0.2]),
        ([0.5, 1.5], [-0.15, 0.15]),  # the mean is .5 * .2 + 1.5 * .6, halved: .5
    ],
)
def test_the_assumed_second_config_varies_with_the_scores_and_not_with_their_weights(
    weights: list[float] | None, apart: list[float]
) -> None:
    scores = np.array([[0.2, 0.6]])
    given = None if weights is None else np.array(weights)
    alone = replace(matrix(scores if given is None else scores * given), weights=given)
    both = paired(alone).values
    assert both[0].tolist() == alone.values[0].tolist()
    assert both[1] - both[0] == pytest.approx(np.array(apart) * np.sqrt(0.4))  # 2 * (1 - .8)


def test_plan_from_a_pilot_is_the_power_of_its_own_data() -> None:
    design = Design(2000, 500)
    drawn = planted(design, 0.05, 0)
    pilot = pilot_variation(drawn, METHOD)
    assert (pilot.spreads[METHOD], pilot.correlation) == (
        pytest.approx(SPREAD, rel=0.05), pytest.approx(CORRELATION, abs=0.05),
    )  # fmt: skip
    planned = detectable(pilot.spreads[METHOD], pilot.correlation, design)
    found = estimate_power(drawn)
    error = found.spread[1] / np.sqrt(design.questions)
    assert planned == pytest.approx((student_quantile(0.975, 499) + student_quantile(0.8, 499)) * error, rel=0.01)
    assert planned <= 1.01 * found.typical <= 1.12 * planned  # simulated, for gains that widen the spread


@pytest.mark.parametrize("design", [Design(200, 60, 12), Design(50, 50), Design(500, 20)])
def test_needed_questions_show_the_difference_and_fewer_documents_do_not(design: Design) -> None:
    needed = questions_for(0.05, SPREAD, CORRELATION, design)
    assert needed is not None
    enough, fewer = (
        detectable(SPREAD, CORRELATION, Design(round(n * design.size), n, design.comparisons))
        for n in (needed.clusters, needed.clusters - 1)
    )
    assert enough <= 0.05 * 1.01 < fewer * 1.02
    assert questions_for(0.05, 0.0, CORRELATION, design) is None


def test_clusters_make_questions_worth_less() -> None:
    assert independent_questions(0.0, Design(200, 20)) == 200
    assert independent_questions(1.0, Design(200, 20)) == pytest.approx(20)


def test_a_cutoff_that_was_not_measured_has_the_variation_of_its_family() -> None:
    assert find_variation("ndcg")[0] == find_variation("ndcg_at_5")[0] == "ndcg_at_10"
    assert [find_variation(name)[0] for name in ("context_recall", "mrr_at_10")] == ["context_recall", "mrr"]
    with pytest.raises(ConfigError, match='did you mean "map"'):
        find_variation("mpa")
    assert all(0 < one.spreads[PARAMETER] <= one.spreads[METHOD] for one in MEASURED.values())


@pytest.mark.parametrize(("questions", "clusters", "said"), [(200, 9, "at least 10, got 9"), (20, 30, "at most")])
def test_sets_that_show_nothing_are_refused(questions: int, clusters: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_design(Design(questions, clusters))
