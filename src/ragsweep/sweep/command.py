"""Read a command: overrides in, the jobs that they stand for out. A typo becomes one sentence with the nearest name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.secrets import Secrets
from ragsweep.sweep.compose import Composer, JobConfig, config_folder, parse
from ragsweep.sweep.config_files import is_deep
from ragsweep.sweep.config_policy import ConfigPolicy
from ragsweep.sweep.expansion import Case, expand

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

OPERATIONAL = (
    *("answer_headline", "budget", "constraints", "coverage", "finalists", "headline", "hydra", "max_failures", "plan"),
    *("prices", "recommend", "rerun", "store", "success", "targets", "timeout", "tracking"),
)
"""Keys that say how, where and at what price a config is run and shown, and not what it is."""


_LONG_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{13,}(?![\w.])")
"""A number that only arithmetic writes: 0.1 + 0.2 is 0.30000000000000004."""


@dataclass(frozen=True)
class Command:
    """A command as typed, and its jobs as lists of overrides."""

    overrides: tuple[str, ...]  # as typed
    multirun: bool
    composer: Composer = field(repr=False, compare=False)
    secrets: Secrets = field(repr=False, compare=False)
    jobs: tuple[tuple[str, ...], ...] = ()
    config_dir: str | None = None
    launcher: str = ""  # the option of hydra/launcher
    batch: int | None = None  # jobs that a launcher gets at once
    search: Mapping[str, Any] | None = None  # the sweeper's settings, where results decide what is tried next
    race: Mapping[str, Any] | None = None  # the rule that drops configs before all questions are asked
    cases: Mapping[tuple[str, ...], Case] = field(default_factory=dict, repr=False, compare=False)  # of jobs

    @property
    def searching(self) -> bool:
        """Whether results decide what is tried next: then the jobs are the first one, and others that must compose."""
        return self.search is not None

    @property
    def in_process(self) -> bool:
        """Whether jobs run one after the other in this process."""
        return self.launcher in ("inline", "basic")

    @property
    def fixed(self) -> tuple[str, ...]:
        """The overrides of Hydra's own settings, which all jobs share."""
        hydra = [one for one in map(parse, self.overrides) if one.is_hydra_override() and not one.is_sweep_override()]
        return tuple(str(one.input_line) for one in hydra)

    @property
    def task(self) -> list[str]:
        """The overrides of the configs themselves, as typed."""
        return [str(one.input_line) for one in map(parse, self.overrides) if not one.is_hydra_override()]

    def names(self) -> list[str]:
        """Name each job by what differs from its siblings; where nothing does, by all overrides that define it.

        Secrets are masked; jobs that differ in nothing else are numbered.
        """
        return self._masked(_names(self.jobs))

    def _masked(self, names: list[str]) -> list[str]:
        """Mask the secrets in names; different names stay different."""
        if not self.secrets.has_secret("\n".join(names)):
            return names
        shown, alike = [self.secrets.mask_text(name) for name in names], dict[str, dict[str, int]]()
        for name, masked in zip(names, shown, strict=True):
            same = alike.setdefault(masked, {})
            same.setdefault(name, len(same) + 1)
        return [
            f"{masked} ({alike[masked][name]})" if len(alike[masked]) > 1 else masked
            for name, masked in zip(names, shown, strict=True)
        ]


def _names(jobs: Sequence[Sequence[str]]) -> list[str]:
    jobs = [[_LONG_NUMBER.sub(_rounded, line) for line in job] for job in jobs]
    named = Counter(override for job in jobs for override in set(job))
    varying = {override for override, count in named.items() if count < len(jobs)}
    whole = [" ".join(o for o in defining(job) if not o.startswith("sweeps=")) for job in jobs]
    own = [" ".join(o for o in job if o in varying) for job in jobs]
    return [name or every or "defaults" for name, every in zip(own, whole, strict=True)]


def defining(overrides: Sequence[str]) -> list[str]:
    """Keep the overrides that define a config: those that may name it."""
    return [line for line in overrides if re.split(r"[./=@]", line.lstrip("+~"))[0] not in OPERATIONAL]


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.12g}"


