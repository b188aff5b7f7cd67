"""Run commands as a user types them, evaluate configs in this process, and read the results of both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ragsweep.core.results import Evaluation, Result
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.experiment import Experiment
from ragsweep.records.ledger import Ledger
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import open_store
from ragsweep.sweep.composing.command import Command, read_command
from ragsweep.sweep.composing.composition_errors import compose
from ragsweep.sweep.composing.job import Job, JobConfig
from ragsweep.sweep.composing.sweep_names import defining
from ragsweep.sweep.running.session import Session
from support import write_rows
from support.servers import forked

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


ROOT = Path(__file__).parents[2]
RUN = str(ROOT / "run.py")
TEXTS = {
    "cats": "The cat sleeps on the warm mat near the stove.",
    "dogs": "Dogs guard the yard and bark at strangers.",
    "bread": "Bread is baked from flour, water, salt and yeast.",
    "ships": "Ships carry goods across the sea from port to port.",
}
GOLDEN = [
    {"id": "q1", "question": "where does the cat rest", "category": "animals",
     "evidence": [{"document": "cats", "anchor": "warm mat"}]},
    {"id": "q2", "question": "what keeps the yard safe", "category": "animals",
     "evidence": [{"document": "dogs", "anchor": "guard the yard"}]},
    {"id": "q3", "question": "flour and water become what", "category": "food", "evidence": [{"document": "bread"}]},
    {"id": "q4", "question": "price of a ship", "category": "unanswerable", "answerable": False,
     "unanswerable_type": "out_of_database"},
]  # fmt: skip

Finished = subprocess.CompletedProcess[str]
Ragsweep = Callable[..., Finished]


CORPUS = [{"id": name, "text": text} for name, text in TEXTS.items()]
Rows = Sequence[Mapping[str, Any]]


def write_dataset(folder: Path, golden: Rows = GOLDEN, corpus: Rows = CORPUS) -> list[str]:
    """Write a dataset, by default the small one, and return the overrides that select it in that folder."""
    return [*write_files(folder, corpus, golden), "retriever=bm25"]


def write_files(folder: Path, corpus: Rows, golden: Rows, root: str = "") -> list[str]:
    """Write documents and questions, and return the overrides that select them; their paths start with ``root``."""
    write_rows(folder / "corpus.jsonl", corpus)
    write_rows(folder / "golden.jsonl", golden)
    return ["dataset=jsonl", f"dataset.corpus={root}corpus.jsonl", f"dataset.golden={root}golden.jsonl"]


def user_environment(**variables: str) -> dict[str, str]:
    """Return a user's environment, without the variables that the test run itself has set."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "RAGSWEEP_", "HYDRA_"))
    }
    return {**kept, "PYTHONWARNINGS": "ignore", "COLUMNS": "200", "OMP_NUM_THREADS": "1", **variables}


def call(folder: Path, *command: str, **variables: str) -> Finished:
    """Run Python with a command in a folder: ``RUN`` and overrides, or ``-m ragsweep`` and another command."""
    if RUN in command and not any(one.startswith(("tracking", "plan=")) for one in command):
        add_tables(folder)
    return forked.library(command).run(
        [sys.executable, *command], cwd=folder, env=user_environment(**variables), capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip


def printed(folder: Path, *command: str, **variables: str) -> str:
    """Run a command as `call` does, check that it succeeds, and return its output."""
    done = call(folder, *command, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def begin(folder: Path, *overrides: str, own_session: bool = False, **variables: str) -> subprocess.Popen[bytes]:
    """Start ``run.py`` in a folder, with its output in ``log.txt``."""
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, RUN, *overrides], cwd=folder, env=user_environment(**variables), stdout=log, stderr=log,
            start_new_session=own_session,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # the parent may ignore it
        )  # fmt: skip


