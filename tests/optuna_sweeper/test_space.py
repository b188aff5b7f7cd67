"""The space of a search: domains in Hydra's sweep syntax, conditions, points."""

from itertools import islice
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from hydra.errors import HydraException

from optuna_sweeper.parameters import Categorical, Numeric, parse_override, read_domain
from optuna_sweeper.space import read_space


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("a,b", Categorical(("a", "b"))),
        ("choice(1,true,'x y',[1,2])", Categorical(("1", "true", "x\\ y", "[1,2]"))),
        ("range(1,5)", Numeric(1, 4, 1, whole=True)),  # half-open: 5 is none of its values
        ("range(1,6,2)", Numeric(1, 5, 2, whole=True)),
        ("range(1,5,2)", Numeric(1, 3, 2, whole=True)),
        ("range(0,1,0.25)", Numeric(0, 0.75, 0.25)),
        ("interval(0,1)", Numeric(0, 1)),
        ("int(interval(1,8))", Numeric(1, 8, 1, whole=True)),
        ("tag(log,interval(0.001,1))", Numeric(0.001, 1, log=True)),
        ("tag(log,int(interval(1,64)))", Numeric(1, 64, None, log=True, whole=True)),
        ("float(range(1,3))", Numeric(1, 2, 1)),
    ],
)
def test_hydras_sweeps_are_read_as_hydra_defines_them(typed: str, expected: Categorical | Numeric) -> None:
    assert read_domain(parse_override(f"key={typed}", ""), "key") == expected


@pytest.mark.parametrize("typed", ["range(1,9,3)", "range(0,1,0.1)", "range(5)", "range(4,0,-1)"])
def test_a_range_lists_the_values_that_hydra_lists(typed: str) -> None:
    override = parse_override(f"key={typed}", "")
    found = read_domain(override, "key").listed()
    assert sorted(map(float, found)) == pytest.approx(sorted(map(float, override.sweep_string_iterator())))


def test_value_drawn_from_a_range_is_written_as_the_range_lists_it() -> None:
    stepped = read_domain(parse_override("key=range(0,1.05,0.05)", ""), "key")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    drawn = {stepped.suggest(study.ask(), "key") for _ in range(200)}
    assert drawn == set(stepped.listed())


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("interval(2,1)", "must go from a lower to a higher number"),
        ("tag(log,interval(0,1))", "a logarithmic scale must begin above 0, got 0"),
        ("range(3,3)", "has 0 values"),
        ("range(0,inf)", "must have finite ends and a finite step"),
        ("range(0,200000)", "has 200,000 values, .*; at most 100,000 are allowed"),
        ("tag(log,a,b)", "tag"),
        ("tag(log,range(1,9,2))", "must have step 1"),
    ],
)
def test_a_sweep_that_means_nothing_is_refused(typed: str, message: str) -> None:
    with pytest.raises(HydraException, match=message):
        read_domain(parse_override(f"key={typed}", "key"), "key")


KINDS = {
    "kind": "plain,convex,rrf",
    "alpha": {"over": "range(0,1,0.5)", "when": "kind=convex"},
    "k": {"over": "20,60,80", "when": ["kind=rrf"]},
}


def test_a_flag_is_no_number() -> None:
    assert Categorical(("true", "false")).locate(True) == "true"
    assert Categorical(("true", "false")).locate(1) is None
    assert Categorical(("1", "2")).locate(True) is None
    assert Categorical(("1", "2")).locate(1.0) == "1"


def test_conditions_make_unions_and_not_products() -> None:
    points = list(read_space([], KINDS).points())
    assert points[:2] == [{"kind": "plain"}, {"kind": "convex", "alpha": "0.0"}]
    assert len(points) == 1 + 2 + 3


def test_typed_value_decides_conditions() -> None:
    space = read_space(["kind=convex", "more=1"], KINDS)
    assert [one.name for one in space.parameters] == ["alpha"]
    assert space.parameters[0].when == ()
    assert space.fixed == ("kind=convex", "more=1")
    assert [one.name for one in read_space(["kind=other"], KINDS).parameters] == []


@pytest.mark.parametrize("typed", [[], ["kind=true"], ["kind=True,false"]])
def test_a_condition_on_a_boolean_is_met(typed: list[str]) -> None:
    params = {"kind": "true,false", "top": {"over": "1,2", "when": "kind=true"}}
    assert [one.name for one in read_space(typed, params).parameters][-1] == "top"


def test_a_condition_matches_the_options_of_a_pattern() -> None:
    loader: Any = SimpleNamespace(get_group_options=lambda group_name, **_: ["plain", "plane", "rrf"])
    params = {"kind": "plain,plane,rrf", "k": {"over": "1,2", "when": "kind=glob(pla*)"}}
    points = list(read_space([], params, loader).points())
    assert points == [*({"kind": kind, "k": k} for kind in ("plain", "plane") for k in "12"), {"kind": "rrf"}]


def test_a_sampler_that_tries_every_config_needs_values_that_it_can_list() -> None:
    whole = read_space([], {"x": "tag(log,int(interval(1,64)))"})
    whole.check_sampler("brute_force")
    read_space([], {"x": "interval(0,1)"}).check_sampler("tpe")
    for space, name in ((whole, "grid"), (read_space([], {"x": "interval(0,1)"}), "brute_force")):
        with pytest.raises(HydraException, match=rf"sampler={name}: cannot list the values of .* \(x\)"):
            space.check_sampler(name)


