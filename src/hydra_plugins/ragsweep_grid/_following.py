"""Resolve the interpolations that name a key and nothing else; the grammar for all others takes long to parse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, Node, OmegaConf

_KEY = re.compile(r"\$\{(\w+(?:\.\w+)*)\}")
_PLAIN = re.compile(r"(?:[^$\\]|\$\{\w+(?:\.\w+)*\})*")


def followed(root: Any, names: Sequence[str]) -> Node | None:
    """Follow keys from the root through mappings alone; None where that is not how a value is reached."""
    node = root
    for name in names:
        content = node.__dict__["_content"] if isinstance(node, DictConfig) else None
        if not isinstance(content, dict):
            return None
        node = content.get(name)
        if node is None or node._is_interpolation():
            return None
    return node if isinstance(node, Node) else None


def selected(config: DictConfig, key: str) -> Any:
    """Return the value of a key from the root, as ``OmegaConf.select`` does."""
    above, _, last = key.rpartition(".")
    parent = followed(config, above.split("."))
    content = parent.__dict__["_content"] if isinstance(parent, DictConfig) else None
    node = content.get(last) if isinstance(content, dict) else None
    text = node._value() if isinstance(node, Node) and node._is_interpolation() else None
    if not isinstance(text, str) or not _PLAIN.fullmatch(text):
        return OmegaConf.select(config, key)
    values = {match[1]: _value(followed(config, match[1].split("."))) for match in _KEY.finditer(text)}
    if None in values.values():
        return OmegaConf.select(config, key)
    if whole := _KEY.fullmatch(text):
        return values[whole[1]]
    return _KEY.sub(lambda match: str(values[match[1]]), text)


def _value(node: Node | None) -> str | int | None:
    """Return a value that is written as Python writes it; None for what is left to OmegaConf."""
    value = None if node is None or node._is_missing() else node._value()
    return value if type(value) in (str, int) else None
