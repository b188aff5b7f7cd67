"""Write configs as YAML: what OmegaConf writes, but each subtree that stays the same is written out once."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig, ListConfig, Node, OmegaConf
from omegaconf._utils import get_omega_conf_dumper

from hydra_plugins.ragsweep_grid._late import Same, waiting

_PLAIN = (str, int, float, bool, type(None))
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


_veils: list[Callable[[Any], Any]] = []


def veil(hide: Callable[[Any], Any] | None) -> None:
    """Have plain values pass through a function, one that masks secrets for instance, before they are saved."""
    _veils[:] = [] if hide is None else [hide]


def saved(config: DictConfig | ListConfig) -> str:
    """Write a config as it is saved in a file."""
    if not _veils:
        return text(config)
    try:
        before = plain(config)
    except Unusual:
        before = OmegaConf.to_container(config, resolve=False)
    after = _veils[0](before)
    return text(config) if after == before else _dumped(after)


class _Writer(_Dumper):  # type: ignore[misc, valid-type]
    """The C dumper where there is one, with OmegaConf's rule for which strings are quoted."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Writer.add_representer(str, get_omega_conf_dumper().str_representer)


class Unusual(Exception):
    """A config holds something that is left to OmegaConf."""


def text(config: DictConfig | ListConfig) -> str:
    """Write a config as ``OmegaConf.to_yaml`` does, interpolations kept; parsed again the two are equal."""
    try:
        return _mapping((), config) if isinstance(config, DictConfig) else _dumped(plain(config))
    except Unusual:
        return OmegaConf.to_yaml(config)


def plain(node: Node) -> Any:
    """Turn a config into plain values, interpolations kept; raises Unusual for what is no plain value."""
    if isinstance(node, DictConfig | ListConfig):
        content = node.__dict__["_content"]
        if isinstance(content, dict):
            return {_key(key): plain(value) for key, value in content.items()}
        return [plain(value) for value in content] if type(content) is list else content
    value = node._value()
    if isinstance(value, Enum):
        return value.name
    if type(value) not in _PLAIN:
        raise Unusual(type(value).__name__)
    return value


def _key(key: Any) -> Any:
    if isinstance(key, Enum):
        return key.name
    if type(key) not in _PLAIN:
        raise Unusual(type(key).__name__)
    return key


class _Written:
    """A plain value as a key: two are equal where they are written alike, so that 1, true and "1" differ."""

    __slots__ = ("_written", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._written = repr(value)

    def __hash__(self) -> int:
        return hash(self._written)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Written) and self._written == other._written


def _mapping(path: tuple[Any, ...], node: DictConfig) -> str:
    """Write a mapping under its keys; of a late copy, what nobody has asked for is written out once for all copies."""
    content = node.__dict__["_content"]
    if not isinstance(content, dict) or not content:
        return _nested(path, plain(node))
    written = [f"{_head(_Written(path))}\n"] if path else []
    for key in content:
        below, first = (*path, _key(key)), waiting(node, key)
        written.append(_original(_Written(below), Same(first)) if first is not None else _child(below, content[key]))
    return "".join(written)


def _child(path: tuple[Any, ...], node: Node) -> str:
    return _mapping(path, node) if isinstance(node, DictConfig) else _value(_Written((path, plain(node))))


@lru_cache(maxsize=4096)
def _original(path: _Written, first: Same) -> str:
    return _child(path.value, first.node)


@lru_cache(maxsize=1024)
def _value(entry: _Written) -> str:
    return _nested(*entry.value)


@lru_cache(maxsize=1024)
def _head(path: _Written) -> str:
    """Write the line of a key with a mapping below it."""
    return _nested(path.value, {"": 0}).rpartition("\n" + "  " * len(path.value))[0]


def _nested(path: tuple[Any, ...], value: Any) -> str:
    """Write a value under its keys, without the lines of the keys above the last."""
    for key in reversed(path):
        value = {key: value}
    return "\n".join(_dumped(value).split("\n")[max(len(path) - 1, 0) :])


def _dumped(value: Any) -> str:
    written: str = yaml.dump(value, Dumper=_Writer, default_flow_style=False, allow_unicode=True, sort_keys=False)
    return written
