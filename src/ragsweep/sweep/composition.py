"""Compose configs before Hydra does: a typo becomes one sentence, and a sweep is known before it starts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.secrets import is_masked, mask_text
from ragsweep.sweep.clashes import GROUP, may_clash, refuse_clashes
from ragsweep.sweep.confidential import note_overrides
from ragsweep.sweep.hostile import refuse_hostile, refuse_packages

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

    from hydra_plugins.ragsweep_grid import Composer, Job

CONFIG = "config"
VERSION_BASE = "1.3"
OPERATIONAL = (
    *("answer_headline", "budget", "constraints", "coverage", "finalists", "headline", "hydra", "max_failures", "plan"),
    *("prices", "recommend", "rerun", "store", "success", "targets", "timeout", "tracking"),
)
"""Keys that say how, where and at what price a config is run and shown, and not what it is."""


_LONG_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{13,}(?![\w.])")
"""A number that only arithmetic writes: 0.1 + 0.2 is 0.30000000000000004."""


def config_folder() -> Path:
    """Find the shipped ``conf``: inside the installed package, or at the root of a clone."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "conf"
    return packaged if packaged.is_dir() else package.parent.parent / "conf"


@dataclass(frozen=True)
class Command:
    """What was typed, and what Hydra makes of it: the jobs, as lists of overrides."""

    overrides: tuple[str, ...]  # as typed
    multirun: bool
    jobs: tuple[tuple[str, ...], ...] = ()
    config_dir: str | None = None
    picks: bool = False  # the sweeper can be told which jobs to launch
    search: Mapping[str, Any] | None = None  # the sweeper's settings, where it decides by results what it tries next
    race: Mapping[str, Any] | None = None  # the part that says which configs need not be asked any further
    expanded: tuple[Job, ...] = field(default=(), repr=False, compare=False)  # the jobs with the cases they come from
    guard: Guard | None = field(default=None, repr=False, compare=False)

    @property
    def searching(self) -> bool:
        """Whether results decide what is tried next: then the jobs are the first one, and others that must compose."""
        return self.search is not None

    def names(self) -> list[str]:
        """Name each job by what tells it from its siblings; where nothing does, by all that says what it is.

        Secrets are masked; jobs that differ in nothing else are numbered.
        """
        jobs = [[_LONG_NUMBER.sub(_rounded, line) for line in job] for job in self.jobs]
        named = Counter(override for job in jobs for override in set(job))
        varying = {override for override, count in named.items() if count < len(jobs)}
        whole = [" ".join(o for o in defining(job) if not o.startswith("sweeps=")) for job in jobs]
        own = [" ".join(o for o in job if o in varying) for job in jobs]
        return _masked([name or every or "defaults" for name, every in zip(own, whole, strict=True)])


def _masked(names: list[str]) -> list[str]:
    """Mask the secrets in names; those that were different stay different."""
    if not is_masked("\n".join(names)):
        return names
    shown, alike = [mask_text(name) for name in names], dict[str, dict[str, int]]()
    for name, masked in zip(names, shown, strict=True):
        same = alike.setdefault(masked, {})
        same.setdefault(name, len(same) + 1)
    return [
        f"{masked} ({alike[masked][name]})" if len(alike[masked]) > 1 else masked
        for name, masked in zip(names, shown, strict=True)
    ]


def defining(overrides: Sequence[str]) -> list[str]:
    """Keep the overrides that say what a config is: those that may name it."""
    return [line for line in overrides if re.split(r"[./=@]", line.lstrip("+~"))[0] not in OPERATIONAL]


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.12g}"


def composed_once() -> AbstractContextManager[None]:
    """Let Hydra, while this lasts, use what was composed here; no config file may change meanwhile."""
    from hydra_plugins.ragsweep_grid import sharing

    return sharing()


def read_command(overrides: Sequence[str], multirun: bool, config_dir: str | None = None) -> Command:
    """Expand overrides into jobs with Hydra's own parser and sweeper rules.

    Raises ConfigError with the nearest known name for whatever cannot be composed.
    """
    parsed = _parse(overrides)
    guard = Guard(_composer(config_dir))
    overrides = [*_sweepers(parsed, guard.composer), *overrides]
    parsed = _parse(overrides)
    fixed = [o.input_line or "" for o in parsed if not o.is_sweep_override()]
    guard.check(fixed)
    hydra = _compose(guard.composer, fixed, with_hydra=True).hydra
    mode = OmegaConf.select(hydra, "mode")
    multirun = multirun or getattr(mode, "name", mode) == "MULTIRUN"
    sweeps = [o for o in parsed if o.is_sweep_override()]
    if sweeps and not multirun:
        raise ConfigError(f'"{sweeps[0].input_line}" names several values: add -m to sweep over them')
    for override in sweeps:
        if override.is_hydra_override():
            raise ConfigError(f'{override.key_or_group}: cannot differ within a sweep, given "{override.input_line}"')
    task = tuple(o.input_line or "" for o in parsed if not o.is_hydra_override())
    if multirun and searches(hydra):
        search, jobs = _search(hydra, task, guard.composer)
        return Command(
            tuple(overrides), multirun, jobs, config_dir, search=search, race=search.get("race"), guard=guard
        )
    expanded = _expand(hydra, task) if multirun else ()
    jobs = tuple(job.overrides for job in expanded) or (task,)
    picks = str(hydra.sweeper._target_).endswith(".GridSweeper")
    race = OmegaConf.select(hydra, "sweeper.race") if multirun else None
    raced: Any = OmegaConf.to_container(race, resolve=True) if OmegaConf.is_config(race) else race
    return Command(tuple(overrides), multirun, jobs, config_dir, picks, None, raced, expanded, guard)


