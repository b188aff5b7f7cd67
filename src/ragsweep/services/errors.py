"""Exceptions for a failed call to a service, and for an endpoint to which all calls fail."""

from ragsweep.core.errors import RagsweepError
from ragsweep.core.missing import SERVER_ERROR
from ragsweep.core.secrets import mask_text
from ragsweep.core.types import Usage

QUOTED = 160
"""Maximum number of characters of a response that an error quotes."""


class CallError(RagsweepError):
    """A call that failed or was not made; it may succeed in another run. ``reason`` is in ``missing.CALL_FAILURES``."""

    exit_status = 1

    def __init__(self, message: str, reason: str = SERVER_ERROR, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.usage = usage or Usage()


class CallFailed(CallError):
    """A call that failed, after retries if any; other calls may succeed. ``usage`` contains the tokens that it used."""


class EndpointFailed(CallError):
    """A failure of every call to the endpoint, for example because of a wrong key. The config's evaluation fails."""


def quote(fact: str, key: str = "") -> str:
    """Return ``fact`` on one line, cut after QUOTED characters; ``key`` and the environment's secrets are masked."""
    line = " ".join(mask_text(fact, key).split())
    return line if len(line) <= QUOTED else line[:QUOTED] + "..."
