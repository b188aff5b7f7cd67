"""Configs race: the worse ones are dropped, and what is saved is counted by the server that was not called."""

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from llm_server import LlmServer, ModelRequest
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.results import COMPLETE, DROPPED, Result
from ragsweep.parts.metrics import ContextRecall
from ragsweep.records.ledger import Ledger
from ragsweep.report.race import saved
from ragsweep.stats.comparable import check_whole
from ragsweep.sweep import sweeping
from ragsweep.sweep.races import BettingRace
from support import nightly, write_rows
from support.commands import ROOT, read, runs, write_files
from support.servers import forked

pytestmark = pytest.mark.slow

QUESTIONS = 48
RIGHT = {"good": 8, "fair": 7, "poor": 3, "bad": 0}
"""Model -> of how many in eight questions it knows the answer."""
FREQUENT = {"frequent": True, "rare": False}
"""Model -> whether it knows the answers to the questions with a weight, one in four, or to the others."""


CALLED: list[str] = []
"""The models that were asked, a call each."""


def answer(asked: ModelRequest) -> str:
    model = str(asked.body["model"])
    CALLED.append(model)
    number = int(asked.last.rpartition("amber")[2].split()[0])
    right = (number % 4 == 0) == FREQUENT[model] if model in FREQUENT else number % 8 < RIGHT[model]
    return "salt" if right else "a stone"


@pytest.fixture
def server(cwd: Path) -> Iterator[LlmServer]:
    CALLED.clear()
    with LlmServer(answer) as made:
        yield made


def data(folder: Path) -> list[str]:
    corpus = [{"id": f"d{n}", "text": f"Amber{n} brick{n} candle{n} rest on shelf{n}."} for n in range(QUESTIONS)]
    golden = [
        {"id": f"q{n}", "question": f"brick{n} candle{n} shelf{n} amber{n} ?", "references": ["salt"],
         "category": f"c{n % 3}", "evidence": [{"document": f"d{n}"}]}
        for n in range(QUESTIONS)
    ]  # fmt: skip
    return write_files(folder, corpus, golden)


def typed(server: LlmServer, folder: Path, *more: str) -> list[str]:
    llm = ["llm=openai", f"llm.base_url={server.base_url}", "llm.key_env=null", "llm.concurrency=4"]
    return [*data(folder), *llm, "retriever=bm25", "depth=4", "top_k=2", "~metrics.semantic_similarity",
            "objective=token_f1", "tracking=none", "targets=none", *more]  # fmt: skip


GRID = ["llm.model=poor,good,fair,bad", "hydra/sweeper/race=betting", "hydra.sweeper.race.block=8"]


def run(*overrides: str, store: str = "store") -> int:
    return sweeping.run(read([*overrides, f"store.path={store}"], multirun=True)).status


def results(store: str = "store") -> dict[str, Result]:
    ledger = Ledger(Path(store))
    found = [record.outcome for record in ledger.records(ledger.sweeps()[-1].id)]
    return {str(one.run.parameters["llm.model"]): one for one in found if isinstance(one, Result)}


def test_worse_configs_are_dropped(server: LlmServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*typed(server, tmp_path, *GRID)) == 0
    found, said = results(), capsys.readouterr().out
    assert {model: one.run.state for model, one in found.items()} == {
        "poor": DROPPED, "good": COMPLETE, "fair": COMPLETE, "bad": DROPPED,
    }  # fmt: skip
    asked = {model: one.run.race["asked"] if one.run.state == DROPPED else QUESTIONS for model, one in found.items()}
    assert Counter(CALLED) == asked  # once each, and none of a question that need not be asked
    assert 8 <= asked["bad"] <= asked["poor"] < QUESTIONS
    assert found["bad"].run.race["ahead"] > 0
    with closing(sqlite3.connect("store/ledger.db")) as connection:  # of rungs that are over nothing is left
        kept = connection.execute("SELECT count(*), count(DISTINCT shared) FROM records").fetchone()
        assert (*kept, *connection.execute("SELECT count(*) FROM shared").fetchone()) == (4, 3, 3)
    told = saved(list(found.values()))
    assert told.questions == told.calls == 4 * QUESTIONS - len(server.log)
    assert f"saved {told.questions} of {4 * QUESTIONS} questions" in said
    with pytest.raises(InputError, match="dropped by a race after"):
        check_whole(found["bad"])


@pytest.mark.nightly
def test_race_without_a_drop_ends_with_the_records_of_no_race(server: LlmServer, tmp_path: Path) -> None:
    models = "llm.model=good,fair"
    assert run(*typed(server, tmp_path, models, "hydra/sweeper/race=betting", "hydra.sweeper.race.margin=0.5")) == 0
    raced = results()
    assert run(*typed(server, tmp_path, models), store="other") == 0
    for model, plain in results("other").items():
        for field in ("signature", "name", "state", "race", "dataset", "addresses"):
            assert getattr(raced[model].run, field) == getattr(plain.run, field), field
        assert raced[model].summaries.usage == plain.summaries.usage
        assert _untimed(raced[model].questions) == _untimed(plain.questions)
        assert _untimed(raced[model].summaries.metrics) == _untimed(plain.summaries.metrics)


