"""A search is a sweep whose jobs nobody knows beforehand: checked, planned, continued and shown like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.sweep.command import read_command
from ragsweep.sweep.search_command import trial_name
from studies import stored_trials
from test_cli import Ragsweep, environment, ragsweep, runs, write_dataset

__all__ = ["environment", "ragsweep"]

SEARCH = ["-m", "sweeps=hybrid_tpe", "chunker.size=800", "reranker=none", "hydra.sweeper.plots=false"]


def trials(folder: Path) -> list[tuple[int, str]]:
    found = stored_trials(folder / ".ragsweep" / "study.db")
    return [(job, str(one.facts["overrides"])) for job, one in found.items()]


def test_a_search_is_one_parent_with_a_child_a_trial_and_goes_on_with_the_same_command(
    ragsweep: Ragsweep, tmp_path: Path
) -> None:
    typed = [*SEARCH, *write_dataset(tmp_path)]
    done = ragsweep(*typed, "hydra.sweeper.n_trials=3")
    assert done.returncode == 0, done.stderr
    assert "3/3" in done.stdout
    assert "verdict" in done.stdout
    first = trials(tmp_path)
    assert len(first) == 3
    more = ragsweep(*typed, "hydra.sweeper.n_trials=4")
    assert more.returncode == 0, more.stderr
    assert "3 of 4 trials are done already" in more.stdout
    assert trials(tmp_path)[:3] == first
    (parent,) = runs(tmp_path, "sweep")
    assert parent.info.status == "FINISHED"
    assert {run.data.tags["ragsweep.job"] for run in runs(tmp_path, "config")} == {"0", "1", "2", "3"}
    again = ragsweep(*typed, "hydra.sweeper.n_trials=4")
    assert "is finished already" in again.stdout
    assert len(trials(tmp_path)) == 4


def test_the_plan_of_a_search_is_that_of_one_trial_and_runs_nothing(ragsweep: Ragsweep, tmp_path: Path) -> None:
    done = ragsweep(*SEARCH, *write_dataset(tmp_path), "plan=json")
    assert json.loads(done.stdout)["configs"] == 1
    assert not (tmp_path / ".ragsweep" / "study.db").exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["hydra.sweeper.direction=minimize"], "objective=context_ndcg is better when higher"),
        (["hydra.sweeper.constraints=['latency_p95 <= 800']"], 'no metric "latency_p95" is measured'),
        (["top_k=5,500"], "top_k=500 is more than depth=100"),
        (["reranker=none,late_interactoin"], "late_interaction"),
        (["retriever=bm25,vectr"], "vector"),
    ],
)
def test_what_cannot_work_is_said_before_the_first_trial(
    ragsweep: Ragsweep, tmp_path: Path, typed: list[str], said: str
) -> None:
    done = ragsweep(*SEARCH, *write_dataset(tmp_path), *typed)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / ".ragsweep" / "study.db").exists()


def test_a_named_sweep_chooses_its_sweeper_and_what_is_typed_wins() -> None:
    command = read_command(["sweeps=hybrid_tpe"], multirun=False)
    assert command.searching
    assert command.overrides[0] == "hydra/sweeper=optuna"
    assert command.jobs[0] == ("sweeps=hybrid_tpe",)
    with pytest.raises(ConfigError, match="n_trials"):  # which the grid has not
        read_command(["sweeps=hybrid_tpe", "hydra/sweeper=grid"], multirun=False)


@pytest.mark.parametrize(
    ("trial", "typed", "name"),
    [
        (["tracking.uri=sqlite\\:///a\\:b.db", "retriever.k=3"], "tracking.uri=sqlite:///a:b.db", "retriever.k=3"),
        (["dataset.path=c\\:/x", "retriever.k=3"], "dataset.path=c:/x", "retriever.k=3"),
        (["tracking.uri=sqlite\\:///x.db", "+store.path=y"], "other", "defaults"),
        (["dataset.path=c\\:/x"], "other", "dataset.path=c:/x"),
        (["plan=False", "~budget", "hydra/launcher=joblib", "top_k=3"], "", "top_k=3"),
    ],
)
def test_a_trial_is_named_by_what_it_changes_and_never_by_where_it_is_kept(
    trial: list[str], typed: str, name: str
) -> None:
    assert trial_name(tuple(trial), typed) == name


def test_a_config_is_not_named_by_operational_keys_unless_nothing_else_varies(tmp_path: Path) -> None:
    data = ["tracking.uri=sqlite:///x.db", "retriever=bm25", "store.path=x"]
    assert read_command([*data, "top_k=3,5"], True).names() == ["top_k=3", "top_k=5"]
    assert read_command(data, False).names() == ["retriever=bm25"]
    assert read_command([*data, "budget.calls=1,2"], True).names() == ["budget.calls=1", "budget.calls=2"]
