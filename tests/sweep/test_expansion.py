"""Overrides become jobs: Hydra's own product, once for each case."""

from typing import Any

import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import given
from hypothesis import strategies as st

from optuna_sweeper.race_loop import consecutive_batches
from ragsweep.sweep.composing.expansion import expand


def lines_of(jobs: list[Any]) -> list[str]:
    return [" ".join(job.overrides) for job in jobs]


SWEPT = st.sampled_from(["a=1,2", "a=3", "b=x,y", "b=range(1,4)", "+c=[1,2],[3]", "~d", "d=choice(1,2)", "a=1,1"])


@given(st.lists(SWEPT, max_size=4), st.dictionaries(st.sampled_from("abe"), st.sampled_from(["1,2", "7"]), max_size=2))
def test_without_cases_the_jobs_are_those_of_hydras_basic_sweeper(typed: list[str], params: dict[str, str]) -> None:
    parsed = OverridesParser.create().parse_overrides([*(f"{k}={v}" for k, v in params.items()), *typed])
    (expected,) = BasicSweeper.split_arguments(parsed, None)
    assert [list(job.overrides) for job in expand(typed, params, once=False)] == expected
    distinct = list({frozenset(job): tuple(job) for job in reversed(expected)}.values())
    assert {job.overrides for job in expand(typed, params)} == set(distinct)
    assert len(expand(typed, params)) == len(distinct)


@pytest.mark.parametrize("value", ['${oc.decode:"9"}', "${oc.env:NAME,'b c'}", """${oc.env:NAME,'b "c'}"""])
@pytest.mark.parametrize("more", ["", ",2"])
def test_an_interpolation_with_quotes_has_the_same_value_in_a_job(value: str, more: str) -> None:
    line = expand([f"a={value}{more}"])[0].overrides[0]
    assert OverridesParser.create().parse_override(line).value() == value


@pytest.mark.parametrize(
    "line", ["a=\"x${oc.env:X,'b'}\"", """a="x${oc.env:X,'b'}",c""", """a=["x${oc.env:X,'b'}",c]""", "a=${b},[${c}]"]
)
def test_a_line_that_hydra_spells_readably_keeps_its_spelling_and_so_the_identity_of_its_sweep(line: str) -> None:
    plain = OverridesParser.create().parse_overrides([line])[0]
    sweep = plain.sweep_string_iterator() if plain.is_sweep_override() else [plain.get_value_element_as_str()]
    assert [job.overrides[0] for job in expand([line])] == [f"a={text}" for text in sweep]


@pytest.mark.parametrize("more", ["", ",[2]"])
def test_interpolations_with_quotes_may_stand_in_lists_and_mappings(more: str) -> None:
    line = expand([f"""a=[{{b:${{oc.env:NAME,'b "c'}}}},"x, y"]{more}"""])[0].overrides[0]
    assert OverridesParser.create().parse_override(line).value() == [{"b": """${oc.env:NAME,'b "c'}"""}, "x, y"]


def test_cases_are_a_union_of_products() -> None:
    jobs = expand(["seed=1,2"], {"top_k": "3,5"}, [["retriever=bm25"], ["retriever=rrf", "retriever.k=20,40"]])
    assert lines_of(jobs) == [
        f"top_k={k} {case} seed={seed}"
        for cases in (["retriever=bm25"], ["retriever=rrf retriever.k=20", "retriever=rrf retriever.k=40"])
        for k, case, seed in [(k, case, seed) for k in (3, 5) for case in cases for seed in (1, 2)]
    ]
    assert [job.case for job in jobs] == [0] * 4 + [1] * 8


def test_a_case_overrides_params_and_what_is_typed_overrides_both() -> None:
    cases = [["top_k=7", "depth=50"], ["depth=60,70"]]
    assert lines_of(expand([], {"top_k": "3,5"}, cases)) == [
        "top_k=7 depth=50", "top_k=3 depth=60", "top_k=3 depth=70", "top_k=5 depth=60", "top_k=5 depth=70",
    ]  # fmt: skip
    assert lines_of(expand(["depth=9"], {"top_k": "3,5"}, cases)) == [
        "top_k=7 depth=9", "top_k=3 depth=9", "top_k=5 depth=9",
    ]  # fmt: skip


