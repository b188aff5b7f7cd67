"""A study: trials that follow from its seed, duplicates, failures, and trials of processes that died."""

import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import optuna
import pytest
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException

from hydra_plugins.optuna_sweeper.sweeper import OptunaSweeperConf
from optuna_sweeper.loop import SearchLoop
from optuna_sweeper.open_study import FORMAT, check_study, default_subject, open_study
from optuna_sweeper.samplers import CLASSES, check_sampler, seed_of
from optuna_sweeper.settings import SearchSettings
from optuna_sweeper.signatures import Signature
from optuna_sweeper.space import read_space
from optuna_sweeper.storage import check_url, open_storage
from optuna_sweeper.study import ATTEMPTS, SharedStudy, Sign, StudyPlan
from optuna_sweeper.trials import EVALUATION, Evaluation, TrialOutcome, evaluations
from ragsweep.core.locks import Holder, myself
from support import nightly
from test_space import KINDS


def completed(value: Any) -> JobReturn:
    job = JobReturn()
    job.status, job.return_value = JobStatus.COMPLETED, value
    if isinstance(value, Exception):
        job.status = JobStatus.FAILED
    return job


class Program:
    """Evaluate overrides by a function of their values, and list the jobs: number and overrides."""

    def __init__(self, evaluate: Callable[[dict[str, str]], Any]) -> None:
        self.evaluate = evaluate
        self.jobs: list[tuple[int, tuple[str, ...]]] = []

    def launch(self, jobs: Sequence[Evaluation], until: int | None = None) -> Sequence[JobReturn]:
        self.jobs += [(trial.job, trial.overrides) for trial in jobs]
        return [completed(self._result(trial.overrides)) for trial in jobs]

    def _result(self, job: Sequence[str]) -> Any:
        try:
            return self.evaluate(dict(line.split("=", 1) for line in job))
        except Exception as fault:
            return fault


SPACE: dict[str, Any] = {"kind": "a,b", "x": "interval(0,4)", "y": {"over": "range(0,50)", "when": "kind=b"}}


def bowl(values: dict[str, str]) -> float:
    return (float(values.get("x", 1)) - 2) ** 2 + int(values.get("y", 9)) / 10


def open_in(
    folder: Path | None, params: Any = SPACE, sampler: str = "tpe", n_trials: int = 8, first: Any = (), **more: Any
) -> SharedStudy:
    directions, typed = more.pop("directions", ("minimize",)), more.pop("typed", ())
    plan = StudyPlan(more.pop("name", "s"), directions, "t", {"name": sampler, "seed": 3}, n_trials, first, **more)
    storage = open_storage(f"sqlite:///{folder / 'study.db'}" if folder else None)
    return open_study(plan, read_space(typed, params), storage)


def sign(overrides: Sequence[str]) -> Signature:
    return Signature(" ".join(sorted(overrides)))


def values(**changes: Any) -> dict[str, Any]:
    defaults = {key: value for key, value in vars(OptunaSweeperConf()).items() if key not in ("_target_", "defaults")}
    return {**defaults, "sampler": {"name": "grid"}, **changes}


def settings(**changes: Any) -> SearchSettings:
    return SearchSettings.read(values(**changes))


def search(study: SharedStudy, program: Program, sign: Sign = sign, **changes: Any) -> SharedStudy:
    SearchLoop(study, program.launch, sign, settings(**changes)).run()
    return study


@pytest.mark.parametrize(
    "sampler",
    [pytest.param(name, marks=() if name == "tpe" else pytest.mark.nightly) for name in (*CLASSES, "grid")],
)
def test_a_resumed_study_has_the_trials_of_one_that_was_not_stopped(tmp_path: Path, sampler: str) -> None:
    params = {"x": "range(0,40)", "y": "range(0,50)"} if sampler in ("grid", "brute_force") else SPACE
    whole, begun, resumed = Program(bowl), Program(bowl), Program(bowl)
    (tmp_path / "whole").mkdir()
    search(open_in(tmp_path / "whole", params, sampler, 9), whole)
    search(open_in(tmp_path, params, sampler, 4), begun)
    search(open_in(tmp_path, params, sampler, 9), resumed)
    assert begun.jobs + resumed.jobs == whole.jobs
    assert len({job for _, job in whole.jobs}) == 9  # and no draw is repeated


