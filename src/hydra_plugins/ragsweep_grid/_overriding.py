"""What single overrides do to a composed config: which of them are plainly safe, and the quick way to do those."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from types import NoneType
from typing import Any

from hydra._internal.config_loader_impl import get_overrides_dirname
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import AnyNode, DictConfig, open_dict
from omegaconf._utils import split_key

from hydra_plugins.ragsweep_grid._cloning import clone
from hydra_plugins.ragsweep_grid._following import followed

_FILLED = ("hydra.runtime", "hydra.overrides", "hydra.job.override_dirname", "hydra.job.config_name")
"""What Hydra fills in after the overrides; whoever overrides it gets Hydra's own composition."""


@lru_cache(maxsize=1024)
def parse(line: str) -> Override:
    """Parse an override; what was parsed lately is remembered. Raises a HydraException for what is none."""
    return OverridesParser.create().parse_overrides([line])[0]


def is_unusual(override: Override) -> bool:
    key = override.key_or_group
    inside = any(key == filled or key.startswith(f"{filled}.") for filled in _FILLED)
    above = any(filled.startswith(f"{key}.") for filled in _FILLED)
    copied = key.startswith(("hydra.job.env_copy", "hydra.job.env_set")) and not override.is_add()
    compared = override.is_delete() and override.value() is not None and "." in key
    return override.is_sweep_override() or inside or above or copied or compared


def is_plain(config: DictConfig, override: Override) -> bool:
    """Say whether an override reaches its value through mappings alone.

    What an interpolation leads to could be something that Hydra fills in only after the overrides.
    """
    node: Any = config
    parts = split_key(override.key_or_group)
    replaces = not (override.is_add() or override.is_delete() or isinstance(override.value(), dict | list))
    for part in parts:
        content = node.__dict__.get("_content")
        if not isinstance(node, DictConfig) or not isinstance(content, dict):
            return False
        if part not in content:
            return True
        node = content[part]
        if node._is_interpolation() and not (part is parts[-1] and replaces):
            return False
    return True


def set_plainly(config: DictConfig, override: Override) -> bool:
    """Replace a value of no type by one that Hydra would set as it is, and say whether that could be done."""
    value = override.value()
    if override.type is not OverrideType.CHANGE or override.package is not None:
        return False
    if type(value) not in (str, int, float, bool, NoneType) or (type(value) is str and ("$" in value or "?" in value)):
        return False
    leaf = followed(config, split_key(override.key_or_group))
    if type(leaf) is not AnyNode or leaf._get_flag("readonly") or (value is None and not leaf._is_optional()):
        return False
    leaf.__dict__["_val"] = value
    return True


def fill(config: DictConfig, parsed: Sequence[Override]) -> None:
    """Write down what was asked for, as Hydra does when it has applied all overrides."""
    hydra = config.hydra
    _write(hydra.overrides.hydra, [str(o.input_line) for o in parsed if o.is_hydra_override()])
    task = [o for o in parsed if not o.is_hydra_override()]
    _write(hydra.overrides.task, [str(o.input_line) for o in task])
    if hydra.job.env_copy:
        with open_dict(hydra):
            for key in hydra.job.env_copy:
                hydra.job.env_set[key] = os.environ[key]
    naming = hydra.job.config.override_dirname
    hydra.job.override_dirname = get_overrides_dirname(
        task, kv_sep=naming.kv_sep, item_sep=naming.item_sep, exclude_keys=naming.exclude_keys
    )


def _write(lines: Any, values: Sequence[str]) -> None:
    """Replace a list of strings; to append them one by one is what OmegaConf takes longest for."""
    lines.__dict__["_content"] = []
    if not values:
        return
    lines.append(values[0])
    first = lines._get_node(0)
    for position, value in enumerate(values[1:], start=1):
        node = clone(first, lines)
        node.__dict__["_val"] = value
        node._metadata.key = position
        lines.__dict__["_content"].append(node)
