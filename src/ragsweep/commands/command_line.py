"""What the commands share: options with one-line errors, output that may be cut off, recorded runs and sweeps."""

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

RUN = "an evaluated config: SWEEP#NUMBER, or a name that it was given, or its MLflow run id, or the beginning of that"
METRIC = "only this metric; may be given several times (the objective, and those that tables show)"

LABELS = """people's labels of some answers (CSV, TSV or JSON lines: question_id, metric, label, run, answer): they
correct the difference of a judged metric, and the corrected one decides"""


class Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

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
    """End the block without an error where the reader of the output, such as head, has closed the pipe."""
    try:
        yield
        sys.stdout.flush()  # here, and not when Python ends
    except BrokenPipeError:
        discard_output(sys.stdout)


def usual_metrics(results: Sequence[Result]) -> list[str]:
    """Name the metrics to show first: the objective, then the columns of the table at the end."""
    named = [name for result in results for name in objectives(result.config)]
    return list(dict.fromkeys([*named, *headline(results)]))
