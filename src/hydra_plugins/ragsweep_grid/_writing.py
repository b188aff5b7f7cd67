"""Write configs as YAML: what OmegaConf writes, but each subtree that stays the same is written out once."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig, ListConfig, Node, OmegaConf
from omegaconf._utils import get_omega_conf_dumper

_PLAIN = (str, int, float, bool, type(None))
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


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
        return _text(plain(config))
    except Unusual:
        return OmegaConf.to_yaml(config)


def plain(node: Node) -> Any:
    """Turn a config into plain values, interpolations kept; raises Unusual for what is no plain value."""
    if isinstance(node, DictConfig | ListConfig):
        content = node.__dict__["_content"]
        if type(content) is dict:
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


def _text(value: Any) -> str:
    if not isinstance(value, dict) or not value:
        return _dumped(value)
    return "".join(_entry((), key, _Written(entry)) for key, entry in value.items())


class _Written:
    """A plain value as a key: two are equal where they are written alike, so that 1, true and "1" differ."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._written = repr(value)

    def __hash__(self) -> int:
        return hash(self._written)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Written) and self._written == other._written


@lru_cache(maxsize=1024, typed=True)
def _entry(above: tuple[Any, ...], key: Any, entry: _Written) -> str:
    """Write an entry of a mapping, at its depth; what did not change since it was written last is found as text."""
    if not isinstance(entry.value, dict) or not entry.value:
        return _nested((*above, key), entry.value)
    head, _, _ = _nested((*above, key), {"": 0}).rpartition("\n" + "  " * (len(above) + 1))
    inside = "".join(_entry((*above, key), below, _Written(value)) for below, value in entry.value.items())
    return f"{head}\n{inside}"


def _nested(path: tuple[Any, ...], value: Any) -> str:
    """Write a value under its keys, without the lines of the keys above the last."""
    for key in reversed(path):
        value = {key: value}
    return "\n".join(_dumped(value).split("\n")[len(path) - 1 :])


def _dumped(value: Any) -> str:
    written: str = yaml.dump(value, Dumper=_Writer, default_flow_style=False, allow_unicode=True, sort_keys=False)
    return written