def _sweepers(parsed: Sequence[Override], composer: Composer) -> list[str]:
    """List the sweeper, and its sampler, that a named sweep chooses, where nothing else was typed.

    In Hydra the main config's own choice would win over that of a config which it names.
    """
    typed = {override.key_or_group for override in parsed}
    found = []
    for override in parsed:
        if override.key_or_group == "sweeps" and isinstance(override.value(), str):
            for group, option in _overridden(composer, f"sweeps/{override.value()}").items():
                if group.startswith("hydra/sweeper") and group not in typed:
                    found.append(f"{group}={option}")
    return found


def _overridden(composer: Composer, name: str) -> dict[str, str]:
    from hydra.errors import HydraException

    try:
        return composer.overridden(name)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError):
        return {}  # what is wrong with the file is said when it is composed


def searches(hydra: Any) -> bool:
    """Say whether the sweeper that a config names decides by results what it tries next, and so has no jobs yet."""
    return str(hydra.sweeper._target_).rpartition(".")[2] not in ("BasicSweeper", "GridSweeper")


def _parse(overrides: Sequence[str]) -> list[Override]:
    from hydra.errors import HydraException

    from hydra_plugins.ragsweep_grid import is_deep, parse

    for line in filter(is_deep, overrides):
        raise ConfigError(f"{line.partition('=')[0][:80]}: brackets are nested too deeply")
    try:
        return [parse(line) for line in overrides]
    except HydraException as fault:
        raise ConfigError(f"cannot read the overrides: {str(fault).splitlines()[0]}") from None


def _search(
    hydra: DictConfig, task: Sequence[str], composer: Composer
) -> tuple[dict[str, Any], tuple[tuple[str, ...], ...]]:
    """Read a search: its settings, and its first jobs, and those that show whether all is possible."""
    from hydra.errors import HydraException

    from hydra_plugins.ragsweep_optuna import merged, read_space

    try:
        settings = OmegaConf.to_container(hydra.sweeper, resolve=True)
        assert isinstance(settings, dict)
        named = {str(key): value for key, value in settings.items()}
        if not str(named["_target_"]).endswith(".OptunaSweeper"):
            return named, (tuple(task),)
        space = read_space(task, named["params"], composer.loader)
        first = [merged(space.fixed, lines) for lines in named["enqueue"] or []]
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None
    return named, tuple(dict.fromkeys([*space.probes(bool(named["default"])), *first]))