def test_seeds_differ_between_trials_and_between_studies() -> None:
    assert len({seed_of(study, trial) for study in range(10) for trial in range(100)}) == 1000


def test_no_config_is_evaluated_twice_and_a_space_without_more_ends_the_search() -> None:
    program = Program(lambda values: float(values["x"]))
    study = search(open_in(None, {"x": "1,2,3"}, "random", 10), program)
    assert sorted(job for _, job in program.jobs) == [("x=1",), ("x=2",), ("x=3",)]
    assert study.count_charged() == 3
    twins = [trial for trial in study.optuna.trials if "duplicate_of" in trial.user_attrs]
    for trial in twins:  # told what is known of the same config
        assert trial.value == float(trial.params["x"])


def test_a_grid_goes_through_all_points_in_order() -> None:
    program = Program(lambda values: 1.0)
    search(open_in(None, KINDS, "grid", 50), program)
    assert [job for _, job in program.jobs] == [
        ("kind=plain",), ("kind=convex", "alpha=0.0"), ("kind=convex", "alpha=0.5"), ("kind=rrf", "k=20"),
        ("kind=rrf", "k=60"), ("kind=rrf", "k=80"),
    ]  # fmt: skip


def test_enqueued_configs_come_first_and_the_sampler_gets_their_values() -> None:
    first = (((), {"kind": "a", "x": 1.0}), (("x=3.5",), {"x": 3.5}))
    program = Program(bowl)
    study = search(open_in(None, n_trials=4, first=first), program)
    assert [job for _, job in program.jobs][:2] == [(), ("x=3.5",)]
    assert [trial.params for trial in study.optuna.trials[:2]] == [{"kind": "a", "x": 1.0}, {"x": 3.5}]


def test_null_of_a_space_of_ones_own_is_null() -> None:
    program = Program(lambda values: float(values["x"]))
    own: dict[str, Any] = {"extend": lambda trial: trial.suggest_categorical("budget", [None, 400])}
    search(open_in(None, {"x": "1,2"}, n_trials=4, **own), program)
    assert {lines for _, lines in program.jobs} == {
        (f"x={x}", f"budget={budget}") for x in (1, 2) for budget in ("null", 400)
    }


def test_jobs_of_batches_have_consecutive_numbers() -> None:
    program = Program(bowl)
    search(open_in(None, n_trials=7), program, n_jobs=3)
    assert [number for number, _ in program.jobs] == list(range(7))


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "high", True, [1.0, 2.0], ValueError("broke")])
def test_result_that_is_no_number_is_a_failure_with_a_reason_and_no_value(value: Any) -> None:
    def answer(values: dict[str, str]) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    study = search(open_in(None, n_trials=2), Program(answer), max_failure_rate=1.0)
    assert [trial.state for trial in study.optuna.trials] == [optuna.trial.TrialState.FAIL] * 2
    assert all(trial.values is None and trial.user_attrs["reason"] for trial in study.optuna.trials)
    assert study.optuna.best_trials == []


def test_too_many_failures_stop_the_search_with_the_reasons_counted() -> None:
    program = Program(lambda values: 1.0 / 0)
    with pytest.raises(HydraException, match=r"3 of 10 trials failed, .*=0\.2 allows: 3 x ZeroDivisionError"):
        search(open_in(None, n_trials=10), program, max_failure_rate=0.2)
    assert len(program.jobs) == 3


@pytest.mark.parametrize("returned", [1.0, {"values": 1.0, "measured": [3]}])
def test_constraint_on_an_unmeasured_value_is_a_failure(returned: Any) -> None:
    program = Program(lambda values: returned)
    study = search(open_in(None, n_trials=1), program, max_failure_rate=1.0, constraints=["latency <= 300"])
    assert "latency" in study.optuna.trials[0].user_attrs["reason"]


