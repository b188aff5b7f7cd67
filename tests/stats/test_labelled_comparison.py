"""The verdict of a sweep that people's labels correct."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ragsweep.core.results import HumanLabel, Result
from ragsweep.report.artifacts import differences_csv, verdict_document
from ragsweep.report.conclusion_facts import result_facts, result_texts, verdict_facts
from ragsweep.report.document import texts
from ragsweep.report.verdict import labelled, limits
from ragsweep.report.writers.markdown import as_markdown
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.conclude import conclude
from ragsweep.stats.human_labels import RunLabels, correct_difference, match_labels
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.labelled_comparison import SweepLabels, compare_labelled
from support.inputs.human_labels import COUNT, M, answered, biased, label, pair
from support.results import changed, with_cost


def corrected(results: list[Result], labels: list[HumanLabel], baseline: str | None = "a") -> SweepComparison:
    found = compare_labelled(results, SweepLabels(labels, {}), baseline=baseline)
    assert isinstance(found, SweepComparison)
    return found


def lines(found: SweepComparison) -> str:
    return " ".join([*result_texts(conclude(found)), *texts(limits(found))])


def three(gain: float) -> tuple[list[Result], list[HumanLabel]]:
    """A baseline, one that only the judge prefers, and one that people prefer by ``gain``."""
    (first, second), labels = pair()
    people, _, _ = biased(5, alike=0.0, gain=gain)
    third = answered("c", [f"c{n}" for n in range(COUNT)], (people[1] * 0.9).tolist())
    return [first, second, third], [*labels, *(label(n, float(people[1, n]), "c") for n in range(0, COUNT, 3))]


def test_two_configs_differ_as_compare_says_and_a_preference_of_the_judge_alone_decides_nothing() -> None:
    results, labels = pair()
    judged, found = compare_configs(results, baseline="a"), corrected(results, labels)
    assert (judged.choice.row, judged.verdicts[1].kind) == (1, "shown better")
    matrix = score_matrix(results, M)
    expected = correct_difference(matrix, match_labels(RunLabels(labels, ["", ""]), results, matrix), (0, 1))
    assert (found.differences.estimate[1], found.differences.low[1], found.differences.high[1]) == expected[:3]
    assert not found.differences.better.any()
    assert (found.choice.row, found.choice.baseline, found.verdicts[1].is_better) == (0, None, False)
    assert found.means[1] - found.means[0] == pytest.approx(expected.value)
    assert found.may_be_best.tolist() == [True, True]


def test_gains_by_labels_are_not_expected_on_new_questions() -> None:
    """A choice by corrected means is one without shrinkage, so that luck inflates its gain."""
    results, labels = three(0.2)
    found = [lines(one) for one in (compare_configs(results, baseline="a"), corrected(results, labels))]
    assert all("expected gain" in text for text in found)
    assert ["on new questions" in text for text in found] == [True, False]


def test_correction_of_a_metric_is_written_alike_if_another_metric_that_is_compared_by_ratios_decides() -> None:
    found = corrected(*pair())
    other = replace(
        found,
        differences=replace(found.differences, ratios=True),
        others={M: (found.matrix, found.differences)},
    )
    assert texts(labelled(other)) == texts(labelled(found)) != []


def test_equal_gains_of_every_labelled_question_are_certain() -> None:
    scores = np.linspace(0.25, 0.5, COUNT)
    results = [answered("a", [f"a{n}" for n in range(COUNT)], scores.tolist()),
               answered("b", [f"b{n}" for n in range(COUNT)], (scores + 0.25).tolist())]  # fmt: skip
    labels = [label(n, float(value) + gain, name) for name, gain in (("a", 0.0), ("b", 0.25))
              for n, value in enumerate(scores)]  # fmt: skip
    found = corrected(results, labels)
    assert (found.choice.row, found.choice.baseline.probability) == (1, 1)


def test_corrected_differences_decide_among_three_and_their_intervals_are_wider() -> None:
    results, labels = three(0.4)
    found = corrected(results, labels)
    assert found.differences.better.tolist() == [False, False, True]
    assert (found.choice.row, found.verdicts[2].kind) == (2, "shown better")
    assert found.choice.baseline.gain == pytest.approx(found.differences.estimate[2])
    assert found.choice.baseline.probability > 0.999
    assert found.may_be_best.tolist() == [False, False, True]
    pairwise = corrected([results[0], results[2]], labels)
    widths = [one.differences.high[row] - one.differences.low[row] for one, row in ((found, 2), (pairwise, 1))]
    assert widths[0] > 1.1 * widths[1]
    told = verdict_facts(conclude(found))["labels"][M]["configs"]["c"]
    assert told["corrected"]["difference"] == found.differences.estimate[2]
    assert told["judged"]["mean"] == pytest.approx(found.matrix.values[2].mean())
    assert result_facts(conclude(found))["figures"][M]["value"] == found.means[2]
    assert f"{found.means[2]:.4g}" in as_markdown(verdict_document(found, conclude(found)))
    assert f",{found.means[2]:.6g}"[:8] in differences_csv(found).decode()
    json.dumps(told)


def test_a_cheaper_config_that_only_the_judge_finds_worse_is_as_good() -> None:
    people, _, _ = biased(3, alike=0.0)
    people[1] = people[0]
    judged = [people[0], people[0] * 0.6]
    results = []
    for name, row, tokens in (("a", 0, 900.0), ("b", 1, 300.0)):
        made = answered(name, [f"{name}{n}" for n in range(COUNT)], judged[row].tolist())
        made = changed(made, settings={"recommend": {"loss": 0.02}})
        results.append(with_cost(made, "context_tokens", [tokens] * COUNT))
    labels = [label(n, float(people[0, n]), run) for n in range(0, COUNT, 2) for run in "ab"]
    alone = compare_configs(results)
    assert (alone.choice.row, alone.verdicts[1].kind) == (0, "shown worse")
    found = corrected(results, labels)
    assert found.verdicts[1].kind not in ("shown worse", "likely worse")
    assert (found.choice.row, found.choice.cost) == (1, "context_tokens" if found.choice.best == 0 else "")
    assert found.beliefs.expected_loss(1, found.choice.best) < found.choice.loss


def test_a_config_without_labels_is_left_out_and_named() -> None:
    results, labels = three(0.4)
    found = corrected(results, [one for one in labels if one.run != "b"])
    assert found.matrix.configs == ("a", "c")
    assert "without 1 with fewer than 10 labels (b)" in lines(found)


def test_labels_that_count_for_no_difference_leave_the_verdict_as_judged_with_the_reason() -> None:
    results, labels = pair()
    judged = compare_configs(results, baseline="a")
    found = corrected(results, [one for one in labels if one.run == "b"])
    assert found.differences.better.tolist() == judged.differences.better.tolist() == [False, True]
    assert not found.corrections
    assert "not corrected by labels: the config with the fewest labels of ragas_faithfulness has 0" in lines(found)
    other = corrected(results, [one._replace(metric="mrr") for one in labels])
    assert lines(other) == lines(judged)


def test_the_order_of_configs_changes_no_corrected_choice_and_no_verdict() -> None:
    results, labels = three(0.4)
    for baseline in (None, "a"):
        one, other = corrected(results, labels, baseline), corrected(results[::-1], labels, baseline)
        assert one.chosen.name == other.chosen.name == "c"
        assert one.results[one.reference].name == other.results[other.reference].name == (baseline or "c")
        assert [verdict.kind for verdict in one.verdicts] == [verdict.kind for verdict in other.verdicts[::-1]]
        assert one.may_be_best.tolist() == other.may_be_best.tolist()[::-1]


def test_differences_stand_against_the_choice_of_corrected_means_not_of_judged_ones() -> None:
    """The judge prefers b to a, and people do not: without a baseline the reference is what labels choose."""
    results, labels = pair()
    judged, found = compare_configs(results), corrected(results, labels, None)
    assert judged.results[judged.reference].name == "b"
    assert found.results[found.reference].name == "a"
    assert found.choice.row == found.reference == found.differences.baseline


def test_labels_that_choose_another_config_for_each_reference_end_with_one_of_them() -> None:
    """Each difference of two configs has its own judge's weight, so corrected means depend on the reference."""
    generator = np.random.default_rng(72)
    judged, people = generator.normal(0, 1, (3, 16)).round(2), generator.integers(0, 2, (3, 16)).astype(float)
    results = [
        answered(name, [f"{name}{n}" for n in range(16)], judged[row].tolist()) for row, name in enumerate("abc")
    ]
    drawn = np.argwhere(generator.random((3, 16)) < 0.9).tolist()
    found = corrected(results, [label(n, float(people[row, n]), "abc"[row]) for row, n in drawn], None)
    assert found.choice.row != found.reference == found.differences.baseline
    assert lines(found)


@pytest.mark.nightly
def test_a_false_better_is_rare_though_the_judge_prefers_one() -> None:
    wrong = 0
    for seed in range(200):
        people, judged, same = biased(seed)
        texts = [f"a{n}" if one else f"b{n}" for n, one in enumerate(same.tolist())]
        results = [answered("a", [f"a{n}" for n in range(COUNT)], judged[0].tolist()),
                   answered("b", texts, judged[1].tolist())]  # fmt: skip
        drawn = np.random.default_rng([seed, 2]).permutation(COUNT)[:60].tolist()
        labels = [label(n, float(people[row, n]), run) for n in drawn for row, run in ((0, "a"), (1, "b"))]
        wrong += int(corrected(results, labels).differences.better.any())
    assert wrong / 200 <= 0.06  # 2.5 %, three Monte Carlo errors
