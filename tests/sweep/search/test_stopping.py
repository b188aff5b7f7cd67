"""What a search is for and when it ends before it has all of its trials: for any program, whatever it measures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hypothesis import given
from hypothesis import strategies as some

from hydra_plugins.ragsweep_optuna.config import OptunaSweeperConf
from ragsweep.sweep.search import plots
from ragsweep.sweep.search.loop import SearchLoop
from ragsweep.sweep.search.settings import SearchSettings
from ragsweep.sweep.search.space import read_space
from ragsweep.sweep.search.stopping import StopRule, read_stop
from ragsweep.sweep.search.storage import open_storage
from ragsweep.sweep.search.study import SharedStudy, StudyPlan, open_study
from ragsweep.sweep.search.summary import (
    objective_names,
    optimization_results,
    read_summary,
    summarise,
    write_summary,
)
from ragsweep.sweep.search.trials import TrialOutcome, read_constraints, read_outcome

# --- when to stop ----------------------------------------------------------------------------------------------


def values(*numbers: float) -> list[TrialOutcome]:
    return [TrialOutcome((number,)) for number in numbers]


UP, BOTH = ("maximize",), ("maximize", "minimize")


def stops(
    setting: dict[str, Any], done: Sequence[TrialOutcome], directions: Sequence[str] = UP, elapsed: float = 0
) -> str:
    return read_stop(setting, len(directions)).why(done, directions, elapsed)


def test_patience_counts_evaluations_without_an_improvement_over_all_before() -> None:
    assert not stops({"patience": 3}, values(1, 1, 1))  # nothing lies before the last three
    assert stops({"patience": 3}, values(1, 1, 1, 1))
    assert not stops({"patience": 3}, values(1, 1, 1.1, 1))
    assert stops({"patience": 3, "by": 0.2}, values(1, 1, 1.1, 1))
    assert not stops({"patience": 3, "by": 0.2}, values(1, 1.1, 1.2, 1.3))  # small steps add up
    assert not stops({"patience": 1}, values(2, 1), ("minimize",))


def test_a_failure_and_what_breaks_a_constraint_improve_nothing() -> None:
    broken = TrialOutcome((9.0,), violations=(("latency <= 1", 3.0),))
    assert stops({"patience": 2}, [*values(1), broken, TrialOutcome(reason="broke")])
    assert not stops({"patience": 1}, [broken, broken])  # nothing was found yet that could be improved on


def test_with_several_objectives_a_new_member_of_the_front_is_an_improvement() -> None:
    first = [TrialOutcome((0.8, 90.0)), TrialOutcome((0.5, 10.0))]
    assert stops({"patience": 1}, [*first, TrialOutcome((0.5, 10.0))], BOTH)
    assert stops({"patience": 1}, [*first, TrialOutcome((0.7, 95.0))], BOTH)
    assert not stops({"patience": 1}, [*first, TrialOutcome((0.6, 50.0))], BOTH)
    assert stops({"patience": 1, "by": [0.2, 5.0]}, [*first, TrialOutcome((0.6, 8.0))], BOTH)


def test_without_a_margin_it_is_what_the_jobs_say_that_their_data_could_show() -> None:
    told = [TrialOutcome((value,), differences=(0.3,)) for value in (1.0, 1.2)]
    assert "by more than 0.3" in stops({"patience": 1}, told)
    unknown = [TrialOutcome((value,), differences=(math.nan,)) for value in (1.0, 1.2)]
    assert not stops({"patience": 1}, unknown)
    assert not stops({"patience": 1, "by": 0.1}, told)


def test_time_and_budget_end_a_search() -> None:
    assert "seconds=60" in stops({"seconds": 60}, [], elapsed=60)
    assert not stops({"seconds": 60}, [], elapsed=59)
    spent = [TrialOutcome((1.0,), cost=(("calls", 3.0),)), TrialOutcome(reason="broke", cost=(("calls", 4.0),))]
    assert "stop.budget.calls=7, used 7" in stops({"budget": {"calls": 7}}, spent)
    assert not stops({"budget": {"calls": 8, "money": 0.1}}, spent)
    assert "stop.budget=2, used 2" in stops({"budget": 2}, [TrialOutcome((1.0,), cost=(("", 2.0),))])


@given(some.lists(some.floats(-1, 1), min_size=1, max_size=12), some.integers(1, 5), some.floats(0, 0.5))
def test_a_search_that_would_stop_with_a_margin_stops_with_any_larger_one(
    numbers: list[float], patience: int, by: float
) -> None:
    if stops({"patience": patience, "by": by}, values(*numbers)):
        assert stops({"patience": patience, "by": by + 0.1}, values(*numbers))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"second": 3}, "stop.second: there is no such key; known: seconds, patience, by, budget"),
        ({"seconds": 0}, "stop.seconds: must be a number above 0"),
        ({"patience": 0}, "stop.patience: must be a whole number of at least 1"),
        ({"patience": 1.5}, "stop.patience: must be a whole number"),
        ({"by": 0.1}, "needs hydra.sweeper.stop.patience"),
        ({"patience": 2, "by": [0.1, 0.2]}, "2 numbers for 1 objectives"),
        ({"budget": {"calls": "many"}}, r"stop.budget.calls: must be a number of at least 0"),
        (3, "must be a mapping"),
    ],
)
def test_a_stop_that_means_nothing_is_refused(setting: Any, said: str) -> None:
    with pytest.raises(HydraException, match=said):
        read_stop(setting, 1)


# --- what jobs return ------------------------------------------------------------------------------------------


def returned(value: Any, objectives: int = 1) -> TrialOutcome:
    job = JobReturn()
    job.status, job.return_value = JobStatus.COMPLETED, value
    return read_outcome(job, objectives, ())


def test_a_job_says_what_it_cost_and_what_its_data_could_show() -> None:
    found = returned({"values": 1, "cost": {"calls": 3, "money": 0.0}, "differences": [0.1]})
    assert (found.values, found.cost, found.differences) == ((1.0,), (("calls", 3.0),), (0.1,))
    assert returned({"values": 1, "cost": 2}).cost == (("", 2.0),)


def test_any_objective_that_is_no_number_fails_the_trial_with_the_jobs_own_reason() -> None:
    told = returned({"values": [1.0, None], "reason": "latency_p95_ms was not measured", "cost": 5}, 2)
    assert (told.values, told.reason) == ((), "latency_p95_ms was not measured")
    assert told.cost == (("", 5.0),)
    assert "for objective 2, which is no number" in returned([1.0, math.nan], 2).reason


# --- searches --------------------------------------------------------------------------------------------------


class Program:
    """Answers overrides by a function of their values, and counts what it was asked."""

    def __init__(self, answer: Callable[[float], Any]) -> None:
        self.answer, self.asked = answer, 0

    def launch(self, jobs: list[list[str]], first: int) -> Sequence[JobReturn]:
        made = []
        for job in jobs:
            self.asked += 1
            one = JobReturn()
            one.status, one.return_value = JobStatus.COMPLETED, self.answer(float(job[0].partition("=")[2]))
            made.append(one)
        return made


def opened(folder: Path, directions: tuple[str, ...] = UP, n_trials: int = 12) -> SharedStudy:
    asked = StudyPlan("s", directions, "t", {"name": "grid"}, n_trials)
    return open_study(asked, read_space(["x=range(0,12)"], {}), open_storage(f"sqlite:///{folder / 'study.db'}"))


def run(study: SharedStudy, program: Program, stop: Any = None, bounds: Sequence[str] = ()) -> SharedStudy:
    directions = study.plan.directions
    SearchLoop(
        study, program.launch, lambda lines: (str(lines), ""), 1, 0.0, read_constraints(list(bounds)),
        read_stop(stop, len(directions)),
    ).run()  # fmt: skip
    return study


def test_a_search_that_was_ended_goes_on_only_when_the_setting_changes(tmp_path: Path) -> None:
    program = Program(lambda x: min(x, 3.0))
    study = run(opened(tmp_path), program, {"patience": 4})
    assert program.asked == 8  # 3 is reached by the fourth; four more bring nothing
    why = study.stopped(StopRule(patience=4).plain())
    assert "none of the last 4 evaluations is better than the best before" in why
    again = run(opened(tmp_path), program, {"patience": 4})
    assert (program.asked, again.stopped(StopRule(patience=4).plain())) == (8, why)
    run(opened(tmp_path), program, {"patience": 6})
    assert program.asked == 10
    run(opened(tmp_path), program)
    assert program.asked == 12


def test_a_budget_counts_what_was_spent_before_a_stop(tmp_path: Path) -> None:
    program = Program(lambda x: {"values": x, "cost": {"calls": 10}})
    run(opened(tmp_path), program, {"budget": {"calls": 30}})
    assert program.asked == 3
    run(opened(tmp_path), program, {"budget": {"calls": 50}})
    assert program.asked == 5


def settings(**changes: Any) -> SearchSettings:
    defaults = {key: value for key, value in vars(OptunaSweeperConf()).items() if key not in ("_target_", "defaults")}
    return SearchSettings.read({**defaults, "sampler": {"name": "grid"}, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"direction": "up"}, "direction: must be minimize, maximize or a list of these"),
        ({"n_trials": 0}, "n_trials: must be a whole number of at least 1"),
        ({"max_failure_rate": 2}, "max_failure_rate: must be a share from 0 to 1"),
        ({"storage": "journal.log"}, "journal file"),
        ({"constraints": ["latency < 3"]}, "constraints: must be NAME <= NUMBER or NAME >= NUMBER"),
        ({"enqueue": ["a=1"]}, "enqueue: must be lists of overrides"),
        ({"race": {"block": 3}}, "race: choose one with hydra/sweeper/race=NAME"),
    ],
)
def test_settings_out_of_range_are_refused_with_their_key(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(HydraException, match=said):
        settings(**changes)


def test_only_what_keeps_all_constraints_can_be_best_with_one_objective_and_with_several(tmp_path: Path) -> None:
    bounds = ["latency <= 50"]
    single = run(opened(tmp_path), Program(lambda x: {"values": x, "measured": {"latency": 10 * x}}), bounds=bounds)
    assert optimization_results(single.optuna) == {"name": "optuna", "best_params": {"x": 5}, "best_value": 5.0}
    several = open_study(
        StudyPlan("two", BOTH, "t", {"name": "grid"}, 12), read_space(["x=range(0,12)"], {}), single.storage
    )
    run(several, Program(lambda x: {"values": [x, x], "measured": {"latency": 60 - 10 * x}}), bounds=bounds)
    assert [one["params"]["x"] for one in optimization_results(several.optuna)["solutions"]] == list(range(1, 12))
    told = summarise(several, settings(direction=list(BOTH), constraints=bounds))
    assert [one["feasible"] for one in told["trials"]] == [False] + [True] * 11
    assert (told["trials"][0]["broken"], told["trials"][0]["best"]) == (["latency <= 50"], False)


def test_what_is_left_of_a_search_tells_jobs_trials_and_repetitions_apart(tmp_path: Path) -> None:
    asked = StudyPlan("s", UP, "t", {"name": "random", "seed": 1}, 3)
    study = open_study(asked, read_space(["x=1,2,3"], {}), open_storage(None))
    run(study, Program(lambda x: x))
    told = json.loads(json.dumps(summarise(study, settings(stop={"patience": 9}))))
    jobs = [one["job"] for one in told["trials"] if "job" in one]
    assert jobs == [0, 1, 2]
    assert told["states"]["COMPLETE"] == 3
    assert told["states"].get("REPEATED", 0) == len(told["trials"]) - 3
    assert all("duplicate_of" in one for one in told["trials"] if "job" not in one)
    assert (told["stop"], told["stopped"], told["sampler"]["name"]) == ({"patience": 9}, "", "random")
    write_summary(told, tmp_path / "new")
    summary = read_summary(tmp_path / "new")
    assert summary is not None
    assert (summary.states, list(summary.trials), summary.ended) == (told["states"], [0, 1, 2], True)


# --- pictures --------------------------------------------------------------------------------------------------


def test_pictures_are_drawn_twice_alike_and_one_that_cannot_be_is_left_out(tmp_path: Path) -> None:
    study = run(opened(tmp_path, BOTH), Program(lambda x: [x % 5, x]))
    first, second = (plots.draw(study.optuna, ("ndcg", "ms"), tmp_path / name) for name in "ab")
    assert first == second
    assert {"search_pareto_front.png", "search_importance.png", "search_history_ndcg.png"} <= set(first)
    assert not any(name.startswith("search_contour") for name in first)  # one parameter has no pairs
    for name in first:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert plots.draw(_empty(), ("ndcg",), tmp_path / "c") == []


def _empty() -> Any:
    import optuna

    return optuna.create_study()


def test_objectives_have_the_names_that_they_are_given_or_their_places() -> None:
    assert objective_names(("a", "b"), 2) == ("a", "b")
    assert objective_names((), 2) == ("objective 1", "objective 2")
    assert objective_names((), 1) == ("objective",)