def read_command(
    overrides: Sequence[str], multirun: bool, config_dir: str | None = None, secrets: Secrets | None = None
) -> Command:
    """Expand overrides into jobs by Hydra's parser and sweeper rules.

    Raises ConfigError with the nearest known name for whatever cannot be composed.
    """
    secrets = Secrets() if secrets is None else secrets
    parsed = _parse(overrides)
    composer = _open_composer(config_dir, secrets)
    overrides = [*_sweepers(parsed, composer), *overrides]
    parsed = _parse(overrides)
    base = compose(composer, [str(one.input_line) for one in parsed if not one.is_sweep_override()])
    config = base.template.changed(base.changes)
    mode = OmegaConf.select(config, "hydra.mode")
    multirun = multirun or getattr(mode, "name", mode) == "MULTIRUN"
    sweeper = _settings(config.hydra.sweeper)
    launcher = str(config.hydra.runtime.choices["hydra/launcher"])
    _refuse_sweeps(parsed, multirun)
    task = tuple(str(one.input_line) for one in parsed if not one.is_hydra_override())
    known = Command(
        tuple(overrides), multirun, composer, secrets, (task,), config_dir, launcher, sweeper.get("max_batch_size")
    )
    if not multirun:
        return known
    race = sweeper.get("race")
    if searches(str(sweeper["_target_"])):
        return replace(known, jobs=_probes(sweeper, task, composer), search=sweeper, race=race)
    expanded = _expand(sweeper, task)
    jobs = tuple(case.overrides for case in expanded) or (task,)
    return replace(known, jobs=jobs, race=race, cases={case.overrides: case for case in expanded})


def _refuse_sweeps(parsed: Sequence[Override], multirun: bool) -> None:
    """Raise ConfigError for several values where there is one job, and for a setting of Hydra's that is swept."""
    for override in (one for one in parsed if one.is_sweep_override()):
        if not multirun:
            raise ConfigError(f'"{override.input_line}" names several values: add -m to sweep over them')
        if override.is_hydra_override():
            raise ConfigError(f'{override.key_or_group}: cannot differ within a sweep, given "{override.input_line}"')


def _settings(node: Any) -> dict[str, Any]:
    """Turn a node of Hydra's settings into plain values. Raises ConfigError for what cannot be resolved."""
    try:
        settings = OmegaConf.to_container(node, resolve=True)
    except OmegaConfBaseException as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None
    assert isinstance(settings, dict)
    return {str(key): value for key, value in settings.items()}


def _sweepers(parsed: Sequence[Override], composer: Composer) -> list[str]:
    """List the sweeper, and its sampler, that a named sweep chooses, where nothing else was typed.

    In Hydra the main config's own choice would win over that of a config which it names.
    """
    typed = {override.key_or_group for override in parsed}
    lines = [str(override.input_line) for override in parsed]
    found = []
    for override in parsed:
        if override.key_or_group == "sweeps" and isinstance(override.value(), str):
            for group, option in _chosen_by(f"{override.value()}.yaml", composer.folders(lines)).items():
                if group.startswith("hydra/sweeper") and group not in typed:
                    found.append(f"{group}={option}")
    return found


def _chosen_by(name: str, folders: Sequence[Path]) -> dict[str, str]:
    """Return the options that a named sweep chooses for groups; none for a file that does not exist or is broken."""
    places = [*(folder / "sweeps" for folder in folders), Path("sweeps"), config_folder().parent / "sweeps"]
    file = next((place / name for place in places if (place / name).is_file()), None)
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8")) if file else None
    except (yaml.YAMLError, OSError, UnicodeDecodeError, RecursionError):
        return {}  # an error once the file is composed
    listed = content.get("defaults") if isinstance(content, Mapping) else None
    chosen = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    pairs = [(str(key), str(option)) for one in chosen for key, option in one.items()]
    return {key.removeprefix("override ").lstrip("/"): option for key, option in pairs if key.startswith("override ")}


def searches(sweeper: str) -> bool:
    """Return whether a class of sweepers decides by results what it tries next, and so has no jobs yet."""
    return sweeper.rpartition(".")[2] not in ("BasicSweeper", "GridSweeper")


def _parse(overrides: Sequence[str]) -> list[Override]:
    from hydra.errors import HydraException

    for line in filter(is_deep, overrides):
        raise ConfigError(f"{line.partition('=')[0][:80]}: brackets are nested too deeply")
    try:
        return [parse(line) for line in overrides]
    except HydraException as fault:
        raise ConfigError(f"cannot read the overrides: {str(fault).splitlines()[0]}") from None


