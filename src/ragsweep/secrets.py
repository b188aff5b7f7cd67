"""Keep secrets out of what is written: configs, params, logs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.errors import ConfigError

MASK = "***"

_SECRET = re.compile(r"(^|_)(key|token|secret|password)$", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Say whether a key's last part names a secret: ``api_key``, ``password``."""
    return bool(_SECRET.search(name.rpartition(".")[2]))


def mask(value: Any, name: str = "") -> Any:
    """Replace the values of secret names in a tree of plain values."""
    if isinstance(value, Mapping):
        return {key: mask(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [mask(item, name) for item in value]
    return MASK if is_secret(name) and value not in (None, "") else value


def refuse_secrets(overrides: Sequence[str]) -> None:
    """Raise ConfigError for a secret on the command line: Hydra writes overrides into three files."""
    for line in overrides:
        name, _, value = line.lstrip("+~").partition("=")
        if is_secret(name) and value not in ("", "null") and not value.startswith("${oc.env:"):
            raise ConfigError(
                f"{name}: a secret on the command line ends up in files; put it into the environment and name it:"
                f" {name}='${{oc.env:NAME}}'"
            )
