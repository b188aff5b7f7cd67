"""Two configs compared as the sweep that they belong to compares them."""

import math
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.results import HumanLabel, Result
from ragsweep.stats.choice import TOLERANCES
from ragsweep.stats.comparison import FIELD_OF_CASE
from ragsweep.stats.conclusion import Family, conclude_pair
from ragsweep.stats.human_labels import RunLabels
from ragsweep.stats.inference.paired_tests import holm
from support.results import METRIC, changed, compared, noisy, one_metric
from test_verdict import MIRRORED


def agree(results: Sequence[Result], baseline: str | None = None, members: Sequence[Result] | None = None) -> None:
    """Check that every pair of the table has the same numbers when the two are compared, in either order."""
    found, family = compared(results, baseline), Family(members or results, baseline)
    reference = found.results[found.reference]
    for row, result in enumerate(found.results):
        if row == found.reference:
            continue
        one, back = family.compare(reference, result, METRIC), family.compare(result, reference, METRIC)
        expected = found.verdicts[row]
        assert one.verdict.kind == expected.kind
        assert back.verdict.kind == MIRRORED[expected.kind]
        assert one.verdict.probability == pytest.approx(expected.probability, nan_ok=True)
        assert back.verdict.probability == pytest.approx(1 - expected.probability, nan_ok=True)
        place, other = one.rows[1], back.rows[1]
        ends = (found.differences.low[row], found.differences.high[row])
        assert (one.found.low[place], one.found.high[place]) == pytest.approx(ends, nan_ok=True)
        assert (-back.found.high[other], -back.found.low[other]) == pytest.approx(ends, nan_ok=True)


def sweep(seed: int, configs: int, sources: int = 0, direction: bool = True) -> list[Result]:
    """Draw a sweep, two of its configs alike; ``sources``: documents of unequal size, 0 for one a question."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(0.5, 0.1, 60) + generator.normal(0, 0.1, (configs, 60))
    rows += generator.normal(0, 0.05, (configs, 1))
    rows[-1] = rows[0]
    results = [one_metric(f"c{n}", row, direction=direction) for n, row in enumerate(rows)]
    if not sources:
        return results
    numbers = np.sort(generator.integers(0, sources, 60) * generator.integers(0, 2, 60))
    documents = [f"d{n}" for n in numbers]
    return [changed(one, {"source": documents}) for one in results]


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from([0, 40]), st.booleans(), st.booleans())
def test_a_pair_has_its_sweeps_verdict(seed: int, configs: int, sources: int, declared: bool, direction: bool) -> None:
    agree(sweep(seed, configs, sources=sources, direction=direction), "c1" if declared else None)


def test_pairs_without_the_reference_are_compared_among_all_pairs_of_the_sweep() -> None:
    results = sweep(0, 5)
    alone = [Family([one, other]).compare(one, other, METRIC) for one, other in permutations(results[:2])]
    for baseline in (None, "c4"):
        family = Family(results, baseline)
        one, back = family.compare(*results[:2], METRIC), family.compare(results[1], results[0], METRIC)
        assert back.verdict.kind == MIRRORED[one.verdict.kind]
        assert one.found.critical > alone[0].found.critical
    assert alone[1].verdict.kind == MIRRORED[alone[0].verdict.kind]


def test_configs_that_the_sweep_does_not_compare_are_no_members_of_its_family() -> None:
    """Dropped by a race, without a scored question, too partial, or for reference only."""
    results = sweep(1, 4)
    expected = {"llm": {"_target_": FIELD_OF_CASE}}
    others = [
        one_metric("dropped", noisy(0.9, 30), state="DROPPED"),
        one_metric("void", [math.nan] * 60),
        one_metric("field", noisy(0.9, 60), config=expected),
        one_metric("partial", noisy(0.9, 60), state="PARTIAL", config={"coverage": 1.1}),
    ]
    agree(results, members=[*results, *others])
    agree(results, "c2", members=[*others, *results])
    partial = [*results, changed(results[1], name="enough", signature="enough", state="PARTIAL")]
    agree(partial)
    assert len(Family(partial).compare(*results[:2], METRIC).matrix.configs) == 5


def test_the_margin_of_a_pair_is_that_of_its_sweep() -> None:
    results = [changed(one, settings={"recommend": {"margin": 0.2}}) for one in sweep(2, 3)]
    assert Family(results).compare(*results[:2], METRIC).margin == compared(results).margin == 0.2


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.booleans())
def test_a_conclusion_on_a_pair_has_the_numbers_of_its_sweep_and_slices_that_add_up(seed: int, direction: bool) -> None:
    """The differences on the slices, by their questions, add up to the difference on all of them."""
    results, labels = sweep(seed, 3, direction=direction), ["a", "b", "b"] * 20
    pair = tuple(changed(one, {"kind": labels}, groups={"kind": {"a": {}, "b": {}}}) for one in results[:2])
    family = Family([*pair, results[2]])
    found = conclude_pair((pair[0], pair[1]), [METRIC], family, RunLabels((), ("", "")))
    (one,), alone = found.metrics, family.compare(*pair, METRIC)
    assert one.comparison.verdict == alone.verdict
    assert one.p_holm == holm(alone.found.randomisation[[alone.rows[1]]])[0]
    sums = [part.difference * part.part.questions for part in one.slices]
    assert sum(sums) == pytest.approx(float(np.diff(one.matrix.values.sum(axis=1))[0]))
    assert not found.labelled
    assert one.correction is None


def test_slices_are_of_differences_if_a_zero_in_another_config_excludes_ratios() -> None:
    """The pair differs by 100 and 200 tokens, but a third config of the sweep has contexts without tokens."""
    labels, tokens = ["a", "b"] * 30, np.random.default_rng(0).normal(500, 20, 60)

    def config(name: str, column: np.ndarray) -> Result:
        return one_metric(name, column, labels, direction=False, unit="tokens")

    pair = config("c0", tokens), config("c1", tokens + np.array([100.0, 200.0] * 30))
    for third, is_ratio in ((np.zeros(60), False), (tokens, True)):
        family = Family([*pair, config("c2", third)])
        (one,) = conclude_pair(pair, [METRIC], family, RunLabels((), ("", ""))).metrics
        assert one.comparison.found.ratios == is_ratio
        for part, difference in zip(one.slices, (100.0, 200.0), strict=True):
            assert part.difference == pytest.approx(difference)
            assert (part.part.estimate[1] == pytest.approx(difference)) != is_ratio


def test_labels_of_one_metric_correct_it_and_mark_the_conclusion() -> None:
    before, after = (changed(one, {"answer": [f"{one.name} says {n}" for n in range(60)]}) for one in sweep(3, 3)[:2])
    labels = [HumanLabel(f"q{n}", METRIC, value, run) for n in range(60) for run, value in (("c0", 0.2), ("c1", 0.7))]
    found = conclude_pair((before, after), [METRIC], Family([before, after]), RunLabels(labels, ("", "")))
    correction = found.metrics[0].correction
    assert found.labelled
    assert correction is not None
    assert correction.kind == "shown better"
    assert (correction.found.value, correction.found.labels) == (pytest.approx(0.5), 60)


def test_a_pair_without_a_question_in_common_is_open_and_has_the_usual_margin() -> None:
    one, other = one_metric("a", np.array([1.0, math.nan])), one_metric("b", np.array([math.nan, 1.0]))
    pair = Family([one, other]).compare(one, other, METRIC)
    assert (pair.matrix.questions, pair.margin) == ((), TOLERANCES["margin"])
    assert (pair.verdict.kind, math.isnan(pair.verdict.probability)) == ("open", True)