def test_uncharged_job_does_not_count_as_a_trial() -> None:
    program = Program(lambda values: {"values": 1.0, "charged": float(values["x"]) > 2})
    study = search(open_in(None, {"x": "range(0,6)"}, "grid", 3), program)
    assert [job for _, job in program.jobs] == [(f"x={x}",) for x in range(6)]
    assert study.count_charged() == 3


def test_config_that_cannot_be_composed_is_not_launched() -> None:
    def refuse(overrides: Sequence[str]) -> Signature:
        return sign(overrides)._replace(fault="no such key" if overrides == ("x=1",) else "")

    program = Program(bowl)
    study = search(open_in(None, {"x": "1,2"}, "grid", 2), program, max_failure_rate=1.0, sign=refuse)
    assert [job for _, job in program.jobs] == [("x=2",)]
    assert study.optuna.trials[0].user_attrs["reason"] == "no such key"


def test_config_that_kills_its_launcher_fails_after_some_attempts_and_the_others_are_evaluated() -> None:
    program, study = Program(bowl), open_in(None, {"x": "range(0,6)"}, "grid", 6)

    def launch(jobs: Sequence[Evaluation], until: int | None) -> Sequence[JobReturn]:
        returned = program.launch(jobs)
        if ("x=2",) in [trial.overrides for trial in jobs]:
            raise RuntimeError("a worker died")
        return returned

    SearchLoop(study, launch, sign, settings(n_jobs=3, max_failure_rate=1)).run()
    begun = [job for _, job in program.jobs]
    assert begun.count(("x=2",)) == ATTEMPTS
    states = {trial.params["x"]: trial.state.name for trial in evaluations(study.trials()).values()}
    assert states == {x: "FAIL" if x == 2 else "COMPLETE" for x in range(6)}
    assert study.outcomes()[2].reason.startswith(f"its process died {ATTEMPTS} times")


def test_study_is_continued_only_with_the_same_space(tmp_path: Path) -> None:
    open_in(tmp_path)
    with pytest.raises(HydraException, match=r'study "s" belongs to another search \(with another space: kind, x, y'):
        open_in(tmp_path, {"x": "1,2"})


def test_a_study_without_a_subject_has_that_of_its_fixed_overrides(tmp_path: Path) -> None:
    url, loader, space = f"sqlite:///{tmp_path / 'study.db'}", cast(Any, None), read_space(["z=1"], SPACE)
    plan = StudyPlan("s", ("minimize",), default_subject(space), {"name": "tpe", "seed": 3}, 8, ())
    open_study(plan, space, open_storage(url))
    check_study(values(storage=url, study_name="s", params=SPACE), ["z=1"], loader)
    with pytest.raises(HydraException, match="belongs to another search"):
        check_study(values(storage=url, study_name="s", params=SPACE), ["z=2"], loader)


def test_a_study_is_found_under_any_title_and_shows_objectives_by_name(tmp_path: Path) -> None:
    named = {"directions": ("minimize", "maximize"), "objectives": ("p95", "recall")}
    open_in(tmp_path, name="ragsweep-12345678")
    begun = open_in(tmp_path, name="hybrid_tpe-87654321", suffix="-87654321", **named)
    again = open_in(tmp_path, name="mine: hybrid_tpe-87654321", suffix="-87654321", **named)
    old = open_in(tmp_path, name="hybrid_tpe-12345678", suffix="-12345678", objectives=("recall",))
    first = "hybrid_tpe-87654321"
    assert [study.optuna.study_name for study in (begun, again, old)] == [first, first, "ragsweep-12345678"]
    assert (again.plan.name, again.optuna.metric_names) == (first, ["p95", "recall"])
    assert old.optuna.metric_names == ["recall"]


