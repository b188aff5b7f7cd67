"""Refuse config files that are small to read and endless to expand, before anything expands them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra._internal.config_repository import IConfigRepository
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult, ConfigSource

DEPTH = 40
"""Levels of nesting in a config, and of brackets in a value: Python parses and copies them level by level."""

REPEATED = 10_000
"""Values that the aliases (``*name``) of one file may stand for."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAGS = frozenset({"!", "str", "int", "float", "bool", "null", "seq", "map"})
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class CheckedRepository(IConfigRepository):
    """A repository of configs that looks at a file before it is loaded; all else is the other repository's."""

    def __init__(self, delegate: IConfigRepository) -> None:
        self._delegate = delegate

    def __deepcopy__(self, memo: dict[int, Any]) -> CheckedRepository:
        return CheckedRepository(copy.deepcopy(self._delegate, memo))

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        self._delegate.initialize_sources(config_search_path)

    def load_config(self, config_path: str) -> ConfigResult | None:
        for path in self._files(config_path):
            check_file(path)
        return self._delegate.load_config(config_path)

    def _files(self, config_path: str) -> Iterator[Path]:
        """Yield the file that a config will be loaded from, where it is one."""
        for source in self.get_sources():
            if source.is_config(config_path):
                name = config_path.removeprefix("sweeps/") if source.scheme() == "sweeps" else config_path
                if source.scheme() in ("file", "sweeps"):
                    yield Path(source.path, name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
                return

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


def check_file(path: Path) -> None:
    """Read a YAML file as a stream of events, which costs what it is long.

    Raises ConfigCompositionException, with file, line and column, for what is nested too deeply, for aliases that stand
    for too much or for themselves, and for what is no YAML.
    """
    try:
        with path.open(encoding="utf-8") as file:
            _check_events(yaml.parse(file, Loader=_Loader), path)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else f"{path}"
        raise ConfigCompositionException(f"{place}: {fault.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise ConfigCompositionException(f"{path}: no YAML in UTF-8: {' '.join(str(fault).split())}") from None


def _check_events(events: Iterator[Any], path: Path) -> None:
    sizes: dict[str, int] = {}  # anchor -> how many values it stands for, aliases in it included
    opened: list[tuple[str | None, int]] = []  # anchor, and the count before it
    count = repeated = 0
    for event in events:
        place = f"{path}:{event.start_mark.line + 1}:{event.start_mark.column + 1}"
        if (tag := getattr(event, "tag", None)) and tag.rpartition(":")[2] not in _TAGS:
            raise ConfigCompositionException(f'{place}: a config holds plain values, given "{tag}"')
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ConfigCompositionException(f'{place}: "*{event.anchor}" stands for itself, or for nothing')
            count += sizes[event.anchor]
            repeated += sizes[event.anchor]
            if repeated > REPEATED:
                raise ConfigCompositionException(f"{place}: aliases stand for more than {REPEATED} values")
        elif isinstance(event, yaml.CollectionStartEvent):
            sizes.pop(event.anchor, None)
            opened.append((event.anchor, count))
            count += 1
            if len(opened) > DEPTH:
                raise ConfigCompositionException(f"{place}: nested more than {DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if event.anchor:
                sizes[event.anchor] = 1
            if is_deep(event.value):
                raise ConfigCompositionException(f"{place}: brackets are nested more than {DEPTH} levels deep")


def is_deep(text: str) -> bool:
    """Say whether brackets are nested more deeply than an override or an interpolation is read."""
    if sum(map(text.count, _OPENING)) <= DEPTH:
        return False
    depth = 0
    for letter in text:
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if depth > DEPTH:
            return True
    return False
