"""Copies of a config whose nodes are made when they are first asked for: a job reads and changes a few of a thousand.

A late copy stands for a deep copy of what it was taken from, which must never change again. To OmegaConf its mappings
are like any others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from omegaconf import DictConfig, ListConfig, Node, OmegaConf

from hydra_plugins.ragsweep_grid._cloning import clone_node, shell


class Late(dict[Any, Any]):
    """The children of a late copy by key; those whose keys are ``waiting`` are still the original's."""

    __slots__ = ("owner", "waiting")

    def __init__(self, content: dict[Any, Any], owner: DictConfig, waiting: set[Any] | None = None) -> None:
        super().__init__(content)
        self.owner = owner
        self.waiting = set(content) if waiting is None else waiting

    def __getitem__(self, key: Any) -> Any:
        if key in self.waiting:
            self[key] = _late(dict.__getitem__(self, key), self.owner)
        return dict.__getitem__(self, key)

    def __setitem__(self, key: Any, node: Any) -> None:
        self.waiting.discard(key)
        dict.__setitem__(self, key, node)

    def __delitem__(self, key: Any) -> None:
        self.waiting.discard(key)
        dict.__delitem__(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def items(self) -> Any:
        return self.whole().items()

    def values(self) -> Any:
        return self.whole().values()

    def copy(self) -> dict[Any, Any]:
        return self.whole()

    def __copy__(self) -> dict[Any, Any]:
        return self.whole()

    def __reduce__(self) -> Any:
        return dict, (self.whole(),)

    def whole(self) -> dict[Any, Any]:
        """Copy what was not copied yet, and return all children."""
        for key in list(self.waiting):
            self[key]
        return dict(dict.items(self))


class Same:
    """A node as a key: equal to itself alone. OmegaConf's own equality compares what nodes hold."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __hash__(self) -> int:
        return id(self.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.node is other.node


def late(config: DictConfig, left_out: str | None = None) -> DictConfig:
    """Copy a config that will never change as late as can be, without one of its keys."""
    new = cast(DictConfig, _late(config, None))
    if left_out in (content := new.__dict__["_content"]):
        del content[left_out]
    return new


def copied(config: DictConfig, left_out: str) -> DictConfig:
    """Copy a config as it is now, without one of its keys."""
    new = cast(DictConfig, _as_it_is(config, None))
    del new.__dict__["_content"][left_out]
    return new


def only(config: DictConfig, kept: str) -> DictConfig:
    """Copy one key of a config, as ``OmegaConf.masked_copy`` does; the copy is a root without flags."""
    new = DictConfig(content={})
    new.__dict__["_content"][kept] = _as_it_is(config.__dict__["_content"][kept], new)
    return new


def waiting(config: DictConfig, key: Any) -> Node | None:
    """Return the original of a child that nobody has asked a late copy for; None once somebody has."""
    content = config.__dict__["_content"]
    if isinstance(content, Late) and key in content.waiting:
        return cast(Node, dict.__getitem__(content, key))
    return None


def constant(config: DictConfig, key: Any) -> tuple[Any] | None:
    """Return the plain value of a child that is the same in all copies: nobody has asked for it, nothing in it waits.

    None for a child in which an interpolation is left to resolve, or a value missing. Who gets it must not change it.
    """
    first = waiting(config, key)
    return None if first is None else _constant(Same(first))


@lru_cache(maxsize=4096)
def _constant(first: Same) -> tuple[Any] | None:
    plain = OmegaConf.to_container(first.node) if OmegaConf.is_config(first.node) else first.node._value()
    return None if any(mark in str(plain) for mark in ("${", "???")) else (plain,)


def set_flag(config: DictConfig, flag: str, value: bool) -> None:
    """Set a flag as OmegaConf does, but do not ask for children that nobody has asked for."""
    config.__dict__["_metadata"].flags[flag] = value
    _forget_flags(config)


def _late(node: Any, parent: Any) -> Any:
    """Copy a node, and its children later."""
    content = node.__dict__.get("_content")
    if type(node) is not DictConfig or type(content) is not dict:
        return clone_node(node, parent)
    new = shell(node, parent)
    new.__dict__["_content"] = Late(content, new)
    return new


def _as_it_is(node: Any, parent: Any) -> Any:
    """Copy a node with the children that were asked for; the others wait in the copy, too."""
    content = node.__dict__.get("_content")
    if type(node) is not DictConfig or not isinstance(content, Late):
        return clone_node(node, parent)
    new = shell(node, parent)
    kept = new.__dict__["_content"] = Late(dict(dict.items(content)), new, set(content.waiting))
    for key in kept.keys() - kept.waiting:
        kept[key] = _as_it_is(dict.__getitem__(content, key), new)
    return new


def _forget_flags(node: Any) -> None:
    """Let a node and its children find their flags anew; originals know nothing of a copy's flags."""
    node.__dict__["_flags_cache"] = None
    content = node.__dict__.get("_content")
    if isinstance(node, DictConfig) and isinstance(content, dict):
        unasked = content.waiting if isinstance(content, Late) else set()
        for key in content.keys() - unasked:
            _forget_flags(dict.__getitem__(content, key))
    elif isinstance(node, ListConfig) and isinstance(content, list):
        for child in content:
            _forget_flags(child)
    elif isinstance(content, Node):  # of a value that may have one of several types
        _forget_flags(content)