def test_names_of_objectives_are_as_many_as_directions() -> None:
    assert settings(objectives="recall").objectives == ("recall",)
    assert settings(objectives=["recall", "cost"], direction=["maximize", "minimize"]).objectives == ("recall", "cost")
    with pytest.raises(HydraException, match=r"objectives: must have one name per direction \(1\), got 2"):
        settings(objectives=["recall", "cost"])


def test_a_trial_has_the_attributes_of_its_job_also_where_that_failed() -> None:
    def evaluate(values: dict[str, str]) -> float:
        return 1 / (int(values["x"]) - 2)

    study = open_in(None, {"x": "1,2,3"}, "grid", 3, attributes=lambda job: {"run": f"of {job}"})
    search(study, Program(evaluate), max_failure_rate=1.0)
    states = {trial.user_attrs["run"]: trial.state.name for trial in study.trials()}
    assert states == {"of 0": "COMPLETE", "of 1": "FAIL", "of 2": "COMPLETE"}


@pytest.mark.parametrize(
    ("settings", "objectives", "constraints", "message"),
    [
        ({"name": "tpee"}, 1, 0, "unknown sampler 'tpee'; known: tpe, gp"),
        ({"name": "cmaes"}, 2, 0, "supports only one objective"),
        ({"name": "cmaes"}, 1, 1, "supports no constraints"),
        ({"name": "tpe", "seed": "x"}, 1, 0, "seed: must be a whole number"),
        ({"name": "qmc", "qmc_type": "x"}, 1, 0, "sampler: QMCSampler: The `qmc_type='x'` is invalid"),
    ],
)
def test_sampler_without_a_feature_is_refused(settings: Any, objectives: int, constraints: int, message: str) -> None:
    with pytest.raises(HydraException, match=message):
        check_sampler(settings, objectives, constraints)


def test_a_study_of_another_version_is_refused(tmp_path: Path) -> None:
    open_in(tmp_path).optuna.set_user_attr("format", FORMAT + 1)
    with pytest.raises(
        HydraException, match=f"was created by another version of optuna_sweeper \\(format {FORMAT + 1}"
    ):
        open_in(tmp_path)


@pytest.mark.parametrize("url", ["journal.log", "study.db", "redis://host", "mysql://user:word@host/db"])
def test_a_storage_that_could_lose_trials_is_refused_and_named_without_its_password(url: str) -> None:
    shown = url.replace("user:word", "***")
    with pytest.raises(HydraException, match=f"got '{re.escape(shown)}'; journal files"):
        check_url(url)


def begin(study: SharedStudy) -> Evaluation:
    (one,) = study.batch(1, sign)
    return one


def kill(one: Evaluation) -> None:
    """Make the owner of a trial a process that does not live."""
    one.trial.set_user_attr(EVALUATION, one.trial.user_attrs[EVALUATION] | {"owner": [myself().host, 1, "before"]})


def test_a_trial_of_a_dead_process_is_evaluated_again_and_its_late_result_refused(tmp_path: Path) -> None:
    study = open_in(tmp_path)
    one = begin(study)
    kill(one)
    again = begin(open_in(tmp_path))
    assert (again.job, again.overrides, again.attempt) == (one.job, one.overrides, one.attempt + 1)
    assert not study.finish(one, TrialOutcome((99.0,)))
    assert study.finish(again, TrialOutcome((1.0,)))
    assert not study.finish(again, TrialOutcome((2.0,)))
    assert [outcome.values for outcome in study.outcomes()] == [(1.0,)]


@pytest.mark.parametrize("sampler", ["tpe", nightly("qmc")])
def test_a_study_whose_processes_died_has_the_jobs_of_one_that_was_not_killed(tmp_path: Path, sampler: str) -> None:
    whole, killed = Program(bowl), Program(bowl)
    search(open_in(None, SPACE, sampler, 8), whole)
    for trials in (3, 5):
        search(open_in(tmp_path, SPACE, sampler, trials), killed)
        kill(begin(open_in(tmp_path, SPACE, sampler, 8)))
        open_in(tmp_path, SPACE, sampler, 8).optuna.ask()  # and another one died before it had written anything
    search(open_in(tmp_path, SPACE, sampler, 8), killed)
    assert sorted(killed.jobs) == sorted(whole.jobs)


