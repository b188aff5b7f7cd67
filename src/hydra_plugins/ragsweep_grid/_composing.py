"""Compose many configs that differ in a few overrides: what only the groups decide is composed once a choice of groups.

Everything that is not plainly safe is left to Hydra's own loader, so that a result, or an error, is always Hydra's.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra._internal.utils import create_config_search_path
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobRuntime, setup_globals
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.types import RunMode
from hydra.version import getbase, setbase
from omegaconf import Container, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from hydra_plugins.ragsweep_grid._cloning import clone
from hydra_plugins.ragsweep_grid._files import CheckedRepository
from hydra_plugins.ragsweep_grid._late import late
from hydra_plugins.ragsweep_grid._overriding import fill, is_plain, is_unusual, parse, set_plainly
from hydra_plugins.ragsweep_grid._sources import quicken

SHIPPED = ("hydra", "main", "ragsweep-sweeps", "schema")
"""The sources of configs that no user adds to."""


class Composer:
    """Compose configs from one search path as its loader would.

    A composer reads each file once: it is meant for one command, not for the life of a process.
    """

    def __init__(self, loader: ConfigLoader) -> None:
        self._loader = loader
        self._known = _shared.known(loader)
        self._hydra: ConfigLoader = loader
        self._quick: ConfigLoaderImpl | None = None
        if isinstance(loader, ConfigLoaderImpl) and type(loader) in (ConfigLoaderImpl, Recalling):
            self._hydra = _with(loader, loader.repository)
            self._quick = _with(loader, _Remembering(loader.repository, self._known.read))
        self.slow = 0  # how often Hydra's own loader was asked

    @property
    def loader(self) -> ConfigLoader:
        """The loader that this composes for."""
        return self._loader

    def overridden(self, name: str) -> dict[str, str]:
        """Return which options a config chooses for groups of others; of one that does not exist, none."""
        repository = getattr(self._loader, "repository", None)
        found = repository.load_config(name) if repository is not None else None
        chosen = (found.defaults_list or []) if found is not None else []
        return {str(one.group).lstrip("/"): str(one.value) for one in chosen if one.is_override()}

    def adds_to(self, group: str) -> bool:
        """Say whether the user's own folders hold options of a group."""
        repository = getattr(self._loader, "repository", None)
        sources = repository.get_sources() if repository is not None else []
        return any(one.provider not in SHIPPED and one.is_group(group) for one in sources)

    def written(self, name: str, overrides: Sequence[str], group: str) -> list[tuple[str, Mapping[str, Any]]]:
        """List what the files that are chosen for a group say, by path, in the order in which they are merged."""
        if self._quick is None:
            return []
        chosen = self._quick.compute_defaults_list(name, list(overrides), RunMode.RUN).defaults
        paths = [str(one.config_path) for one in chosen if one.package == group]
        _, repository = self._quick._parse_overrides_and_create_caching_repo(name, list(overrides))
        found = {path: repository.load_config(path) for path in dict.fromkeys(paths)}
        return [(path, dict(one.config)) for path, one in found.items() if one and isinstance(one.config, DictConfig)]

    def compose(self, name: str | None, overrides: Sequence[str], *, task_only: bool = False) -> DictConfig:
        """Compose a config; with ``task_only`` without its node ``hydra``. Raises what Hydra raises."""
        try:
            config = self._composed(name, list(overrides), task_only)
        except (HydraException, OmegaConfBaseException, ValueError, LookupError, AttributeError, TypeError):
            config = None  # Hydra says it better
        if config is not None:
            return config
        self.slow += 1
        config = self._hydra.load_configuration(name, list(overrides), RunMode.RUN)
        return late(config, "hydra") if task_only else config

    def sweep_config(self, master: DictConfig, overrides: Sequence[str]) -> DictConfig:
        """Compose the config of a job of a sweep, as ``ConfigLoader.load_sweep_config`` does."""
        lines = [*raw(master.hydra.overrides.hydra), *overrides]
        config = self.compose(master.hydra.job.config_name, lines)
        OmegaConf.copy_cache(from_config=master, to_config=config)  # so that all jobs read one clock
        return config

    def master(self, name: str | None, overrides: Sequence[str], validate: bool = True) -> DictConfig:
        """Compose the config of a multirun as a whole, from files that are read once. Raises what Hydra raises."""
        loader = self._quick or self._hydra
        return loader.load_configuration(name, list(overrides), RunMode.MULTIRUN, validate_sweep_overrides=validate)

    def check(self, master: DictConfig, overrides: Sequence[str]) -> None:
        """Raise what ``sweep_config`` would raise. Hydra's own overrides were checked when the master was composed."""
        ours = not any(line.lstrip("+~").startswith("hydra") for line in overrides)
        lines = [*raw(master.hydra.overrides.hydra), *overrides]
        name = master.hydra.job.config_name
        if not (ours and self._quick is not None and self._said(name, lines) in self._known.composed):
            self.compose(name, lines, task_only=ours)

    def settling(self, name: str | None, overrides: Sequence[str]) -> tuple[str, ...]:
        """Return what of the overrides can change more than values: choices, targets, interpolations, Hydra's node."""
        lines = list(overrides)
        if self._quick is None:
            return tuple(lines)
        parsed = [parse(line) for line in lines]
        searched = _searching(lines, parsed)
        return tuple(
            line
            for line, o in zip(lines, parsed, strict=True)
            if "$" in line or "_target_" in line or o.is_hydra_override() or self._chooses(name, o, searched)
        )

    def _composed(self, name: str | None, lines: list[str], task_only: bool) -> DictConfig | None:
        """Compose from a template, or return None where that could give anything else than Hydra does."""
        parsed = [parse(line) for line in lines]
        if self._quick is None or any(map(is_unusual, parsed)):
            return None
        searched = _searching(lines, parsed)
        choosing = [o for o in parsed if self._chooses(name, o, searched)]
        template = self._template(name, tuple(str(o.input_line) for o in choosing))
        config = late(template, "hydra" if task_only else None)
        chosen = set(map(id, choosing))
        for override in parsed:
            if id(override) in chosen or (task_only and override.is_hydra_override()):
                continue
            if not is_plain(config, override):
                return None
            if not set_plainly(config, override):
                ConfigLoaderImpl._apply_overrides_to_config([override], config)
        if not task_only:
            fill(config, parsed)
        self._known.composed.add(self._said(name, lines))
        return config

    def _said(self, name: str | None, lines: Sequence[str]) -> tuple[str | None, ...]:
        """Return what of the overrides can change the config without its node ``hydra``."""
        parsed = [parse(line) for line in lines]
        searched = _searching(lines, parsed)
        return name, *(
            line
            for line, o in zip(lines, parsed, strict=True)
            if not o.is_hydra_override() or self._chooses(name, o, searched)
        )

    def _chooses(self, name: str | None, override: Override, searched: tuple[str, ...]) -> bool:
        """Say whether an override acts on the defaults list; all others act on the composed config."""
        if override.key_or_group == "hydra.searchpath":
            return True
        return not isinstance(override.value(), dict) and self._is_group(name, override.key_or_group, searched)

    def _is_group(self, name: str | None, key: str, searched: tuple[str, ...]) -> bool:
        asked = (name, key, searched)
        groups = self._known.groups
        if asked not in groups:
            assert self._quick is not None
            _, repository = self._quick._parse_overrides_and_create_caching_repo(name, list(searched))
            groups[asked] = repository.group_exists(key)
        return groups[asked]

    def _template(self, name: str | None, lines: tuple[str, ...]) -> DictConfig:
        running = JobRuntime.instance().get("name")
        key = (name, lines, str(Path.cwd()), getbase())
        templates = self._known.templates
        found = templates.get(key) or templates.get((*key, running))
        if found is None:
            assert self._quick is not None
            found = self._quick.load_configuration(name, list(lines), RunMode.RUN)
            # A job without a name of its own gets the program's: that is no template for another program.
            templates[(*key, running) if found.hydra.job.name == running else key] = found
        return found


