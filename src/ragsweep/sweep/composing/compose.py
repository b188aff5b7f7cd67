"""Compose configs through Hydra's public API; configs that differ only in plain values share a template."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, read_write

from ragsweep.sweep.composing.job import MISSING, JobConfig, Template
from ragsweep.sweep.composing.trees import Options, parse

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader

    from ragsweep.sweep.composing.config_policy import ConfigPolicy

CONFIG = "config"
VERSION_BASE = "1.3"

_KEY = re.compile(r"\w+(?:\.\w+)*")
"""Pattern of a dotted key without list indices."""


def config_folder() -> Path:
    """Return the folder of the shipped configs, ``conf`` in the installed package or at the root of a clone."""
    package = Path(__file__).resolve().parent.parent.parent
    packaged = package / "conf"
    return packaged if packaged.is_dir() else package.parent.parent / "conf"


@cache
def main_config() -> Mapping[str, Any]:
    """Return the shipped main config as written, with "" for each group that requires an option, without ``hydra``."""
    content = yaml.safe_load((config_folder() / f"{CONFIG}.yaml").read_text(encoding="utf-8"))
    entries = [entry for entry in content.pop("defaults") if isinstance(entry, Mapping)]
    groups = {str(key): "" for entry in entries for key in entry if key not in ("sweeps", "task") and " " not in key}
    return {**groups, **{key: value for key, value in content.items() if key != "hydra"}}


class Composer:
    """The composer of a command's configs from the shipped file ``name``; if ``policy`` is None, they are not checked.

    ``added`` is the folder of ``--config-dir``, which is searched before the user's other folders.
    """

    def __init__(self, added: Path | None = None, policy: ConfigPolicy | None = None, name: str = CONFIG) -> None:
        self.added = added
        self._policy, self._name = policy, name
        self._templates: dict[tuple[str, ...], tuple[Template, bool]] = {}

    def compose(self, overrides: Sequence[str]) -> JobConfig:
        """Compose a config, with the same values as Hydra's own ``compose``.

        Raises Hydra's and OmegaConf's errors, and ConfigError for violations of the policy.
        """
        lines = tuple(overrides)
        if self._policy:
            self._policy.check_overrides(lines)
        parsed = [parse(line) for line in lines]
        values = {
            line: plain
            for line, override in zip(lines, parsed, strict=True)
            if (plain := self._plain_value(override, lines)) and not any(_meets(override, other) for other in parsed)
        }
        try:
            template, depends = self._template(tuple(line for line in lines if line not in values))
        except HydraException:
            return JobConfig(self._template(lines)[0], {})  # with all lines: Hydra reports the first fault
        if depends or not all(template.accepts(key) for key, _ in values.values()):
            return JobConfig(self._template(lines)[0], {})
        return JobConfig(template, dict(values[line] for line in lines if line in values))

    def template(self, overrides: Sequence[str]) -> Template:
        """Return the template composed from all ``overrides``; the same overrides are composed only once."""
        return self._template(tuple(overrides))[0]

    def loader(self, overrides: Sequence[str]) -> ConfigLoader:
        """Return Hydra's loader; its lists of options include options in folders that the command adds."""
        with hydra_initialized():
            loader = GlobalHydra.instance().config_loader()
        listing = partial(loader.get_group_options, config_name=self._name, overrides=self._searched(overrides))
        vars(loader)["get_group_options"] = listing
        return loader

    def options(self, overrides: Sequence[str]) -> Options:
        """Return a function that lists the options of a group, including options in folders that the command adds."""
        return lambda group: self.loader(overrides).get_group_options(group)

    def folders(self, overrides: Sequence[str]) -> list[Path]:
        """List the existing folders on the config search path: the shipped folder, then the others in Hydra's order."""
        files = [path for one in _search_path(overrides) if "://" not in (path := one.removeprefix("file://"))]
        own = [*([self.added] if self.added else []), *map(Path, files), Path.cwd() / "conf"]
        return [config_folder(), *(path for path in own if path.is_dir() and path.resolve() != config_folder())]

    def is_group(self, key: str, overrides: Sequence[str]) -> bool:
        """Return whether ``key`` names a group in `folders`, which do not contain the shipped ``sweeps``."""
        return "." not in key and any((folder / key).is_dir() for folder in self.folders(overrides))

    def _plain_value(self, override: Override, lines: Sequence[str]) -> tuple[str, Any] | None:
        """Return (key, value) for an override that sets an existing key to a plain value; None for other overrides."""
        key, value = override.key_or_group, override.value()
        if override.type is not OverrideType.CHANGE or override.package is not None or override.is_sweep_override():
            return None
        if not (value is None or isinstance(value, str | int | float)) or "_target_" in key or not _KEY.fullmatch(key):
            return None
        if (isinstance(value, str) and ("$" in value or value == MISSING)) or override.is_hydra_override():
            return None
        if key == "sweeps" or self.is_group(key, lines):  # ``sweeps`` is a group in another folder
            return None
        return key, value

    def _searched(self, lines: Sequence[str]) -> list[str]:
        """Return an override of ``hydra.searchpath`` with the --config-dir folder first; [] if no folder is added."""
        added = [f"file://{self.added.resolve()}"] if self.added else []
        paths = ",".join(f"'{path}'" for path in [*added, *_search_path(lines)])
        return [f"hydra.searchpath=[{paths}]"] if paths else []

    def _template(self, lines: tuple[str, ...]) -> tuple[Template, bool]:
        if lines not in self._templates:
            folders, searched = self.folders(lines), list(lines)
            if self.added:
                others = [line for line in lines if not line.startswith("hydra.searchpath=")]
                searched = [*self._searched(lines), *others]
            if self._policy:
                self._policy.check_files(searched, folders)
            with hydra_initialized():
                config = compose(self._name, searched, return_hydra_config=True)
            if searched != list(lines):  # the node ``hydra`` must list the overrides as typed
                with read_write(config):
                    config.hydra.searchpath = _search_path(lines)
                    config.hydra.overrides.hydra = [line for line in lines if parse(line).is_hydra_override()]
            template = Template(config)
            self._templates[lines] = template, self._policy is not None and self._policy.check(template, folders)
        return self._templates[lines]


