"""Say how a call failed: the one call, or all calls to its endpoint; in one line, with no secret in it."""

from __future__ import annotations

from ragsweep.core.errors import RagsweepError
from ragsweep.core.reasons import SERVER_ERROR
from ragsweep.core.secrets import mask_text
from ragsweep.core.types import Usage

QUOTED = 160
"""Characters of an answer that are quoted in an error."""


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
    line = " ".join(mask_text(fact, key).split())
    return line if len(line) <= QUOTED else line[:QUOTED] + "..."