def raw(lines: ListConfig) -> list[str]:
    """List overrides as they were typed: an interpolation in them is none of the list's."""
    return [str(line) for line in lines._iter_ex(resolve=False)]


class Recalling(ConfigLoaderImpl):
    """Hydra's own loader, which does not compose or read again what was composed or read from its search path."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        quicken(self.repository)

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Compose a config; what cannot be composed raises what Hydra raises."""
        own = composer(self)
        if run_mode is RunMode.RUN and validate_sweep_overrides:
            return own.compose(config_name, overrides)
        return own.master(config_name, overrides, validate_sweep_overrides)


_composers: WeakKeyDictionary[ConfigLoader, Composer] = WeakKeyDictionary()


def composer(loader: ConfigLoader) -> Composer:
    """Return the composer of a loader: the sweeper and the launcher of one command share it."""
    if loader not in _composers:
        _composers[loader] = Composer(loader)
    return _composers[loader]


def open_composer(folder: Path, added: Path | None = None, *, version_base: str) -> Composer:
    """Return a composer of a program whose configs lie in a folder, without starting the program.

    ``added`` is searched as the folder that is given with ``--config-dir``. A file that is no config but a trap for
    whoever expands it is refused with a HydraException.
    """
    setbase(version_base)
    setup_globals()
    loader = ConfigLoaderImpl(search_path(folder, added))
    quicken(loader.repository)
    loader.repository = CheckedRepository(loader.repository)  # type: ignore[assignment]
    return Composer(loader)