def check_search(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for settings of our own sweeper that mean nothing; a race, which is not built yet, aside."""
    from hydra.errors import HydraException

    from hydra_plugins.ragsweep_optuna import read_settings

    try:
        read_settings({key: value for key, value in settings.items() if key not in ("_target_", "race")})
    except HydraException as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None


def _expand(hydra: DictConfig, task: Sequence[str]) -> tuple[Job, ...]:
    """Multiply out what is swept, as the sweeper will."""
    from hydra.errors import HydraException

    from hydra_plugins.ragsweep_grid import expand

    try:
        settings = OmegaConf.to_container(hydra.sweeper, resolve=True)
        assert isinstance(settings, dict)
        once = str(hydra.sweeper._target_).endswith(".GridSweeper")
        return tuple(expand(task, settings["params"], settings.get("cases"), once=once))
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None


def choices(line: str) -> list[str]:
    """List the overrides that one override stands for: several where it sweeps over values.

    Raises ConfigError for what cannot be read.
    """
    from hydra.errors import HydraException

    from hydra_plugins.ragsweep_grid import expand

    _parse([line])
    try:
        return [job.overrides[0] for job in expand([line])]
    except HydraException as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None


def compose_jobs(command: Command) -> list[DictConfig]:
    """Compose the config of every job.

    Raises ConfigError for the first that cannot be composed, with the case where it was written.
    """
    guard = command.guard or Guard(_composer(command.config_dir))
    hydra = [o for o in _parse(command.overrides) if o.is_hydra_override() and not o.is_sweep_override()]
    fixed = [o.input_line or "" for o in hydra]
    cases = {job.overrides: job for job in command.expanded}
    configs = []
    for job in command.jobs:
        try:
            guard.check([*fixed, *job])
            configs.append(_compose(guard.composer, [*fixed, *job]))
        except ConfigError as fault:
            raise ConfigError(f"{cases[job].blamed(str(fault)) if job in cases else ''}{fault}") from None
    return configs


class Guard:
    """Refuse hostile configs; of those that differ in values alone, only the first is looked at."""

    def __init__(self, composer: Composer) -> None:
        self.composer = composer
        self._seen: dict[tuple[str, ...], bool] = {}  # whether the node hydra depends on the job's values

    def check(self, overrides: Sequence[str]) -> None:
        """Raise ConfigError, with the key, for a config that would do more than choose parts."""
        refuse_packages(_parse(overrides))
        note_overrides(overrides)
        key = self.composer.settling(CONFIG, overrides)
        if key not in self._seen:
            self._refuse_clashes(overrides)
        if self._seen.get(key, True):
            self._seen[key] = refuse_hostile(_compose(self.composer, overrides, with_hydra=True))

    def _refuse_clashes(self, overrides: Sequence[str]) -> None:
        """Raise ConfigError for two metrics under one key; our own files alone have none."""
        parsed = _parse(overrides)
        searched = any(one.key_or_group == "hydra.searchpath" for one in parsed)
        if searched or may_clash(parsed) or self.composer.adds_to(GROUP):
            refuse_clashes(_written(self.composer, overrides), parsed)


def _written(composer: Composer, overrides: Sequence[str]) -> list[tuple[str, Mapping[str, Any]]]:
    from hydra.errors import HydraException

    try:
        return composer.written(CONFIG, overrides, GROUP)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError):
        return []  # what is wrong is said when it is composed


def _composer(config_dir: str | None) -> Composer:
    from hydra_plugins.ragsweep_grid import open_composer

    added = None if config_dir is None else Path(config_dir)
    if added is not None and not added.is_dir():
        raise ConfigError(f'--config-dir: no folder "{config_dir}"')
    return open_composer(config_folder(), added, version_base=VERSION_BASE)


def _compose(composer: Composer, overrides: Sequence[str], with_hydra: bool = False) -> DictConfig:
    from hydra.errors import HydraException

    try:
        return composer.compose(CONFIG, overrides, task_only=not with_hydra)
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(_explain(fault, overrides, composer)) from None
    except yaml.YAMLError as fault:
        raise ConfigError(" ".join(str(fault).split())) from None


def _explain(fault: Exception, overrides: Sequence[str], composer: Composer) -> str:
    """Say in one sentence what Hydra says in many, and add the nearest known name."""
    text = str(fault)
    if option := re.search(r"Could not find '([^']+)'", text):
        group, _, name = option.group(1).rpartition("/")
        known = re.findall(r"^\t(\S+)$", text, re.MULTILINE)
        if known:
            return f"{group}={name}: no such option{nearest(name, known)}"
        return f'"{option.group(1)}": no such group{nearest(group or name, _groups())}'
    if key := re.search(
        r"Could not override '([^']+)'|Could not append to config\. An item is already at '([^']+)'", text
    ):
        name = key.group(1) or key.group(2)
        line = next((o for o in overrides if o.lstrip("+~").startswith(name)), name)
        known = _keys(overrides, composer)
        if key.group(2):
            return f"{line}: {name} is there already; leave out the +"
        if name in known:  # what is wrong lies inside the value
            inside = ", ".join(one.removeprefix(f"{name}.") for one in known if one.startswith(f"{name}."))
            return f"{line}: {name} has no such keys; known: {inside}; add others with +{name}.KEY=..."
        return f'{line}: no key "{name}"{_near_key(name, known)}'
    return " ".join(text.split())


def _near_key(name: str, known: list[str]) -> str:
    """Suggest among the key's siblings, or among all keys where the parent is unknown too."""
    parent = name.rpartition(".")[0]
    siblings = [key for key in known if key.rpartition(".")[0] == parent]
    return nearest(name, siblings or known)


def _keys(overrides: Sequence[str], composer: Composer) -> list[str]:
    """List all keys of the config with the groups' options that were chosen, as far as they exist."""
    from hydra.errors import HydraException

    chosen = [line for line in overrides if "." not in line.partition("=")[0]]
    try:
        config = composer.compose(CONFIG, chosen, task_only=True)
    except (HydraException, OmegaConfBaseException):
        config = composer.compose(CONFIG, [], task_only=True)
    return list(_names(config, ""))


def _names(node: DictConfig, prefix: str) -> Iterator[str]:
    for key in map(str, node):
        yield f"{prefix}{key}"
        value = node._get_node(key)
        if isinstance(value, DictConfig) and not value._is_interpolation() and not value._is_none():
            yield from _names(value, f"{prefix}{key}.")


def _groups() -> list[str]:
    return sorted(path.name for path in config_folder().iterdir() if path.is_dir() and path.name != "hydra")
