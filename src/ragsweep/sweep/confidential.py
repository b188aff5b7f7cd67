"""Find what must not be shown in a config: values under secrets' names, and values that come from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from omegaconf import DictConfig, ListConfig, Node, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.secrets import is_under_secret, note, note_passwords, note_variable

VARIABLE = re.compile(r"\$\{\s*oc\.env\s*:\s*['\"]?(\w+)")
"""A variable of the environment in an interpolation."""

_ESCAPED = re.compile(r"\\(.)")
"""How Hydra writes a character of an override that has a meaning in its grammar."""

_PLACES = ("hydra.", "store.", "tracking.")
"""Where things are kept: shown, less the passwords of URLs."""

_SWEPT = "hydra.sweeper.params."
_LINES = ("hydra.sweeper.cases", "hydra.sweeper.enqueue", "hydra.overrides.task")
"""Lists of overrides."""


def note_config(config: DictConfig) -> None:
    """Have all that is confidential in a composed config, its node ``hydra`` included, masked from here on."""
    for where, node in leaves(config):
        text = node._value()
        if where.startswith(_LINES) and isinstance(text, str):
            note_override(text)
        elif is_under_secret(where):
            _note_named(config, where, node)
        if isinstance(text, str) and "oc.env" in text:
            text = _ESCAPED.sub(r"\1", text)
            _note_variables(where.removeprefix(_SWEPT), text)
            if text.count("oc.env") > len(VARIABLE.findall(text)):  # the variable's name is computed
                _note_named(config, where, node)


def note_overrides(lines: Iterable[str]) -> None:
    """Have what is confidential in overrides masked from here on."""
    for line in lines:
        note_override(line)


@lru_cache(maxsize=4096)
def note_override(line: str) -> None:
    """Have what is confidential in an override masked from here on."""
    key, _, value = _ESCAPED.sub(r"\1", line).lstrip("+~").partition("=")
    if is_under_secret(key) and "${" not in value:
        note(value.strip("'\""), named=True)
    if "oc.env" in value:
        _note_variables(key, value)


def _note_named(config: DictConfig, where: str, node: Node) -> None:
    value = node._value()
    with suppress(OmegaConfBaseException):  # what cannot be resolved is said elsewhere
        value = OmegaConf.select(config, where) if node._is_interpolation() else value
    if isinstance(value, str | int | float) and not where.endswith("._target_"):
        note(str(value), named=True)


def _note_variables(where: str, text: str) -> None:
    for name in VARIABLE.findall(text):
        value = os.environ.get(name, "")
        if is_under_secret(where) or is_under_secret(name):
            note(value, named=True)
        elif where.startswith(_PLACES):
            note_passwords(value)
        else:
            note_variable(value)


def leaves(node: Node, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys and nodes of a config that hold no others, interpolations unresolved."""
    content = node.__dict__.get("_content")
    if isinstance(node, DictConfig) and isinstance(content, dict):
        for key, item in content.items():
            yield from leaves(item, f"{where}.{key}" if where else str(key))
    elif isinstance(node, ListConfig) and isinstance(content, list):
        for number, item in enumerate(content):
            yield from leaves(item, f"{where}[{number}]")
    else:
        yield where, node
