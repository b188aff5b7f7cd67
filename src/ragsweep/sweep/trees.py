"""Trees of plain values: their leaves, values at dotted keys, and the keys that interpolations in them read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_INNERMOST = re.compile(r"\$\{([^${}]*)\}")
_RESOLVED = "\0"
"""Stands for an interpolation that was taken out of the one around it."""

_READS_NO_KEY = ("oc.env", "now", "hydra", "python_version")
"""Resolvers whose arguments are no keys of the config."""


def leaves(tree: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys and the values of a tree that hold no others."""
    if isinstance(tree, Mapping):
        for key, item in tree.items():
            yield from leaves(item, f"{where}.{key}" if where else str(key))
    elif isinstance(tree, list):
        for number, item in enumerate(tree):
            yield from leaves(item, f"{where}[{number}]")
    else:
        yield where, tree


def with_values(tree: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tree with values set at dotted keys, whose parents exist; other branches are those of the first."""
    copied: dict[str, Any] = dict(tree)
    for key, value in changes.items():
        *above, last = key.split(".")
        node = copied
        for part in above:
            node[part] = dict(node[part])
            node = node[part]
        node[last] = value
    return copied


def value_at(tree: Mapping[str, Any], key: str) -> Any:
    """Return the value at a dotted key, which exists."""
    node: Any = tree
    for part in key.split("."):
        node = node[part]
    return node


def keys_read(text: str, where: str) -> set[str] | None:
    """List the keys that the interpolations in a value read; None where one of them is computed."""
    found: set[str] = set()
    while innermost := _INNERMOST.search(text):
        inside = innermost[1].strip()
        resolver, colon, _ = inside.partition(":")
        if colon and resolver.strip() not in _READS_NO_KEY:
            return None
        if not colon:
            if _RESOLVED in inside:
                return None
            found.add(absolute(inside, where))
        text = text[: innermost.start()] + _RESOLVED + text[innermost.end() :]
    return None if "${" in text else found


def absolute(key: str, where: str) -> str:
    """Return the key that an interpolation at ``where`` names: each leading dot goes one level up."""
    key = re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", key)
    named = key.lstrip(".")
    above = re.sub(r"\[(\d+)\]", r".\1", where).split(".")
    up = len(key) - len(named)
    return named if not up else ".".join([*above[: len(above) - up], named])
