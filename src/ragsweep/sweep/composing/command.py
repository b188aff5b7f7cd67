"""Parse a command: expand its overrides into jobs, and report a typo in one sentence with the nearest known name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from optuna_sweeper.settings import read_enqueue
from optuna_sweeper.signatures import SearchComposer
from optuna_sweeper.space import merge_overrides, read_space
from optuna_sweeper.trial_zero import TrialZero, read_baseline, trial_zero
from ragsweep.core.errors import ConfigError, RagsweepError
from ragsweep.core.secrets import Secrets
from ragsweep.report.naming import digits_for, label, label_configs, rounded
from ragsweep.sweep.composing.compose import Composer, config_folder
from ragsweep.sweep.composing.composition_errors import (
    check_readable,
    compose,
    one_sentence,
    options_with,
    wants_option,
)
from ragsweep.sweep.composing.config_policy import ConfigPolicy
from ragsweep.sweep.composing.expansion import JobCase, expand
from ragsweep.sweep.composing.job import Job, JobConfig
from ragsweep.sweep.composing.search_settings import check_conditions, is_own, searches
from ragsweep.sweep.composing.sweep_names import DEFAULTS, defining, read_settings
from ragsweep.sweep.composing.trees import parse, value_at

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class Command:
    """A parsed command: its overrides, its jobs (each a tuple of overrides), and the settings of its sweeper."""

    overrides: tuple[str, ...]  # as typed, plus the sweeper of a named sweep, and quotes and ++ that Hydra requires
    multirun: bool
    composer: Composer = field(repr=False, compare=False)
    secrets: Secrets = field(repr=False, compare=False)
    jobs: tuple[tuple[str, ...], ...] = ()
    config_dir: str | None = None
    launcher: str = ""  # the option of hydra/launcher
    batch: int | None = None  # maximum number of jobs per launch; None: no limit
    search: Mapping[str, Any] | None = None  # the sweeper's settings, if results decide the next jobs
    race: Mapping[str, Any] | None = None  # the rule that drops configs early
    cases: tuple[JobCase, ...] = field(default=(), repr=False, compare=False)  # one per job, except an added baseline
    notes: tuple[str, ...] = ()  # notes for the user on the parsed command

    @property
    def searching(self) -> bool:
        """Whether the command is a search, in which results decide the next jobs.

        If so, ``jobs`` contains only trial 0, probes and enqueued trials; for a sweeper other than ours, it contains
        only one job, with the overrides as typed.
        """
        return self.search is not None

    @property
    def in_process(self) -> bool:
        """Whether jobs run sequentially in this process."""
        return self.launcher in ("inline", "basic")

    @property
    def fixed(self) -> tuple[str, ...]:
        """The overrides of Hydra's own settings, shared by all jobs."""
        own = [line for line in self.overrides if parse(line).is_hydra_override()]
        return tuple(line for line in own if not parse(line).is_sweep_override())

    @property
    def task(self) -> list[str]:
        """The overrides of the configs themselves, without overrides of Hydra's own settings."""
        return [line for line in self.overrides if not parse(line).is_hydra_override()]

    def names(self) -> list[str]:
        """Name each job by its differences from the other jobs; if it has none, by the overrides that `_own` returns.

        If `_own` returns none, the name is "defaults". Secrets are masked.
        """
        jobs = [read_settings(job) for job in self.jobs]  # for a search, only its first jobs
        groups = [key for key in {key for job in jobs for key in job} if self.composer.is_group(key, self.overrides)]
        alone = [label(read_settings(_own(job)), groups) or DEFAULTS for job in self.jobs]
        labels = label_configs(jobs, groups)
        names = [rounded(one, digits_for(labels)) or other for one, other in zip(labels, alone, strict=True)]
        return [self.secrets.mask_text(name) for name in names]


def _own(job: Sequence[str]) -> list[str]:
    """Return the overrides that `defining` keeps, without ``sweeps`` and, if others remain, without ``dataset``."""
    lines = [line for line in defining(job) if not line.startswith("sweeps=")]
    return [line for line in lines if not re.match(r"\+*dataset[.=]", line)] or lines


