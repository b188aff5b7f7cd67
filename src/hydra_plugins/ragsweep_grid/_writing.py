"""Write configs as YAML: what OmegaConf writes, but each subtree that stays the same is written out once."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any

import yaml
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
    return "".join(_entry((), key, entry) for key, entry in value.items())


def _entry(above: tuple[Any, ...], key: Any, value: Any) -> str:
    """Write an entry of a mapping; what lies below ``hydra`` is written, and remembered, entry by entry."""
    if key == "hydra" and not above and isinstance(value, dict) and value:
        return "hydra:\n" + "".join(_entry((key,), below, entry) for below, entry in value.items())
    return _remembered(above, _Frozen({key: value}))


class _Frozen:
    """A plain value that can be a key: two are equal where they are written alike."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._written = repr(value)

    def __hash__(self) -> int:
        return hash(self._written)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and self._written == other._written


@lru_cache(maxsize=512)
def _remembered(above: tuple[Any, ...], entry: _Frozen) -> str:
    nested = entry.value
    for key in reversed(above):
        nested = {key: nested}
    lines = _dumped(nested).split("\n")
    return "\n".join(lines[len(above) :])


def _dumped(value: Any) -> str:
    written: str = yaml.dump(value, Dumper=_Writer, default_flow_style=False, allow_unicode=True, sort_keys=False)
    return written