def test_a_trial_whose_process_dies_again_and_again_fails(tmp_path: Path) -> None:
    for _ in range(ATTEMPTS):
        kill(begin(open_in(tmp_path, n_trials=1)))
    study = open_in(tmp_path, n_trials=1)
    assert study.batch(1, sign) == []
    (outcome,) = study.outcomes()
    assert "died 3 times" in outcome.reason
    assert not study.is_busy()


def test_trial_of_an_interrupted_process_does_not_count_as_an_attempt(tmp_path: Path) -> None:
    study = open_in(tmp_path, n_trials=1)
    one = begin(study)
    study.release(lost=False)
    assert study.is_busy()
    again = begin(open_in(tmp_path, n_trials=1))
    assert (again.job, again.overrides, again.attempt) == (one.job, one.overrides, 1)
    assert not study.finish(one, TrialOutcome((1.0,)))


def test_trials_of_a_batch_are_sorted_by_job_whatever_their_attempts(tmp_path: Path) -> None:
    study = open_in(tmp_path)
    first, _ = study.batch(2, sign)
    kill(first)
    assert begin(study).job == 0  # whose trial is now behind that of job 1
    study.release(lost=False)
    assert [evaluation.job for evaluation in study.batch(2, sign)] == [0, 1]


def test_enqueued_config_survives_a_process_that_dies_while_asking_for_it(tmp_path: Path) -> None:
    first = ((("x=3.5",), {"x": 3.5}),)
    study = open_in(tmp_path, first=first)
    ask = study.optuna.ask
    study.optuna.ask = lambda: ask() and None  # and its process dies
    assert study.batch(1, sign) == []
    assert begin(open_in(tmp_path, first=first)).overrides == ("x=3.5",)


def test_a_silent_process_counts_as_dead_wherever_it_is(tmp_path: Path) -> None:
    study = open_in(tmp_path, lapse=10)
    one = begin(study)
    elsewhere = Holder("elsewhere", 1, "1")
    one.trial.set_user_attr(EVALUATION, one.trial.user_attrs[EVALUATION] | {"owner": [*elsewhere]})
    for silent, expected in ((5, 0), (15, 1)):
        study.optuna.set_user_attr("heartbeat elsewhere 1 1", time.time() - silent)
        assert [each.attempt for each in open_in(tmp_path, n_trials=1, lapse=10).batch(1, sign)] == [2] * expected


def test_a_heartbeat_is_written_while_a_process_works_and_ends_with_it(tmp_path: Path) -> None:
    study = open_in(tmp_path, lapse=0.3)
    beats: set[float] = set()
    begin(study)
    end = time.monotonic() + 20
    while len(beats) < 3 and time.monotonic() < end:
        beats.add(next(value for key, value in study.optuna.user_attrs.items() if key.startswith("heartbeat")))
    study.claims.stop()
    assert len(beats) == 3
    last = study.optuna.user_attrs
    time.sleep(0.2)
    assert study.optuna.user_attrs == last


def test_file_that_is_no_database_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("not a database " * 100)
    with pytest.raises(
        HydraException, match=r"cannot use sqlite:///.*study\.db: file is not a database; correct the URL"
    ):
        open_in(tmp_path)


@pytest.mark.parametrize("name", ["100%", "p%41", "a %20b", "a?b", "a#b é {c}"])
def test_a_study_is_kept_in_a_folder_of_any_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    for known in ([], ["mine"]):
        storage = open_storage("sqlite:///study.db")
        assert optuna.get_all_study_names(storage.optuna) == known
        optuna.create_study(study_name="mine", storage=storage.optuna, load_if_exists=True)
        storage.close()
    assert list(tmp_path.iterdir()) == [folder]
    assert {path.name for path in folder.iterdir()} <= {"study.db", "study.db.lock", "study.db-wal", "study.db-shm"}