def read_command(
    overrides: Sequence[str],
    multirun: bool,
    config_dir: str | None = None,
    before: Command | None = None,
) -> Command:
    """Expand overrides into a command's jobs, with Hydra's parser and by the rules of the chosen sweeper.

    ``before`` is an earlier command in the same folder with the same ``config_dir``, whose composed configs and secrets
    are reused. Raises ConfigError if the overrides cannot be read or composed; the message for a misspelt name contains
    the nearest known name.
    """
    if before is not None:
        composer, secrets = before.composer, before.secrets
    else:
        secrets = Secrets()
        composer = Composer(None if config_dir is None else Path(config_dir), ConfigPolicy(secrets))
    overrides = [_quoted(line) for line in overrides]
    check_readable(overrides)
    if config_dir is not None and not Path(config_dir).is_dir():
        raise ConfigError(f'--config-dir: no folder "{config_dir}"; create it, or correct the path')
    _refuse_misused_groups(overrides, composer)
    overrides = [*(sweepers := _sweepers(overrides, composer)), *_open_mappings(overrides, composer, sweepers)]
    check_readable(overrides)
    swept = [line for line in overrides if parse(line).is_sweep_override()]
    base = _compose_shared(overrides, composer)
    config = base.template.changed(base.changes)
    mode = OmegaConf.select(config, "hydra.mode")
    with one_sentence():
        sweeper: Any = OmegaConf.to_container(config.hydra.sweeper, resolve=True)
    named = any(line.startswith("sweeps=") for line in overrides) and (sweeper.get("params") or sweeper.get("cases"))
    multirun = multirun or bool(named) or getattr(mode, "name", mode) == "MULTIRUN"
    launcher = str(config.hydra.runtime.choices["hydra/launcher"])
    for line, override in zip(swept, map(parse, swept), strict=True):
        is_shared = override.is_hydra_override() or override.key_or_group == "sweeps"
        if not multirun and not is_shared:
            raise ConfigError(f'"{line}" names several values: {_option_to_add(line, config)}')
        if is_shared:
            key, searched = override.key_or_group, line.partition("hydra.sweeper.params.")[2]
            instead = f"write {searched}" if searched else "give it one value"
            raise ConfigError(f'{key}: cannot differ within a sweep, got "{line}"; {instead}')
    if (longest := sweeper.get("max_batch_size")) is not None and longest < 1:
        raise ConfigError(f"hydra.sweeper.max_batch_size: must be at least 1 or null, got {longest}")
    if not isinstance(race := sweeper.get("race"), Mapping | None):
        raise ConfigError(f"hydra.sweeper.race: must be chosen with hydra/sweeper/race=betting, got {race!r}")
    task = tuple(line for line in overrides if not parse(line).is_hydra_override())
    command = Command(tuple(overrides), multirun, composer, secrets, (task,), config_dir, launcher, longest)
    if not multirun:
        return command
    command, target = replace(command, race=race), str(sweeper["_target_"])
    if searches(target):
        with one_sentence():
            return _with_probes(command, sweeper, OmegaConf.select(config, "baseline"))
    with one_sentence():
        once = target.endswith(".GridSweeper")
        options = composer.options(overrides)
        cases = expand(task, sweeper["params"], sweeper.get("cases"), once=once, options=options)
    cases = [_open_case(case, composer, command.fixed) for case in cases]
    return replace(command, jobs=tuple(case.overrides for case in cases), cases=tuple(cases))


def _option_to_add(line: str, config: DictConfig) -> str:
    """Return the remedy for an override that names several values in a command without ``-m``."""
    override, (key, _, value) = parse(line), line.partition("=")
    is_list = key == "metrics" or OmegaConf.is_list(OmegaConf.select(config, override.key_or_group))
    if is_list and "[" not in value:
        return f"for a list, write {key}=[{value}]"
    is_interval = not override.is_discrete_sweep() and not searches(str(config.hydra.sweeper["_target_"]))
    return f"add {'-m hydra/sweeper=optuna to search' if is_interval else '-m to sweep'} over them"


def choices(line: str, config_dir: str | None = None, searched: Sequence[str] = ()) -> list[str]:
    """Return one override for each value that ``line`` sweeps over. Raises ConfigError if it cannot be expanded.

    ``config_dir`` is the folder of --config-dir; ``searched`` has the override of ``hydra.searchpath``, if any.
    """
    check_readable([line])
    composer = Composer(None if config_dir is None else Path(config_dir))
    with one_sentence():
        return [case.overrides[0] for case in expand([line], options=composer.options(searched))]


def _quoted(line: str) -> str:
    """Quote the value of ``baseline=``: Hydra rejects a bare ``=`` or ``#``, and reads some run ids as numbers."""
    key, _, value = line.partition("=")
    if key.lstrip("+") != "baseline" or value in ("", "null") or value[0] in "'\"":
        return line
    escaped = value.replace('"', r"\"")
    return f'{key}="{escaped}"'


def _shared(lines: Sequence[str]) -> list[str]:
    """Return the overrides that set a single value and whose keys exist in every job.

    Keys of a swept group are omitted. In a sweep, keys of metrics are also omitted, because an llm adds metrics.
    """
    parsed = [parse(line) for line in lines]
    swept = tuple(f"{one.key_or_group}." for one in parsed if one.is_sweep_override())
    brought, pairs = (*swept, "metrics.") if swept else (), zip(lines, parsed, strict=True)
    return [line for line, one in pairs if not (one.is_sweep_override() or one.key_or_group.startswith(brought))]


