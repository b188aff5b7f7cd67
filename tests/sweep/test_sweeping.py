"""A command hands its jobs on: each config is composed once, and the command returns the sweep that it ran."""

import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from llm_server import LlmServer
from ragsweep.core.errors import ConfigError, TrackingError
from ragsweep.core.interruption import Interrupted
from ragsweep.core.results import Evaluation, Result
from ragsweep.core.types import Answer, Passage, Question
from ragsweep.evaluation.experiment import Experiment
from ragsweep.parts.metrics import AnswerMetric
from ragsweep.parts.tracking import NoTracking
from ragsweep.records.ledger import FINISHED, KILLED, RUNNING, Ledger
from ragsweep.report.terminal import Terminal
from ragsweep.stages.graph import Plan
from ragsweep.sweep import preparing, sweeping
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.composing.compose import Composer
from ragsweep.sweep.composing.job import JobConfig
from ragsweep.sweep.running.multirun import Multirun
from ragsweep.sweep.running.recording import RunContext
from ragsweep.sweep.running.session import Session, open_session
from support.commands import prepare, write_dataset, write_option

SWEEP = ["top_k=1,2", "depth=4"]
SEARCH = ["hydra/sweeper=optuna", "hydra/sweeper/sampler=random", "hydra.sweeper.plots=false", "top_k=range(1,40)",
          "depth=40", "hydra.sweeper.n_trials=4"]  # fmt: skip


@pytest.fixture
def typed(cwd: Path) -> list[str]:
    return [*write_dataset(cwd), "store.path=store", "tracking=none"]


def run(*overrides: str) -> sweeping.CommandOutcome:
    return sweeping.run(read_command(overrides, multirun=True))


