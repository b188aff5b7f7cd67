"""Searches that end before all trials are done, and the state that they leave, for any program and any metric."""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.errors import HydraException
from hypothesis import given
from hypothesis import strategies as some
from omegaconf import OmegaConf

from optuna_sweeper import plots
from optuna_sweeper.settings import StopRule, read_stop
from optuna_sweeper.summary import optimization_results, summarise, write_summary
from optuna_sweeper.trials import TrialOutcome, read_outcome
from ragsweep.sweep.searching.study_summary import read_summary, study_folder
from test_study import Program, completed, open_in, search, settings

TWELVE = {"x": "range(0,12)"}
UP, BOTH = ("maximize",), ("maximize", "minimize")


def values(*numbers: float) -> list[TrialOutcome]:
    return [TrialOutcome((number,)) for number in numbers]


def stops(
    setting: dict[str, Any], outcomes: Sequence[TrialOutcome], directions: Sequence[str] = UP, elapsed: float = 0
) -> str:
    return read_stop(setting, len(directions)).why(outcomes, directions, elapsed)


def test_patience_counts_evaluations_without_an_improvement_over_all_before() -> None:
    assert not stops({"patience": 3}, values(1, 1, 1))  # nothing lies before the last three
    assert stops({"patience": 3}, values(1, 1, 1, 1))
    assert not stops({"patience": 3}, values(1, 1, 1.1, 1))
    assert stops({"patience": 3, "by": 0.2}, values(1, 1, 1.1, 1))
    assert not stops({"patience": 3, "by": 0.2}, values(1, 1.1, 1.2, 1.3))  # small steps add up
    assert not stops({"patience": 1}, values(2, 1), ("minimize",))
    assert stops({"patience": 1}, values(1, 1)).startswith(
        "the last evaluation is not better than the best earlier one"
    )


def test_a_failure_and_what_breaks_a_constraint_improve_nothing() -> None:
    broken = TrialOutcome((9.0,), violations={"latency <= 1": 3.0})
    assert stops({"patience": 2}, [*values(1), broken, TrialOutcome(reason="broke")])
    assert not stops({"patience": 1}, [broken, broken])  # nothing was found yet that could be improved on


def test_with_several_objectives_a_new_member_of_the_front_is_an_improvement() -> None:
    first = [TrialOutcome((0.8, 90.0)), TrialOutcome((0.5, 10.0))]
    found = stops({"patience": 1}, [*first, TrialOutcome((0.5, 10.0))], BOTH)
    assert found.startswith("the last evaluation does not join the earlier Pareto front")
    assert stops({"patience": 1}, [*first, TrialOutcome((0.7, 95.0))], BOTH)
    assert not stops({"patience": 1}, [*first, TrialOutcome((0.6, 50.0))], BOTH)
    assert stops({"patience": 1, "by": [0.2, 5.0]}, [*first, TrialOutcome((0.6, 8.0))], BOTH)


def test_default_margin_is_the_smallest_difference_that_the_jobs_data_can_show() -> None:
    known = [TrialOutcome((value,), differences=(0.3,)) for value in (1.0, 1.2)]
    assert "by more than 0.3" in stops({"patience": 1}, known)
    unknown = [TrialOutcome((value,), differences=(math.nan,)) for value in (1.0, 1.2)]
    assert not stops({"patience": 1}, unknown)
    assert not stops({"patience": 1, "by": 0.1}, known)


def test_time_and_budget_end_a_search() -> None:
    assert "seconds=60" in stops({"seconds": 60}, [], elapsed=60)
    assert not stops({"seconds": 60}, [], elapsed=59)
    spent = [TrialOutcome((1.0,), cost={"calls": 3.0}), TrialOutcome(reason="broke", cost={"calls": 4.0})]
    assert "stop.budget.calls=7, used 7" in stops({"budget": {"calls": 7}}, spent)
    assert not stops({"budget": {"calls": 8, "money": 0.1}}, spent)
    assert "stop.budget=2, used 2" in stops({"budget": 2}, [TrialOutcome((1.0,), cost={"": 2.0})])