def finish(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait for a command that `begin` started, and check that it succeeds."""
    assert process.wait(timeout=900) == 0, (folder / "log.txt").read_text()


TWINS = """_target_: ragsweep.parts.retrievers.HybridConvex
alpha: 0.5
legs:
  bm25: {_target_: ragsweep.parts.retrievers.Bm25, k1: 1.2}
  vector: {_target_: ragsweep.parts.retrievers.Bm25, k1: 1.9, b: 0.4}
"""


def write_option(folder: Path, name: str, text: str) -> None:
    """Write an option, such as ``retriever/mine``, in a folder of configs."""
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def write_twins(folder: Path) -> list[str]:
    """Write the option of a hybrid that needs no model, and return overrides that run it on a few questions."""
    write_option(folder / "conf", "retriever/twins", TWINS)
    return ["retriever=twins", "dataset.limit=40"]


@pytest.fixture
def environment() -> dict[str, str]:
    return user_environment()


@pytest.fixture
def ragsweep(tmp_path: Path) -> Ragsweep:
    """Return a function that runs ``run.py`` in an empty folder."""
    return lambda *overrides, **variables: call(tmp_path, RUN, *overrides, **variables)


def mlflow_client(folder: Path) -> MlflowClient:
    from mlflow import MlflowClient

    return MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")


def runs(folder: Path, kind: str) -> list[Run]:
    """Find the runs of one kind, oldest first."""
    client = mlflow_client(folder)
    experiment = client.get_experiment_by_name("ragsweep")
    found = client.search_runs([experiment.experiment_id], f"tags.`ragsweep.kind` = '{kind}'")
    return sorted(found, key=lambda run: run.info.start_time)


def artifacts(folder: Path, run: Run, path: str = "") -> set[str]:
    client = mlflow_client(folder)
    found = set()
    for item in client.list_artifacts(run.info.run_id, path):
        found |= artifacts(folder, run, item.path) if item.is_dir else {item.path}
    return found


_COMMANDS = """
import contextlib, io, json, os, sys
from ragsweep.commands.cli import main

ended, place = {}, os.getcwd()
for name, arguments in json.load(sys.stdin).items():
    os.chdir(name if os.path.isdir(name) else place)
    out, error = io.StringIO(), io.StringIO()
    sys.argv = ["ragsweep", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            main()
    except SystemExit as end:
        os.chdir(place)
        ended[name] = [end.code, out.getvalue() + error.getvalue()]
print(json.dumps(ended))
"""


def in_one_process(commands: Mapping[str, Sequence[str]], place: Path) -> dict[str, tuple[int, str]]:
    """Run commands in one process, each in the subfolder of ``place`` with its name or, without one, in ``place``.

    Returns:
        The exit status and the output of each command, by name.
    """
    done = forked.run(
        [sys.executable, "-c", _COMMANDS], input=json.dumps(commands), cwd=place, capture_output=True, text=True,
        env=user_environment(PYTHONPATH=os.pathsep.join(sys.path)), check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name: (status, text + done.stderr) for name, (status, text) in json.loads(done.stdout).items()}


MAKING = (
    "import sys; from pathlib import Path; from ragsweep.parts.tracking.database import create_tables as make\n"
    "make(sys.argv[1], Path(sys.argv[1]))"
)


@cache
def empty_database() -> bytes:
    """Return a database with MLflow's tables, cached because creating them takes seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mlflow.db")
        forked.run([sys.executable, "-c", MAKING, str(path)], check=True)
        return path.read_bytes()


def add_tables(folder: Path) -> None:
    """Write a database with empty MLflow tables to the path where a command in the folder opens its database."""
    path = folder / "mlflow.db"
    if not path.exists():
        path.write_bytes(empty_database())


def stored_session(folder: Path) -> Session:
    """Make a session that keeps its stages in a folder."""
    return Session(Evaluator(Executor(open_store(folder / "stages", lambda warning: None))))


def prepare(session: Session, *overrides: str) -> Experiment:
    """Compose and check one config."""
    name = " ".join(defining(overrides)) or "defaults"
    return session.prepare(Job(composed(*overrides), name, tuple(overrides)))


def composed(*overrides: str) -> JobConfig:
    """Compose one config; equal choices of options are composed only once, because that is slower than most tests."""
    return compose(_first_command(_place()).composer, overrides)


def read(overrides: Sequence[str], multirun: bool) -> Command:
    """Read a command; equal choices of options are composed only once."""
    return read_command(overrides, multirun, before=_first_command(_place()))


def _place() -> Path | None:
    """Return the current folder if it has configs; else None, because all folders without configs compose the same."""
    place = Path.cwd()
    return place if any((place / name).is_dir() for name in ("conf", "sweeps")) else None


@cache
def _first_command(place: Path | None) -> Command:
    del place
    return read_command([], False)


def evaluate(session: Session, *overrides: str) -> Result:
    """Evaluate one config."""
    return evaluate_with_artifacts(session, *overrides).result


def evaluate_with_artifacts(session: Session, *overrides: str) -> Evaluation:
    """Evaluate one config, and return its result with the artifacts for a tracker."""
    return session.evaluator.evaluate_with_artifacts(prepare(session, *overrides))


def beir(folder: Path, split: str = "test") -> list[str]:
    """Return the overrides that select a BEIR folder."""
    return ["dataset=beir", f"dataset.path={folder}", f"dataset.split={split}"]


@dataclass(frozen=True)
class Ended:
    """The outcome of a sweep: values by config, and how often each stored stage was computed."""

    scores: Mapping[str, Mapping[str, float]]
    executed: Counter[str]


def ended(folder: Path) -> Ended:
    found = results(folder)
    return Ended({f"{number} {one.name}": scores(one) for number, one in enumerate(found)}, executed(found))


def results(folder: Path) -> list[Result]:
    """Read the results of the one sweep in a folder."""
    ledger = Ledger(folder / ".ragsweep")
    (sweep,) = ledger.sweeps()
    found = []
    for record in ledger.records(sweep.id):
        assert isinstance(record.outcome, Result), record.outcome
        found.append(record.outcome)
    return found


def scores(result: Result) -> dict[str, float]:
    """Return metric -> value for the measured metrics, without latencies."""
    return {name: one.value for name, one in result.summaries.metrics.items() if one.n_scored and "latency" not in name}


def executed(found: Iterable[Result]) -> Counter[str]:
    """Count how often each stored stage was computed, except latency, which a busy machine may measure again."""
    counts: Counter[str] = Counter()
    for result in found:
        stages = result.run.stages.items()
        counts.update({stage: int(work["executed"]) for stage, work in stages if stage not in ("context", "latency")})
    return +counts
