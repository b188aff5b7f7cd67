"""Configs that differ in the length of their context alone, by metrics that can only rise with it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragsweep.core.results import Result
from ragsweep.stats.audits import LongerContext
from ragsweep.stats.context_length import length_keys, longer_context, rises_with
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from support.results import METRIC, changed, one_metric
from support.results import scored as scored_config

RISING = "context_recall"
LOW, HIGH = [0.0, 0.5, 1.0] * 10, [0.0, 1.0, 1.0] * 10


def config(name: str, scores: Sequence[float], metric: str = RISING, **keys: float | None) -> Result:
    """Make a config with keys that lengthen the context, or others, as the only parameters."""
    one = one_metric(name, scores, config={**keys, "objective": metric})
    parameters = {key: str(value) for key, value in keys.items()}
    summaries = {metric: replace(one.summaries.metrics[METRIC], name=metric)}
    return changed(one, parameters=parameters, metrics=summaries, columns={metric: list(scores)})


def pair(first: Result, second: Result, metric: str = RISING) -> tuple[Result, Result, Matrix]:
    return first, second, score_matrix([first, second], metric)


def keys(first: Result, second: Result, metric: str = RISING) -> tuple[str, ...]:
    one, other = length_keys(*pair(first, second, metric)), length_keys(*pair(second, first, metric))
    assert one == other  # in both directions: a prefix cannot gain, a longer context cannot lose
    return one


@pytest.mark.parametrize("metric", ["context_recall", "context_ndcg", "context_ndcg_exponential", "evidence_coverage"])
def test_a_prefix_is_found_by_its_keys_in_both_directions(metric: str) -> None:
    short, long = config("3", LOW, metric, top_k=3), config("5", HIGH, metric, top_k=5)
    assert keys(short, long, metric) == ("top_k",)
    bounded = config("300", LOW, metric, context_budget=300)
    assert keys(bounded, config("none", HIGH, metric, context_budget=None), metric) == ("context_budget",)
    both = config("both", HIGH, metric, top_k=5, context_budget=600)
    assert keys(config("less", LOW, metric, top_k=3, context_budget=300), both, metric) == ("top_k", "context_budget")


@pytest.mark.parametrize(
    ("first", "second", "metric"),
    [
        (config("3", LOW, "token_f1", top_k=3), config("5", HIGH, "token_f1", top_k=5), "token_f1"),
        (config("3", HIGH, top_k=3), config("5", LOW, top_k=5), RISING),  # the scores contradict it
        (config("3", LOW, top_k=3, size=400), config("5", HIGH, top_k=5, size=800), RISING),
        (config("a", LOW, top_k=3), config("b", HIGH, top_k=3), RISING),
        (config("a", LOW, top_k=3, context_budget=900), config("b", HIGH, top_k=5, context_budget=300), RISING),
    ],
)
def test_what_may_fall_differs_in_more_or_is_no_prefix_has_no_keys(first: Result, second: Result, metric: str) -> None:
    assert keys(first, second, metric) == ()


def test_keys_that_lengthen_the_choice_are_listed_only_where_it_is_the_longer_one() -> None:
    results = [config("3", LOW, top_k=3), config("5", HIGH, top_k=5), config("x", LOW, top_k=5, size=800)]
    compared = score_matrix(results, RISING)
    assert rises_with(results[1], results, compared) == ("top_k",)
    assert rises_with(results[0], results, compared) == ()
    assert rises_with(results[2], results, compared) == ()


@pytest.mark.parametrize(
    ("grid", "chosen", "listed"),
    [
        # (top_k, context_budget, score): a score falls from one chunk to two, not from either to eight
        ([(1, 900, 1.0), (2, 900, 0.5), (8, 900, 1.0)], 2, ()),
        ([(1, 900, 0.5), (2, 900, 0.5), (8, 900, 1.0)], 2, ("top_k",)),
        ([(1, 300, 1.0), (2, 300, 0.5), (1, 900, 1.0), (2, 900, 1.0)], 3, ("context_budget",)),
        ([(1, 300, 0.0), (2, 300, 1.0), (2, 900, 1.0), (3, 900, 0.5)], 2, ("context_budget",)),
        # only together do the two keys lower a score
        ([(1, 300, 1.0), (2, 900, 0.5), (8, 900, 1.0), (8, 300, 1.0)], 2, ()),
    ],
)
def test_keys_are_listed_only_if_no_compared_pair_contradicts_them(
    grid: list[tuple[int, int, float]], chosen: int, listed: tuple[str, ...]
) -> None:
    rows = [config(f"{k} {most}", [score, 1.0] * 10, top_k=k, context_budget=most) for k, most, score in grid]
    assert rises_with(rows[chosen], rows, score_matrix(rows, RISING)) == listed


def test_contexts_of_another_ranking_do_not_contradict_a_key() -> None:
    rows = [
        config(f"{k} {size}", s, top_k=k, size=size) for k, size, s in ((3, 400, LOW), (5, 400, HIGH), (5, 800, LOW))
    ]
    assert rises_with(rows[1], rows, score_matrix(rows, RISING)) == ("top_k",)


NDCG = "context_ndcg"


def of_length(tokens: float, **parameters: Any) -> Result:
    values = {"chunker.size": "400", "top_k": "5", **parameters}
    top_k = {"top_k": int(values["top_k"]), "depth": 100}
    return scored_config({NDCG: [0.5, 1.0], "context_tokens": [tokens, tokens]}, parameters=values, config=top_k)


def test_larger_chunks_at_the_same_top_k_are_a_longer_context() -> None:
    found = longer_context(of_length(370), of_length(1554, **{"chunker.size": "1600"}), NDCG)
    assert found == LongerContext(370, 1554, ("chunker.size",), ("context_budget=1554", "top_k=32"))


@pytest.mark.parametrize("changes", [{"top_k": "20"}, {"context_budget": "2000"}, {"chunker.parent.size": "2000"}])
def test_every_key_that_lengthens_is_named_beside_others_that_do_not(changes: dict[str, str]) -> None:
    found = longer_context(of_length(370), of_length(1554, retriever="vector", **changes), NDCG)
    assert set(found.keys) == changes.keys()


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ({"chunker.size": "400", "top_k": "6"}, {"chunker.size": "1600", "top_k": "5"}, {"chunker.size"}),
        ({"chunker.size": "1600", "top_k": "5"}, {"chunker.size": "400", "top_k": "40"}, {"top_k"}),
        ({"chunker": "fixed_size", "chunker.size": "800"}, {"chunker": "tokens", "chunker.size": "480"}, {"chunker"}),
        ({"chunker": "recursive"}, {"chunker": "sentence_window", "chunker.sentences": "5"}, {"chunker"}),
        ({"chunker": "recursive"}, {"chunker": "parent_child", "chunker.parent.size": "2000"}, {"chunker"}),
    ],
)
def test_a_key_whose_number_falls_or_that_belongs_to_a_replaced_chunker_is_not_named(
    before: dict[str, str], after: dict[str, str], named: set[str]
) -> None:
    assert set(longer_context(of_length(370, **before), of_length(1554, **after), NDCG).keys) == named


@pytest.mark.parametrize(
    ("before", "after", "metric"),
    [
        (of_length(370), of_length(550, **{"chunker.size": "600"}), NDCG),  # less than 1.5 times
        (of_length(1554, **{"chunker.size": "1600"}), of_length(370), NDCG),  # shorter
        (of_length(370), of_length(1554, retriever="vector"), NDCG),  # neither chunking nor length differs
        (of_length(370), of_length(1554, retriever="vector", **{"chunker.size": "300"}), NDCG),  # smaller chunks
        (of_length(370), of_length(1554, **{"chunker.size": "1600"}), "token_f1"),
        (scored_config({NDCG: [1.0]}), of_length(1554, **{"chunker.size": "1600"}), NDCG),  # not measured
        (of_length(0), of_length(1554, **{"chunker.size": "1600"}), NDCG),
    ],
)
def test_there_is_none_where_length_does_not_explain_the_metric(before: Result, after: Result, metric: str) -> None:
    assert longer_context(before, after, metric) is None


def test_no_override_is_given_where_the_candidates_are_too_few_for_the_budget() -> None:
    found = longer_context(of_length(100), of_length(4000, **{"chunker.size": "9000"}), NDCG)
    assert found.equal == ()
