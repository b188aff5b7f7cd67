"""Keep secrets out of what is written: configs, params, errors, logs."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from ragsweep.errors import ConfigError

MASK = "***"

SHORTEST = 8
"""Characters from which on the value of a variable that is named like a secret is masked in texts; less is a word."""

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


def mask_text(text: str, *secrets: str) -> str:
    """Replace in a text the secrets given and those of the environment, however they are written.

    Whoever is given a key has been seen to repeat it: services in their answers, libraries in their errors.
    """
    held = (value.strip() for name, value in os.environ.items() if is_secret(name))
    known = {*secrets, *(value for value in held if len(value) >= SHORTEST)} - {""}
    for form in sorted({form for secret in known for form in written(secret)}, key=len, reverse=True):
        text = text.replace(form, MASK)
    return text


def written(secret: str) -> Iterator[str]:
    """Yield the ways in which a secret is written: as it is, in URLs, in JSON, in base64, each of its lines."""
    lines = [line.strip() for line in secret.splitlines()]
    for part in {secret, *(line for line in lines if len(line) >= SHORTEST)}:
        plain = part.encode("utf-8", "surrogateescape")
        yield from (part, quote(part, safe=""), quote_plus(part), json.dumps(part)[1:-1])
        for coded in (base64.b64encode(plain).decode(), base64.urlsafe_b64encode(plain).decode()):
            yield from (coded, coded.rstrip("="))


def mask_logs() -> None:
    """Have every handler of the root logger mask what it writes."""
    for handler in logging.getLogger().handlers:
        if not isinstance(handler.formatter, _Masking):
            handler.setFormatter(_Masking(handler.formatter))


class _Masking(logging.Formatter):
    def __init__(self, inner: logging.Formatter | None) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        return mask_text(self._inner.format(record))
