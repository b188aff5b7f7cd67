"""Say how long to wait before a call is made again."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_WAIT = 60.0
"""Seconds waited at most before a call is made again. A service that asks for more is not waited for at all."""

SHORTEST_WAIT = 0.5
"""Seconds within which the first repetition is made."""


def retry_after(value: str | None) -> float | None:
    """Read how many seconds a service asks to wait: a number, or a date; None where it does not say."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def honoured(asked: float | None) -> float:
    """Return the seconds that a service is given of what it asks for: all of it, or, of an hour, none."""
    return asked if asked is not None and asked <= LONGEST_WAIT else 0.0


def waiting(attempt: int, asked: float | None) -> float:
    """Choose how long to wait after the failed call number ``attempt``, from 0: seconds, at most LONGEST_WAIT.

    What the service asks for and a little more, so that not all come back at once. Where it asks for nothing, or for so
    much that nobody waits: any part of a time that doubles with every call ("full jitter").
    """
    given = honoured(asked)
    if given:
        return min(given + random.uniform(0, SHORTEST_WAIT), LONGEST_WAIT)
    return min(SHORTEST_WAIT * 2.0 ** min(attempt, 16), LONGEST_WAIT) * random.uniform(0, 1)
