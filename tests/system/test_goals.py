"""What a search is for and what it leaves behind, as a user sees it: screen, ledger, MLflow."""

import json
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.records.ledger import Ledger
from ragsweep.sweep.searching.study_summary import read_summary
from ragsweep.sweep.sweeping import run
from support import nightly
from support.commands import RUN, Ragsweep, artifacts, mlflow_client, printed, read, runs, write_dataset

SEARCH = ["-m", "hydra/sweeper=optuna", "retriever.k1=interval(0.8,2)", "top_k=1,2,3", "hydra.sweeper.plots=false"]
BOTH = "objective=[context_ndcg,context_tokens]"


def varied(folder: Path, count: int = 12) -> list[str]:
    """Write documents that a question finds all of, so that it matters how many are handed on."""
    words = " ".join(f"w{n % 3}" for n in range(12))
    corpus = [{"id": f"d{n}", "text": f"common item{n} {words}"} for n in range(count)]
    golden = [
        {"id": f"q{n}", "question": f"common item{n + n % 2} item{n}", "category": "c",
         "evidence": [{"document": f"d{n}"}]}
        for n in range(count)
    ]  # fmt: skip
    return write_dataset(folder, golden, corpus)


def tags(folder: Path, kind: str) -> list[dict[str, str]]:
    return [
        {name.removeprefix("ragsweep."): value for name, value in run.data.tags.items() if "ragsweep." in name}
        for run in runs(folder, kind)
    ]


def results(folder: Path) -> dict[str, object]:
    (parent,) = runs(folder, "sweep")
    path = mlflow_client(folder).download_artifacts(parent.info.run_id, "results.json")
    return json.loads(Path(path).read_text())["sweep"]


