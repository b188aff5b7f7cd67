"""A longer context as the explanation of a difference: found where chunking or length differ, and only there."""

from __future__ import annotations

from typing import Any

import pytest

from ragsweep.core.results import Result
from ragsweep.stats.context_length import LongerContext, longer_context
from scored import scored

METRIC = "context_ndcg"


def config(tokens: float, **parameters: Any) -> Result:
    values = {"chunker.size": "400", "top_k": "5", **parameters}
    top_k = {"top_k": int(values["top_k"]), "depth": 100}
    return scored({METRIC: [0.5, 1.0], "context_tokens": [tokens, tokens]}, parameters=values, config=top_k)


def test_larger_chunks_at_the_same_top_k_are_a_longer_context() -> None:
    found = longer_context(config(370), config(1554, **{"chunker.size": "1600"}), METRIC)
    assert found == LongerContext(370, 1554, ("chunker.size",), ("context_budget=1554", "top_k=32"))


@pytest.mark.parametrize(
    "changes", [{"top_k": "20"}, {"context_budget": "2000"}, {"chunker": "parent_child", "chunker.parent.size": "2000"}]
)
def test_every_key_that_lengthens_is_named_beside_others_that_do_not(changes: dict[str, str]) -> None:
    found = longer_context(config(370), config(1554, retriever="vector", **changes), METRIC)
    assert found
    assert set(found.keys) == changes.keys()


@pytest.mark.parametrize(
    ("before", "after", "metric"),
    [
        (config(370), config(550, **{"chunker.size": "600"}), METRIC),  # less than 1.5 times
        (config(1554, **{"chunker.size": "1600"}), config(370), METRIC),  # shorter
        (config(370), config(1554, retriever="vector"), METRIC),  # neither chunking nor length differs
        (config(370), config(1554, **{"chunker.size": "1600"}), "token_f1"),
        (scored({METRIC: [1.0]}), config(1554, **{"chunker.size": "1600"}), METRIC),  # not measured
        (config(0), config(1554, **{"chunker.size": "1600"}), METRIC),
    ],
)
def test_there_is_none_where_length_does_not_explain_the_metric(before: Result, after: Result, metric: str) -> None:
    assert longer_context(before, after, metric) is None


def test_no_override_is_given_where_the_candidates_are_too_few_for_the_budget() -> None:
    found = longer_context(config(100), config(4000, **{"chunker.size": "9000"}), METRIC)
    assert found
    assert found.equal == ()
