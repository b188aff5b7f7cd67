"""``ragsweep golden``: build, check, review and convert golden sets; one file per subcommand."""

import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword

from ragsweep.commands.command_line import ignore_closed_pipe
from ragsweep.core.errors import ConfigError, nearest

SUBCOMMANDS = {
    "add": "add a question, with evidence found by searching the corpus",
    "build": "build a golden set from a corpus, by rule or with a model",
    "check": "list every fault of a golden file, with its line and the nearest passage",
    "diff": "list the questions and fields in which two golden sets differ",
    "export": "write a golden set in the format of another tool, and count the lost values",
    "gates": "judge a golden set: each gate's value, threshold and verdict",
    "harvest": "add questions from production logs, with the evidence that a search proposes",
    "import": "import questions in another format as a golden file, and find their evidence",
    "items": "report from past sweeps which questions discriminate between configs, and write a mini set",
    "partition": "write the tune and holdout questions to two files",
    "pool": "list the unjudged chunks that a sweep's configs retrieved, most influential first",
    "review": "judge generated questions, or the passages of a pool, on a local page",
    "verify": "list the labels that a change of the corpus invalidates, and repair the unambiguous ones",
}

_USAGE = "usage: ragsweep golden COMMAND ...; each command has --help\n\n"


def golden(arguments: Sequence[str]) -> int:
    """Run a subcommand of ``ragsweep golden``; return its exit status.

    Without arguments, and for --help, print the list of subcommands and exit with status 0. Raises ConfigError for an
    unknown subcommand.
    """
    command, *rest = arguments or ["--help"]
    if command in ("-h", "--help"):
        widest = max(map(len, SUBCOMMANDS))
        with ignore_closed_pipe():
            print(_USAGE + "\n".join(f"  {name:<{widest}}  {what}" for name, what in SUBCOMMANDS.items()))
        sys.exit(0)
    if command not in SUBCOMMANDS:
        raise ConfigError(f'golden: no command "{command}"{nearest(command, SUBCOMMANDS)}')
    name = f"{command}_" if iskeyword(command) else command
    status: int = getattr(import_module(f"ragsweep_golden.commands.{name}"), name)(rest)
    return status