@given(some.lists(some.floats(-1, 1), min_size=1, max_size=12), some.integers(1, 5), some.floats(0, 0.5))
def test_a_search_that_stops_stops_with_any_larger_margin(numbers: list[float], patience: int, by: float) -> None:
    if stops({"patience": patience, "by": by}, values(*numbers)):
        assert stops({"patience": patience, "by": by + 0.1}, values(*numbers))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"second": 3}, "stop.second: unknown key; known: seconds, patience, by, budget"),
        ({"seconds": 0}, "stop.seconds: must be a finite number above 0"),
        ({"patience": 0}, "stop.patience: must be a whole number of at least 1"),
        ({"patience": 1.5}, "stop.patience: must be a whole number"),
        ({"by": 0.1}, "has no effect without hydra.sweeper.stop.patience"),
        ({"patience": 2, "by": [0.1, 0.2]}, r"stop.by: must have one number per objective \(1\), got 2"),
        ({"budget": {"calls": "many"}}, r"stop.budget.calls: must be a finite number of at least 0"),
        ({"budget": "many"}, r"stop.budget: must be a finite number of at least 0"),
        (3, "must be a mapping"),
    ],
)
def test_a_stop_that_means_nothing_is_refused(setting: Any, message: str) -> None:
    with pytest.raises(HydraException, match=message):
        read_stop(setting, 1)


def test_job_returns_its_cost_and_the_smallest_difference_its_data_can_show() -> None:
    outcome = read_outcome(completed({"values": 1, "cost": {"calls": 3, "money": 0.0}, "differences": [0.1]}), 1)
    assert (outcome.values, outcome.cost, outcome.differences) == ((1.0,), {"calls": 3.0}, (0.1,))


def test_objective_that_is_no_number_fails_the_trial_with_the_jobs_own_reason() -> None:
    returned = {"values": [1.0, None], "reason": "latency_p95_ms was not measured", "cost": 5}
    outcome = read_outcome(completed(returned), 2)
    assert (outcome.values, outcome.reason) == ((), "latency_p95_ms was not measured")
    assert outcome.cost == {"": 5.0}
    assert "for objective 2, which is not a number" in read_outcome(completed([1.0, math.nan]), 2).reason


@pytest.mark.nightly
def test_stopped_search_goes_on_only_under_another_rule(tmp_path: Path) -> None:
    program, rule = Program(lambda values: min(float(values["x"]), 3.0)), {"patience": 4}
    counts = [4 + 4, 4 + 4, 10, 12]  # 3 is reached by the fourth; four more bring nothing
    reasons = []
    for stop, count in zip((rule, rule, {"patience": 6}, None), counts, strict=True):
        study = search(open_in(tmp_path, TWELVE, "grid", 12, directions=UP), program, stop=stop)
        assert len(program.jobs) == count
        reasons.append(study.stop_reason(StopRule(patience=4).plain()))
    assert "none of the last 4 evaluations is better than the best earlier one" in reasons[0]
    assert reasons[1] == reasons[0]


def test_budget_counts_what_was_spent_before_a_stop(tmp_path: Path) -> None:
    program = Program(lambda values: {"values": 1, "cost": {"calls": 10}})
    for budget, jobs in ((30, 3), (50, 5)):
        search(open_in(tmp_path, TWELVE, "grid", 12), program, stop={"budget": {"calls": budget}})
        assert len(program.jobs) == jobs


