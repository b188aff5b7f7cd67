"""The command line: ``ragsweep run …`` where the package is installed, or ``python run.py …`` in a clone."""

import errno
import gc
import io
import os
import pathlib
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from types import TracebackType
from typing import NoReturn

from ragsweep.core import interruption
from ragsweep.core.errors import RagsweepError, nearest
from ragsweep.core.escaping import visible
from ragsweep.core.secrets import Secrets, mask_text

_COMMANDS = (
    "ablate",
    "compare",
    "effects",
    "gate",
    "judge",
    "list",
    "name",
    "power",
    "report",
    "show",
    "store",
    "sync",
)

GROUP = "ragsweep.commands"
"""Entry-point group of commands in other packages: functions that take a command's arguments and return its status."""

_WAYS_OUT: dict[int | None, str] = {
    errno.ENAMETOOLONG: "the name is too long; shorten it",
    errno.ENOSPC: "cannot be written: the disk is full; free space, or write to another disk",
    errno.EDQUOT: "cannot be written: the disk quota is used up; free space, or write to another disk",
}
"""Advice for the operating system errors that bad input or a full disk can cause in any command."""

_USAGE = """usage: ragsweep run [-m] [KEY=VALUE ...]
       ragsweep list [SWEEP] [--all]
       ragsweep name RUN | SWEEP NAME
       ragsweep show RUN [--metric METRIC] [--missed]
       ragsweep report [SWEEP] [-o FILE] [--format html | markdown]
       ragsweep report --history [-o FILE]
       ragsweep compare RUN RUN [--metric METRIC] [--json | --markdown] ...
       ragsweep power RUN [RUN] [--metric METRIC] [--effect X] ...
       ragsweep power [RUN] --questions N [--clusters N] [--cost-per-question X] ...
       ragsweep gate [--baseline RUN] --candidate RUN --margin METRIC=X[%] | --at-least METRIC=X ...
       ragsweep ship RUN --name NAME [--alias ALIAS --unless-worse METRIC=X] ...
       ragsweep watch MODEL@ALIAS [--since 7d] [--max NUMBER=X] [--corpus FOLDER] [--prometheus FILE] ...
       ragsweep ablate RUN [KEY=VALUE ...] [--plan] ...
       ragsweep effects SWEEP [--metric METRIC] ...
       ragsweep judge calibrate LABELS (--run RUN | --verdicts FILE) ...
       ragsweep judge noise RUN RUN ...
       ragsweep golden build | review | gates | add | check | verify | diff | partition | items | pool ...
       ragsweep golden import | export | harvest ...
       ragsweep store [list | evict] [--path FOLDER] ...
       ragsweep sync [--uri URI] [--experiment NAME] [--all] [--path FOLDER]

  run           evaluate a config; with -m, several: ragsweep run -m top_k=3,5,10
  run --help    groups, options and keys

  list          all sweeps and runs, or all configs of one sweep
  name          name a config or a sweep, for the commands below: ragsweep name ffea9bd0#3 baseline
  show          one config: its metrics, its slices, the questions that it missed
  report        a sweep as one page for people, or as Markdown for a pull request
  compare       two configs, question by question: the difference, its interval, and where they differ
  power         the smallest difference that an existing or a planned golden set can detect
  gate          decide whether a candidate may replace the baseline: exit 0 yes, 1 no, 3 undecided
  ship          register a config as a model that MLflow serves, and move an alias to it
  watch         compare requests to a served model with its evaluation: drift, latency, gaps in the golden set
  ablate        change one thing at a time in a config, and show the effect of each change
  effects       the effect of each swept parameter, and the interaction of each pair
  judge         compare a judge with human labels (judge calibrate) or with itself (judge noise)
  golden        make, judge, check and repair golden sets: golden --help

  store         show the stored results of stages; store evict removes some of them
  sync          send MLflow the records that are missing there
  --version     print the version

RUN is SWEEP#NUMBER (ffea9bd0#3) as shown by `ragsweep list`, a name given by `ragsweep name`, or an MLflow run id.
"""


def main() -> None:
    """Run ``ragsweep COMMAND ...`` with the arguments of the process, and exit with the status of the command."""
    command, *arguments = sys.argv[1:] or [""]
    if command.partition("=")[0] in ("-sc", "--shell-completion"):
        _complete(sys.argv[1:])
    if command == "run":
        run(arguments)
    if command in _COMMANDS:
        _exit_with(partial(_command, command), arguments)
    apart = entry_points(group=GROUP)
    if command in apart.names:
        _exit_with(apart[command].load(), arguments)
    if command == "--version":
        from importlib.metadata import version

        _exit_with(partial(_print, version("ragsweep") + "\n", 0), [])
    known, unknown = command in ("", "-h", "--help"), ""
    if not known:
        commands = sorted([*_COMMANDS, *apart.names])
        near = nearest(command, ["run", *commands]).partition(" known:")[0] or ";"
        unknown = f'\nragsweep: no command "{visible(command)}"{near} known: run, {", ".join(commands)}\n'
    _exit_with(partial(_print, _USAGE + unknown, 0 if known and command else 2), [])


