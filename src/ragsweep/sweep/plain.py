"""Turn a composed config into plain values, and into the parameters that a user would type for it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from omegaconf import DictConfig, ListConfig, Node, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from hydra_plugins.ragsweep_grid import constant, followed, waiting
from ragsweep.core.errors import ConfigError
from ragsweep.core.secrets import mask

_NO_PARAMETERS = {
    "metrics", "targets", "tracking", "prices", "budget", "store", "plan", "rerun", "timeout", "max_failures",
    "headline", "answer_headline", "coverage", "constraints", "recommend", "success"
}  # fmt: skip
"""Keys that cannot change a result, or are shown as metrics."""

_BARE = re.compile(r"(?!\s)[\w/.:+%*@?|$ -]*(?<!\s)", re.ASCII)
"""Text that Hydra reads without quotes."""

_OTHER = re.compile(r"null|true|false|[+-]?(nan|inf|(?=[\d.])[\d_]*\.?[\d_]*(e[+-]?[\d_]+)?)", re.IGNORECASE | re.ASCII)
"""Text that Hydra reads as something else where it stands without quotes."""

QUOTES = "''"

_BEFORE_QUOTE = re.compile(r"(\\*)'")
"""A quote, and the backslashes before it: within quotes both are escaped."""

_VARIABLE = re.compile(r"\$\{oc\.env:(\w+)(?:,((?!(?:null|true|false|inf|nan)\})[./]*[a-z][\w./-]*))?\}", re.IGNORECASE)
"""An interpolation that is a variable of the environment, with or without a plain word instead."""

_KEY = re.compile(r"\$\{(\w+(?:\.\w+)*)\}")
"""An interpolation that is nothing but another key, from the root."""


def resolved(config: DictConfig) -> dict[str, Any]:
    """Turn a config into plain values; a value that is still missing is an error that names its key."""
    with _explained(config):
        return {str(key): value for key, value in _mapping(config).items()}


def resolved_at(config: DictConfig, key: str) -> Any:
    """Turn the value of one key of a config into a plain one, as ``resolved`` does with all."""
    with _explained(config):
        return _child(config, key)


@contextmanager
def _explained(config: DictConfig) -> Iterator[None]:
    try:
        yield
    except MissingMandatoryValue as fault:
        missing = _missing(config) or [str(fault.full_key)]
        raise ConfigError("\n".join(f"{key}: needs a value; give {key}=..." for key in missing)) from None
    except OmegaConfBaseException as fault:
        raise ConfigError(f"{fault.full_key or 'config'}: {str(fault).splitlines()[0]}") from None
    except RecursionError:
        raise ConfigError("config: an interpolation leads back to where it stands") from None


def _missing(config: DictConfig) -> list[str]:
    try:
        return sorted(OmegaConf.missing_keys(config))
    except OmegaConfBaseException:  # of an interpolation that has nothing to do with it
        return []


def parameters(config: DictConfig, plain: Mapping[str, Any]) -> dict[str, str]:
    """Flatten a config, whose plain values are given, as a user would type it: every value once.

    A part that another names by interpolation (``embedder: ${embedder}``) appears under its own key only.
    """
    found: dict[str, str] = {}

    def walk(node: DictConfig, values: Mapping[str, Any], prefix: str) -> None:
        for key, value in values.items():
            name = f"{prefix}{key}"
            if name in _NO_PARAMETERS or key == "_target_":
                continue
            if not isinstance(value, Mapping):
                found[name] = _spelled(value)
                continue
            child = waiting(node, key) or node._get_node(key)
            if isinstance(child, DictConfig) and not child._is_interpolation():
                walk(child, value, f"{name}.")  # else the whole of it is another key's

    walk(config, plain, "")
    return {name: str(mask(value, name)) for name, value in found.items()}


def _spelled(value: Any) -> str:
    """Spell a value as it is typed on the command line."""
    if isinstance(value, list | tuple):
        return f"[{','.join(_spelled(one) or QUOTES for one in value)}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str) or (_BARE.fullmatch(value) and not _OTHER.fullmatch(value)):
        return str(value)
    return "'" + _BEFORE_QUOTE.sub(r"\1\1\\'", value + "'")[:-2] + "'"


# --- what OmegaConf.to_container(resolve=True, throw_on_missing=True) gives, without parsing what needs no parser ---


def _mapping(node: DictConfig) -> dict[Any, Any]:
    plain = _value(node, None, node)
    assert isinstance(plain, dict)
    return plain


def _value(node: Any, parent: DictConfig | ListConfig | None, key: Any) -> Any:
    """Turn a node into a plain value; its parent resolves what is unusual, and raises what stands against it."""
    if node._is_interpolation():
        return _interpolated(node, parent, key)
    content = node.__dict__.get("_content")
    if type(node) is DictConfig and isinstance(content, dict):
        return {name: _child(node, name) for name in content}
    if type(node) is ListConfig and type(content) is list:
        return [_value(child, node, number) for number, child in enumerate(content)]
    if isinstance(node, DictConfig | ListConfig):
        return OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    return parent[key] if parent is not None and node._is_missing() else node._value()


def _child(node: DictConfig, name: Any) -> Any:
    """Turn a child into plain values; one that is the same in many configs, in all of them at once."""
    if known := constant(node, name):
        return known[0]
    return _value(node.__dict__["_content"][name], node, name)


def _interpolated(node: Any, parent: DictConfig | ListConfig | None, key: Any) -> Any:
    text = node._value()
    if (variable := _VARIABLE.fullmatch(text)) and (given := os.environ.get(variable[1], variable[2])) is not None:
        return given
    found = _KEY.fullmatch(text)
    target = followed(node._get_root(), found[1].split(".")) if found else None
    if target is None or target._is_missing():
        assert parent is not None
        target = parent[key]
    return _value(target, parent, key) if isinstance(target, Node) else target