@pytest.mark.nightly
def test_a_search_for_several_objectives_ends_with_the_front(tmp_path: Path) -> None:
    typed = [*SEARCH, *varied(tmp_path), BOTH, "hydra.sweeper.n_trials=4"]
    said = printed(tmp_path, RUN, *typed)
    assert "on the Pareto front of context_ndcg and context_tokens" in said
    told, children = results(tmp_path), tags(tmp_path, "config")
    assert {one["front"] for one in children} == {"yes", "no"}
    assert sum(one["front"] == "yes" for one in children) == len(told["front"])
    # Each child is one trial, and the parent says of the study what it was.
    assert [(one["job"], one["trial_state"]) for one in children] == [(str(n), "COMPLETE") for n in range(4)]
    assert all(one["trial"].isdecimal() and float(one["trial_seconds"]) > 0 for one in children)
    (parent,) = tags(tmp_path, "sweep")
    assert parent["sampler"] == "tpe"
    assert parent["study"].startswith("search-")
    assert "4 complete" in parent["trials"]
    assert "front.csv" in artifacts(tmp_path, runs(tmp_path, "sweep")[0])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["hydra.sweeper.direction=[maximize,maximize]"], "objective=context_tokens is better when lower, but its"),
        nightly(
            ["hydra.sweeper.direction=maximize"], "direction: must have one direction per objective (2), got 1; list"
        ),
        nightly(["objective=[mrr,context_tokenz]"], 'objective: no metric "context_tokenz"'),
        (["+hydra.sweeper.stop.patient=3"], "hydra.sweeper.stop.patient: unknown key"),
    ],
)
def test_goals_that_mean_nothing_are_refused_before_the_first_trial(cwd: Path, typed: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        run(read([*SEARCH[1:], *write_dataset(cwd), BOTH, *typed], multirun=True))
    assert said in str(refused.value)
    assert not (cwd / "study.db").exists()
    assert not (cwd / "mlflow.db").exists()


@pytest.mark.nightly
def test_an_objective_that_cannot_be_measured_fails_the_trial_and_says_which(
    ragsweep: Ragsweep, tmp_path: Path
) -> None:
    typed = [*SEARCH, *write_dataset(tmp_path), "objective=[context_ndcg,ann_recall_at_10]"]
    done = ragsweep(*typed, "hydra.sweeper.n_trials=2", "hydra.sweeper.max_failure_rate=1")
    assert "of 2 configs, 0 are" in done.stdout or "has values of all of context_ndcg, ann_recall_at_10" in done.stdout
    folder = tmp_path / ".ragsweep"
    (left,) = [read_summary(folder / "ledger.db", path.name) for path in (folder / "searches").iterdir()]
    assert left is not None
    assert [one["state"] for one in left.trials.values()] == ["FAIL", "FAIL"]
    assert "ann_recall_at_10 was not measured" in left.trials[0]["reason"]


@pytest.mark.nightly
def test_a_search_that_ends_early_says_why_and_goes_on_when_the_setting_changes(
    ragsweep: Ragsweep, tmp_path: Path
) -> None:
    typed = [*SEARCH, *write_dataset(tmp_path), "hydra.sweeper.n_trials=9"]
    early = ["hydra.sweeper.stop={patience: 2, by: 5}"]
    done = ragsweep(*typed, *early)
    assert done.returncode == 0, done.stderr
    said = "none of the last 2 evaluations is better than the best earlier one by more than 5"
    assert said in done.stdout
    again = ragsweep(*typed, *early)
    assert (again.returncode, len(runs(tmp_path, "config"))) == (0, 3)
    assert "is already finished" in again.stdout
    assert said in again.stdout
    (parent,) = tags(tmp_path, "sweep")
    assert said in parent["stopped"]
    assert runs(tmp_path, "sweep")[0].info.status == "FINISHED"
    on = ragsweep(*typed, "hydra.sweeper.stop={patience: 4, by: 5}")
    assert "3 of 9 trials are already done" in on.stdout
    assert (on.returncode, len(runs(tmp_path, "config"))) == (0, 5)


@pytest.mark.nightly
def test_only_configs_within_the_constraints_are_weighed_and_shipped(tmp_path: Path) -> None:
    search = ["top_k=1,2,3,5" if override.startswith("top_k=") else override for override in SEARCH]
    typed = [*search, *varied(tmp_path), BOTH, "hydra.sweeper.n_trials=6"]
    more = ['hydra.sweeper.constraints=["context_tokens <= 60"]', "hydra.sweeper.plots=true"]
    said = printed(tmp_path, RUN, *typed, *more)
    plots = artifacts(tmp_path, runs(tmp_path, "sweep")[0], "plots")
    assert {"plots/search_pareto_front.png", "plots/search_history_context_tokens.png"} <= plots
    folder = tmp_path / ".ragsweep"
    (left,) = [read_summary(folder / "ledger.db", path.name) for path in (folder / "searches").iterdir()]
    assert left is not None
    beyond = {job for job, one in left.trials.items() if not one["feasible"]}
    assert 0 in beyond  # the default hands on five chunks
    assert len(beyond) < 6
    told = results(tmp_path)
    assert "defaults" not in told["front"]
    assert "excluded by context_tokens <= 60" in said


# --- the holdout -----------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_finalists_are_evaluated_once_on_the_holdout_and_a_continued_search_looks_again(tmp_path: Path) -> None:
    overrides = varied(tmp_path, 320)
    typed = ["-m", "hydra/sweeper=optuna", "hydra.sweeper.plots=false", *overrides, "top_k=1,2,3", "depth=3,4,5"]

    def searched(trials: int, finalists: int) -> str:
        return printed(tmp_path, RUN, *typed, f"hydra.sweeper.n_trials={trials}", f"finalists={finalists}")

    off = searched(3, finalists=0)
    assert "the search uses the tune questions" in off
    assert "the search did not use" not in off
    done = searched(3, finalists=2)
    assert "questions that the search did not use" in done
    assert "The holdout was used once" in done
    ledger = Ledger(tmp_path / ".ragsweep")
    (sweep,) = ledger.sweeps()
    finals = ledger.finalists(sweep.id)
    assert [record.job for record in finals] == list(range(len(finals)))
    assert {record.outcome.run.dataset.partition for record in finals} == {"holdout"}
    assert len(ledger.records(sweep.id)) == 3
    told = results(tmp_path)["finalists"]
    assert isinstance(told, list)
    for one in told:
        assert one["gap"] == pytest.approx(one["holdout"] - one["tune"])
    children = [one for one in tags(tmp_path, "config") if one["partition"].startswith("holdout")]
    assert len(children) == len(finals) == len(told)
    assert "is already finished" in searched(3, finalists=2)
    assert [one.id for one in ledger.finalists(sweep.id)] == [one.id for one in finals]
    more = searched(5, finalists=5)
    assert len(ledger.finalists(sweep.id)) > len(finals)
    names = [record.outcome.name for record in ledger.records(sweep.id)]
    assert names[0] == "top_k=1 depth=3"  # the first values, as the defaults are not among those searched
    assert len(set(names)) == len(names) == 5
    assert "The holdout was used twice" in more
