"""Copy a config node by node: what ``copy.deepcopy`` gives, at a small part of its price."""

from __future__ import annotations

import copy
from collections import defaultdict
from pathlib import Path
from typing import Any, TypeVar, cast

from omegaconf import (
    AnyNode,
    BooleanNode,
    Container,
    DictConfig,
    FloatNode,
    IntegerNode,
    ListConfig,
    Node,
    PathNode,
    StringNode,
)

Config = TypeVar("Config", bound=Container)

_LEAVES = {AnyNode, StringNode, IntegerNode, FloatNode, BooleanNode, PathNode}
_CONSTANT = {str, int, float, bool, type(None), bytes, type(Path())}


def clone(config: Config, parent: Container | None = None) -> Config:
    """Copy a config with its flags, types and cached resolver values; nothing is shared that can change.

    Nodes of a kind that is not known here are left to ``copy.deepcopy``.
    """
    return cast(Config, clone_node(config, parent))


def clone_node(node: Node, parent: Any) -> Any:
    """Copy a node and all below it."""
    kind, content = type(node), node.__dict__.get("_content")
    if kind in _LEAVES and type(node.__dict__["_val"]) in _CONSTANT:
        return shell(node, parent)
    if kind is DictConfig:
        new = shell(node, parent)
        if isinstance(content, dict):
            new.__dict__["_content"] = {key: clone_node(value, new) for key, value in dict.items(content)}
        return new
    if kind is ListConfig:
        new = shell(node, parent)
        if type(content) is list:
            new.__dict__["_content"] = [clone_node(value, new) for value in content]
        return new
    return _deep(node, parent)


def shell(node: Node, parent: Any) -> Any:
    """Copy the node itself; its children, if any, are still the old ones."""
    new = object.__new__(type(node))
    new.__dict__.update(node.__dict__)
    new.__dict__["_parent"] = parent
    new.__dict__["_flags_cache"] = None
    old = node.__dict__["_metadata"]
    metadata = object.__new__(type(old))
    metadata.__dict__.update(old.__dict__)
    metadata.flags = dict(old.flags)
    metadata.resolver_cache = copy.deepcopy(old.resolver_cache) if old.resolver_cache else defaultdict(dict)
    new.__dict__["_metadata"] = metadata
    return new


def _deep(node: Node, parent: Any) -> Any:
    """Copy with OmegaConf's own means, without the parents that a node knows."""
    before = node.__dict__["_parent"]
    try:
        node.__dict__["_parent"] = None
        new = copy.deepcopy(node)
    finally:
        node.__dict__["_parent"] = before
    new.__dict__["_parent"] = parent
    return new
