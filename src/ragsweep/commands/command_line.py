"""What the commands share: options with one-line errors, output that may be cut off, recorded runs and sweeps."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.results import HumanLabel, Result, objectives
from ragsweep.records.ledger import Ledger
from ragsweep.report.tables import headline

RUN = "MLflow run id of an evaluated config, or its beginning"
METRIC = "only this metric; may be given several times (the objective, and those that tables show)"

LABELS = """people's labels of some answers (CSV, TSV or JSON lines: question_id, metric, label, run, answer): they
correct the difference of a judged metric, and the corrected one decides"""


class RecordedRun(NamedTuple):
    """A result, and the id of the MLflow run that shows it."""

    run: str
    result: Result

    def __str__(self) -> str:
        """Return the config's name and the beginning of the id."""
        return f"{self.result.name} ({self.run[:8]})"

    @property
    def facts(self) -> dict[str, str]:
        """The run in JSON types."""
        return {"run_id": self.run, "name": self.result.name}


class Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with the fault that argparse found."""
        raise ConfigError(f"{self.prog.removeprefix('ragsweep ')}: {message.removeprefix('argument ')}; see --help")


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add the option for the ledger's folder."""
    parser.add_argument("--path", default=os.environ.get("RAGSWEEP_STORE", ".ragsweep"), help="folder of the ledger")


@contextmanager
def ignore_closed_pipe() -> Iterator[None]:
    """End the block without an error where the reader of the output, such as head, has closed the pipe."""
    try:
        yield
        sys.stdout.flush()  # here, and not when Python ends
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_ledger(path: str) -> Ledger:
    """Open the ledger in a folder; raises InputError where there is none."""
    folder = Path(path)
    if not (folder / "ledger.db").exists():
        raise InputError(f"{folder}: no ledger.db in it; give the folder of store.path with --path")
    return Ledger(folder)


def find_run(path: str, run: str) -> RecordedRun:
    """Read a result by its MLflow run, or the beginning of the id; raises InputError where not just one matches."""
    ledger = open_ledger(path)
    records = ledger.of_run(run) if run else []
    runs = [RecordedRun(record.run or "", record.outcome) for record in records if isinstance(record.outcome, Result)]
    if len(runs) == 1:
        return runs[0]
    if runs:
        raise InputError(f'{len(runs)} runs begin with "{run}"; give more of the id')
    if _sweep_ids(ledger, run):
        raise InputError(f'"{run}" is a sweep; name one of its configs, a child of it in MLflow')
    why = "that config failed" if records else "run ids are shown in MLflow, and --path says which ledger is read"
    raise InputError(f'{path}: no result of a run "{run}"; {why}')


def find_sweep(path: str, run: str) -> list[Result]:
    """Read the results of a sweep by its parent run, in the order of its configs, without failed ones.

    Raises InputError where there is not just one such sweep, or nothing of it was measured.
    """
    ledger = open_ledger(path)
    sweeps = _sweep_ids(ledger, run)
    if len(sweeps) > 1:
        raise InputError(f'{len(sweeps)} sweeps begin with "{run}"; give more of the id')
    if not sweeps:
        why = "it is the run of one config; a sweep is its parent" if run and ledger.of_run(run) else (
            "its id is that of the parent run in MLflow, and --path says which ledger is read"
        )  # fmt: skip
        raise InputError(f'{path}: no sweep "{run}"; {why}')
    results = sweep_results(ledger, sweeps[0])
    if not results:
        raise InputError(f'no config of the sweep "{run}" was measured')
    return results


def sweep_results(ledger: Ledger, sweep: str) -> list[Result]:
    """Read the results of a sweep, in the order of its configs, without failed ones."""
    return [record.outcome for record in ledger.records(sweep) if isinstance(record.outcome, Result)]


def usual_metrics(results: Sequence[Result]) -> list[str]:
    """Name the metrics to show first: the objective, then the columns of the table at the end."""
    named = [name for result in results for name in objectives(result.config)]
    return list(dict.fromkeys([*named, *headline(results)]))


def check_labelled(labels: Sequence[HumanLabel], metrics: Sequence[str]) -> None:
    """Raise InputError where all labels are of metrics that the command does not compare by."""
    named = list(dict.fromkeys(label.metric for label in labels))
    if named and not set(named) & set(metrics):
        raise InputError(
            f"--labels: are of {', '.join(named)}, and compared are {', '.join(metrics)}; label one of these"
        )


def _sweep_ids(ledger: Ledger, run: str) -> list[str]:
    return [sweep.id for sweep in ledger.sweeps() if run and sweep.parent.startswith(run)]