def _untimed(table: Mapping[str, object]) -> dict[str, str]:
    """Leave out values that differ in each run, such as times; as text, NaN equals NaN."""
    return {name: repr(value) for name, value in table.items() if not name.startswith(("latency", "steps"))}


def fates(store: str) -> dict[str, tuple[object, ...]]:
    found = results(store).items()
    return {model: (one.run.state, one.run.race.get("asked"), one.run.race.get("ahead")) for model, one in found}


class Killed(BaseException):
    """A substitute for a process that ends immediately."""


@pytest.mark.nightly
@pytest.mark.parametrize("limits", [(6,), (1, 2, 3, 4, 5, 7, 8, 10, 12, 14, 16)])
def test_killed_race_goes_on_drops_the_same_and_asks_nothing_twice(
    limits: tuple[int, ...], server: LlmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*typed(server, tmp_path, *GRID), store="whole") == 0
    expected = fates("whole")
    needed = len(server.log)
    write: Callable[..., int] = Ledger.write
    for limit in limits:
        del server.log[:]
        count = 0

        def writes(*given: object, limit: int = limit, **more: object) -> int:
            nonlocal count
            count += 1
            if count == limit:
                raise Killed
            return write(*given, **more)

        store = f"store{limit}"
        monkeypatch.setattr(Ledger, "write", writes)
        with pytest.raises(Killed):
            run(*typed(server, tmp_path, *GRID), store=store)
        monkeypatch.setattr(Ledger, "write", write)
        assert run(*typed(server, tmp_path, *GRID), store=store) == 0
        assert fates(store) == expected
        assert len(server.log) == needed


def test_race_with_another_seed_is_another_sweep(server: LlmServer, tmp_path: Path) -> None:
    """In the records of a killed race it would not find the scores of its first questions."""
    for more in ([], ["seed=3"], [], ["seed=3"]):
        assert run(*typed(server, tmp_path, *GRID, *more)) == 0
    assert len(Ledger(Path("store")).sweeps()) == 2


@pytest.mark.nightly
def test_killed_race_has_one_run_a_config(server: LlmServer, tmp_path: Path, environment: dict[str, str]) -> None:
    """After kill -9 at most the block that was being asked is asked again: what came back was not all written."""
    lines = [line for line in typed(server, tmp_path, *GRID) if line != "tracking=none"]
    command = [sys.executable, str(ROOT / "run.py"), "-m", *lines]
    variables = {**environment, "PYTHONPATH": str(ROOT / "src")}
    for limit in (5, 30, 45, 70, 100):
        process = forked.Popen(command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, start_new_session=True)
        while len(CALLED) < limit and process.poll() is None:
            time.sleep(0.005)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    done = forked.run(command, cwd=tmp_path, env=variables, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = results(".ragsweep")
    assert {model for model, one in found.items() if one.run.state == DROPPED} == {"bad", "poor"}
    needed = sum(one.run.race["asked"] if one.run.state == DROPPED else QUESTIONS for one in found.values())
    assert needed <= len(CALLED) <= needed + 5 * 8
    (parent,) = runs(tmp_path, "sweep")
    children = runs(tmp_path, "config")
    assert len(children) == 4
    assert {run.info.status for run in [parent, *children]} == {"FINISHED"}
    states = {run.data.params["llm.model"]: run.data.tags.get("ragsweep.state") for run in children}
    assert states == {"good": None, "fair": None, "poor": "dropped", "bad": "dropped"}
    assert parent.data.metrics["race/questions_saved"] == 4 * QUESTIONS - needed
    (dropped,) = (run for run in children if run.data.params["llm.model"] == "bad")
    assert dropped.data.metrics["race_asked"] == found["bad"].run.race["asked"]


@pytest.mark.nightly
@pytest.mark.parametrize(("heavy", "dropped"), [(1, "frequent"), (30, "rare")])
def test_a_race_is_decided_by_traffic(heavy: int, dropped: str, server: LlmServer, tmp_path: Path) -> None:
    """One model is right on a quarter of the questions, which has ten elevenths of the traffic."""
    overrides = typed(server, tmp_path, "llm.model=frequent,rare", *GRID[1:])
    golden = [json.loads(line) for line in Path("golden.jsonl").read_text().splitlines()]
    rows = [{**row, "weight": 1 if n % 4 else heavy} for n, row in enumerate(golden)]
    write_rows(Path("golden.jsonl"), rows)
    assert run(*overrides) == 0
    found = results()
    assert [model for model, one in found.items() if one.run.state == DROPPED] == [dropped]
    if heavy > 1:
        assert found["frequent"].summaries.metrics["token_f1"].value == pytest.approx(heavy / (heavy + 3))


def search(server: LlmServer, folder: Path, *more: str) -> list[str]:
    sweeper = ["hydra/sweeper=optuna", "hydra/sweeper/sampler=grid", "hydra.sweeper.direction=maximize",
               "hydra.sweeper.default=false", "hydra.sweeper.storage=sqlite:///study.db",
               "hydra/sweeper/race=betting", "hydra.sweeper.race.block=8", "hydra.sweeper.n_trials=4"]  # fmt: skip
    return typed(server, folder, *sweeper, *more)


@pytest.mark.nightly
@pytest.mark.parametrize("together", [2, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 4))])
def test_trials_race_with_each_other_and_with_those_before(together: int, server: LlmServer, tmp_path: Path) -> None:
    import optuna

    lines = search(server, tmp_path, "llm.model=good,bad,fair,poor", f"hydra.sweeper.n_jobs={together}")
    assert run(*lines) == 0
    found = results()
    assert {model for model, one in found.items() if one.run.state == DROPPED} == {"bad", "poor"}
    (study,) = optuna.get_all_study_names("sqlite:///study.db")
    trials = optuna.load_study(study_name=study, storage="sqlite:///study.db").trials
    assert [trial.state.name for trial in trials] == ["COMPLETE", "PRUNED", "COMPLETE", "PRUNED"]
    for trial, model in zip(trials, ("good", "bad", "fair", "poor"), strict=True):
        if trial.state.name == "PRUNED":
            steps = trial.intermediate_values
            assert max(steps) == found[model].run.race["asked"]
            assert steps[max(steps)] == pytest.approx(found[model].summaries.metrics["token_f1"].value)
    assert len(CALLED) < 4 * QUESTIONS


