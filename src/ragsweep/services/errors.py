"""Failures of calls to services: of one call, or of all calls to an endpoint."""

from ragsweep.core.errors import RagsweepError
from ragsweep.core.missing import SERVER_ERROR
from ragsweep.core.secrets import mask_text
from ragsweep.core.types import Usage

QUOTED = 160
"""Maximum characters of a response that an error quotes."""


class CallError(RagsweepError):
    """A call failed or was not allowed; another run may succeed. ``reason`` is one of missing.CALL_FAILURES."""

    exit_status = 1

    def __init__(self, message: str, reason: str = SERVER_ERROR, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.usage = usage or Usage()


class CallFailed(CallError):
    """One call failed permanently; others may succeed. ``usage`` is its cost."""


class EndpointFailed(CallError):
    """No call to this endpoint can succeed (a wrong key, say, or no server). The config fails."""


def quote(fact: str, key: str = "") -> str:
    """Cut a text to one line of at most QUOTED characters plus "..."; mask ``key`` and the environment's secrets."""
    line = " ".join(mask_text(fact, key).split())
    return line if len(line) <= QUOTED else line[:QUOTED] + "..."
