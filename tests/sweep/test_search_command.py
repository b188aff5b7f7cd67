"""A search is a sweep whose jobs nobody knows beforehand: checked, planned, continued and shown like any other."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.sweep.composing.search_settings import trial_name
from ragsweep.sweep.searching.search_run import search_key
from support.commands import in_one_process, read, runs, write_dataset, write_option
from support.servers.studies import select, stored_trials

pytestmark = pytest.mark.slow

SEARCH = ["-m", "sweeps=hybrid_tpe", "chunker.size=800", "reranker=none", "hydra.sweeper.plots=false"]


SMALL = ["-m", "hydra/sweeper=optuna", "hydra.sweeper.plots=false", "retriever.k1=interval(0.8,2)",
         "hydra.sweeper.storage=sqlite:///.ragsweep/study.db"]  # fmt: skip
"""A search of one number: the named one has many options, each of which is composed when it begins."""

RUNS = "SELECT number, value_json FROM trials JOIN trial_user_attributes USING (trial_id) WHERE key = 'mlflow_run_id'"

REFUSED = {
    "hydra.sweeper.direction=minimize": "objective=context_ndcg is better when higher",
    "objective=null": "objective: a search or a race needs a metric, got null",
    "hydra.sweeper.constraints=['latency_p95 <= 800']": 'no metric "latency_p95" is measured',
    "hydra.sweeper.constraints='mrr <= 1'": "hydra.sweeper.constraints: must be a list such as",
    "hydra.sweeper.stop={budget: 3}": "hydra.sweeper.stop.budget: must name a limit (calls, tokens, money)",
    "+hydra.sweeper.sampler.foo=3": "got an unexpected keyword argument 'foo'; remove or correct the argument",
    "reranker=none,late_interactoin": "late_interaction",
}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hydra.sweeper.enqueue=[3]", r"hydra\.sweeper\.enqueue: must be a list of lists of overrides"),
        ('hydra.sweeper.enqueue=[["top_k=3"],["top_kk=3"]]', r'enqueue\[1\]: top_kk=3: no key "top_kk"'),
        ("hydra.sweeper.params=[3]", r"hydra\.sweeper\.params: must be a mapping"),
        ("hydra/sweeper/sampler=grid", r"sampler=grid: cannot list the values of .*intervals \(retriever\.k1"),
        ("hydra/sweeper/sampler=brute_force", r"sampler=brute_force: cannot list .*intervals \(retriever\.k1"),
        ("baseline=top_kk=3", r'baseline: top_kk=3: no key "top_kk"'),
    ],
)
def test_settings_of_a_search_are_checked_before_it_begins(line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read([*SMALL[1:], "retriever=bm25", line], multirun=True)


@pytest.mark.parametrize(
    ("condition", "known"),
    [
        ("retriever=bm52", False),
        ("retriever=vector,bm52", False),
        ("retriever=hybrid_rrf", True),  # an option, but not the one of this search
        ("retriever=mine", True),
        ("retriever=added", True),  # in a folder on the search path
        ("retriever=null", True),
        ("retriever=some/where", True),
        ("top_k=77", True),  # any number
    ],
)
def test_a_condition_on_an_option_that_does_not_exist_is_refused(cwd: Path, condition: str, known: bool) -> None:
    """Otherwise the search would run without the parameter and not say so."""
    write_option(cwd / "conf", "retriever/mine", "{}")
    write_option(cwd / "more", "retriever/added", "{}")
    params = f'{{retriever: "bm25,vector", top_k: "3,5", retriever.k1: {{over: "1.2,1.5", when: "{condition}"}}}}'
    write_option(cwd, "sweeps/own", f"hydra: {{sweeper: {{params: {params}}}}}\n")
    typed = ["sweeps=own", "hydra/sweeper=optuna", "retriever=bm25", "top_k=3", f"hydra.searchpath=[file://{cwd}/more]"]
    if known:
        read(typed, multirun=True)
        return
    message = r'params\.retriever\.k1\.when: retriever has no option bm52; did you mean "bm25"\? known: added, bm25, '
    with pytest.raises(ConfigError, match=message):
        read(typed, multirun=True)


@pytest.mark.parametrize("sweeper", ["optuna", '"optuna"'])
def test_misspelt_key_in_the_file_of_a_search_is_compared_with_the_keys_of_its_sweeper(cwd: Path, sweeper: str) -> None:
    chosen = f"defaults:\n  - override /hydra/sweeper: {sweeper}\n"
    text = f"# @package _global_\n{chosen}hydra: {{sweeper: {{n_trails: 3}}}}\n"
    write_option(cwd, "sweeps/own", text)
    with pytest.raises(
        ConfigError, match=r'^sweeps/own\.yaml: no key "hydra\.sweeper\.n_trails"; did you .*\.n_trials"'
    ):
        read(["sweeps=own"], multirun=True)


def test_patterns_of_a_search_match_options_in_folders_on_the_search_path(cwd: Path) -> None:
    write_option(cwd / "more", "retriever/added", "defaults: [bm25]\n")
    params = "+hydra.sweeper.params.top_k={over: '3,5', when: 'retriever=glob(add*)'}"
    search = ["hydra/sweeper=optuna", params, f"hydra.searchpath=[file://{cwd}/more]"]
    for typed in ("bm25,added", "glob(add*)"):
        jobs = read([*search, f"retriever={typed}"], multirun=True).jobs
        assert {("retriever=added", "top_k=3"), ("retriever=added", "top_k=5")} <= {tuple(sorted(job)) for job in jobs}


@pytest.mark.parametrize(
    ("line", "is_another"),
    [
        ("hydra/sweeper/sampler=random", True),
        ("hydra.sweeper.sampler.seed=3", True),
        ("hydra.sweeper.n_trials=80", False),
        ("hydra.sweeper.stop={patience: 15}", False),
        ("name=mine", False),
        ("baseline=2", False),
        ("rerun=true", False),
        ("progress=questions", False),
        ("compute=local", False),
        ("judge.labels=l.csv", False),
        ("judge.seed=1", True),
    ],
)
def test_what_draws_other_trials_starts_another_search(line: str, is_another: bool) -> None:
    typed = [*SMALL[1:], "retriever=bm25", "judge=ollama"]
    keys = {search_key(read([*typed, *more], multirun=True), "signature", "") for more in ([], [line])}
    assert len(keys) == 1 + is_another


@pytest.mark.parametrize(
    ("sampler", "settings"),
    [
        ("tpe", [{"sampler": {"name": "tpe", "seed": seed}} for seed in (0, 5, 6)]),
        ("nsgaii", [{"sampler": {"name": "nsgaii", "seed": 0, "population_size": size}} for size in (50, 20, 10)]),
        ("tpe", [{"custom_search_space": name} for name in (None, "mine.a", "mine.b")]),
    ],
)
def test_another_setting_in_a_file_starts_another_search(sampler: str, settings: list[dict[str, object]]) -> None:
    """The first of the settings is the usual one."""
    command = read([*SMALL[1:], "retriever=bm25", f"hydra/sweeper/sampler={sampler}"], multirun=True)
    searches = [{**(command.search or {}), **one} for one in settings]
    keys = [search_key(replace(command, search=search), "signature", "") for search in searches]
    assert len(set(keys)) == 3
    assert keys[0] == search_key(command, "signature", "")


def test_a_search_is_planned_refused_run_continued_and_shown_again(tmp_path: Path) -> None:
    typed = ["run", *SMALL, *write_dataset(tmp_path)]
    early = in_one_process(
        {"plan": [*typed, "plan=json"], **{line: [*typed, line] for line in REFUSED}}, tmp_path
    )  # fmt: skip
    assert '"configs": 20, "upper": true' in early["plan"][1]
    for line, text in REFUSED.items():
        assert early[line][0] == 2, early[line]
        assert text in early[line][1]
    assert not (tmp_path / ".ragsweep" / "study.db").exists()
    done = in_one_process(
        {"late": [*typed, "hydra.sweeper.stop={seconds: 1e-6}"],
         "begun": [*typed, "hydra.sweeper.n_trials=2"],
         "continued": [*typed, "name=mine", "hydra.sweeper.n_trials=3"],
         "again": [*typed, "hydra.sweeper.n_trials=3"],
         "fewer": [*typed, "hydra.sweeper.n_trials=2"]},
        tmp_path,
    )  # fmt: skip
    assert {name: status for name, (status, _) in done.items()} == {**dict.fromkeys(done, 0), "late": 1}, done
    assert "no trial ran, because the time limit is reached: hydra.sweeper.stop.seconds=1e-06" in done["late"][1]
    assert "2/2" in done["begun"][1]
    assert "CHOICE" in done["begun"][1]
    assert "2 of 3 trials are already done" in done["continued"][1]
    for name in ("again", "fewer"):
        assert "is already finished with 3 trials, so nothing remains to do" in done[name][1]
        assert "plan " not in done[name][1]
    assert list(stored_trials(tmp_path / ".ragsweep" / "study.db")) == [0, 1, 2]
    assert select(tmp_path / ".ragsweep" / "study.db", "SELECT count(*) FROM trials") == [(3,)]
    (parent,) = runs(tmp_path, "sweep")
    assert parent.info.status == "FINISHED"
    children = {run.info.run_id: run.data.tags["ragsweep.job"] for run in runs(tmp_path, "config")}
    assert set(children.values()) == {"0", "1", "2"}
    ((name,),) = select(tmp_path / ".ragsweep" / "study.db", "SELECT study_name FROM studies")
    assert re.fullmatch("search-[0-9a-f]{8}", name)
    attributes = select(tmp_path / ".ragsweep" / "study.db", RUNS)
    assert {json.loads(run): str(trial) for trial, run in attributes} == children


def test_a_named_study_of_another_search_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    named = ["tracking=none", "hydra.sweeper.study_name=mine", "hydra.sweeper.n_trials=1"]
    typed = ["run", *SMALL, *write_dataset(tmp_path), "retriever=bm25", *named]
    others = {"another space: top_k": [*typed, "top_k=range(1,4)"], "the subject ": [*typed, "objective=mrr"]}
    done = in_one_process({"first": typed, **others, "rerun": [*typed, "rerun=true"]}, tmp_path)
    assert [status for status, _ in done.values()] == [0, 2, 2, 2], done
    for what in others:
        assert f'study "mine" belongs to another search (with {what}' in done[what][1]
    assert select(tmp_path / ".ragsweep" / "ledger.db", "SELECT count(*) FROM sweeps") == [(1,)]


def test_a_search_that_has_tried_all_configs_says_so(tmp_path: Path) -> None:
    """A condition leaves three of the four combinations."""
    params = '{top_k: "1,2", retriever.k1: {over: "1.2,1.5", when: top_k=1}}'
    write_option(tmp_path, "sweeps/own", f"hydra: {{sweeper: {{plots: false, params: {params}}}}}\n")
    typed = ["run", "-m", "sweeps=own", "hydra/sweeper=optuna", *write_dataset(tmp_path), "tracking=none"]
    counts = {name: [*typed, f"hydra.sweeper.n_trials={name}"] for name in ("3", "4")}
    done = in_one_process(counts, tmp_path)
    told = "ended     3 of 4 trials: the search found no config that differs from these"
    assert {name: (status, told in shown) for name, (status, shown) in done.items()} == {
        "3": (0, False),
        "4": (0, True),
    }


def test_trial_0_is_the_declared_baseline_or_the_default_of_the_space() -> None:
    """The default retriever, hybrid_rrf, is not in the space."""
    typed = ["hydra/sweeper=optuna", "retriever=bm25,vector"]
    expected = {"retriever=vector": "vector", "retriever=hybrid_rrf": "bm25", "7": "bm25", "null": "bm25"}
    for baseline, first in expected.items():
        command = read([*typed, f"+baseline='{baseline}'"], multirun=True)
        assert f"retriever={first}" in command.jobs[0], baseline
        assert bool(command.notes) == (baseline == "retriever=hybrid_rrf")
    ignored = read([*typed, "+baseline='retriever=vector'", "hydra.sweeper.default=false"], multirun=True)
    assert ignored.notes == ("the declared baseline is not run, because hydra.sweeper.default=false omits trial 0",)


def test_a_named_sweep_chooses_its_sweeper_and_what_is_typed_wins() -> None:
    command = read(["sweeps=hybrid_tpe"], multirun=False)
    assert command.searching
    assert command.overrides[0] == "hydra/sweeper=optuna"
    assert command.jobs[0] == ("sweeps=hybrid_tpe",)
    with pytest.raises(ConfigError, match="n_trials"):  # which the grid has not
        read(["sweeps=hybrid_tpe", "hydra/sweeper=grid"], multirun=False)


@pytest.mark.parametrize(
    ("trial", "typed", "name"),
    [
        (["tracking.uri=sqlite\\:///a\\:b.db", "retriever.k=3"], "tracking.uri=sqlite:///a:b.db", "k=3"),
        (["dataset.path=c\\:/x", "retriever.k=3"], "dataset.path=c:/x", "k=3"),
        (["tracking.uri=sqlite\\:///x.db", "+store.path=y"], "other", "defaults"),
        (["dataset.path=c\\:/x"], "other", "path=c:/x"),
        (["~metrics.mrr=null", "top_k=3"], "dataset=x ~metrics.mrr", "top_k=3"),
        (["plan=False", "~budget", "hydra/launcher=joblib", "top_k=3"], "", "top_k=3"),
    ],
)
def test_a_trial_is_named_by_what_it_changes_not_by_its_place(trial: list[str], typed: str, name: str) -> None:
    assert trial_name(tuple(trial), typed, ["retriever"]) == name


def test_a_config_is_not_named_by_operational_keys_unless_nothing_else_varies(tmp_path: Path) -> None:
    data = ["tracking.uri=sqlite:///x.db", "retriever=bm25", "store.path=x"]
    assert read([*data, "top_k=3,5"], True).names() == ["top_k=3", "top_k=5"]
    assert read(data, False).names() == ["bm25"]
    assert read([*data, "budget.calls=1,2"], True).names() == ["calls=1", "calls=2"]


def test_results_that_a_study_has_and_the_ledger_has_not_are_reported(tmp_path: Path) -> None:
    typed = ["run", *SMALL, *write_dataset(tmp_path), "hydra.sweeper.n_trials=2", "tracking=none"]
    assert in_one_process({"first": typed}, tmp_path)["first"][0] == 0
    for path in (tmp_path / ".ragsweep").glob("ledger.db*"):
        path.unlink()
    done = in_one_process({"lost": typed, "still": typed, "anew": [*typed, "rerun=true"]}, tmp_path)
    assert {name: status for name, (status, _) in done.items()} == {"lost": 1, "still": 1, "anew": 0}, done
    for name in ("lost", "still"):
        assert "the study has the values of 2 trials without a result in" in done[name][1]
        assert "rerun=true" in done[name][1]
    assert "2/2" in done["anew"][1]