@pytest.mark.parametrize("free", [True, False])
def test_a_search_says_once_that_its_race_saves_nothing(
    free: bool, server: LlmServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = search(server, tmp_path, "top_k=1,2,3", "llm.model=good", "hydra.sweeper.race.margin=0.5")
    free_lines = [line for line in lines if not line.startswith(("llm", "~metrics", "objective"))]
    assert run(*(free_lines if free else lines)) == 0
    said = "a race would save nothing" if free else "no config was dropped"
    assert capsys.readouterr().out.count(said) == 1


SYSTEM = ["system=python", "system.function=animals.ask", "~metrics.semantic_similarity"]


@pytest.mark.parametrize("lines", [["retriever=bm25", "top_k=1,2", "depth=4"], ["top_k=1", "depth=3,4", *SYSTEM]])
def test_where_no_call_is_saved_nothing_is_raced(
    lines: list[str], cwd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An external system answers all questions in the first rung, so only verdicts on its answers could be saved."""
    monkeypatch.syspath_prepend(cwd)
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "animals")
    Path("animals.py").write_text("def ask(question):\n    return 'salt'\n")
    assert run(*data(cwd), "tracking=none", "hydra/sweeper/race=betting", *lines) == 0
    said = capsys.readouterr().out
    assert "a race would save nothing" in said
    assert "dropped" not in said


def test_a_metric_without_finite_bounds_is_refused_as_one_without_bounds() -> None:
    rule, metric = BettingRace(), ContextRecall()
    assert rule.betting(metric).spread == 1
    for high in (math.inf, 0.0):
        metric.bounds = (0.0, high)
        with pytest.raises(ConfigError, match="has no bounds, so it cannot be raced"):
            rule.betting(metric)


TWO = "llm.model=good,bad"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["llm.model=good"], "a race needs several configs"),
        nightly([TWO, "hydra.sweeper.race.block=48"], "less than the number of questions, 48, got 48"),
        nightly([TWO, "hydra.sweeper.race.margin=1"], r"race\.margin: must be at least 0 and less than 1"),
        ([TWO, "objective=null"], "a search or a race needs a metric, got null"),
        ([TWO, "objective=latency_p95_ms"], "latency_p95_ms is a quantile, not a mean"),
        nightly([TWO, "objective=context_tokens"], "context_tokens has no bounds"),
        nightly([TWO, "objective=token_f1,refusal"], "objective: cannot differ in a race"),
        nightly([TWO, "seed=0,1"], "seed: cannot differ in a race"),
        nightly([TWO, "dataset.limit=20,30"], "must have the same questions"),
        nightly([TWO, "objective=[token_f1,refusal]", "hydra/sweeper=optuna"], "compares one number"),
        nightly(
            [TWO, "hydra/sweeper=optuna", 'hydra.sweeper.constraints=["context_tokens <= 9"]'], "by the objective alone"
        ),
        nightly([TWO, "store.stages=false"], "set store.stages=true"),
        nightly([TWO, "questions.until=8"], "questions.until: is set by a race"),
        nightly([TWO, "hydra.sweeper.race._target_=os.system"], "not trusted"),
    ],
)
def test_what_cannot_race_is_refused(lines: list[str], message: str, server: LlmServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run(*typed(server, tmp_path, "hydra/sweeper/race=betting", *lines))
    assert server.log == []