def run(arguments: Sequence[str] | None = None) -> None:
    """Evaluate one config, or sweep over several, and exit.

    The exit status is 0 on success, and 129, 130 or 143 after an interruption. It is 1 for a failed or incomplete
    config, a missed enforced target, or a result that MLflow lacks. It is 2 for bad input, a bad config, or an unusable
    ledger or tracker.
    """
    # Imports and composition allocate many long-lived objects: at the default threshold of 700 objects, garbage
    # collection takes an eighth of the time. A short sweep, which allocates fewer than a million, needs none.
    gc.set_threshold(1_000_000, 1, 30)
    _exit_with(partial(_command, "run"), list(sys.argv[1:] if arguments is None else arguments))


def _exit_with(command: Callable[[list[str]], int], arguments: list[str]) -> NoReturn:
    """Run a command and exit with its status; report bad input without a traceback, and end cleanly on a signal."""
    _quieten()
    if sys.stdout is None:  # closed by the caller: the next file that is opened would receive the output
        sys.stdout = pathlib.Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as in stderr: the encoding may lack a character
    sys.excepthook = _print_masked
    os.umask(os.umask(0o077) | 0o007)  # files contain questions and texts: readable by owner and group only
    interruption.raise_on_signals()
    with Secrets().masking():
        try:
            status = command(arguments)
            with suppress(BrokenPipeError):
                sys.stdout.flush()  # here rather than at interpreter exit, where a full disk gives the status 120
        except RagsweepError as fault:
            status = fault.exit_status
            print(f"ragsweep: {visible(str(fault))}", file=sys.stderr)
        except OSError as fault:
            if fault.errno not in _WAYS_OUT:
                raise
            status = RagsweepError.exit_status
            name = visible(str(fault.filename or "standard output or a file"))
            print(f"ragsweep: {name}: {_WAYS_OUT[fault.errno]}", file=sys.stderr)
        except interruption.Interrupted as signalled:
            interruption.stop_raising()
            status = signalled.exit_status
    _discard_unwritten()
    gc.freeze()  # avoids the garbage collection at exit, which takes 0.2 s after a sweep
    sys.exit(status)


def _discard_unwritten() -> None:
    """Discard buffered standard output that cannot be written, because it would make Python's exit fail."""
    try:
        sys.stdout.flush()
    except OSError:
        from ragsweep.report.terminal import discard_output

        discard_output(sys.stdout)


def _print_masked(kind: type[BaseException], fault: BaseException, trace: TracebackType | None) -> None:
    print(visible(mask_text("".join(traceback.format_exception(kind, fault, trace)))), end="", file=sys.stderr)


def _command(name: str, arguments: list[str]) -> int:
    """Run one command and return its exit status; its module is imported only here, because imports may be slow."""
    first = arguments[0] if name == "run" and arguments else ""
    if first.isalpha() and (first in ("run", *_COMMANDS) or first in entry_points(group=GROUP).names):
        raise RagsweepError(f"{first}: is a command, not an override; write ragsweep {shlex.join(arguments)}")
    status: int = getattr(import_module(f"ragsweep.commands.{name}"), name)(arguments)
    return status


def _print(text: str, status: int, arguments: list[str]) -> int:
    """Print ``text`` and return ``status``; ``arguments``, which every command takes, is ignored."""
    from ragsweep.commands.command_line import ignore_closed_pipe

    with ignore_closed_pipe():
        print(text, end="")
    return status


def _complete(arguments: list[str]) -> None:
    """Complete the name of a command after ``ragsweep``; Hydra completes the words after ``ragsweep run``."""
    words = os.environ.get("COMP_LINE", "").split(" ")
    if "query" in " ".join(arguments) and words[1:2] != ["run"]:
        apart = entry_points(group=GROUP).names
        print(" ".join(["run", *sorted([*_COMMANDS, *apart])]) if len(words) <= 2 else "")
        sys.exit(0)
    os.environ["COMP_LINE"] = " ".join([*words[:1], *words[2:]])
    run(arguments)


def _quieten() -> None:
    """Disable telemetry, progress bars and tokenizer threads of libraries, unless the environment configures them."""
    quiet = {
        "DO_NOT_TRACK": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    for name, value in quiet.items():
        os.environ.setdefault(name, value)
