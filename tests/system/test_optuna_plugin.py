"""What a search promises to any program: its space, its trials, and what becomes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException

from hydra_plugins.ragsweep_optuna import read_space
from hydra_plugins.ragsweep_optuna._evaluations import Evaluation, Evaluations
from hydra_plugins.ragsweep_optuna._left import summary
from hydra_plugins.ragsweep_optuna._outcomes import Outcome, read_bounds, read_directions
from hydra_plugins.ragsweep_optuna._parameters import Choice, Numbers, domain, read
from hydra_plugins.ragsweep_optuna._processes import Process
from hydra_plugins.ragsweep_optuna._samplers import CLASSES, check, seed_of
from hydra_plugins.ragsweep_optuna._search import Search
from hydra_plugins.ragsweep_optuna._storage import check_url, open_storage
from hydra_plugins.ragsweep_optuna._study import ATTEMPTS, Asked, Study, open_study

# --- the space -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("a,b", Choice(("a", "b"))),
        ("choice(1,true,'x y',[1,2])", Choice(("1", "true", "x\\ y", "[1,2]"))),
        ("range(1,5)", Numbers(1, 4, 1, whole=True)),  # half-open: 5 is none of its values
        ("range(1,6,2)", Numbers(1, 5, 2, whole=True)),
        ("range(1,5,2)", Numbers(1, 3, 2, whole=True)),
        ("range(0,1,0.25)", Numbers(0, 0.75, 0.25)),
        ("interval(0,1)", Numbers(0, 1)),
        ("int(interval(1,8))", Numbers(1, 8, 1, whole=True)),
        ("tag(log,interval(0.001,1))", Numbers(0.001, 1, log=True)),
        ("tag(log,int(interval(1,64)))", Numbers(1, 64, None, log=True, whole=True)),
        ("float(range(1,3))", Numbers(1, 2, 1)),
    ],
)
def test_hydras_sweeps_are_read_as_hydra_defines_them(typed: str, expected: Choice | Numbers) -> None:
    assert domain(read(f"key={typed}", ""), "key") == expected


@pytest.mark.parametrize("typed", ["range(1,9,3)", "range(0,1,0.1)", "range(5)", "range(4,0,-1)"])
def test_a_range_lists_the_values_that_hydra_lists(typed: str) -> None:
    override = read(f"key={typed}", "")
    found = domain(override, "key").listed()
    assert sorted(map(float, found or ())) == pytest.approx(sorted(map(float, override.sweep_string_iterator())))


def test_what_is_drawn_from_a_range_is_spelled_as_the_range_lists_it() -> None:
    stepped = domain(read("key=range(0,1.05,0.05)", ""), "key")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    drawn = {stepped.suggest(study.ask(), "key") for _ in range(200)}
    assert drawn == set(stepped.listed() or ())


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("interval(2,1)", "must go from a lower to a higher number"),
        ("tag(log,interval(0,1))", "has no logarithm at 0"),
        ("range(3,3)", "holds 0 values"),
        ("tag(log,a,b)", "tag"),
        ("tag(log,range(1,9,2))", "goes in steps of 1"),
    ],
)
def test_a_sweep_that_means_nothing_is_refused(typed: str, said: str) -> None:
    with pytest.raises(HydraException, match=said):
        domain(read(f"key={typed}", "key"), "key")


KINDS = {
    "kind": "plain,convex,rrf",
    "alpha": {"over": "range(0,1,0.5)", "when": "kind=convex"},
    "k": {"over": "20,60,80", "when": ["kind=rrf"]},
}


def test_conditions_make_unions_and_not_products() -> None:
    points = list(read_space([], KINDS).points())
    assert points[:2] == [{"kind": "plain"}, {"kind": "convex", "alpha": "0.0"}]
    assert len(points) == 1 + 2 + 3


def test_a_typed_value_settles_conditions() -> None:
    space = read_space(["kind=convex", "more=1"], KINDS)
    assert [one.name for one in space.parameters] == ["alpha"]
    assert space.parameters[0].when == ()
    assert space.fixed == ("kind=convex", "more=1")
    assert [one.name for one in read_space(["kind=other"], KINDS).parameters] == []


def test_the_command_line_has_the_last_word_on_what_is_searched_and_keeps_the_condition() -> None:
    space = read_space(["alpha=interval(0.2,0.4)"], KINDS)
    alpha = next(one for one in space.parameters if one.name == "alpha")
    assert (alpha.domain, [str(one) for one in alpha.when]) == (Numbers(0.2, 0.4), ["kind=convex"])


def test_whoever_types_fewer_values_of_a_parent_searches_less() -> None:
    assert [one.name for one in read_space(["kind=plain,rrf"], KINDS).parameters] == ["kind", "k"]
    assert [point["kind"] for point in read_space(["kind=plain,rrf"], KINDS).points()] == ["plain", "rrf", "rrf", "rrf"]


def test_parents_come_before_their_children_however_they_are_written() -> None:
    params = {"c": {"over": "1,2", "when": "b=2"}, "b": {"over": "1,2", "when": "a=2"}, "a": "1,2"}
    assert [one.name for one in read_space([], params).parameters] == ["a", "b", "c"]
    assert [dict(point) for point in read_space([], params).points()][-1] == {"a": "2", "b": "2", "c": "2"}
    # What depends on a parameter that never exists does not exist either.
    assert read_space(["a=1"], params).parameters == ()


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"a": {"over": "1,2", "when": "kimd=x"}, "kind": "x,y"}, 'no parameter "kimd"; did you mean "kind"'),
        ({"a": {"over": "1,2", "when": "b=1"}, "b": {"over": "1,2", "when": "a=1"}}, "exists only beside the other"),
        ({"a": {"over": "1,2", "when": "a=1"}}, "exists only beside the other"),
        ({"a": {"over": "1,2", "when": "kind=z"}, "kind": "x,y"}, "kind never is z; it is one of x, y"),
        ({"a": {"over": "1,2", "when": "b=1"}, "b": "interval(0,1)"}, "b has no end of values"),
        ({"a": {"over": "1,2", "whenn": "b=1"}, "b": "1,2"}, "must be a sweep, or"),
        ({"a": {"over": "interval(0", "1)": None, "when": "b=1"}, "b": "1,2"}, "in quotes"),
        ({"a": {"over": "1,2", "when": 3}, "b": "1,2"}, "when must be"),
    ],
)
def test_a_condition_that_cannot_hold_is_refused_before_anything_is_launched(params: Any, said: str) -> None:
    with pytest.raises(HydraException, match=said):
        read_space([], params)


def test_probes_try_every_choice_and_every_end_beside_what_it_needs() -> None:
    probes = read_space(["fixed=1"], KINDS).probes()
    assert probes[0] == ("fixed=1",)
    assert ("kind=convex", "alpha=0.5", "fixed=1") in probes
    assert ("kind=rrf", "k=80", "fixed=1") in probes
    assert len(probes) == 1 + 1 + 2 + 3  # the default, plain, two of alpha, three of k


# --- trials ----------------------------------------------------------------------------------------------------


def completed(value: Any) -> JobReturn:
    job = JobReturn()
    job.status, job.return_value = JobStatus.COMPLETED, value
    if isinstance(value, Exception):
        job.status = JobStatus.FAILED
    return job


class Program:
    """Answers overrides by a function of their values, and remembers what it was asked."""

    def __init__(self, answer: Callable[[dict[str, str]], Any]) -> None:
        self.answer = answer
        self.asked: list[tuple[int, tuple[str, ...]]] = []

    def launch(self, jobs: list[list[str]], first: int) -> Sequence[JobReturn]:
        self.asked += [(first + number, tuple(job)) for number, job in enumerate(jobs)]
        return [completed(self._answered(job)) for job in jobs]

    def _answered(self, job: list[str]) -> Any:
        try:
            return self.answer(dict(line.split("=", 1) for line in job))
        except Exception as fault:
            return fault


SPACE: dict[str, Any] = {"kind": "a,b", "x": "interval(0,4)", "y": {"over": "range(0,50)", "when": "kind=b"}}


def bowl(values: dict[str, str]) -> float:
    return (float(values.get("x", 1)) - 2) ** 2 + int(values.get("y", 9)) / 10


def opened(
    folder: Path | None, params: Any = SPACE, sampler: str = "tpe", n_trials: int = 8, first: Any = (), **more: Any
) -> Study:
    asked = Asked("s", more.pop("directions", ("minimize",)), "t", {"name": sampler, "seed": 3}, n_trials, first,
                  **more)  # fmt: skip
    storage = open_storage(f"sqlite:///{folder / 'study.db'}" if folder else None)
    return open_study(asked, read_space([], params), storage)


def sign(overrides: Sequence[str]) -> tuple[str, str]:
    return " ".join(sorted(overrides)), ""


def searched(study: Study, program: Program, n_jobs: int = 1, rate: float = 0.0, bounds: Any = ()) -> Study:
    Search(study, program.launch, sign, n_jobs, rate, bounds).run()
    return study


@pytest.mark.parametrize("sampler", [*CLASSES, "grid"])
def test_a_resumed_study_has_the_trials_of_one_that_was_not_stopped(tmp_path: Path, sampler: str) -> None:
    params = {"x": "range(0,40)", "y": "range(0,50)"} if sampler in ("grid", "brute_force") else SPACE
    whole, begun, resumed = Program(bowl), Program(bowl), Program(bowl)
    (tmp_path / "whole").mkdir()
    searched(opened(tmp_path / "whole", params, sampler, 9), whole)
    searched(opened(tmp_path, params, sampler, 4), begun)
    searched(opened(tmp_path, params, sampler, 9), resumed)
    assert begun.asked + resumed.asked == whole.asked
    assert len({job for _, job in whole.asked}) == 9  # and no draw is repeated


def test_seeds_differ_between_trials_and_between_studies() -> None:
    assert len({seed_of(study, trial) for study in range(10) for trial in range(100)}) == 1000


def test_no_config_is_evaluated_twice_and_a_space_without_more_ends_the_search() -> None:
    program = Program(lambda values: float(values["x"]))
    study = searched(opened(None, {"x": "1,2,3"}, "random", 10), program)
    assert sorted(job for _, job in program.asked) == [("x=1",), ("x=2",), ("x=3",)]
    assert study.exhausted()
    twins = [trial for trial in study.optuna.trials if "duplicate_of" in trial.user_attrs]
    for trial in twins:  # told what is known of the same config
        assert trial.value == float(trial.params["x"])


def test_a_grid_goes_through_all_points_in_order() -> None:
    program = Program(lambda values: 1.0)
    searched(opened(None, KINDS, "grid", 50), program)
    assert [job for _, job in program.asked] == [
        ("kind=plain",), ("kind=convex", "alpha=0.0"), ("kind=convex", "alpha=0.5"), ("kind=rrf", "k=20"),
        ("kind=rrf", "k=60"), ("kind=rrf", "k=80"),
    ]  # fmt: skip


def test_what_is_enqueued_comes_first_and_is_known_to_the_sampler() -> None:
    first = (((), {"kind": "a", "x": 1.0}), (("x=3.5",), {"x": 3.5}))
    program = Program(bowl)
    study = searched(opened(None, n_trials=4, first=first), program)
    assert [job for _, job in program.asked][:2] == [(), ("x=3.5",)]
    assert [trial.params for trial in study.optuna.trials[:2]] == [{"kind": "a", "x": 1.0}, {"x": 3.5}]


def test_numbers_of_jobs_go_on_without_a_gap_in_batches() -> None:
    program = Program(bowl)
    searched(opened(None, n_trials=7), program, n_jobs=3)
    assert [number for number, _ in program.asked] == list(range(7))


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "high", True, [1.0, 2.0], ValueError("broke")])
def test_what_is_no_number_is_a_failure_with_its_reason_and_no_value(value: Any) -> None:
    def answer(values: dict[str, str]) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    study = searched(opened(None, n_trials=2), Program(answer), rate=1.0)
    assert [trial.state for trial in study.optuna.trials] == [optuna.trial.TrialState.FAIL] * 2
    assert all(trial.values is None and trial.user_attrs["reason"] for trial in study.optuna.trials)
    assert study.optuna.best_trials == []


def test_too_many_failures_stop_the_search_with_the_reasons_counted() -> None:
    program = Program(lambda values: 1.0 / 0)
    with pytest.raises(HydraException, match=r"3 of 10 trials failed, .*=0\.2: 3 x ZeroDivisionError"):
        searched(opened(None, n_trials=10), program, rate=0.2)
    assert len(program.asked) == 3


def test_objectives_have_directions_and_constraints_decide_what_is_best() -> None:
    def answer(values: dict[str, str]) -> Any:
        return {"values": [float(values["x"]), 1.0], "measured": {"latency": float(values["x"]) * 100}}

    directions = read_directions(["maximize", "minimize"])
    study = opened(None, {"x": "range(0,10)"}, n_trials=10, directions=directions)
    searched(study, Program(answer), bounds=read_bounds(["latency <= 300"]))
    assert summary(study.optuna)["solutions"] == [{"params": {"x": 3}, "values": [3.0, 1.0]}]


def test_a_constraint_on_what_was_not_measured_is_a_failure() -> None:
    study = opened(None, n_trials=1)
    searched(study, Program(lambda values: 1.0), rate=1.0, bounds=read_bounds(["latency <= 300"]))
    assert "latency" in study.optuna.trials[0].user_attrs["reason"]


def test_what_was_not_charged_does_not_count() -> None:
    program = Program(lambda values: {"values": 1.0, "charged": float(values["x"]) > 2})
    study = searched(opened(None, {"x": "range(0,6)"}, "grid", 3), program)
    assert [job for _, job in program.asked] == [(f"x={x}",) for x in range(6)]
    assert study.evaluations.charged() == 3


def test_what_cannot_be_composed_is_not_launched() -> None:
    program, study = Program(bowl), opened(None, {"x": "1,2"}, "grid", 2)
    refused = lambda overrides: (sign(overrides)[0], "no such key" if overrides == ("x=1",) else "")  # noqa: E731
    Search(study, program.launch, refused, 1, 1.0, ()).run()
    assert [job for _, job in program.asked] == [("x=2",)]
    assert study.optuna.trials[0].user_attrs["reason"] == "no such key"


def test_a_config_that_takes_its_launcher_with_it_is_given_up_and_the_others_are_evaluated() -> None:
    program, study = Program(bowl), opened(None, {"x": "range(0,6)"}, "grid", 6)

    def launch(jobs: list[list[str]], first: int) -> Sequence[JobReturn]:
        returned = program.launch(jobs, first)
        if ["x=2"] in jobs:
            raise RuntimeError("a worker died")
        return returned

    Search(study, launch, sign, 3, 1.0, ()).run()
    begun = [job for _, job in program.asked]
    assert begun.count(("x=2",)) == ATTEMPTS
    states = {trial.params["x"]: trial.state.name for trial in study.optuna.trials}
    assert states == {x: "FAIL" if x == 2 else "COMPLETE" for x in range(6)}
    assert study.optuna.trials[2].user_attrs["reason"].startswith(f"its process died {ATTEMPTS} times")


def test_a_study_goes_on_only_with_what_it_was_begun_with(tmp_path: Path) -> None:
    opened(tmp_path)
    with pytest.raises(HydraException, match='study "s" was begun with another space'):
        opened(tmp_path, {"x": "1,2"})


@pytest.mark.parametrize(
    ("settings", "objectives", "constraints", "said"),
    [
        ({"name": "tpee"}, 1, 0, "no sampler 'tpee'; known: tpe, gp"),
        ({"name": "cmaes"}, 2, 0, "knows one objective"),
        ({"name": "cmaes"}, 1, 1, "knows no constraints"),
        ({"name": "tpe", "seed": "x"}, 1, 0, "seed: must be a whole number"),
    ],
)
def test_a_sampler_is_refused_that_cannot_do_what_is_asked(
    settings: Any, objectives: int, constraints: int, said: str
) -> None:
    with pytest.raises(HydraException, match=said):
        check(settings, objectives, constraints)


# --- the storage, and who works on what ------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["journal.log", "study.db", "redis://host", "mysql://host/db"])
def test_a_storage_that_could_lose_trials_is_refused(url: str) -> None:
    with pytest.raises(HydraException, match="journal file"):
        check_url(url)


def begun(study: Study) -> Evaluation:
    (one,) = study.batch(1, sign)
    return one


def dead(study: Study, one: Evaluation) -> None:
    """Make the holder of a trial one that does not live."""
    with study.storage.transaction() as connection:
        study.evaluations._run(connection, "UPDATE sweep_evaluations SET started = 'before' WHERE study = :study")


def test_a_trial_of_a_dead_process_is_taken_over_and_its_late_result_refused(tmp_path: Path) -> None:
    study = opened(tmp_path)
    one = begun(study)
    dead(study, one)
    again = begun(study)
    assert (again.trial, again.overrides, again.token) == (one.trial, one.overrides, one.token + 1)
    assert not study.settle(one, Outcome((99.0,)))
    assert study.settle(again, Outcome((1.0,)))
    assert not study.settle(again, Outcome((2.0,)))
    assert [trial.value for trial in study.optuna.trials] == [1.0]


def test_a_trial_whose_process_dies_again_and_again_fails(tmp_path: Path) -> None:
    study = opened(tmp_path, n_trials=1)
    for _ in range(ATTEMPTS):
        dead(study, begun(study))
    assert study.batch(1, sign) == []
    (trial,) = study.optuna.trials
    assert trial.state == optuna.trial.TrialState.FAIL
    assert "died 3 times" in trial.user_attrs["reason"]


def test_what_was_settled_and_not_told_is_told_by_whoever_comes_next(tmp_path: Path) -> None:
    study = opened(tmp_path, n_trials=1)
    assert study.evaluations.settle(begun(study), Outcome((5.0,)))  # and its process dies
    assert searched(opened(tmp_path, n_trials=1), Program(bowl)).optuna.best_value == 5.0


def test_a_trial_that_was_asked_and_not_admitted_is_taken_up_with_its_values(tmp_path: Path) -> None:
    study = opened(tmp_path)
    values = study.space.suggest(study.optuna.ask())  # and its process dies
    one = begun(opened(tmp_path))
    assert (one.trial, one.overrides) == (0, study.space.overrides(values))


def test_a_process_lives_while_it_is_there_and_not_silent() -> None:
    here = Process("elsewhere", 1, "1")
    assert here.lives(5, 10)
    assert not here.lives(15, 10)
    assert Evaluations  # the table is made with the storage
