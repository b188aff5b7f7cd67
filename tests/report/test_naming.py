"""Names of configs: what varies among them, short, and never the same for two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.report.naming import (
    label,
    label_configs,
    number_configs,
    rounded,
    short,
    short_keys,
    varying_keys,
    without_number,
)

GROUPS = ("retriever", "reranker")


def test_a_config_is_named_by_what_varies_within_the_sweep() -> None:
    same = {"dataset": "folder", "dataset.path": "/home/me/corpus", "llm.base_url": "http://localhost:8000/v1"}
    hybrid = {**same, "retriever": "hybrid_rrf", "retriever.k": "50", "reranker": "none", "chunker.late": "true"}
    vector = {**same, "retriever": "vector", "retriever.k": "50", "reranker": "cross", "chunker.late": "false"}
    assert label_configs([hybrid, vector], GROUPS) == ["hybrid_rrf reranker=none +late", "vector cross -late"]


def test_a_long_name_ends_after_a_whole_setting() -> None:
    name = "#33 " + " ".join(f"parameter_{n}=1.25" for n in range(9))
    assert short(name) == "#33 parameter_0=1.25 parameter_1=1.25 parameter_2=1.25 ..."
    assert short("#33 top_k=3") == "#33 top_k=3"
    assert short(f"#1 prompt={'a_word_' * 12} bm25").startswith("#1 prompt=a_word_")  # not "#1 ..."


def test_what_only_some_configs_set_varies() -> None:
    assert label_configs([{"retriever": "bm25"}, {"retriever": "bm25", "retriever.k1": "2"}], GROUPS) == ["", "k1=2"]


def test_keys_with_one_last_part_keep_as_much_as_tells_them_apart() -> None:
    assert short_keys(["chunker.size", "index.size", "top_k", "a.b.top", "a.c.top"]) == {
        "chunker.size": "chunker.size", "index.size": "index.size", "top_k": "top_k",
        "a.b.top": "b.top", "a.c.top": "c.top",
    }  # fmt: skip


def test_an_option_that_two_groups_share_keeps_the_group() -> None:
    assert label({"retriever": "mine", "reranker": "mine"}, GROUPS) == "retriever=mine reranker=mine"


def test_a_deletion_is_named_as_it_is_typed() -> None:
    assert label({"chunker": "mine", "~chunker.child.size": ""}, GROUPS) == "chunker=mine ~size"
    assert label({"~top_k": ""}, GROUPS, ["top_k"]) == "~top_k"


def test_a_path_is_its_last_part_unless_two_have_the_same() -> None:
    assert label_configs([{"data": "/a/one.csv"}, {"data": "/b/two.csv"}], ()) == ["data=one.csv", "data=two.csv"]
    assert label_configs([{"data": "/a/x.csv"}, {"data": "/b/x.csv"}], ()) == ["data=/a/x.csv", "data=/b/x.csv"]


def test_fractions_have_three_digits_and_nothing_else_changes() -> None:
    assert rounded("k1=1.98765 a=0.30000000000000004 size=1000 v1.2.3 lr=2.34567e-05") == (
        "k1=1.99 a=0.3 size=1000 v1.2.3 lr=2.35e-05"
    )
    assert rounded("cost=1234.56") == "cost=1235"
    assert rounded("x=-1234567.5 weights=[0.33333,0.66667] 2.71828") == "x=-1.23e+06 weights=[0.333,0.667] 2.72"


@pytest.mark.parametrize(
    "name", ["docs-2024.10", "model=gpt-4.10", "release=1.10", "x=1.2345_b", "llama3:8.1234", "top_p=1.0", "v=1.2345.6"]
)
def test_names_and_versions_are_not_rounded(name: str) -> None:
    assert rounded(name) == name


def test_versions_that_are_one_number_differ() -> None:
    found = number_configs({0: "model=gpt-4.10", 1: "model=gpt-4.1", 2: "version=1.10", 3: "version=1.1"})
    assert list(found.values()) == ["#1 model=gpt-4.10", "#2 model=gpt-4.1", "#3 version=1.10", "#4 version=1.1"]


@given(st.lists(st.floats(0.001, 1000).map(lambda value: f"alpha={value!r}"), unique=True, min_size=2, max_size=5))
def test_numbered_names_differ_by_more_than_their_number(names: list[str]) -> None:
    found = number_configs(dict(enumerate(names)))
    assert [name.split()[0] for name in found.values()] == [f"#{n + 1}" for n in range(len(names))]
    assert len({without_number(name) for name in found.values()}) == len(names)


def test_targets_name_a_config_only_where_nothing_else_varies() -> None:
    assert varying_keys([{"llm": "a", "targets": "x"}, {"llm": "b", "targets": "y"}]) == ["llm"]
    assert varying_keys([{"llm": "a", "targets": "x"}, {"llm": "a", "targets": "y"}]) == ["targets"]
