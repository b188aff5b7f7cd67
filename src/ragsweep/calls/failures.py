"""Say how a call failed: the one call, or all calls to its endpoint; in one line, with no secret in it."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from ragsweep.errors import RagsweepError
from ragsweep.reasons import SERVER_ERROR
from ragsweep.secrets import MASK, is_secret
from ragsweep.types import Usage

QUOTED = 160
"""Characters of an answer that are quoted in an error."""

SHORTEST_SECRET = 8
"""Characters from which on the value of a variable that is named like a secret is masked; shorter ones are words."""


class CallError(RagsweepError):
    """A service gave no usable answer; running it again may help. ``reason`` is one of reasons.CALL_FAILURES."""

    exit_status = 1

    def __init__(self, message: str, reason: str = SERVER_ERROR, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.usage = usage or Usage()


class CallFailed(CallError):
    """One call failed for good; others may do better. ``usage`` is what was paid for it all the same."""


class EndpointFailed(CallError):
    """No call to this endpoint can do better: a wrong key, no such model, nobody there. The config fails."""


def said(fact: str, key: str = "") -> str:
    """Cut a fact to one short line without the key, and without any secret that the environment holds."""
    line = " ".join(_masked(fact, key).split())
    return line if len(line) <= QUOTED else line[:QUOTED] + "..."


def _masked(text: str, key: str) -> str:
    """Replace secrets, however they are written; services have been seen to repeat the key they were given."""
    held = (value.strip() for name, value in os.environ.items() if is_secret(name))
    secrets = {key, *(value for value in held if len(value) >= SHORTEST_SECRET)} - {""}
    for written in sorted(set(_written(secrets)), key=len, reverse=True):
        text = text.replace(written, MASK)
    return text


def _written(secrets: Iterable[str]) -> Iterable[str]:
    for secret in secrets:
        plain = secret.encode()
        coded = base64.b64encode(plain).decode(), base64.urlsafe_b64encode(plain).decode()
        yield from (secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], *coded)
        yield from (one.rstrip("=") for one in coded)
