"""Trial 0: the declared baseline where it lies in the space, else the nearest point of the space to the defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hydra.errors import HydraException
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from optuna_sweeper.loop import run_search
from optuna_sweeper.parameters import Numeric, parse_override
from optuna_sweeper.signatures import SearchComposer
from optuna_sweeper.space import read_space
from optuna_sweeper.trial_zero import read_baseline, trial_zero
from test_study import Program, open_in, search, settings

OPTIONS: dict[str, dict[str, Any]] = {"bm25": {"k1": 1.5}, "rrf": {"k": 60}, "convex": {"alpha": 0.5}, "vector": {}}


@dataclass
class Composed:
    """A config of a group with options of their own, and two keys."""

    values: Mapping[str, Any]
    choices: Mapping[str, str]
    written: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.written = self.values


def compose(lines: Sequence[str]) -> Composed:
    given = {one.get_key_element(): one.value() for one in (parse_override(line, "") for line in lines)}
    option = given.pop("retriever", "rrf")
    nested = {**OPTIONS[option], **{key.partition(".")[2]: value for key, value in given.items() if "." in key}}
    plain = {key: value for key, value in given.items() if "." not in key}
    return Composed({"top_k": 5, "seed": 0, **plain, "retriever": nested}, {"retriever": option})


COMPOSER = SearchComposer(compose, None, "", OmegaConf.create)

UNION = {
    "retriever": "bm25,convex",
    "retriever.k1": {"over": "interval(0.8,2)", "when": "retriever=bm25"},
    "retriever.alpha": {"over": "range(0,0.5,0.2)", "when": "retriever=convex"},
    "top_k": "range(3,9)",
}


def zero(params: Mapping[str, Any], *typed: str, declared: Sequence[str] | None = None) -> tuple[tuple[str, ...], str]:
    return trial_zero(read_space(typed, params), COMPOSER, declared)


@pytest.mark.parametrize(
    ("params", "typed", "lines"),
    [
        ({"retriever": "bm25,rrf", "top_k": "range(3,9)"}, "seed=0", ["seed=0"]),  # the space contains the default
        (UNION, "seed=0", ["retriever=bm25", "seed=0"]),  # the first choice; k1=1.5 of bm25 and top_k=5 are in range
        (UNION, "retriever=convex,bm25", ["retriever=convex", "retriever.alpha=0.4"]),  # the nearest value of a child
        ({"+a": "x,y"}, "+b=interval(1,2)", ["+a=x", "+b=1.0"]),  # keys without a default
    ],
)
def test_trial_0_has_the_defaults_and_otherwise_the_first_choice_or_the_nearest_value(
    params: Mapping[str, Any], typed: str, lines: list[str]
) -> None:
    assert zero(params, typed) == (tuple(lines), "")


@pytest.mark.parametrize(
    ("sweep", "line"),
    [
        ("6,7", ["top_k=6"]),
        ("range(10,30,10)", ["top_k=10"]),
        ("range(1,4)", ["top_k=3"]),
        ("range(2,9,4)", ["top_k=6"]),
        ("int(interval(1,8))", []),
        ("interval(6,7)", ["top_k=6.0"]),
        ("tag(log,int(interval(1,4)))", ["top_k=4"]),
        ("null,3", ["top_k=null"]),
    ],
)
def test_a_default_outside_of_a_domain_becomes_the_first_or_nearest_value(sweep: str, line: list[str]) -> None:
    assert zero({"top_k": sweep}) == (tuple(line), "")


@given(low=st.integers(-50, 50), steps=st.integers(0, 30), step=st.integers(1, 7), value=st.floats(-500, 500))
def test_the_nearest_value_is_in_the_domain_and_none_is_nearer(low: int, steps: int, step: int, value: float) -> None:
    domain = Numeric(low, low + steps * step, step, whole=True)
    nearest = domain.nearest(value)
    assert nearest in domain.listed()
    assert domain.nearest(int(nearest)) == nearest
    assert abs(int(nearest) - value) == min(abs(low + n * step - value) for n in range(steps + 1))


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (["retriever=bm25", "retriever.k1=0.9"], ""),
        (["retriever=vector"], "retriever=vector is not in the search space"),
        (["retriever=bm25", "retriever.k1=3"], "retriever.k1=3 is not in the search space"),
        (["retriever=bm25", "seed=4"], "it differs in seed from every config of the search"),
        ([], "retriever=rrf is not in the search space"),
    ],
)
def test_a_declared_baseline_is_trial_0_unless_it_is_outside_of_the_space(declared: list[str], why: str) -> None:
    assert zero(UNION, declared=declared) == (("retriever=bm25",) if why else tuple(declared), why)


@pytest.mark.parametrize(
    ("setting", "lines"),
    [
        ("retriever=bm25 top_k=5", ("retriever=bm25", "top_k=5")),
        ("a='x y'  b=[1, 2] c={d: 1}", ("a='x y'", "b=[1, 2]", "c={d: 1}")),
        (None, None),
        (3, None),
        ("production", None),
    ],
)
def test_a_baseline_is_read_as_overrides(setting: Any, lines: tuple[str, ...] | None) -> None:
    assert read_baseline(setting) == lines


@pytest.mark.parametrize(("setting", "message"), [("a='x", "cannot read"), ("a=1,2", "names several values")])
def test_a_baseline_that_is_no_config_is_refused(setting: str, message: str) -> None:
    with pytest.raises(HydraException, match=f"baseline: .*{message}"):
        read_baseline(setting)


def test_another_space_of_ones_own_is_another_search(tmp_path: Path) -> None:
    program = Program(lambda _: 1.0)
    shared = {"params": {"top_k": "range(3,9)"}, "storage": f"sqlite:///{tmp_path / 'study.db'}", "n_trials": 1}
    for function, jobs in ((None, 1), (None, 1), ("builtins.min", 2), ("builtins.max", 3), ("builtins.max", 3)):
        values = settings(**shared, plots=False, custom_search_space=function)
        run_search(values, (), program.launch, COMPOSER, tmp_path)
        assert len(program.jobs) == jobs


def test_trial_0_of_an_existing_study_stays_and_enqueued_configs_follow(tmp_path: Any) -> None:
    space = {"x": "interval(0,4)"}
    program = Program(lambda values: float(values.get("x", 9)))
    search(open_in(tmp_path, space, n_trials=1, first=(((), {}),), has_zero=True), program)
    first = ((("x=1.0",), {"x": 1.0}), (("x=2.0",), {"x": 2.0}))
    search(open_in(tmp_path, space, n_trials=3, first=first, has_zero=True), program)
    assert [job for _, job in program.jobs][:2] == [(), ("x=2.0",)]
    assert ("x=1.0",) not in [job for _, job in program.jobs]