def _compose_shared(lines: Sequence[str], composer: Composer) -> JobConfig:
    """Compose the settings that all jobs share.

    If this fails, omit keys with dots: the sweep's ``params`` or ``cases`` may choose the options that have them.
    """
    try:
        return compose(composer, _shared(lines))
    except ConfigError:  # `compose_jobs` raises it again unless every job can be composed
        return compose(composer, [line for line in _shared(lines) if not re.match(r"\+*(?!hydra\b)\w+\.", line)])


def _open_mappings(
    lines: Sequence[str], composer: Composer, sweepers: Sequence[str], new_keys: bool = False
) -> list[str]:
    """Prefix overrides of a part's flat mapping with ``++``, which permits new keys: ``++llm.extra={seed: 1}``.

    If ``new_keys``, only overrides that set new keys are changed. The overrides ``sweepers`` precede ``lines``.
    """
    opened = list(lines)
    mappings = [line for line in lines if re.match(r"\w+(\.\w+)+=\{", line) and not parse(line).is_hydra_override()]
    if not mappings:
        return opened
    written = _compose_shared([*sweepers, *(line for line in lines if line not in mappings)], composer).template.written
    for line in mappings:
        with suppress(KeyError, TypeError):
            value: Any = parse(line).value()
            node = value_at(written, parse(line).key_or_group)
            is_flat = isinstance(node, Mapping) and not any(isinstance(one, Mapping) for one in node.values())
            if is_flat and not (new_keys and {*map(str, value)} <= {*node}):
                opened[lines.index(line)] = f"++{line}"
    return opened


def _open_case(case: JobCase, composer: Composer, fixed: Sequence[str]) -> JobCase:
    """Open the mappings of options that the job itself chooses; see `_open_mappings`."""
    with suppress(ConfigError):  # `compose_jobs` raises the error again, and names the case
        case = case._replace(overrides=tuple(_open_mappings(case.overrides, composer, fixed, new_keys=True)))
    return case


def _refuse_misused_groups(lines: Sequence[str], composer: Composer) -> None:
    """Raise ConfigError for an override that leaves a group without an option (``llm=null``, ``~llm``).

    Also raise it for a list of launchers, for several options of a group of parts (Hydra would merge them into one
    part), and for an option that is set as a value (``retriever.index=hnsw``, ``retriever.embedder=hashing``). Finally,
    raise it for ``+experiment=NAME`` unless a folder of configs has a subfolder ``experiment`` or an override adds a
    package to the search path.
    """
    packaged = any("pkg://" in line for line in lines)
    for line in lines:
        override, group = parse(line), parse(line).key_or_group
        without = override.is_delete() or override.value() is None
        if without and group != "hydra" and (config_folder() / group).is_dir():
            raise ConfigError(wants_option(line, group, composer))
        value = override.value()
        is_part = composer.is_group(group, lines) and options_with(f"{group}._target_", [config_folder()])
        if isinstance(value, list) and len(value) > 1 and is_part:
            way = f"to sweep over several, write {group}={','.join(map(str, value))}"
            raise ConfigError(f"{line}: {group} takes one option; {way}")
        if isinstance(value, list) and group == "hydra/launcher":
            raise ConfigError(f"{line}: {group} takes one option; write {group}={value[0] if value else 'inline'}")
        above, _, part = group.rpartition(".")
        is_nested = above and not override.is_hydra_override() and composer.is_group(part, lines)
        if is_nested and value in composer.options(lines)(part):
            raise ConfigError(f"{line}: {part} is a group of the whole config, not of {above}; write {part}={value}")
        if re.fullmatch(r"retriever\.(.+\.)?index", group) and isinstance(value, str) and "$" not in value:
            place = "" if group == "retriever.index" else f"@{group}"
            raise ConfigError(f"{line}: {group} is a group; write retriever/index{place}={value}")
        if group == "experiment" and override.is_add() and not composer.is_group(group, lines) and not packaged:
            raise ConfigError(
                f"{line}: the current folder has no folder conf/experiment; create it, or name another folder of"
                " configs with --config-dir FOLDER"
            )


