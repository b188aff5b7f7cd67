"""``ragsweep run``: evaluate one config, or sweep over several."""

import io
import os
import shlex
from collections.abc import Sequence
from contextlib import redirect_stdout

from ragsweep.commands.command_line import Parser, ignore_closed_pipe
from ragsweep.core.errors import RagsweepError
from ragsweep.core.secrets import refuse_secrets
from ragsweep.sweep import sweeping
from ragsweep.sweep.composing.command import read_command
from ragsweep.sweep.composing.trees import is_override, parse
from ragsweep.sweep.running.hydra_launch import call_hydra

_REFUSED = {
    "--config-path -cp": "the main config is part of ragsweep; --config-dir FOLDER adds your own folder of configs",
    "--config-name -cn": "the main config is part of ragsweep; +experiment=NAME adds your own config from"
    " conf/experiment/NAME.yaml",
    "--experimental-rerun": "repeat the same overrides; stored results are reused",
}
"""Unsupported options of Hydra (name and short name) -> the replacement."""


def run(arguments: Sequence[str]) -> int:
    """Run ``ragsweep run``; return the exit status. Raises RagsweepError for bad input or a bad config."""
    parser = Parser("ragsweep run", add_help=False)
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("--cfg", "-c", choices=("job", "hydra", "all"))
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("--package", "-p")
    parser.add_argument("--run", "-r", action="store_true")  # the default
    # Options handled by Hydra.
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--hydra-help", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--shell-completion", "-sc", action="store_true")
    topics = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
    parser.add_argument("--info", "-i", nargs="?", const="all", choices=topics)
    for option in _REFUSED:
        parser.add_argument(*option.split(), dest=option, nargs="?", const="")
    flags, rest = parser.parse_known_args(arguments)
    for option, instead in _REFUSED.items():
        if getattr(flags, option) is not None:
            raise RagsweepError(f"{option.replace(' ', ', ')}: {instead}")
    if flags.multirun and (flags.cfg or flags.info):
        raise RagsweepError("-m runs a sweep, whereas --cfg and --info show a config: use only one of them")
    if (flags.resolve or flags.package) and not (flags.cfg or flags.help):
        raise RagsweepError("--resolve and --package change what --cfg shows: add --cfg job")
    # `mlflow run -P overrides="a=1 b=2"` passes all overrides as one argument.
    joined = len(rest) == 1 and "MLFLOW_RUN_ID" in os.environ and not is_override(rest[0])
    try:
        overrides = shlex.split(rest[0]) if joined else rest
    except ValueError as fault:
        way = r"""write \', \" or \\ for the character itself"""
        raise RagsweepError(f"overrides: {str(fault).lower()}; {way}") from None
    unknown = [word for word in overrides if word.startswith("-")]
    if unknown:
        raise RagsweepError(f'unknown option "{unknown[0]}"; options are listed by --hydra-help, keys by --help')
    if flags.version or flags.shell_completion:
        return call_hydra(arguments)
    refuse_secrets(overrides)
    command = read_command(overrides, flags.multirun, flags.config_dir)
    if flags.cfg or flags.help or flags.hydra_help or flags.info:
        options = [word for word in arguments if word not in rest]
        lines = [line for line in command.overrides if not (flags.hydra_help or parse(line).is_sweep_override())]
        with command.secrets.masking(), ignore_closed_pipe():
            try:
                with redirect_stdout(io.StringIO()) as shown:  # Hydra prints a traceback if its output is closed
                    call_hydra([*lines, *options])  # an override after --info would become its value
            finally:  # --help raises SystemExit
                print(shown.getvalue(), end="", flush=True)
        return 0
    return sweeping.run(command).status
