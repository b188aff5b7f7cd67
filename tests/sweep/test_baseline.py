"""The declared baseline: a number, overrides, or a recorded config, and one clear error for any other."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.results import Failure, Result
from ragsweep.records.ledger import Ledger
from ragsweep.report.page.data import page_document
from ragsweep.sweep.composing.baseline import with_baseline
from ragsweep.sweep.composing.command import Command, compose_jobs
from ragsweep.sweep.composing.job import Job, JobConfig
from ragsweep.sweep.composing.settings import read_number
from ragsweep.sweep.concluding.parent_run import describe
from ragsweep.sweep.concluding.recorded_runs import find_baseline, find_recorded
from ragsweep.sweep.concluding.summarise import summarise_sweep
from ragsweep.sweep.concluding.sweep_content import sweep_content
from support.commands import in_one_process, read, write_dataset
from support.results import break_constraints, changed, drawn, parent_run, record, record_sweep, scored

SWEEP = ("seed=1,2", "top_k=3,5")
"""Values alone: all jobs have one template."""

OPTIONS = ("retriever=bm25,vector", "top_k=3,5")


def expanded(*typed: str, swept: tuple[str, ...] = SWEEP) -> tuple[Command, list[Job]]:
    command = read([*swept, *typed], multirun=True)
    return command, compose_jobs(command)


def declared(command: Command, jobs: list[Job]) -> tuple[int, int]:
    """Return the number of the baseline, and that of all configs."""
    assert [job.overrides for job in jobs] == list(command.jobs)
    (number,) = {read_number(job.config.values["baseline"]) for job in jobs}
    assert number is not None
    return number, len(jobs)


@pytest.mark.parametrize(
    "typed", ["3", "#3", "'#3'", "retriever=vector top_k=3", '"retriever=vector top_k=3"', "top_k=3 retriever=vector"]
)
def test_a_number_is_that_of_a_config_and_overrides_that_equal_a_job_are_that_job(typed: str) -> None:
    """Hydra's grammar refuses a bare "=" in a value; the quotes that a shell takes away need not be doubled."""
    assert declared(*with_baseline(*expanded(f"baseline={typed}", swept=OPTIONS))) == (3, 4)


def test_overrides_that_equal_no_job_add_one_behind_the_others() -> None:
    before = read(SWEEP, multirun=True)
    command, jobs = with_baseline(*expanded("baseline=top_k=8 retriever=bm25 retriever.k1=1.5"))
    last = jobs[-1].config.values
    assert declared(command, jobs) == (5, 5)
    assert [set(own) <= set(job) for own, job in zip(before.jobs, command.jobs, strict=False)] == [True] * 4
    assert (last["top_k"], last["retriever"]["k1"]) == (8, 1.5)
    assert len({job.name for job in jobs}) == 5


def test_overrides_may_have_lists_with_spaces() -> None:
    _, jobs = with_baseline(*expanded("baseline=top_k=8 headline=[mrr, map]"))
    assert jobs[-1].config.values["headline"] == ["mrr", "map"]


def test_overrides_stand_on_what_all_jobs_share() -> None:
    _, jobs = with_baseline(*expanded("depth=70", "baseline=top_k=8"))
    assert (len(jobs), *(jobs[-1].config.values[key] for key in ("depth", "top_k"))) == (5, 70, 8)


@pytest.mark.parametrize(
    ("shared", "option", "expected"),
    [
        (("retriever=bm25", "retriever.k1=1.2"), "vector", []),
        (("retriever=bm25", "retriever.k1=1.2"), "none", []),
        (("retriever.index.m=8", "retriever=vector", "retriever/index=hnsw"), "bm25", []),
        (("chunker=tokens", "chunker.size=90"), "chunker=fixed_size", ["chunker.size=90"]),
    ],
)
def test_a_baseline_with_another_option_has_only_the_settings_that_this_option_has(
    shared: tuple[str, ...], option: str, expected: list[str]
) -> None:
    typed = option if "=" in option else f"retriever={option}"
    _, jobs = with_baseline(*expanded(f"baseline={typed}", swept=(*shared, "top_k=3,5")))
    assert [line for line in jobs[-1].overrides if line != "baseline=3"] == [*expected, typed]


