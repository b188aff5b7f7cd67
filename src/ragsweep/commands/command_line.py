"""What the commands share: options read with one-line errors, and the runs and sweeps that they name."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.results import Result, objectives
from ragsweep.records.ledger import Ledger
from ragsweep.report.tables import headline

RUN = "MLflow run id of an evaluated config, or its beginning"
METRIC = "only this metric; may be given several times (the objective, and those that tables show)"


class Named(NamedTuple):
    """A result, and the MLflow run that shows it."""

    run: str
    result: Result


class Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with what argparse found wrong."""
        raise ConfigError(f"{self.prog.removeprefix('ragsweep ')}: {message.removeprefix('argument ')}; see --help")


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add the option for the ledger's folder."""
    parser.add_argument("--path", default=os.environ.get("RAGSWEEP_STORE", ".ragsweep"), help="folder of the ledger")


def until_closed(command: Callable[[], int]) -> int:
    """Return a printing command's status; 0 where the reader, such as head, has closed the pipe."""
    try:
        status = command()
        sys.stdout.flush()  # here, and not when Python ends
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def open_ledger(path: str) -> Ledger:
    """Open the ledger in a folder; raises InputError where there is none."""
    folder = Path(path)
    if not (folder / "ledger.db").exists():
        raise InputError(f"{folder}: no ledger.db in it; give the folder of store.path with --path")
    return Ledger(folder)


def find_run(path: str, run: str) -> Result:
    """Read the result of an MLflow run from the ledger; raises InputError where there is not just one such."""
    return find_record(path, run)[1]


def find_record(path: str, run: str) -> tuple[str, Result]:
    """Return the whole id of an MLflow run, and its result; raises InputError where there is not just one such."""
    ledger = open_ledger(path)
    found = ledger.of_run(run) if run else []
    results = [(record.run or "", record.outcome) for record in found if isinstance(record.outcome, Result)]
    if len(results) == 1:
        return results[0]
    if results:
        raise InputError(f'{len(results)} runs begin with "{run}"; give more of the id')
    if _parents(ledger, run):
        raise InputError(f'"{run}" is a sweep; name one of its configs, a child of it in MLflow')
    why = "that config failed" if found else "run ids are shown in MLflow, and --path says which ledger is read"
    raise InputError(f'{path}: no result of a run "{run}"; {why}')


def find_siblings(path: str, runs: Sequence[str]) -> list[Result]:
    """Read all results of the sweep that every one of these runs belongs to; none where there is no such sweep.

    ``runs`` are whole ids.
    """
    ledger = open_ledger(path)
    sweep, *others = {record.sweep for run in runs for record in ledger.of_run(run)}
    if others or sweep is None:
        return []
    return [one.outcome for one in ledger.records(sweep) if isinstance(one.outcome, Result)]


def find_sweep(path: str, run: str) -> list[Result]:
    """Read the results of a sweep by its parent run, in the order of its configs, without failed ones.

    Raises InputError where there is not just one such sweep, or nothing of it was measured.
    """
    ledger = open_ledger(path)
    sweeps = _parents(ledger, run)
    if len(sweeps) > 1:
        raise InputError(f'{len(sweeps)} sweeps begin with "{run}"; give more of the id')
    if not sweeps:
        why = "it is the run of one config; a sweep is its parent" if run and ledger.of_run(run) else (
            "its id is that of the parent run in MLflow, and --path says which ledger is read"
        )  # fmt: skip
        raise InputError(f'{path}: no sweep "{run}"; {why}')
    results = [record.outcome for record in ledger.records(sweeps[0]) if isinstance(record.outcome, Result)]
    if not results:
        raise InputError(f'no config of the sweep "{run}" was measured')
    return results


def usual_metrics(results: Sequence[Result]) -> list[str]:
    """Name the metrics that people look at first: the objective, then the columns of the table at the end."""
    named = [name for result in results for name in objectives(result.config)]
    return list(dict.fromkeys([*named, *headline(results)]))


def _parents(ledger: Ledger, run: str) -> Sequence[str]:
    return [sweep.id for sweep in ledger.sweeps() if run and sweep.parent.startswith(run)]