@pytest.mark.parametrize("typed", ["int(interval(0,5e9))", "tag(log,int(interval(1,5e9)))"])
def test_brute_force_refuses_an_interval_whose_values_do_not_fit_into_memory(typed: str) -> None:
    space = read_space([], {"x": typed, "y": "int(interval(1,100_000))"})
    with pytest.raises(HydraException, match=r"cannot list the values of .* \(over 100,000 values\) .* \(x\);"):
        space.check_sampler("brute_force")


def test_a_space_with_billions_of_values_does_not_list_them_all() -> None:
    space = read_space([], {"seed": "int(interval(0,4294967295))", "k": {"over": "1,2", "when": "seed=7"}})
    assert space.parameters[0].domain.count == 2**32
    assert space.is_finite
    assert space.count_points(20) == 20
    assert list(islice(space.points(), 2)) == [{"seed": "0"}, {"seed": "1"}]


@pytest.mark.parametrize(
    ("parent", "typed", "value"),
    [("1,2", [], "1.0"), ("1.0,2.0", ["a=1"], "1.0"), ("range(1,4)", [], "1.0"), ("range(0,1,0.25)", [], "0.250")],
)
def test_a_condition_is_met_by_an_equal_number(parent: str, typed: list[str], value: str) -> None:
    space = read_space(typed, {"a": parent, "b": {"over": "x,y", "when": f"a={value}"}})
    met = [point for point in space.points() if float(point.get("a", 1)) == float(value)]
    assert all("b" in point for point in met)
    assert len(met) == 2


@pytest.mark.parametrize(("written", "typed"), [("0.5", []), ("range(0,1,0.5)", ["alpha=0.5"])])
def test_a_fixed_key_with_a_condition_is_set_only_where_the_condition_is_met(written: str, typed: list[str]) -> None:
    params = {
        **KINDS, "beta": {"over": "3", "when": "alpha=0.5"}, "alpha": {"over": written, "when": "kind=convex"}
    }  # fmt: skip
    space = read_space(typed, params)
    found = [{*space.overrides(point)} for point in space.points()]
    rrf = [{"kind=rrf", f"k={k}"} for k in (20, 60, 80)]
    assert found == [{"kind=plain"}, {"kind=convex", "alpha=0.5", "beta=3"}, *rrf]


def test_null_in_the_space_is_null() -> None:
    assert read_space([], {"budget": None}).fixed == ("budget=null",)


def test_command_line_replaces_a_sweep_and_keeps_its_condition() -> None:
    space = read_space(["alpha=interval(0.2,0.4)"], KINDS)
    alpha = next(one for one in space.parameters if one.name == "alpha")
    assert (alpha.domain, [str(one) for one in alpha.when]) == (Numeric(0.2, 0.4), ["kind=convex"])


def test_fewer_typed_values_of_a_parent_drop_what_depends_on_the_others() -> None:
    assert [one.name for one in read_space(["kind=plain,rrf"], KINDS).parameters] == ["kind", "k"]
    assert [point["kind"] for point in read_space(["kind=plain,rrf"], KINDS).points()] == ["plain", "rrf", "rrf", "rrf"]


def test_parents_come_before_their_children_however_they_are_written() -> None:
    params = {"c": {"over": "1,2", "when": "b=2"}, "b": {"over": "1,2", "when": "a=2"}, "a": "1,2"}
    assert [one.name for one in read_space([], params).parameters] == ["a", "b", "c"]
    assert [dict(point) for point in read_space([], params).points()][-1] == {"a": "2", "b": "2", "c": "2"}
    # What depends on a parameter that never exists does not exist either.
    assert read_space(["a=1"], params).parameters == ()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"a": {"over": "1,2", "when": "kimd=x"}, "kind": "x,y"}, 'no parameter "kimd"; did you mean "kind"'),
        ({"a": {"over": "1,2", "when": "b=1"}, "b": {"over": "1,2", "when": "a=1"}}, "depend on each other"),
        ({"a": {"over": "1,2", "when": "a=1"}}, "depend on each other"),
        ({"a": {"over": "1,2", "when": "kind=z"}, "kind": "x,y"}, "kind has no value z; its values are x, y"),
        ({"a": {"over": "1,2", "when": "b=1"}, "b": "interval(0,1)"}, "b is a continuous or logarithmic interval"),
        ({"a": {"over": "1,2", "whenn": "b=1"}, "b": "1,2"}, "must be a sweep, or"),
        ({"a": {"over": "interval(0", "1)": None, "when": "b=1"}, "b": "1,2"}, "quote a sweep"),
        ({"a": {"over": "1,2", "when": 3}, "b": "1,2"}, "when: must be"),
    ],
)
def test_condition_that_is_never_true_is_refused(params: Any, message: str) -> None:
    with pytest.raises(HydraException, match=message):
        read_space([], params)


def test_probes_contain_every_choice_and_every_end_with_its_parents() -> None:
    probes = read_space(["fixed=1"], KINDS).probes()
    assert ("kind=convex", "alpha=0.5", "fixed=1") in probes
    assert ("kind=rrf", "k=80", "fixed=1") in probes
    assert len(probes) == 1 + 2 + 3  # plain, two of alpha, three of k