@pytest.mark.parametrize("typed", ["baseline=null", "+name=x"])
def test_without_a_baseline_nothing_changes(typed: str) -> None:
    command, jobs = expanded(typed.lstrip("+"))
    assert with_baseline(command, jobs) == (command, jobs)


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("baseline=5", "#1 to #4"),
        ("baseline=0", "#1 to #4"),
        ("baseline=top_k=3,5", "several"),
        ("baseline=top_k=3 bm25", "cannot read"),
        ("baseline=retriever=bm26", "bm26"),
        ("baseline=top_k=3 name='x", "cannot read"),
    ],
)
def test_what_is_no_config_is_one_clear_error(typed: str, named: str) -> None:
    with pytest.raises(ConfigError, match=r"^baseline") as raised:
        with_baseline(*expanded(typed))
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_status == 2


def test_a_number_that_no_trial_of_a_search_has_is_an_error() -> None:
    search = ("hydra/sweeper=optuna", "hydra.sweeper.n_trials=7")
    for number in (7, 4):
        with_baseline(*expanded(f"baseline={number}", *search))
    for number in (8, 0):
        with pytest.raises(ConfigError, match=rf"^baseline={number}: must be the number of a config, #1 to #7$"):
            with_baseline(*expanded(f"baseline={number}", *search))


def test_a_baseline_without_the_settings_of_a_search_is_outside_of_it() -> None:
    search = "hydra/sweeper=optuna", "retriever=bm25", "retriever.b=0.7", "top_k=range(1,5)"
    (note,) = read([*search, "baseline=retriever=vector"], multirun=True).notes
    assert note.startswith("the declared baseline cannot be trial 0: retriever.b=0.7: retriever=vector has no b; trial")
    with pytest.raises(ConfigError, match=r"^baseline: retriever=vectr: no such option"):
        read([*search, "baseline=retriever=vectr"], multirun=True)


def test_a_baseline_that_differs_within_the_sweep_is_an_error() -> None:
    command, jobs = expanded("baseline=2")
    config = jobs[0].config
    assert isinstance(config, JobConfig)
    other = replace(jobs[0], config=replace(config, changes={**config.changes, "baseline": 3}))
    with pytest.raises(ConfigError, match="cannot differ"):
        with_baseline(command, [other, *jobs[1:]])


def sweep(folder: Path, parent: str, *means: float, **config: object) -> Ledger:
    results = [
        scored({"ndcg": drawn(mean, seed=n)}, name=f"k={n}", overrides=(f"k={n}",), parameters={"k": f"{n}"},
               config=config)
        for n, mean in enumerate(means)
    ]  # fmt: skip
    record_sweep(folder, parent, *results)
    return Ledger(folder)


def names(results: list[Result]) -> dict[int, str]:
    return {n: one.name for n, one in enumerate(results)}


@pytest.mark.parametrize("by", ["aaaa#2", "today"])
def test_a_config_of_another_sweep_is_a_row_beside_the_own(tmp_path: Path, by: str) -> None:
    before = sweep(tmp_path, "a" * 32, 0.2, 0.41)
    before.names.give("today", f"{before.sweeps()[0].id}#2")
    ledger = sweep(tmp_path, "b" * 32, 0.5, 0.6, baseline=by)
    summary = summarise_sweep(ledger, ledger.records(ledger.sweeps()[-1].id))
    assert [one.name for one in summary.baselines] == [f"{by} k=1"]
    assert len(summary.results) == 2
    result = json.loads(parent_run(summary).files["results.json"])["result"]
    assert (result["kind"], result["choice"], result["baseline"]) == ("better", "#2 k=1", f"{by} k=1")
    assert result["against_baseline"]["expected_gain"] == pytest.approx(0.19, abs=0.02)


