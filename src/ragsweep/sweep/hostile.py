"""Refuse configs that would do more than choose parts, before anything that they name is imported or called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, Node, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.errors import ConfigError
from ragsweep.core.secrets import is_secret
from ragsweep.core.trust import check_target
from ragsweep.sweep.confidential import VARIABLE, leaves, note_config
from ragsweep.sweep.hydra_settings import FOLDER, check_hydra, check_search_path

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

HEAVIEST = 20_000
"""Values that a config may come to once its interpolations are resolved; a usual one comes to some hundreds."""

NESTED = 8
"""Interpolations inside interpolations that a config may hold; what they lead to is known only when it is resolved."""

_RESOLVED = ("callbacks", "hydra_logging", "job_logging", "launcher", "output_subdir", "sweeper")
"""The keys of Hydra's node that it reads for more than text."""

_INNERMOST = re.compile(r"\$\{(?:\s*[\w.]+\s*:)?\s*([^${},]*)[^${}]*\}")
_ELSEWHERE = re.compile(r"\$\{(?!\s*(?:hydra[.:]|now:|oc\.env:|python_version:))")


def refuse_packages(overrides: Sequence[Override]) -> None:
    """Raise ConfigError where configs would be looked for in a package: that imports it."""
    for override in overrides:
        if override.key_or_group != "hydra.searchpath":
            continue
        value = override.value()
        for path in value if isinstance(value, list) else [value]:
            text = str(path)
            if "${" in text:
                raise ConfigError(f'hydra.searchpath: "{text}" must be written out')
            check_search_path(text)


def refuse_hostile(config: DictConfig) -> bool:
    """Check a composed config with its node ``hydra``, which is filled in for that; have its secrets masked.

    Returns whether what was looked at depends on other values, so that one job's says nothing about another's.
    Raises ConfigError, with the key, for what is refused.
    """
    try:
        _refuse_heavy(config)
    except RecursionError:
        raise ConfigError("config: interpolations lead from one to the next, too many to follow") from None
    note_config(config)
    _refuse_leaks(config)
    plain: Any = OmegaConf.to_container(config.hydra, resolve=False)
    depends = any(
        isinstance(value, str) and _ELSEWHERE.search(value)
        for key, node in plain.items()
        if key not in ("help", "hydra_help", "overrides", "run", "runtime", "sweep", "sweeper")
        for value in _texts(node)
    )
    depends |= _refuse_targets(config)
    check_hydra({**plain, **_resolved(config)})
    return depends


def _resolved(config: DictConfig) -> dict[str, Any]:
    """Resolve what Hydra will resolve, as if a job ran."""
    from hydra.core.hydra_config import HydraConfig

    singleton: Any = HydraConfig.instance()
    before, singleton.cfg = singleton.cfg, config
    try:
        with read_write(config.hydra), open_dict(config.hydra):
            config.hydra.runtime.output_dir = FOLDER
            config.hydra.job.num, config.hydra.job.id = 0, "0"
        return {**{key: _plain(config.hydra, key) for key in _RESOLVED}, "sweep": {"dir": config.hydra.sweep.dir}}
    except OmegaConfBaseException as fault:
        raise ConfigError(f"{fault.full_key or 'hydra'}: {str(fault).splitlines()[0]}") from None
    finally:
        singleton.cfg = before


def _plain(hydra: DictConfig, key: str) -> Any:
    value = hydra[key]
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _texts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
    else:
        yield value


def _refuse_leaks(config: DictConfig) -> None:
    """Raise ConfigError for a secret of the environment under a key whose value is shown and written down."""
    for where, node in leaves(config):
        text = node._value()
        if where.startswith(("hydra.", "tracking.")):  # written as typed; shown without what is secret in it
            continue
        if isinstance(text, str) and "oc.env" in text and not is_secret(where):
            for name in filter(is_secret, VARIABLE.findall(text)):
                raise ConfigError(f"{where}: {name} is a secret, and the value of {where} is written down")


def _refuse_targets(config: DictConfig) -> bool:
    """Raise ConfigError for a class that must not be named, outside of Hydra's node; return whether any is computed."""
    depends = False
    for where, node in leaves(config):
        if "._target_" in f".{where}" and not where.startswith("hydra."):
            depends |= node._is_interpolation()
            check_target(OmegaConf.select(config, where) if node._is_interpolation() else node._value(), where)
    return depends


def _refuse_heavy(config: DictConfig) -> None:
    """Raise ConfigError for interpolations that lead to others, and those to others, until nobody could hold it all."""
    weights: dict[int, int] = {}
    nested = 0

    def weigh(node: Node) -> int:
        nonlocal nested
        if id(node) in weights:
            return weights[id(node)]
        weights[id(node)] = 1  # of one that leads back to itself
        content = node.__dict__.get("_content", node.__dict__.get("_val"))
        if isinstance(content, str) and "${" in content:
            names = _INNERMOST.findall(content)
            nested += content.count("${") > len(names)
            found = [_find(node, name.strip()) for name in names]
            weight = 1 + len(content) // 64 + sum(weigh(target) for target in found if target is not None)
        elif isinstance(content, dict | list):
            weight = 1 + sum(map(weigh, content.values() if isinstance(content, dict) else content))
        else:
            weight = 1 + (len(content) // 64 if isinstance(content, str) else 0)
        weights[id(node)] = weight
        return weight

    written = list(leaves(config))
    for where, node in [*written, ("config", config)]:
        if weigh(node) > HEAVIEST + 2 * len(written):
            raise ConfigError(f"{where}: resolved, it would hold more than {HEAVIEST} values")
    if nested > NESTED:
        raise ConfigError(f"config: {nested} interpolations inside interpolations; write some of them out")


def _find(node: Node, name: str) -> Node | None:
    """Find what an interpolation in a node names, without resolving anything on the way."""
    start: Node | None = node._get_root()
    if name.startswith("."):
        start, name = node._get_parent(), name[1:]
        while name.startswith(".") and start is not None:
            start, name = start._get_parent(), name[1:]
    for part in filter(None, re.split(r"[.\[\]]+", name)):
        content = start.__dict__.get("_content") if start is not None else None
        if isinstance(content, dict):
            start = content.get(part)
        elif isinstance(content, list) and part.isdigit() and int(part) < len(content):
            start = content[int(part)]
        else:
            return start if isinstance(content, str) else None
    return start