def test_a_search_goes_on_while_the_share_of_failures_is_the_allowed_one() -> None:
    params, allowed = {"x": "range(0,100)"}, {"max_failure_rate": 0.29}
    study = search(open_in(None, params, "grid", 100), Program(lambda values: 1 / (int(values["x"]) // 29)), **allowed)
    assert sum(bool(outcome.reason) for outcome in study.outcomes()) == 29
    with pytest.raises(HydraException, match="30 of 100 trials failed, more than"):
        search(open_in(None, params, "grid", 100), Program(lambda values: 1 / (int(values["x"]) // 30)), **allowed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"direction": "up"}, "direction: must be minimize, maximize or a list of these"),
        ({"n_trials": 0}, "n_trials: must be a whole number of at least 1"),
        ({"max_failure_rate": 2}, "max_failure_rate: must be a share from 0 to 1"),
        ({"lapse": 0.0}, "lapse: must be a number of seconds above 0"),
        ({"storage": "journal.log"}, "journal file"),
        ({"storage": "sqlite://study.db"}, "must be null, sqlite:///FILE"),
        ({"constraints": ["latency < 3"]}, "constraints: must be NAME <= NUMBER or NAME >= NUMBER"),
        ({"enqueue": ["a=1"]}, "enqueue: must be a list of lists of overrides"),
        ({"enqueue": [["a=1"], ["a=1,2"]]}, r'enqueue\[1\]: "a=1,2" names several values'),
        ({"race": {"block": 3}}, "is not a race; choose one with hydra/sweeper/race=NAME"),
    ],
)
def test_settings_out_of_range_are_refused_with_their_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HydraException, match=message):
        settings(**changes)


def test_best_config_meets_all_constraints_with_one_objective_and_with_several() -> None:
    lines = ["latency <= 50"]
    program = Program(lambda values: {"values": float(values["x"]), "measured": {"latency": 10 * float(values["x"])}})
    single = search(open_in(None, TWELVE, "grid", 12, directions=UP), program, constraints=lines)
    assert optimization_results(single.optuna) == {"name": "optuna", "best_params": {"x": 5}, "best_value": 5.0}
    program = Program(lambda one: {"values": [float(one["x"])] * 2, "measured": {"latency": 60 - 10 * float(one["x"])}})
    several = search(open_in(None, TWELVE, "grid", 12, directions=BOTH), program, constraints=lines)
    assert [each["params"]["x"] for each in optimization_results(several.optuna)["solutions"]] == list(range(1, 12))
    trials = summarise(several, settings(direction=list(BOTH), constraints=lines))["trials"]
    assert [trial["feasible"] for trial in trials] == [False] + [True] * 11
    assert (trials[0]["broken"], trials[0]["best"]) == (lines, False)


def test_best_config_has_its_values_outside_of_the_space_too(tmp_path: Path) -> None:
    first = ((("seed=1", "x=-3", "note='a b'"), {}), (("seed=1", "x=4"), {"x": 4}))
    program = Program(lambda values: float(values["x"]))
    study = search(open_in(None, TWELVE, "grid", 2, first, typed=["seed=1"]), program)
    write_summary(study, settings(plots=False), tmp_path)
    written = OmegaConf.load(tmp_path / "optimization_results.yaml")
    assert written == {"name": "optuna", "best_params": {"x": -3, "note": "a b"}, "best_value": -3.0}


def test_best_config_has_the_values_of_its_choices_and_not_their_text() -> None:
    params = {"size": "choice(400)", "note": "choice('a b')", "exact": "choice(true)", "limit": "null,5"}
    study = search(open_in(None, params, "grid", 1), Program(lambda values: 1.0))
    best = {"size": 400, "note": "a b", "exact": True, "limit": None}
    assert optimization_results(study.optuna) == {"name": "optuna", "best_params": best, "best_value": 1.0}


def test_summary_tells_jobs_trials_and_duplicates_apart(tmp_path: Path) -> None:
    study = search(open_in(None, {"x": "1,2,3"}, "random", 3), Program(lambda values: float(values["x"])))
    given = settings(stop={"patience": 9}, folder=str(study_folder(tmp_path / "ledger.db", "id")), plots=False)
    write_summary(study, given, tmp_path)
    plain, summary = summarise(study, given), read_summary(tmp_path / "ledger.db", "id")
    assert [trial["job"] for trial in plain["trials"] if "job" in trial] == list(summary.trials) == [0, 1, 2]
    assert all("duplicate_of" in trial for trial in plain["trials"] if "job" not in trial)
    assert plain["states"]["COMPLETE"] == 3
    assert plain["states"].get("REPEATED", 0) == len(plain["trials"]) - 3
    assert (summary.stop, summary.stopped, summary.sampler) == ({"patience": 9}, "", "random")
    assert (summary.states, summary.ended) == (plain["states"], True)


def test_summary_does_not_count_a_trial_whose_process_died_before_it_began(tmp_path: Path) -> None:
    open_in(tmp_path, TWELVE, "random", 2).optuna.ask()
    study = search(open_in(tmp_path, TWELVE, "random", 2), Program(lambda values: float(values["x"])))
    plain = summarise(study, settings())
    assert plain["states"] == {"COMPLETE": 2}
    assert [trial["job"] for trial in plain["trials"]] == [0, 1]


@pytest.mark.nightly
def test_plots_of_numeric_choices_write_nothing_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    study = search(open_in(None, {"x": "1,2"}, "grid", 2), Program(lambda values: float(values["x"])))
    assert "search_slice.png" in plots.draw(study.optuna, ("ndcg",), tmp_path)
    assert [record.name for record in caplog.records] == []


@pytest.mark.nightly
def test_plots_are_the_same_each_time_and_undefined_ones_are_left_out(tmp_path: Path) -> None:
    program = Program(lambda values: [float(values["x"]) % 3, float(values["x"])])
    study = search(open_in(None, {"x": "range(0,6)"}, "grid", 6, directions=BOTH), program)
    first, second = (plots.draw(study.optuna, ("ndcg", "ms"), tmp_path / name) for name in "ab")
    assert first == second
    assert {"search_pareto_front.png", "search_importance.svg", "search_history_ndcg.png"} <= set(first)
    assert not any(name.startswith("search_contour") for name in first)  # one parameter has no pairs
    for name in first:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert plots.draw(open_in(None).optuna, ("ndcg",), tmp_path / "c") == []