@pytest.mark.parametrize("swept", [SWEEP, SEARCH], ids=["sweep", "search"])
def test_each_config_is_composed_once(swept: list[str], typed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a search: each drawn trial; trial 0 and the ends of ranges are composed before it to check the space."""
    composed, compose = Counter[frozenset[str]](), Composer.compose

    def counted(composer: Composer, overrides: Sequence[str]) -> JobConfig:
        composed[frozenset(line for line in overrides if not line.startswith("hydra"))] += 1
        return compose(composer, overrides)

    monkeypatch.setattr(Composer, "compose", counted)
    status, sweep = run(*typed, *swept)
    assert status == 0
    assert sweep
    records = Ledger(Path("store")).records(sweep)
    outcomes = [record.outcome for record in records if swept is SWEEP or record.job]
    results = [outcome for outcome in outcomes if isinstance(outcome, Result)]
    assert len(results) == len(outcomes)
    names = [frozenset(result.run.overrides) for result in results]
    ends = [name for name in names if swept is SEARCH and {"top_k=1", "top_k=39"} & name]
    assert {composed[name] for name in names if name not in ends} == {1}


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("timeout=5,-1", "timeout: must be a number above 0"),
        ("finalists=5,-3", "finalists: must be a whole number"),
        ("finalists=1,2", "finalists: cannot differ within a sweep"),
        ("max_failures=1,2", "max_failures: cannot differ within a sweep"),
        ("constraints.context_tokens=50,100", "constraints: cannot differ within a sweep"),
        ("recommend.margin=.01,.1", "recommend: cannot differ within a sweep"),
    ],
)
def test_a_setting_of_the_command_is_checked_in_every_config(override: str, fault: str, typed: list[str]) -> None:
    with pytest.raises(ConfigError, match=fault):
        run(*typed, override, "plan=true")


def test_a_sweep_with_another_decision_is_another_one_and_computes_nothing(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the finished sweep would be shown again, with the choice of the earlier settings."""
    _, first = run(*typed, *SWEEP)
    found = {}
    for setting in ("constraints.context_tokens=1", "objective=mrr", "recommend.loss=1", "coverage=.5"):
        capsys.readouterr()
        _, found[setting] = run(*typed, *SWEEP, setting)
        assert "no stage to compute" in capsys.readouterr().out
        assert run(*typed, *SWEEP, setting).sweep == found[setting]
    assert len({first, *found.values()}) == 5
    assert run(*typed, *SWEEP).sweep == first


@pytest.mark.parametrize("swept", [SWEEP, SEARCH], ids=["sweep", "search"])
def test_a_decision_that_is_edited_in_the_file_of_a_sweep_is_another_sweep(swept: list[str], typed: list[str]) -> None:
    """Otherwise a finished sweep would keep its earlier choice, and a search would compare values of two metrics."""
    file, found = Path("sweeps", "mine.yaml"), []
    file.parent.mkdir()
    target = "targets: {mrr: {_target_: ragsweep.parts.targets.Target, threshold: %s, action: %s}}"
    targets = target % (1, "none"), target % (2, "none"), target % (2, "another text")
    for text in ("objective: context_ndcg", "objective: mrr", "constraints: {context_tokens: 50}", "", *targets) * 2:
        file.write_text(f"# @package _global_\n{text}\n", "utf-8")
        found.append(run(*typed, *swept, "sweeps=mine").sweep)
    assert len(set(found)) == 5  # context_ndcg is the default
    assert found[:7] == found[7:]


def test_a_command_returns_its_own_sweep_though_a_later_one_has_equal_jobs(typed: list[str]) -> None:
    first = run(*typed, *SWEEP)
    corpus = Path("corpus.jsonl")
    before = corpus.read_text()
    corpus.write_text(before.replace("at strangers", "at all strangers"))
    later = run(*typed, *SWEEP)
    corpus.write_text(before)
    assert run(*typed, *SWEEP) == first
    assert first.sweep != later.sweep
    sweeps = {sweep.id: sweep for sweep in Ledger(Path("store")).sweeps()}
    assert sweeps[str(first.sweep)].jobs == sweeps[str(later.sweep)].jobs


def test_a_result_that_the_ledger_cannot_take_is_not_said_to_be_in_it(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(*_: object) -> int:
        raise TrackingError("the disk is full")

    monkeypatch.setattr(Ledger, "write", write)
    assert sweeping.run(read_command([*typed, "depth=4", "top_k=1"], multirun=False)).status == 1
    assert capsys.readouterr().err.splitlines()[-1] == "ragsweep: the disk is full"


def test_a_single_config_and_a_plan_have_no_sweep(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    line = [*typed, "depth=4", "top_k=1", "baseline=top_k=2", "finalists=2"]
    assert sweeping.run(read_command(line, False)) == (0, None)
    shown = capsys.readouterr().out
    assert "baseline has no effect on one config; add -m, or use" in shown
    assert "finalists has no effect without a search; add -m hydra/sweeper=optuna" in shown
    assert run(*typed, *SWEEP, "plan=true") == (0, None)


@pytest.mark.parametrize(
    ("fault", "status", "why"),
    [(RuntimeError("no memory"), FINISHED, "no memory"), (Interrupted(signal.SIGTERM), KILLED, "interrupted")],
)
def test_running_returns_how_the_jobs_ended_and_raises_nothing_so_that_their_records_are_concluded(
    fault: BaseException, status: str, why: str, typed: list[str]
) -> None:
    def fail(_: object) -> str:
        raise fault

    command = read_command([*typed, *SWEEP], multirun=True)
    jobs, terminal = compose_jobs(command), Terminal.current(plain=True)
    session = open_session(jobs[0].config.values, terminal)
    context = RunContext(session, NoTracking(), terminal, command.secrets)
    preparing.prepare_jobs(session, jobs)
    multirun = Multirun(command, context, jobs, fail)
    sweep, finished = multirun.open(Plan())
    assert not finished
    ending = multirun.run(sweep)
    assert (ending.status, ending.interruption) == (status, fault if status == KILLED else None)
    assert why in ending.why
    assert context.ledger.sweep(sweep.id).status == RUNNING
    assert [why in one.error for one in multirun.missed_jobs(sweep, {0}, ending.why)] == [True]


def test_a_search_that_was_stopped_keeps_its_trials_if_fewer_are_wanted(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, sweep = run(*typed, *SEARCH)
    assert sweep
    Ledger(Path("store")).set_status(sweep, KILLED)
    capsys.readouterr()
    assert run(*typed, *SEARCH, "hydra.sweeper.n_trials=2") == (0, sweep)
    said = capsys.readouterr().out
    assert "the search already has 4 trials, more than n_trials; nothing remains to do" in said
    assert "plan " not in said
    assert len(Ledger(Path("store")).sweep(sweep).names) == 4


def test_after_max_failures_a_search_ends_without_failing_its_other_trials(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("unlucky")

    monkeypatch.setattr(Session, "evaluate", fail)
    status, sweep = run(*typed, *SEARCH, "max_failures=2", "hydra.sweeper.max_failure_rate=1")
    assert status == 1
    assert len(Ledger(Path("store")).records(sweep or "")) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert "limit max_failures=2 is reached; with another limit, a new search starts and reuses stored stages" in said
    assert "HydraException" not in said
    assert run(*typed, *SEARCH, "max_failures=3", "hydra.sweeper.max_failure_rate=1").sweep != sweep


@pytest.mark.parametrize("swept", [SWEEP, SEARCH], ids=["sweep", "search"])
def test_a_finished_sweep_is_shown_again_without_the_key_of_its_service(
    swept: list[str], typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with LlmServer(lambda _: "It rests on the warm mat.") as server:
        llm = ["llm=openai", *server.overrides("llm"), "llm.key_env=MY_KEY", "~metrics.semantic_similarity"]
        command = [*typed, *swept, *llm, "store.stages=false"]
        with pytest.raises(ConfigError, match=r"environment variable MY_KEY, .* is not set"):
            run(*command)
        assert not Path("store", "ledger.db").exists()
        monkeypatch.setenv("MY_KEY", "a-key-of-the-test")
        done = run(*command)
        monkeypatch.delenv("MY_KEY")
        capsys.readouterr()
        assert run(*command) == done
    assert "is already finished" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"environment variable MY_KEY, .* is not set"):
        run(*command, "rerun=true")


def test_a_folder_that_cannot_be_created_fails_only_its_own_job(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = "hydra.sweep.subdir='${prompt.system}'"
    status, sweep = run(*typed, f"prompt.system={'x' * 300},short", folder)
    assert status == 1
    assert [record.job for record in Ledger(Path("store")).records(sweep or "")] == [1]
    assert "did not complete: ConfigError: hydra.sweep.subdir: cannot create the folder" in capsys.readouterr().out


def test_a_model_without_a_price_is_refused_before_anything_is_computed(typed: list[str]) -> None:
    model = ["llm=openai", "llm.key_env=null", "llm.model=mine,gpt-4o", "llm.base_url=http://127.0.0.1:9/v1"]
    with pytest.raises(ConfigError, match=r'^budget\.money cannot be enforced: the model "mine" has no price; .*$'):
        run(*typed, *model, "budget.money=1")
    assert not [*Path("store").glob("stages/whole/*")]


class Broken(AnswerMetric):
    name = "broken"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        raise KeyError(question.id)


def test_a_metric_is_tried_on_an_answer_if_any_config_has_answers(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    metrics, session = (Broken(),), Session()
    experiments = [replace(prepare(session, *typed, f"llm={llm}"), metrics=metrics) for llm in ("extractive", "none")]
    preparing.try_metrics(experiments, Terminal.current())
    assert "warning   the metric broken fails on a trial question: KeyError" in capsys.readouterr().out


PICKY = """
from ragsweep.core.missing import score_with_evidence

class Picky:
    name, needs, unit, higher_is_better, quantile, bounds = "picky", ("evidence",), "", True, None, (0.0, None)

    def __init__(self, rank):
        self.rank = rank

    def score(self, view):
        if self.rank == 2:
            raise ValueError("rank 2")
        return score_with_evidence(view, [1.0] * len(view.questions))
"""


def test_a_metric_is_tried_with_each_value_that_a_search_may_draw(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("picky_metric.py").write_text(PICKY)
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "picky_metric")
    picky = ["+metrics.picky={_target_: picky_metric.Picky, rank: 1}", "metrics.picky.rank=choice(1,2)"]
    run(*typed, *SEARCH[:3], *picky, "hydra.sweeper.n_trials=1")
    assert "warning   the metric picky fails on a trial question: ValueError: rank 2" in capsys.readouterr().out


def test_an_enforced_target_of_a_misspelt_metric_is_refused_before_anything_is_computed(typed: list[str]) -> None:
    target = "+targets.context_recal={_target_: ragsweep.parts.targets.Target, threshold: .9}"
    enforced = "targets.enforce=true"
    assert run(*typed, *SWEEP, "plan=true", target).status == 0
    assert run(*typed, *SWEEP, "plan=true", "targets=rag", enforced).status == 0  # not all of its metrics are measured
    wrong = r'^targets\.context_recal: no config measures this metric; did you mean "context_recall"\?'
    with pytest.raises(ConfigError, match=wrong):
        run(*typed, *SWEEP, target, enforced)


def test_a_search_whose_budget_is_spent_is_continued_by_the_same_command(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["llm=openai", "llm.key_env=null", "llm.model=m", "llm.max_tokens=range(101,104)", "budget.calls=6"]
    with LlmServer() as server:
        typed += [*model, f"llm.base_url={server.base_url}", *SEARCH[:3]]
        ran = [run(*typed, *more) for more in (["rerun=true"], [])]
    said = capsys.readouterr().out
    assert "stopped   the budget is spent; the same command without rerun=true continues the search\n" in said
    assert "failed    #" not in said
    assert [status for status, _ in ran] == [1, 0]
    assert len({sweep for _, sweep in ran}) == 1
    assert len(server.log) == 12  # 3 configs, 4 questions


def test_a_resumed_sweep_has_the_baseline_of_its_command_even_if_no_config_has_a_new_result(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def evaluate(session: Session, experiment: Experiment, rung: int | None) -> Evaluation:
        if experiment.top_k == 1:
            raise RuntimeError("always")
        return done(session, experiment, rung)

    done = Session.evaluate
    monkeypatch.setattr(Session, "evaluate", evaluate)
    typed += ["top_k=1,2,3", "depth=4"]
    status, sweep = run(*typed)
    assert "baseline" not in capsys.readouterr().out
    assert (status, run(*typed, "baseline=3")) == (1, (1, sweep))
    assert "baseline" in capsys.readouterr().out


def interrupt(*_: object) -> str:
    raise Interrupted(signal.SIGINT)


@pytest.mark.parametrize("swept", [SWEEP, SEARCH], ids=["sweep", "search"])
def test_interruption_before_the_first_job_says_that_the_same_command_resumes(
    swept: list[str], typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(NoTracking, "open_sweep", interrupt)
        with pytest.raises(Interrupted):
            run(*typed, *swept)
    *_, plan, stopped = capsys.readouterr().out.splitlines()
    assert plan.startswith("plan")
    assert stopped == "stopped   before the first job; the same command resumes the sweep"
    assert run(*typed, *swept).status == 0


def test_an_interrupted_search_with_rerun_is_resumed_without_rerun(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(*typed, *SEARCH).sweep
    with monkeypatch.context() as patched:
        patched.setattr(NoTracking, "open_sweep", interrupt)
        with pytest.raises(Interrupted):
            run(*typed, *SEARCH, "rerun=true")
    assert "the same command without rerun=true resumes the sweep" in capsys.readouterr().out
    resumed = run(*typed, *SEARCH)
    assert resumed.status == 0
    assert resumed.sweep not in (None, first)


@pytest.mark.parametrize("is_typed", [True, False])
def test_the_baseline_of_a_search_is_trial_0_if_its_command_or_its_file_declares_it(
    is_typed: bool, typed: list[str]
) -> None:
    declared = "top_k=5"
    if not is_typed:
        write_option(Path(), "sweeps/mine", f"# @package _global_\nbaseline: {declared}\n")
    lines = [f"baseline={declared}"] if is_typed else ["sweeps=mine"]
    status, sweep = run(*typed, *SEARCH, *lines)
    assert status == 0
    outcomes = [record.outcome for record in Ledger(Path("store")).records(sweep or "")]
    assert {one.run.config["baseline"] for one in outcomes if isinstance(one, Result)} == {1}


def test_a_finished_search_is_shown_again_with_another_baseline(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run(*typed, *SEARCH)
    assert run(*typed, *SEARCH, "baseline=2").status == 0
    assert "is already finished" in capsys.readouterr().out


def test_configs_that_compute_the_same_are_named(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A sweep of a prompt without an llm would only show equal scores."""
    run(*typed, "prompt=default,concise", "plan=true")
    assert "note      1 of 2 configs (concise) repeats the results of an earlier config: " in capsys.readouterr().out
    for swept in (SWEEP, ["budget.calls=10,40,20"]):  # more calls may give more scores
        run(*typed, *swept, "plan=true")
        assert "note" not in capsys.readouterr().out