@contextmanager
def hydra_initialized() -> Iterator[None]:
    """Initialise Hydra for the shipped configs during the block; restore any earlier initialisation afterwards."""
    state = GlobalHydra.instance()
    before = state.hydra
    state.clear()
    try:
        with initialize_config_dir(str(config_folder()), job_name="ragsweep", version_base=VERSION_BASE):
            yield
    finally:
        if before is not None:
            state.clear()
            state.initialize(before)


@contextmanager
def as_hydra_config(config: DictConfig) -> Iterator[None]:
    """Set `HydraConfig` to ``config`` during the block, for interpolations such as ``${hydra:job.num}``."""
    singleton = HydraConfig.instance()
    before = singleton.cfg
    singleton.cfg = config  # type: ignore[assignment]  # `set_config` copies it, which may take longer than a job
    try:
        yield
    finally:
        singleton.cfg = before


def _search_path(lines: Sequence[str]) -> list[str]:
    """List the entries of ``hydra.searchpath`` as typed; if the key is typed several times, the last value counts."""
    typed = [parse(line).value() for line in lines if line.startswith("hydra.searchpath=")]
    return [str(path) for value in typed[-1:] for path in (value if isinstance(value, list) else [value])]


def _meets(override: Override, other: Override) -> bool:
    """Return whether two overrides conflict: both set the same key, or ``other`` sets an ancestor to a non-string."""
    if other is override:
        return False
    key, around = override.key_or_group, other.key_or_group
    return key == around or (key.startswith(f"{around}.") and not isinstance(other.value(), str))
