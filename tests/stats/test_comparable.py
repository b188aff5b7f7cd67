"""The results that may be compared, and the differences of their configs."""

from dataclasses import replace
from typing import Any

import pytest

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.results import PARTIAL, Result
from ragsweep.stats.comparable import (
    check_same_questions,
    check_scored,
    check_whole,
    factor_values,
    factors,
    labels_of,
    reason_incomparable,
    redefined_metrics,
    shared_metrics,
)
from support.results import FACTS, changed, scored

BM25 = {"_target_": "ragsweep.parts.retrievers.Bm25", "k1": 1.5}
VECTOR = {"_target_": "ragsweep.parts.retrievers.Vector", "index": {"_target_": "ragsweep.parts.indexes.Flat"}}


def config(retriever: str = "bm25", **parameters: str) -> Result:
    """Make a result of a config with one part; dots in names are written as two underscores."""
    nodes: dict[str, Any] = {"bm25": BM25, "vector": VECTOR, "hnsw": {**VECTOR, "index": {"_target_": "x.Hnsw"}}}
    named = {name.replace("__", "."): value for name, value in parameters.items()}
    option = "vector" if retriever == "hnsw" else retriever
    return scored({"m": [0.0, 1.0]}, config={"retriever": nodes[retriever]}, parameters={"retriever": option, **named})


def test_a_part_that_is_exchanged_is_one_factor() -> None:
    one = config(retriever__k1="1.5", retriever__b="0.75", top_k="5")
    other = config("vector", retriever__min_score="null", top_k="5")
    assert [str(factor) for factor in factors(one, other)] == ["retriever bm25 -> vector"]
    (factor,) = factors(one, changed(one, parameters={**one.run.parameters, "top_k": "3"}))
    assert str(factor) == "top_k 5 -> 3"


def test_a_part_without_an_option_of_its_own_is_named_by_its_class() -> None:
    (factor,) = factors(config("vector"), config("hnsw", retriever__index__m="16", retriever__index__ef_search="40"))
    assert (factor.name, factor.before, factor.after) == ("retriever.index", "Flat", "Hnsw")


def test_a_list_of_options_with_the_values_of_one_option_is_no_factor() -> None:
    """`metrics=[retrieval,answers]` is not a parameter, but has the same metrics as `metrics=retrieval` with an LLM."""
    one, other = config(metrics="retrieval"), config()
    found = {"mrr": {"_target_": "x.Mrr"}, "f1": {"_target_": "x.F1"}}
    both = [changed(result, settings={"metrics": found}) for result in (one, other)]
    assert factors(*both) == ()
    assert factor_values(both) == [{}, {}]
    fewer = changed(other, settings={"metrics": {"mrr": {"_target_": "x.Mrr"}}})
    assert [str(factor) for factor in factors(both[0], fewer)] == ["metrics retrieval -> -"]


def test_what_cannot_change_a_score_is_no_factor() -> None:
    assert factors(config(), config(store__path="elsewhere", objective="mrr", plan="false")) == ()
    assert factors(config(finalists="5", compute="local"), config(finalists="3", compute="ray")) == ()
    assert [one.name for one in factors(config(planner="a"), config(planner="b"))] == ["planner"]  # begins like plan


def test_a_part_that_no_config_uses_is_no_factor() -> None:
    """The embedder of `retriever=bm25 embedder=hashing,minilm`; with a vector retriever in a config, it is a factor."""
    made = [{"_target_": "x.Hashing", "ngram": 4}, {"_target_": "x.Minilm"}]
    nodes = [{"retriever": BM25, "embedder": embedder} for embedder in made]
    names = ("hashing", "minilm")
    first, second = (
        changed(config(embedder=name, top_k=top_k), config=node)
        for name, top_k, node in zip(names, "35", nodes, strict=True)
    )
    assert [str(factor) for factor in factors(first, second)] == ["top_k 3 -> 5"]
    assert factor_values([first, second]) == [{"top_k": "3"}, {"top_k": "5"}]
    using = changed(second, config={**nodes[1], "retriever": {**VECTOR, "embedder": made[1]}})
    assert "embedder" in [factor.name for factor in factors(first, using)]


def test_equal_settings_that_computed_something_else_are_a_factor() -> None:
    one, other = (changed(config(embedder__dtype="auto"), addresses={"ranking": name}) for name in ("a", "b"))
    (factor,) = factors(one, other)
    assert str(factor) == "computed with one dtype, model, code or library version -> another"
    assert factors(one, changed(other, addresses={"ranking": "a"})) == ()
    assert factors(one, changed(other, addresses={})) == ()  # a record from before addresses were kept
    retyped = changed(other, parameters={**other.run.parameters, "embedder.dtype": "float32"})
    assert [factor.name for factor in factors(one, retyped)] == ["embedder.dtype"]
    deeper = changed(other, parameters={**other.run.parameters, "top_k": "9"})
    assert [factor.name for factor in factors(one, deeper)] == ["top_k", "computed with"]