def test_null_in_params_is_null() -> None:
    assert lines_of(expand([], {"context_budget": None, "top_k": "3,5"})) == [
        "context_budget=null top_k=3", "context_budget=null top_k=5",
    ]  # fmt: skip


def test_equal_sets_of_overrides_run_once() -> None:
    assert lines_of(expand([], None, [["a=1", "b=2"], ["b=2,3", "a=1"], ["a=1,1"]])) == ["a=1 b=2", "b=3 a=1", "a=1"]


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        (
            "a=1",
            "hydra.sweeper.cases: must be null or a list of at least one case, got 'a=1'; write each case as a list",
        ),
        ([], "hydra.sweeper.cases: must be null or a list of at least one case, got []"),
        ({"a": 1}, "hydra.sweeper.cases: must be null or a list of at least one case"),
        ([["a=1"], "b=2"], "hydra.sweeper.cases[1]: must be a list of overrides, got 'b=2'; write [\"b=2\"]"),
        ([["a=1"], {"b": 2}], "hydra.sweeper.cases[1]: must be a list of overrides, got {'b': 2}; write [\"b=2\"]"),
        ([["a=1"], []], "hydra.sweeper.cases[1]: is empty; name at least one override, or remove the case"),
        ([["k=2", 4]], 'hydra.sweeper.cases[0]: 4 is not an override; quote an override with commas: "k=2,4"'),
        ([[4]], "hydra.sweeper.cases[0]: 4 is not an override; write KEY=VALUE"),
        ([["a=1", {"b": 2}]], "hydra.sweeper.cases[0]: {'b': 2} is not an override; write \"b=2\""),
        ([["a=1"], ["b=["]], 'hydra.sweeper.cases[1]: cannot read "b=["'),
        ([["a=interval(0,1)"]], 'hydra.sweeper.cases[0]: "a=interval(0,1)": a grid accepts choices and ranges'),
    ],
)
def test_a_bad_case_is_one_sentence_with_its_number_and_the_way_out(cases: Any, message: str) -> None:
    with pytest.raises(HydraException) as fault:
        expand([], None, cases)
    assert str(fault.value).startswith(message)
    assert len(str(fault.value).splitlines()) == 1


def test_a_mapping_is_offered_as_overrides_that_hydra_reads() -> None:
    with pytest.raises(HydraException) as fault:
        expand([], None, [[{"a": {"b": None, "c": "d, e"}}]])
    assert str(fault.value).endswith("""; write "a.b=null", "a.c='d, e'\"""")


def test_params_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(HydraException, match=r"hydra\.sweeper\.params: must be a mapping from keys to swept values"):
        expand([], ["top_k=3"])  # type: ignore[arg-type]


def test_a_condition_on_a_parameter_of_a_grid_is_refused_with_a_way_out() -> None:
    message = r"^hydra\.sweeper\.params\.k: only a search has conditions \(over, when\); choose .* or set k in hydra\."
    with pytest.raises(HydraException, match=message):
        expand([], {"retriever": "bm25,vector", "k": {"over": "1,2", "when": "retriever=bm25"}})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("typed", "params", "cases"),
    [
        (["top_k=range(10,1)"], {}, None),
        ([], {"retriever": "bm25", "top_k": "range(10,1)"}, None),
        ([], {}, [["depth=5"], ["top_k=range(3,1)"]]),
    ],
)
def test_range_without_values_does_not_empty_the_grid(typed: list[str], params: dict[str, str], cases: Any) -> None:
    with pytest.raises(HydraException, match=r"^top_k: its range has 0 values; correct its ends or its step$"):
        expand(typed, params, cases)


def test_range_without_values_may_be_overridden() -> None:
    assert lines_of(expand(["top_k=3"], {"top_k": "range(10,1)"})) == ["top_k=3"]


@given(st.lists(st.integers(0, 30)), st.none() | st.integers(1, 5))
def test_stretches_hold_every_number_once_without_gaps(numbers: list[int], longest: int | None) -> None:
    found = consecutive_batches(numbers, longest)
    assert [number for stretch in found for number in stretch] == sorted(set(numbers))
