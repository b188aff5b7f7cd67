"""Compose configs before Hydra does: a typo becomes one sentence, and a sweep is known before it starts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ragsweep.errors import ConfigError, nearest

CONFIG = "config"
VERSION_BASE = "1.3"


def config_folder() -> Path:
    """Find the shipped ``conf``: inside the installed package, or at the root of a clone."""
    here = Path(__file__).resolve().parent
    packaged = here / "conf"
    return packaged if packaged.is_dir() else here.parent.parent / "conf"


@dataclass(frozen=True)
class Command:
    """What was typed, and what Hydra makes of it: the jobs, as lists of overrides."""

    overrides: tuple[str, ...]  # as typed
    multirun: bool
    jobs: tuple[tuple[str, ...], ...] = ()
    config_dir: str | None = None
    picks: bool = False  # the sweeper can be told which jobs to launch

    @property
    def arguments(self) -> list[str]:
        """Spell the command out for Hydra."""
        folder = ["--config-dir", self.config_dir] if self.config_dir else []
        return [*(["-m"] if self.multirun else []), *folder, *self.overrides]

    @property
    def searched(self) -> list[str]:
        """Spell the folder of --config-dir as an override."""
        return [f"hydra.searchpath=[file://{Path(self.config_dir).resolve()}]"] if self.config_dir else []

    def names(self) -> list[str]:
        """Name each job by what tells it from its siblings."""
        varying = {
            override for job in self.jobs for override in job if any(override not in other for other in self.jobs)
        }
        return [" ".join(o for o in job if o in varying) or " ".join(job) or "defaults" for job in self.jobs]


def read_command(overrides: Sequence[str], multirun: bool, config_dir: str | None = None) -> Command:
    """Expand overrides into jobs with Hydra's own parser and sweeper rules.

    Raises ConfigError with the nearest known name for whatever cannot be composed.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as fault:
        raise ConfigError(f"cannot read the overrides: {str(fault).splitlines()[0]}") from None
    fixed = [o.input_line or "" for o in parsed if not o.is_sweep_override()]
    command = Command(tuple(overrides), multirun, config_dir=config_dir)
    with _composing():
        hydra = _compose([*command.searched, *fixed], with_hydra=True).hydra
    mode = OmegaConf.select(hydra, "mode")
    multirun = multirun or getattr(mode, "name", mode) == "MULTIRUN"
    sweeper = str(hydra.sweeper._target_)
    sweeps = [o for o in parsed if o.is_sweep_override()]
    if sweeps and not multirun:
        raise ConfigError(f'"{sweeps[0].input_line}" names several values: add -m to sweep over them')
    jobs = _expand(hydra, overrides) if multirun and sweeper.endswith("BasicSweeper") else (tuple(_task(overrides)),)
    return replace(command, multirun=multirun, jobs=jobs)


def _expand(hydra: DictConfig, overrides: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Multiply out the values as Hydra's basic sweeper does; a test holds the two equal."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    params = OmegaConf.select(hydra, "sweeper.params") or {}
    lines = [f"{name}={value}" for name, value in params.items()] + _task(overrides)
    choices: dict[str, list[str]] = {}
    for override in OverridesParser.create().parse_overrides(lines):
        key = override.get_key_element()
        if not override.is_sweep_override():
            choices[key] = [f"{key}={override.get_value_element_as_str()}"]
        elif override.is_discrete_sweep():
            choices[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        else:
            raise ConfigError(f'"{override.input_line}": the basic sweeper takes choices and ranges, no intervals')
    return tuple(itertools.product(*choices.values()))


def _task(overrides: Sequence[str]) -> list[str]:
    """Keep what concerns the job: Hydra's own settings are not part of a job's name."""
    return [line for line in overrides if not re.match(r"^[+~]*hydra[./@=]", line)]


def compose_jobs(command: Command) -> list[DictConfig]:
    """Compose the config of every job."""
    hydra_lines = [line for line in command.overrides if line not in _task(command.overrides)]
    fixed = [line for line in hydra_lines if "," not in line]
    with _composing():
        return [_compose([*command.searched, *fixed, *job]) for job in command.jobs]


@contextmanager
def _composing() -> Iterator[None]:
    from hydra import initialize_config_dir

    with initialize_config_dir(config_dir=str(config_folder()), version_base=VERSION_BASE):
        yield


def _compose(overrides: Sequence[str], with_hydra: bool = False) -> DictConfig:
    from hydra import compose
    from hydra.errors import HydraException

    try:
        return compose(CONFIG, overrides=list(overrides), return_hydra_config=with_hydra)
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(_explain(fault, overrides)) from None


def _explain(fault: Exception, overrides: Sequence[str]) -> str:
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
        known = _keys(overrides)
        if key.group(2):
            return f"{line}: {name} is there already; leave out the +"
        return f'{line}: no key "{name}"{_near_key(name, known)}'
    return " ".join(text.split())


def _near_key(name: str, known: list[str]) -> str:
    """Suggest among the key's siblings, or among all keys where the parent is unknown too."""
    parent = name.rpartition(".")[0]
    siblings = [key for key in known if key.rpartition(".")[0] == parent]
    return nearest(name, siblings or known)


def _keys(overrides: Sequence[str]) -> list[str]:
    """List all keys of the config with the groups' options that were chosen, as far as they exist."""
    from hydra import compose
    from hydra.errors import HydraException

    chosen = [line for line in overrides if "." not in line.partition("=")[0]]
    try:
        config = compose(CONFIG, chosen)
    except (HydraException, OmegaConfBaseException):
        config = compose(CONFIG)
    return list(_names(config, ""))


def _names(node: DictConfig, prefix: str) -> Iterator[str]:
    for key in map(str, node):
        yield f"{prefix}{key}"
        value = node._get_node(key)
        if isinstance(value, DictConfig) and not value._is_interpolation() and not value._is_none():
            yield from _names(value, f"{prefix}{key}.")


def _groups() -> list[str]:
    return sorted(path.name for path in config_folder().iterdir() if path.is_dir() and path.name != "hydra")
