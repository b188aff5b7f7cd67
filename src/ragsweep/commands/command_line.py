"""Functions that commands share: options with one-line errors, output of documents, and default metrics."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.results import Result, objectives
from ragsweep.report.document import Block, Document, Section
from ragsweep.report.tables import headline, to_json
from ragsweep.report.terminal import Terminal, discard_output
from ragsweep.report.writers.markdown import as_markdown

SWEEP = "a sweep: its name, its id, the id of its MLflow parent run, or a prefix of an id"
RUN = "an evaluated config: SWEEP#NUMBER, its name, its MLflow run id, or a prefix of that id"
METRIC = "only this metric; can be repeated (default: the objective and the metrics shown in tables)"


class Parser(argparse.ArgumentParser):
    """An argument parser with one-line errors, and without abbreviated options."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{**settings, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with argparse's message on one line."""
        raise ConfigError(f"{self.prog.removeprefix('ragsweep ')}: {message.removeprefix('argument ')}; see --help")

    def print_help(self, file: Any = None) -> None:
        """Print the help to ``file``, by default the standard output; ignore an output that its reader has closed."""
        with ignore_closed_pipe():  # argparse ignores all errors of the write, but Python's exit then fails
            print(self.format_help(), end="", file=file)


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--path`` for the ledger's folder."""
    parser.add_argument(
        "--path",
        default=os.environ.get("RAGSWEEP_STORE", ".ragsweep"),
        help="folder of the ledger and the stored answers (default: RAGSWEEP_STORE, else .ragsweep)",
    )


NO_OUTPUT = "- means standard output, which is not supported; name a file"


def output_file(text: str) -> Path:
    """Return the path of a file to write; raises argparse.ArgumentTypeError for "-", which names no file."""
    if text == "-":
        raise argparse.ArgumentTypeError(NO_OUTPUT)
    return Path(text)


def add_forms(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--markdown``, which select the output format."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, with tables in the format of MLflow's log_table")
    form.add_argument("--markdown", action="store_true", help="print Markdown, for a comment on a pull request")


def print_document(document: Document, options: argparse.Namespace | None = None) -> None:
    """Print a document as JSON or Markdown if the options have ``json`` or ``markdown`` set, else for the terminal."""
    with ignore_closed_pipe():
        if getattr(options, "json", False):
            print(to_json(document.facts))
        elif getattr(options, "markdown", False):
            sys.stdout.write(as_markdown(document))
        else:
            Terminal.current().show(document)


def print_blocks(*blocks: Block) -> None:
    """Print blocks as one section in the terminal."""
    print_document(Document("", [Section(blocks)]))


def write_document(path: Path, text: str, way_out: str = "choose another file") -> None:
    """Write text to a file, creating its folder if needed; raises InputError, with ``way_out``, on failure."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}; {way_out}") from None


@contextmanager
def ignore_closed_pipe() -> Iterator[None]:
    """Exit the block without an error if the reader of the output, such as head, has closed the pipe."""
    try:
        yield
        sys.stdout.flush()  # here rather than at interpreter exit
    except BrokenPipeError:
        discard_output(sys.stdout)


def usual_metrics(results: Sequence[Result]) -> list[str]:
    """Return the metrics to show by default: the objectives, then the metrics that `headline` lists."""
    named = [name for result in results for name in objectives(result.run.config)]
    return list(dict.fromkeys([*named, *headline(results)]))