def test_a_baseline_that_violates_a_constraint_is_named_among_the_excluded(tmp_path: Path) -> None:
    ledger = sweep(tmp_path, "a" * 32, 0.6, 0.2, 0.4, baseline=1)
    break_constraints(tmp_path, 0)
    summary = summarise_sweep(ledger, ledger.records(ledger.sweeps()[0].id))
    page = " ".join(b" ".join(parent_run(summary).files.values()).decode(errors="replace").split())
    assert "without 1 excluded by a &lt;= 1, the baseline (#1 k=0)" in page


@pytest.mark.parametrize(("kind", "why"), [("PARTIAL", "PARTIAL"), ("DROPPED", "dropped by the race"), ("", "failed")])
def test_a_baseline_that_cannot_be_compared_is_named_among_those_left_out(tmp_path: Path, kind: str, why: str) -> None:
    """The page does not call it undeclared."""
    base, *others = (
        scored({"ndcg": drawn(0.5 + n / 10, seed=n)}, name=f"k={n}", overrides=(f"k={n}",), config={"baseline": 1})
        for n in range(3)
    )
    race = {"asked": 20, "of": 40, "ahead": 0.1, "rule": "r", "guarantee": "g"} if kind == "DROPPED" else {}
    part = scored({"ndcg": [math.nan] * 20 + drawn(0.5, 20)}, name="k=0", overrides=("k=0",), config=base.run.config)
    metrics = {"ndcg": replace(part.summaries.metrics["ndcg"], coverage=0.5)}
    part = changed(part, state=kind, race=race, metrics=metrics)
    lost = part if kind else Failure("k=0", ("k=0",), {}, "no memory")
    record_sweep(tmp_path, "a" * 32, base, *others)
    ledger = Ledger(tmp_path)
    ledger.write(ledger.sweeps()[0].id, 0, lost)
    summary = summarise_sweep(ledger, ledger.records(ledger.sweeps()[0].id))
    assert f"without 1 {why}, the baseline (#1 k=0)" in describe(summary)
    content = sweep_content(summary)
    (baseline,) = (one.text for one in page_document(content).statements if one.label == "Baseline")
    assert baseline == f"#1 k=0, which is not compared: {why}"


def test_no_command_is_suggested_that_refuses_a_partial_config(tmp_path: Path) -> None:
    """Its scores of the deciding metric are complete, so it can be chosen, but `ragsweep compare` refuses it."""
    found = []
    for state in ("COMPLETE", "PARTIAL"):
        ledger = sweep(tmp_path / state, "a" * 32, 0.2, 0.6, baseline=1)
        identifier = ledger.sweeps()[0].id
        last = ledger.records(identifier)[-1]
        assert isinstance(last.outcome, Result)
        known = last.outcome.summaries.metrics
        metrics = {**known, "faithfulness": replace(known["ndcg"], name="faithfulness", coverage=0.5)}
        config = {**last.outcome.run.config, "headline": ["ndcg", "faithfulness"]}
        ledger.write(identifier, last.job, changed(last.outcome, state=state, metrics=metrics, config=config))
        content = sweep_content(summarise_sweep(ledger, ledger.records(identifier)), reference="aaaa")
        assert content.conclusion.chosen == "#2 k=1"
        found.append("ragsweep compare aaaa#1 aaaa#2" in [one.label for one in content.commands])
    assert found == [True, False]


@pytest.mark.parametrize(("gain", "pair"), [(0.6, "aaaa#3 aaaa#2"), (0.21, "aaaa#1 aaaa#2")])
def test_the_choice_is_compared_with_the_runner_up_once_it_is_shown_better_than_the_baseline(
    tmp_path: Path, gain: float, pair: str
) -> None:
    ledger = sweep(tmp_path, "a" * 32, 0.2, gain, gain - 0.005, baseline=1)
    summary = summarise_sweep(ledger, ledger.records(ledger.sweeps()[0].id))
    assert summary.conclusion.chosen == "#2 k=1"
    assert f"ragsweep compare {pair}" in [one.label for one in sweep_content(summary, reference="aaaa").commands]


