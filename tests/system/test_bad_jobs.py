"""A job that dies takes only itself: the others are kept, and it is said what became of it."""

import importlib.util
import re
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ragsweep.core.results import Failure, Result
from ragsweep.records.ledger import Ledger
from support import nightly
from support.commands import RUN, Finished, call, runs, write_dataset, write_option
from support.servers.studies import stored_trials
from test_races import data as many_questions

pytestmark = pytest.mark.slow

SAID = {
    "raises": "ValueError: no luck today",
    "exits": "SystemExit: 3",
    "killed": "its process died 3 times: it was killed, or ran out of memory",
    "hangs": "TimeoutError: not finished within ",
    "memory": "MemoryError: Unable to allocate",
}
LAUNCHERS = {
    "inline": [],
    "basic": ["hydra/launcher=basic"],
    "joblib": ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"],
    "submitit_local": ["hydra/launcher=submitit_local"],
    "ray": ["hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=2", "+hydra.launcher.ray.remote.max_retries=0"],
}
PLUGINS = {"joblib": "hydra_joblib_launcher", "submitit_local": "hydra_submitit_launcher", "ray": "hydra_ray_launcher"}


def sweep(folder: Path, fates: list[str], *more: str) -> Finished:
    return run_fateful(folder, "-m", f"+retriever.fate={','.join(fates)}", *more)


def run_fateful(folder: Path, *words: str) -> Finished:
    write_option(folder / "conf", "retriever/fateful", "_target_: support.parts.Fateful\n")
    return run(folder, *write_dataset(folder)[:-1], "retriever=fateful", *words)


def run(folder: Path, *overrides: str) -> Finished:
    tracking = [] if "tracking=mlflow" in overrides else ["tracking=none"]
    trusted = {"PYTHONPATH": str(Path(__file__).parents[1]), "RAGSWEEP_TRUSTED_PACKAGES": "support"}
    return call(folder, RUN, *overrides, *tracking, **trusted)


def outcomes(folder: Path) -> dict[str, Result | Failure]:
    ledger = Ledger(folder / ".ragsweep")
    (only,) = ledger.sweeps()
    return {record.outcome.name: record.outcome for record in ledger.records(only.id)}


def until_it_survives(folder: Path, fates: list[str], *more: str) -> Finished:
    """Repeat a sweep while it dies with its job, as it does under a launcher without processes of its own."""
    while (done := sweep(folder, fates, *more)).returncode == -9:
        pass
    return done


def check(found: Mapping[str, Result | Failure], fates: Sequence[str]) -> None:
    """Every outcome is as fate has it."""
    for fate in fates:
        outcome = found[f"fate={fate}"]
        if fate in SAID:
            assert isinstance(outcome, Failure), fate
            assert outcome.error.startswith(SAID[fate])
        else:
            assert isinstance(outcome, Result), fate


