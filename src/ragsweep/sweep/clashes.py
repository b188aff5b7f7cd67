"""Refuse two metrics under one key: one would silently replace the other, and take over its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from ragsweep.core.errors import ConfigError
from ragsweep.sweep.compose import CONFIG, opened, parse

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

GROUP = "metrics"


class Named(NamedTuple):
    """A class that a config file names, or an override."""

    where: str
    target: str


def refuse_clashes(lines: Sequence[str], folders: Sequence[Path]) -> None:
    """Raise ConfigError, with the key, where two files, or a file and an override, name classes for one metric.

    A metric that is removed (``~metrics.KEY``) may be given anew behind that; one whose ``_target_`` alone is set is
    meant to be replaced.

    Args:
        lines: The overrides of one config.
        folders: Where configs are searched for; the first holds the shipped ones, which do not clash.
    """
    overrides = [parse(line) for line in lines]
    own = any((folder / GROUP).is_dir() for folder in folders[1:])
    if not own and not any(_key(one) and _target(one.value()) for one in overrides):
        return
    known: dict[str, Named] = {}
    for path, content in _chosen_files(lines, folders):
        for key, node in content.items():
            if target := _target(node):
                _refuse(known.get(key), Named(f"{path}.yaml", target), key)
                known[key] = Named(f"{path}.yaml", target)
    for one in overrides:
        key = _key(one)
        if key and one.is_delete():
            known.pop(key, None)
        elif key and (target := _target(one.value())):
            _refuse(known.get(key), Named("the command line", target), key)
            known[key] = Named("the command line", target)


def _chosen_files(lines: Sequence[str], folders: Sequence[Path]) -> list[tuple[str, Mapping[str, Any]]]:
    """List path and content of the files that are chosen for the group, in the order in which they are merged."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from hydra.types import RunMode

    found = []
    try:
        with opened():
            loader = GlobalHydra.instance().config_loader()
            chosen = loader.compute_defaults_list(CONFIG, list(lines), RunMode.RUN).defaults
        for path in dict.fromkeys(str(one.config_path) for one in chosen if one.package == GROUP):
            files = [folder / f"{path}.yaml" for folder in folders]
            content = next((yaml.safe_load(file.read_text("utf-8")) for file in files if file.is_file()), None)
            found.append((path, content if isinstance(content, Mapping) else {}))
    except (HydraException, yaml.YAMLError, UnicodeDecodeError):
        return []  # an error once the config is composed
    return found


def _refuse(before: Named | None, now: Named, key: str) -> None:
    if before is not None and before.target != now.target:
        raise ConfigError(
            f"metrics.{key}: {before.where} makes it {before.target}, and {now.where} {now.target}; one would replace"
            " the other, so put one of them under another key, and give it another name"
        )


def _key(override: Override) -> str:
    group, _, key = override.key_or_group.partition(".")
    return key if group == GROUP else ""


def _target(node: Any) -> str:
    return str(node.get("_target_") or "") if isinstance(node, Mapping) else ""