def test_other_questions_or_texts_are_refused_with_the_way_out() -> None:
    one = config()
    for name, what in (("golden_digest", "golden set"), ("corpus_digest", "corpus")):
        with pytest.raises(InputError, match=f"rebaseline: the {what} of .* run the first config again"):
            check_same_questions(one, changed(one, dataset=replace(FACTS, **{name: "e" * 64})))
    with pytest.raises(InputError, match=r"rebaseline: evidence\.threshold is 0\.5 .* and 0\.8"):
        check_same_questions(config(evidence__threshold="0.5"), config(evidence__threshold="0.8"))
    check_same_questions(one, config("vector"))


def test_configs_of_one_name_are_told_apart_in_a_refusal() -> None:
    one = config()
    other = changed(one, dataset=replace(FACTS, golden_digest="e" * 64))
    with pytest.raises(InputError, match=r"set of the first is .*, and the golden set of the second is .*eeeeeeee"):
        check_same_questions(one, other)
    with pytest.raises(InputError, match=rf"golden set of {one.name} is .*, and the golden set of later is .*eeeeeeee"):
        check_same_questions(one, changed(other, name="later"))


def test_a_partial_result_is_compared_with_nothing() -> None:
    check_whole(config())
    with pytest.raises(InputError, match="is PARTIAL"):
        check_whole(changed(config(), state=PARTIAL))


def test_a_metric_without_any_score_is_refused_with_the_reasons() -> None:
    result = scored({"m": [float("nan")] * 2, "other": [0.0, 1.0]})
    result = changed(result, measured={"m": {"reasons": {"unreadable output": 2}}})
    check_scored(result, ["other", "unknown"])
    with pytest.raises(InputError, match=r"m: no question of .* could be scored: 2 unreadable output"):
        check_scored(result, ["other", "m"])


def test_a_metric_that_is_defined_otherwise_is_named() -> None:
    def judged(**settings: Any) -> Result:
        return scored({"m": [0.0], "other": [0.0]}, config={"metrics": {"m": {"judge": settings}, "other": {"a": 1}}})

    assert redefined_metrics(judged(model="a"), judged(model="b"), ["m", "other"]) == ["m"]
    assert redefined_metrics(judged(model="a", replicate=0), judged(model="a", replicate=1), ["m"]) == []
    assert redefined_metrics(judged(model="a", labels=None), judged(model="a", labels="l.csv"), ["m"]) == []


def test_a_metric_that_another_version_measured_is_named() -> None:
    old, new, unknown = (
        changed(scored({"m": [0.0], "other": [0.0]}), metric_versions=versions)
        for versions in ({"m": "1", "other": "1"}, {"m": "2", "other": "1"}, {})
    )
    assert redefined_metrics(old, new, ["m", "other"]) == ["m"]
    assert redefined_metrics(unknown, new, ["m", "other"]) == []


def test_metrics_are_those_wanted_or_the_usual_ones_that_can_be_compared() -> None:
    columns = {"m": [0.0, 1.0], "latency_p95_ms": [1.0, 9.0], "results": [1.0, 2.0], "latency_mean_ms": [1.0, 2.0]}
    both = [scored(columns), scored(columns)]
    assert shared_metrics(both, None, ["m", "latency_p95_ms", "results", "gone"]) == ["m"]
    assert shared_metrics(both, ["latency_mean_ms"], ["m"]) == ["latency_mean_ms"]
    assert "quantile" in reason_incomparable(both, "latency_p95_ms")
    assert "neither higher nor lower values are better" in reason_incomparable(both, "results")
    assert "could be scored" in reason_incomparable([scored({"m": [float("nan")]})], "m")
    for wanted, fault in (("latency_mean", 'did you mean "latency_mean_ms"'), ("latency_p95_ms", "is a quantile")):
        with pytest.raises(ConfigError, match=fault):
            shared_metrics(both, [wanted], ["m"])
    with pytest.raises(InputError, match="no objective or headline metric can be compared"):
        shared_metrics(both, None, ["results"])


def test_labels_follow_the_questions_that_are_asked_for() -> None:
    one = scored({"m": [0.0, 1.0, 2.0]}, {"category": ["a", "", "b"]})
    assert labels_of(one, ["q2", "q1"]) == {"category": ["b", ""]}


def test_swept_parameters_are_factors() -> None:
    grid = [(k, k1) for k in "35" for k1 in ("1.2", "1.5")]
    factors = factor_values([config(top_k=k, retriever__k1=k1) for k, k1 in grid])
    assert factors == [{"top_k": k, "retriever.k1": k1} for k, k1 in grid]
    grid = [(option, depth) for option in ("bm25", "vector") for depth in "12"]  # a parameter of all options
    factors = factor_values([config(option, retriever__depth=depth) for option, depth in grid])
    assert factors == [{"retriever": option, "retriever.depth": depth} for option, depth in grid]


def test_parameters_of_one_option_are_part_of_its_value_where_they_vary() -> None:
    vector = config("vector", retriever__min_score="null")
    assert factor_values([config(retriever__k1="1.5"), vector]) == [{"retriever": "bm25"}, {"retriever": "vector"}]
    varied = factor_values([*(config(retriever__k1=k1) for k1 in ("1.2", "1.5")), vector])
    assert [values["retriever"] for values in varied] == ["bm25 k1=1.2", "bm25 k1=1.5", "vector"]