@pytest.mark.nightly
def test_config_that_kills_its_process_late_in_a_race_takes_only_itself_with_it(tmp_path: Path) -> None:
    metrics = "defaults: [/metrics/answers@_global_.metrics, _self_]\n"
    write_option(
        tmp_path / "conf", "llm/mortal", f"{metrics}_target_: support.parts.Mortal\nname: one\ndies: two\nlives: 40\n"
    )
    lives = ["llm=mortal", "llm.name=one,two,three", "objective=token_f1"]
    race = ["hydra/sweeper/race=betting", "hydra.sweeper.race.block=8"]
    lines = ["retriever=bm25", "depth=4", "top_k=2", "~metrics.semantic_similarity", "targets=none"]
    done = run(tmp_path, "-m", *many_questions(tmp_path), *lines, *lives, *race, *LAUNCHERS["joblib"])
    assert done.returncode == 1, done.stdout + done.stderr
    found = outcomes(tmp_path)
    assert [type(found[f"name={name}"]) for name in ("one", "two", "three")] == [Result, Failure, Result]
    (failure,) = (one for one in found.values() if isinstance(one, Failure))
    assert failure.error.startswith(SAID["killed"])


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["inline", "joblib"])
def test_study_ledger_and_mlflow_agree_on_trials_that_end_badly(launcher: str, tmp_path: Path) -> None:
    fates = ["one", "raises", "two", "exits", "killed", "memory", "three"]
    search = ["hydra/sweeper=optuna", "hydra/sweeper/sampler=grid", "hydra.sweeper.default=false", "tracking=mlflow",
              "hydra.sweeper.n_trials=7", "hydra.sweeper.max_failure_rate=1", "hydra.sweeper.plots=false"]  # fmt: skip
    done = until_it_survives(tmp_path, fates, *search, *LAUNCHERS[launcher])
    assert done.returncode == 1, done.stdout + done.stderr
    found = outcomes(tmp_path)
    check(found, fates)
    states = {job: one.state for job, one in stored_trials(tmp_path / "study.db").items()}
    children = {run.data.tags["ragsweep.job"]: run.info.status for run in runs(tmp_path, "config")}
    assert len(found) == len(fates)
    assert sorted(states) == sorted(map(int, children)) == list(range(7))
    assert sorted(states.values()) == ["COMPLETE"] * 3 + ["FAIL"] * 4
    assert sorted(children.values()) == ["FAILED"] * 4 + ["FINISHED"] * 3
    assert {states[int(job)] for job, status in children.items() if status == "FAILED"} == {"FAIL"}
    (parent,) = runs(tmp_path, "sweep")
    assert parent.info.status == "FAILED"


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_bad_jobs_take_only_themselves_with_them(launcher: str, tmp_path: Path) -> None:
    if launcher in PLUGINS and importlib.util.find_spec(f"hydra_plugins.{PLUGINS[launcher]}") is None:
        pytest.skip(f"{PLUGINS[launcher]} is not installed")
    fates = [f"good{n}" for n in range(14)]
    for place, fate in ((3, "raises"), (7, "killed"), (8, "exits"), (13, "memory"), (16, "hangs")):
        fates.insert(place, fate)
    limit = 3 if launcher == "inline" else 45
    done = until_it_survives(tmp_path, fates, f"timeout={limit}", *LAUNCHERS[launcher])
    assert done.returncode == 1, done.stderr
    found = outcomes(tmp_path)
    check(found, fates)
    for failure in (one for one in found.values() if isinstance(one, Failure)):
        assert f" {failure.name} · {failure.error}" in done.stdout
        assert "no luck" not in failure.error or "support/parts.py" in failure.traceback


@pytest.mark.parametrize("fate", ["raises", nightly("unwritten")])
@pytest.mark.parametrize("logged", [True, False])
def test_an_unexpected_error_of_a_single_config_names_its_place_and_a_log_that_has_the_traceback(
    fate: str, logged: bool, tmp_path: Path
) -> None:
    silent = [] if logged else ["hydra/job_logging=disabled"]
    done = run_fateful(tmp_path, f"+retriever.fate={fate}", *silent)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert re.search(r"^ragsweep: (ValueError: no luck today|IntegrityError: no room for it) \(\w+\.py:\d+\)", said)
    if not logged:
        assert "Traceback" in done.stderr
        return
    assert "Traceback" not in done.stderr
    (log,) = tmp_path.rglob("ragsweep.log")
    assert said.endswith(f"; the traceback is in {log}")
    assert log.read_text().count("Traceback") == 1


def test_sweep_stops_after_so_many_failures(tmp_path: Path) -> None:
    done = sweep(tmp_path, ["raises", "exits", "one", "two"], "max_failures=2")
    assert done.returncode == 1
    assert "not run, because the limit max_failures=2 is reached" in done.stdout
    assert {name for name, outcome in outcomes(tmp_path).items() if isinstance(outcome, Result)} == set()


@pytest.mark.nightly
def test_job_that_cannot_be_written_down_ends_the_sweep_and_is_run_again_by_the_next(tmp_path: Path) -> None:
    done = sweep(tmp_path, ["one", "unwritten"])
    assert done.returncode == 1
    assert "fate=unwritten · did not complete: IntegrityError: no room for it" in done.stdout
    assert set(outcomes(tmp_path)) == {"fate=one"}
    with sqlite3.connect(tmp_path / ".ragsweep" / "ledger.db") as connection:
        connection.execute("DROP TRIGGER full")
        assert connection.execute("SELECT count(*) FROM claims").fetchone() == (0,)
    connection.close()