def search_path(folder: Path, added: Path | None) -> ConfigSearchPath:
    """Say where a program looks for configs; ``added`` is the folder that is given with ``--config-dir``."""
    path = create_config_search_path(str(folder))
    if added is not None:
        path.prepend("command-line", f"file://{added.resolve()}", anchor=SearchPathQuery(provider="schema"))
    return path


@dataclasses.dataclass
class _Known:
    """What was composed from one search path."""

    templates: dict[Any, DictConfig] = dataclasses.field(default_factory=dict)
    groups: dict[tuple[str | None, str, tuple[str, ...]], bool] = dataclasses.field(default_factory=dict)
    composed: set[tuple[str | None, ...]] = dataclasses.field(default_factory=set)  # what had no fault
    read: dict[Any, dict[str, ConfigResult | None]] = dataclasses.field(default_factory=dict)


class _Shared:
    """What is known to all composers with equal search paths, while somebody holds it."""

    def __init__(self) -> None:
        self.held: dict[Any, _Known] | None = None

    def known(self, loader: ConfigLoader) -> _Known:
        if self.held is None or not isinstance(loader, ConfigLoaderImpl):
            return _Known()
        return self.held.setdefault(_searched(loader.config_search_path), _Known())


_shared = _Shared()


@contextmanager
def sharing() -> Iterator[None]:
    """Let composers with equal search paths share what they compose; no config file may change meanwhile."""
    before = _shared.held
    _shared.held = {} if before is None else before
    try:
        yield
    finally:
        _shared.held = before


def _searching(lines: Sequence[str], parsed: Sequence[Override]) -> tuple[str, ...]:
    return tuple(line for line, o in zip(lines, parsed, strict=True) if o.key_or_group == "hydra.searchpath")


def _searched(path: ConfigSearchPath) -> tuple[tuple[str, str], ...]:
    return tuple((str(entry.provider), str(entry.path)) for entry in path.get_path())


def _with(loader: ConfigLoaderImpl, repository: IConfigRepository) -> ConfigLoaderImpl:
    """Return a loader of Hydra's own with another repository."""
    made = ConfigLoaderImpl.__new__(ConfigLoaderImpl)
    vars(made).update(vars(loader))
    made.repository = repository  # type: ignore[assignment]
    return made


class _Remembering(IConfigRepository):
    """A repository that reads each file once."""

    def __init__(self, delegate: IConfigRepository, read: dict[Any, dict[str, ConfigResult | None]]) -> None:
        self._delegate = delegate
        self._all = read
        self._read = self._all.setdefault((), {})

    def __deepcopy__(self, memo: dict[int, Any]) -> _Remembering:
        # Hydra copies the repository for every composition, because the copy may get other sources: few do.
        return _Remembering(self._delegate, self._all)

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        self._delegate = copy.deepcopy(self._delegate)
        self._delegate.initialize_sources(config_search_path)
        self._read = self._all.setdefault(_searched(config_search_path), {})

    def load_config(self, config_path: str) -> ConfigResult | None:
        if config_path not in self._read:
            self._read[config_path] = self._delegate.load_config(config_path)
        kept = self._read[config_path]
        if kept is None:
            return None
        config: Container = clone(kept.config)  # Hydra merges it into what it returns
        return dataclasses.replace(kept, config=config)

    def get_schema_source(self) -> ConfigSource:
        return self._delegate.get_schema_source()

    def group_exists(self, config_path: str) -> bool:
        return self._delegate.group_exists(config_path)

    def config_exists(self, config_path: str) -> bool:
        return self._delegate.config_exists(config_path)

    def get_group_options(self, group_name: str, results_filter: ObjectType | None = ObjectType.CONFIG) -> list[str]:
        return self._delegate.get_group_options(group_name, results_filter)

    def get_sources(self) -> list[ConfigSource]:
        return self._delegate.get_sources()
