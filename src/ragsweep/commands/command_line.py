"""Shared parts of the commands: options with one-line errors, closed pipes, and metrics to show."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result, objectives
from ragsweep.report.tables import headline
from ragsweep.report.terminal import discard_output

RUN = "an evaluated config: SWEEP#NUMBER, its name, its MLflow run id, or a prefix of that"
METRIC = "only this metric; may be given several times (default: the objective and the metrics of tables)"

LABELS = """human labels of some answers (CSV, TSV or JSON lines: question_id, metric, label, run, answer); they
correct the difference of a judged metric, and the corrected difference decides"""


class Parser(argparse.ArgumentParser):
    """An argument parser with one-line errors."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with the fault that argparse found."""
        raise ConfigError(f"{self.prog.removeprefix('ragsweep ')}: {message.removeprefix('argument ')}; see --help")


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add the option for the ledger's folder."""
    parser.add_argument(
        "--path",
        default=os.environ.get("RAGSWEEP_STORE", ".ragsweep"),
        help="folder of the ledger, and of stored answers",
    )


@contextmanager
def ignore_closed_pipe() -> Iterator[None]:
    """Exit the block without an error if the reader of the output, such as head, has closed the pipe."""
    try:
        yield
        sys.stdout.flush()  # here rather than at interpreter exit
    except BrokenPipeError:
        discard_output(sys.stdout)


def usual_metrics(results: Sequence[Result]) -> list[str]:
    """Return the metrics to show by default: the objective, then the columns of the final table."""
    named = [name for result in results for name in objectives(result.config)]
    return list(dict.fromkeys([*named, *headline(results)]))