def _probes(settings: Mapping[str, Any], task: Sequence[str], composer: Composer) -> tuple[tuple[str, ...], ...]:
    """Return the first jobs of a search, and others that show whether each value of each parameter is possible."""
    from hydra.errors import HydraException

    from ragsweep.sweep.search.space import merge_overrides, read_space

    if not str(settings["_target_"]).endswith(".OptunaSweeper"):
        return (tuple(task),)
    try:
        space = read_space(task, settings["params"], composer.loader)
        first = [merge_overrides(space.fixed, lines) for lines in settings["enqueue"] or []]
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None
    return tuple(dict.fromkeys([*space.probes(bool(settings["default"])), *first]))


def check_search(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for settings of our own sweeper that mean nothing; a race, which is not built yet, aside."""
    from hydra.errors import HydraException

    from ragsweep.sweep.search.settings import SearchSettings

    try:
        SearchSettings.read({key: value for key, value in settings.items() if key not in ("_target_", "race")})
    except HydraException as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None


def _expand(settings: Mapping[str, Any], task: Sequence[str]) -> tuple[Case, ...]:
    """Return the product of all swept values, as the sweeper does."""
    from hydra.errors import HydraException

    once = str(settings["_target_"]).endswith(".GridSweeper")
    try:
        return tuple(expand(task, settings["params"], settings.get("cases"), once=once))
    except HydraException as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None


def choices(line: str) -> list[str]:
    """List the overrides that one override stands for: several where it sweeps over values.

    Raises ConfigError for what cannot be read.
    """
    from hydra.errors import HydraException

    _parse([line])
    try:
        return [job.overrides[0] for job in expand([line])]
    except HydraException as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None


def compose_jobs(command: Command) -> list[JobConfig]:
    """Compose the config of every job.

    Raises ConfigError for the first that cannot be composed, with the case where it was written.
    """
    configs = []
    for job in command.jobs:
        try:
            configs.append(compose(command.composer, [*command.fixed, *job]))
        except ConfigError as fault:
            case = command.cases.get(job)
            raise ConfigError(f"{case.blamed(str(fault)) if case else ''}{fault}") from None
    return configs


def _open_composer(config_dir: str | None, secrets: Secrets) -> Composer:
    added = None if config_dir is None else Path(config_dir)
    if added is not None and not added.is_dir():
        raise ConfigError(f'--config-dir: no folder "{config_dir}"')
    return Composer(added, ConfigPolicy(secrets))


def compose(composer: Composer, overrides: Sequence[str]) -> JobConfig:
    """Compose a config. Raises ConfigError: one sentence with the nearest known name."""
    from hydra.errors import HydraException

    try:
        return composer.compose(overrides)
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(_explain(fault, overrides, composer)) from None
    except yaml.YAMLError as fault:
        raise ConfigError(" ".join(str(fault).split())) from None


def _explain(fault: Exception, overrides: Sequence[str], composer: Composer) -> str:
    """Shorten Hydra's message to one sentence, and add the nearest known name."""
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
        known = _keys(overrides, composer, name.startswith("hydra."))
        if key.group(2):
            return f"{line}: {name} is there already; leave out the +"
        if name in known:  # what is wrong lies inside the value
            inside = ", ".join(one.removeprefix(f"{name}.") for one in known if one.startswith(f"{name}."))
            return f"{line}: {name} has no such keys; known: {inside}; add others with +{name}.KEY=..."
        return f'{line}: no key "{name}"{_near_key(name, known)}'
    return " ".join(text.split())


def _near_key(name: str, known: list[str]) -> str:
    """Suggest among the siblings of the outermost part of a key that does not exist."""
    while (parent := name.rpartition(".")[0]) and parent not in known:
        name = parent
    return nearest(name, [key for key in known if key.rpartition(".")[0] == parent])


def _keys(overrides: Sequence[str], composer: Composer, of_hydra: bool) -> list[str]:
    """List all keys of the config with the groups' options that were chosen, as far as they exist."""
    from hydra.errors import HydraException

    chosen = [line for line in overrides if "." not in line.partition("=")[0]]
    try:
        template = composer.template(chosen)
    except (HydraException, OmegaConfBaseException):
        template = composer.template([])
    return _dotted(template.tree if of_hydra else template.written, "")


def _dotted(tree: Mapping[str, Any], prefix: str) -> list[str]:
    found = []
    for key, value in tree.items():
        found.append(f"{prefix}{key}")
        if isinstance(value, Mapping):
            found += _dotted(value, f"{prefix}{key}.")
    return found


def _groups() -> list[str]:
    return sorted(path.name for path in config_folder().iterdir() if path.is_dir() and path.name != "hydra")
