"""Scores of several configs side by side: the same questions in every row."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import InputError
from ragsweep.core.results import Result, Summary
from ragsweep.stats.inference.matrix import Matrix, ratio_of, score_matrix
from support.results import a_result

NAN = math.nan


def result(name: str, scores: dict[str, float], higher: bool | None = True, **columns: Any) -> Result:
    summary = Summary("mrr", 0.5, 0.4, 0.6, len(scores), len(scores), 0, 0, higher_is_better=higher)
    outcomes = {"question_id": list(scores), "mrr": list(scores.values()), **columns}
    return a_result(name=name, metrics={"mrr": summary}, questions=outcomes)


def test_a_ratio_beyond_the_range_of_floats_is_the_nearest_one_with_a_logarithm() -> None:
    assert [ratio_of(one) for one in (0.0, -1.5, 700.0)] == [1.0, math.exp(-1.5), math.exp(700.0)]
    assert math.log(ratio_of(800.0)) == -math.log(ratio_of(-800.0)) == pytest.approx(709.78, abs=0.01)
    assert math.isnan(ratio_of(NAN))


def test_scores_are_paired_by_question_whatever_their_order() -> None:
    found = score_matrix([result("a", {"x": 0.1, "y": 0.2}), result("b", {"y": 0.4, "x": 0.3})], "mrr")
    assert (found.configs, found.questions, found.metric, found.asked) == (("a", "b"), ("x", "y"), "mrr", 2)
    assert found.values.tolist() == [[0.1, 0.2], [0.3, 0.4]]
    assert found.coverage == 1.0


def test_questions_that_not_all_were_scored_on_are_left_out_and_counted() -> None:
    one = result("a", {"x": 0.1, "y": NAN, "z": 0.5, "never": NAN})
    other = result("b", {"x": 0.3, "y": 0.4, "other": 1.0, "never": NAN})
    found = score_matrix([one, other], "mrr")
    assert found.questions == ("x",)
    assert found.asked == 4
    assert found.coverage == 0.25


def test_questions_of_one_source_are_one_cluster() -> None:
    scores = {"x": 0.1, "y": 0.2, "z": 0.3, "left out": NAN}
    with_source = result("a", scores, source=["doc 2", "doc 1", "doc 2", "doc 0"])
    assert score_matrix([with_source], "mrr").clusters.tolist() == [1, 0, 1]
    assert score_matrix([result("a", scores)], "mrr").clusters.tolist() == [0, 1, 2]


def test_the_better_side_follows_the_metric() -> None:
    assert score_matrix([result("a", {"x": 0.25}, higher=False)], "mrr").better.tolist() == [[-0.25]]
    assert score_matrix([result("a", {"x": 0.25})], "mrr").better.tolist() == [[0.25]]


def test_what_cannot_be_compared_is_refused_with_the_way_out() -> None:
    with pytest.raises(InputError, match=r'a: no metric "mmr" was measured.*mrr'):
        score_matrix([result("a", {"x": 0.1})], "mmr")
    with pytest.raises(InputError, match="neither higher nor lower values are better"):
        score_matrix([result("a", {"x": 0.1}, higher=None)], "mrr")


def test_nothing_is_an_empty_matrix() -> None:
    apart = score_matrix([result("a", {"x": 0.1}), result("b", {"y": 0.1})], "mrr")
    assert apart.values.shape == (2, 0)
    assert apart.coverage == 0
    assert math.isnan(dataclasses.replace(apart, asked=0).coverage)


def test_a_slice_keeps_questions_and_a_short_list_keeps_configs() -> None:
    whole = Matrix(np.arange(8.0).reshape(2, 4), np.array([0, 1, 1, 2]), ("a", "b"), ("w", "x", "y", "z"), "m", True, 5)
    part = whole.select_questions(np.array([False, True, True, True]))
    assert part.values.tolist() == [[1, 2, 3], [5, 6, 7]]
    assert part.clusters.tolist() == [0, 0, 1]
    assert (part.questions, part.configs, part.asked) == (("x", "y", "z"), ("a", "b"), 5)
    turned = whole.select_configs([1, 0])
    assert turned.configs == ("b", "a")
    assert turned.values[0].tolist() == [4, 5, 6, 7]
    assert turned.questions == whole.questions
