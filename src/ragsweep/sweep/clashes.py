"""Refuse two metrics under one key: one would replace the other without a word, and take over its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ragsweep.core.errors import ConfigError

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

GROUP = "metrics"


class Named(NamedTuple):
    """A class that a config file names, or an override."""

    where: str
    target: str


def may_clash(overrides: Sequence[Override]) -> bool:
    """Say whether the command line names a metric's class."""
    return any(_key(one) and _target(one.value()) for one in overrides)


def refuse_clashes(files: Iterable[tuple[str, Mapping[str, Any]]], overrides: Sequence[Override]) -> None:
    """Raise ConfigError, with the key, where two files, or a file and an override, name classes for one metric.

    A metric that is removed (``~metrics.KEY``) may be given anew behind that; one whose ``_target_`` alone is set is
    meant to be replaced.

    Args:
        files: Path and content of the files of the group, in the order in which they are merged.
        overrides: As typed.
    """
    known: dict[str, Named] = {}
    for path, content in files:
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