def test_a_recorded_config_that_the_sweep_has_is_its_own(tmp_path: Path) -> None:
    ledger = sweep(tmp_path, "a" * 32, 0.2, 0.41)
    results = [scored({"ndcg": drawn(0.41, seed=1)}, name="#1 k=1"), scored({"ndcg": drawn(0.6)}, name="#2 k=9")]
    found, _ = find_baseline("aaaa#2", names(results), results, ledger)
    assert found is results[0]


def test_a_recorded_config_has_the_name_that_it_was_given_once(tmp_path: Path) -> None:
    """`ragsweep run name=production` puts the name in front of the config's own."""
    result = scored({"ndcg": drawn(0.4)}, name="production: k=1")
    record(tmp_path, result)
    ledger = Ledger(tmp_path)
    ledger.names.give("production", f"record {ledger.singles()[0].id}")
    results = [scored({"ndcg": drawn(0.6)}, name="#1 k=9")]
    found, _ = find_baseline("production", names(results), results, ledger)
    assert found is not None
    assert found.name == "production k=1"


def test_a_config_of_other_questions_is_no_baseline(tmp_path: Path) -> None:
    ledger = sweep(tmp_path, "a" * 32, 0.2)
    one = scored({"ndcg": drawn(0.4)}, name="#1 k=1")
    asked = changed(one, dataset=replace(one.run.dataset, golden_digest="e" * 64))
    assert find_baseline("aaaa#1", names([asked]), [asked], ledger) == (None, None)


def test_an_unknown_name_is_one_clear_error(tmp_path: Path) -> None:
    run = record(tmp_path, *(scored({"ndcg": drawn(n / 20)}) for n in range(10)))[-1]
    found = find_recorded(run[:8], Ledger(tmp_path))
    assert found.run == run
    with pytest.raises(InputError, match=r'^baseline=nobody: .*"nobody"') as raised:
        find_recorded("nobody", Ledger(tmp_path))
    assert "\n" not in str(raised.value)


def test_a_sweep_is_refused_before_it_starts_where_its_baseline_answered_other_questions(tmp_path: Path) -> None:
    typed = ["run", "-m", "tracking=none", *write_dataset(tmp_path)]
    lines = (tmp_path / "golden.jsonl").read_text().splitlines()
    (tmp_path / "other.jsonl").write_text("\n".join(lines[:-1]))
    others = [line.replace("=golden.jsonl", "=other.jsonl") for line in typed]
    done = in_one_process({
        "first": [*typed, "top_k=1,2", "baseline=top_k=2", "name=mine"],
        "known": [*typed, "top_k=3,4", "baseline=mine#1"],
        "unknown": [*typed, "top_k=3,4", "baseline=nobody"],
        "other": [*others, "top_k=3,4", "baseline=mine#1"],
    }, tmp_path)  # fmt: skip
    assert {name: status for name, (status, _) in done.items()} == {"first": 0, "known": 0, "unknown": 2, "other": 2}
    assert "vs mine#1" in done["known"][1]
    assert "baseline=nobody" in done["unknown"][1]
    assert "different questions" in done["other"][1]


@pytest.mark.parametrize(("tables", "expected"), [("chosen", {1, 2}), ("all", {0, 1, 2, 3})])
def test_choice_and_its_comparators_have_tables_of_questions(tmp_path: Path, tables: str, expected: set[int]) -> None:
    ledger = sweep(tmp_path, "a" * 32, 0.2, 0.8, 0.6, 0.1)
    summary = summarise_sweep(ledger, ledger.records(ledger.sweeps()[0].id))
    made = parent_run(summary, tables).tables
    assert set(made) == expected
    assert json.loads(made[1])["columns"][0] == "question_id"
