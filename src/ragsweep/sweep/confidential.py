"""Find what must not be shown in a config: values under secrets' names, and values that come from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.secrets import Secrets, is_under_secret
from ragsweep.sweep.trees import leaves

VARIABLE = re.compile(r"\$\{\s*oc\.env\s*:\s*['\"]?(\w+)")
"""A variable of the environment in an interpolation."""

_ESCAPED = re.compile(r"\\(.)")
"""How Hydra writes a character of an override that has a meaning in its grammar."""

_PLACES = ("hydra.", "store.", "tracking.")
"""Keys of folders and servers: shown, less the passwords of URLs."""

_SWEPT = "hydra.sweeper.params."
_LINES = ("hydra.sweeper.cases", "hydra.sweeper.enqueue", "hydra.overrides.task")
"""Lists of overrides."""


def add_secrets(secrets: Secrets, config: DictConfig) -> None:
    """Add all that is confidential in a composed config, its node ``hydra`` included, to the secrets of a command."""
    written: Any = OmegaConf.to_container(config, resolve=False)
    for where, value in leaves(written):
        if where.startswith(_LINES) and isinstance(value, str):
            add_secrets_of_overrides(secrets, [value])
        elif is_under_secret(where):
            _add_named(secrets, config, where, value)
        if isinstance(value, str) and "oc.env" in value:
            text = _ESCAPED.sub(r"\1", value)
            _add_variables(secrets, where.removeprefix(_SWEPT), text)
            if text.count("oc.env") > len(VARIABLE.findall(text)):  # the variable's name is computed
                _add_named(secrets, config, where, value)


def add_secrets_of_overrides(secrets: Secrets, lines: Iterable[str]) -> None:
    """Add what is confidential in overrides."""
    for line in lines:
        key, _, value = _ESCAPED.sub(r"\1", line).lstrip("+~").partition("=")
        if is_under_secret(key) and "${" not in value:
            secrets.add(value.strip("'\""), named=True)
        if "oc.env" in value:
            _add_variables(secrets, key, value)


def _add_named(secrets: Secrets, config: DictConfig, where: str, value: Any) -> None:
    with suppress(OmegaConfBaseException):  # an interpolation that cannot be resolved is an error elsewhere
        value = OmegaConf.select(config, where) if isinstance(value, str) and "${" in value else value
    if isinstance(value, str | int | float) and not where.endswith("._target_"):
        secrets.add(str(value), named=True)


def _add_variables(secrets: Secrets, where: str, text: str) -> None:
    for name in VARIABLE.findall(text):
        value = os.environ.get(name, "")
        if is_under_secret(where) or is_under_secret(name):
            secrets.add(value, named=True)
        elif where.startswith(_PLACES):
            secrets.add_passwords(value)
        else:
            secrets.add_variable(value)
