"""A command's declared baseline: check its form and, if it is given as overrides, replace them with a job number."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from optuna_sweeper.parameters import is_whole
from optuna_sweeper.trial_zero import read_baseline
from ragsweep.core.errors import ConfigError
from ragsweep.sweep.composing.command import Command, compose_jobs, number_baseline
from ragsweep.sweep.composing.composition_errors import compose, one_sentence
from ragsweep.sweep.composing.job import Job, JobConfig, PlainConfig
from ragsweep.sweep.composing.search_settings import is_own, trial_names
from ragsweep.sweep.composing.settings import BASELINE, read_number
from ragsweep.sweep.composing.sweep_names import root
from ragsweep.sweep.composing.trees import OPERATIONAL, parse


def with_baseline(command: Command, made: list[Job]) -> tuple[Command, list[Job]]:
    """Replace a baseline that is declared by overrides with the number of its job; add this job if it is missing.

    Return the command and its jobs: newly composed jobs if the baseline was replaced, else ``made``. Nothing is
    replaced for a single config or a search. Raises ConfigError for an unknown job number, a baseline that differs
    within the sweep, overrides that cannot be composed, or a value that is neither a whole number nor text.
    """
    configs = [job.config for job in made]
    declared = configs[0].values[BASELINE]
    if any(config.values[BASELINE] != declared for config in configs):
        raise ConfigError(f"{BASELINE}: cannot differ within a sweep; give it one value")
    if declared is None or not command.multirun:
        return command, made
    if not (isinstance(declared, str) or is_whole(declared)):
        raise ConfigError(
            f"{BASELINE}: must be a config's number or name, a run, or overrides in quotes, got {declared!r}"
        )
    number, settings = read_number(declared), command.search
    most = len(configs) if settings is None else len(trial_names(settings)) if is_own(settings) else math.inf
    if number is not None and not 1 <= number <= most:
        last = "or higher" if most == math.inf else f"to #{most}"
        raise ConfigError(f"{BASELINE}={declared}: must be the number of a config, #1 {last}")
    if command.searching or number is not None:
        return command, made  # for a search, ``read_command`` has already replaced overrides with the number of trial 0
    with one_sentence():
        lines = read_baseline(declared)
    if lines is None:
        return command, made
    job = (*_shared(command, lines), *lines)
    try:
        config = compose(command.composer, [*command.fixed, *job])
    except ConfigError as fault:
        raise ConfigError(f"{BASELINE}: {fault}") from None
    known = next((n for n, one in enumerate(configs) if _what(one) == _what(config)), len(configs))
    jobs = command.jobs if known < len(configs) else (*command.jobs, job)
    command = replace(command, jobs=tuple(number_baseline(one, f"{BASELINE}={known + 1}") for one in jobs))
    return command, compose_jobs(command)


def _shared(command: Command, lines: Sequence[str]) -> list[str]:
    """Return the overrides that all jobs share and that ``lines``, the overrides of a baseline, do not replace.

    If ``lines`` replace an option, the shared settings that the new option lacks are omitted.
    """
    chosen = {parse(line).key_or_group for line in lines}
    shared = [line for line in command.jobs[0] if all(line in job for job in command.jobs)]
    shared = [line for line in shared if parse(line).key_or_group not in chosen]
    kept = [line for line in shared if root(line) not in chosen]
    for line in sorted({*shared} - {*kept}, key=lambda line: ("/" not in line, line)):  # options before their settings
        with suppress(ConfigError):
            compose(command.composer, [*command.fixed, *kept, *lines, line])
            kept.append(line)
    return [line for line in shared if line in kept]


def _what(config: JobConfig | PlainConfig) -> Mapping[str, object]:
    """Return the settings that identify a config: all settings except those with an `OPERATIONAL` key."""
    return {key: value for key, value in config.values.items() if key not in OPERATIONAL}
