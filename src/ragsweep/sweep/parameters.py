"""Spell a config as a user would type it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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


def spelled(written: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    """Flatten a config to parameters, every value once, secrets masked.

    A part that another names by interpolation (``embedder: ${embedder}``) appears under its own key only.

    Args:
        written: The config with its interpolations.
        values: The config's plain values.
    """
    found: dict[str, str] = {}

    def walk(node: Mapping[str, Any], below: Mapping[str, Any], prefix: str) -> None:
        for key, value in below.items():
            name = f"{prefix}{key}"
            if name in _NO_PARAMETERS or key == "_target_":
                continue
            if not isinstance(value, Mapping):
                found[name] = _spelled(value)
            elif isinstance(child := node[key], Mapping):
                walk(child, value, f"{name}.")  # else the whole of it is another key's

    walk(written, values, "")
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