def _sweepers(lines: Sequence[str], composer: Composer) -> list[str]:
    """List overrides that choose the sweeper, sampler and race of a named sweep, except for groups that were typed.

    Without these overrides, the main config's choices would take precedence over the named sweep's defaults.
    """
    typed = {parse(line).key_or_group for line in lines}
    folders = composer.folders(lines)
    places = [*(folder / "sweeps" for folder in folders), Path("sweeps"), config_folder().parent / "sweeps"]
    chosen = []
    values = [parse(line).value() for line in lines if parse(line).key_or_group == "sweeps"]
    for name in (value.removesuffix(".yaml") for value in values if isinstance(value, str)):
        file = next((place / f"{name}.yaml" for place in places if (place / f"{name}.yaml").is_file()), None)
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8")) if file else None
        except (yaml.YAMLError, OSError, UnicodeDecodeError, RecursionError):
            continue  # reported when the file is composed
        defaults = content.get("defaults") if isinstance(content, Mapping) else None
        entries = [entry for entry in defaults if isinstance(entry, Mapping)] if isinstance(defaults, list) else []
        for key, option in (pair for entry in entries for pair in entry.items()):
            group = str(key).removeprefix("override ").lstrip("/")
            if str(key).startswith("override ") and group.startswith("hydra/sweeper") and group not in typed:
                chosen.append(f"{group}={option}")
    return chosen


def _with_probes(command: Command, settings: Mapping[str, Any], baseline: Any) -> Command:
    """Return a search's command with its first jobs: trial 0, probes of choices and ends of ranges, enqueued trials.

    For a sweeper other than ours, set one job, as typed. A baseline that is given as overrides is replaced by 1, the
    number of trial 0, or by null if it cannot be trial 0.
    """
    task = command.task
    if not is_own(settings):
        return replace(command, jobs=(tuple(task),), search=settings)
    declared = read_baseline(baseline)
    loader = command.composer.loader(command.overrides)
    space = read_space(task, settings["params"], loader)
    check_conditions(settings["params"] or {}, loader)
    if isinstance(settings["sampler"], Mapping):
        space.check_sampler(settings["sampler"].get("name"))
    composed = trial_composer(command, "", OmegaConf.create)
    try:
        zero = trial_zero(space, composed, declared) if settings["default"] else TrialZero(())
    except ConfigError as fault:
        raise ConfigError(f"baseline: {fault}") from None
    enqueued = [merge_overrides(space.fixed, lines) for lines in read_enqueue(settings["enqueue"])]
    for number, lines in enumerate(enqueued):
        try:
            compose(command.composer, [*command.fixed, *lines])
        except ConfigError as fault:
            raise ConfigError(f"hydra.sweeper.enqueue[{number}]: {fault}") from None
    jobs = [*([zero.overrides] if settings["default"] else []), *space.probes(), *enqueued]
    note = f"the declared baseline cannot be trial 0: {zero.outside}; trial 0 is the default config of the space"
    if declared and not settings["default"]:
        note = "the declared baseline is not run, because hydra.sweeper.default=false omits trial 0"
    numbered = f"baseline={'null' if zero.outside or not settings['default'] else 1}"  # trial 0 is the first config
    return replace(
        command,
        overrides=number_baseline(command.overrides, numbered) if declared else command.overrides,
        jobs=tuple(number_baseline(job, numbered) if declared else job for job in dict.fromkeys(jobs)),
        search={**settings, "declared": declared},
        notes=(note,) if zero.outside or (declared and not settings["default"]) else (),
    )


def trial_composer(command: Command, title: str, config: Callable[[], DictConfig]) -> SearchComposer:
    """Return the composer of a search's trials; ``title`` and ``config`` are passed on to SearchComposer."""
    composer, fixed, loader = command.composer, command.fixed, command.composer.loader(command.overrides)
    faults = HydraException, OmegaConfBaseException, RagsweepError
    return SearchComposer(lambda lines: compose(composer, [*fixed, *lines]), loader, title, config, faults)


def number_baseline(lines: Sequence[str], numbered: str) -> tuple[str, ...]:
    """Return ``lines`` with ``numbered`` in place of the override of ``baseline``, or at the end if there is none."""
    return tuple(dict.fromkeys([*(numbered if re.match(r"\+*baseline=", one) else one for one in lines), numbered]))


def compose_jobs(command: Command) -> list[Job]:
    """Return the jobs of a command, each with its composed config.

    Raises ConfigError for the first job that cannot be composed; if a case causes the error, the message names the
    case.
    """
    jobs, fixed = [], command.fixed
    for number, (overrides, name) in enumerate(zip(command.jobs, command.names(), strict=True)):
        lines = [*fixed, *overrides]
        try:
            _refuse_misused_groups(lines, command.composer)
            config = compose(command.composer, lines, command.jobs, command.searching)
        except ConfigError as fault:
            case = command.cases[number] if number < len(command.cases) else None
            raise ConfigError(f"{case.blamed(str(fault)) if case else ''}{fault}") from None
        jobs.append(Job(config, name, overrides, number, searching=command.searching))
    return jobs
