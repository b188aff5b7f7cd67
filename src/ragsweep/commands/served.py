"""Functions that read a served model's traces, selected by version and time."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.plurals import counted
from ragsweep.parts.tracking.models import ModelRegistry, ModelVersion
from ragsweep.parts.tracking.served_traces import BUNDLE, ServedTrace, read_served_traces

MODEL = "the served model: NAME@ALIAS, or NAME/NUMBER for a version"
SINCE = "only traces since this date (2026-05-01), or of at most this age (7d, 12h, 30m)"
_UNITS = {"d": 86400, "h": 3600, "m": 60}


def read_since(text: str, now: float) -> float:
    """Convert an age such as 7d, or a date, to seconds since the epoch; raises ConfigError for any other text."""
    age = re.fullmatch(r"(\d+(?:\.\d+)?)([dhm])", text)
    try:
        since = now - float(age[1]) * _UNITS[age[2]] if age else datetime.fromisoformat(text).timestamp()
        datetime.fromtimestamp(since, UTC)  # fails if the time is before the year 1
        return since
    except (ValueError, OverflowError):
        raise ConfigError(
            f'--since: "{text}" is neither an age such as 7d, 12h or 30m nor a date such as 2026-05-01'
        ) from None


def read_traces(
    registry: ModelRegistry, version: ModelVersion, since: float, experiment: str | None
) -> tuple[list[ServedTrace], Counter[str]]:
    """Return the traces of a version since a time, and how many traces were skipped for each reason.

    ``since`` is in seconds since the epoch. Raises InputError if the version lacks the tag that identifies its
    traces. See `read_served_traces` for ``experiment`` and other errors.
    """
    if not (bundle := version.tags.get(BUNDLE)):
        raise InputError(f"{version.uri}: lacks the tag {BUNDLE}, which its traces share; ship the config again")
    skipped: list[str] = []
    traces = list(read_served_traces(registry.connection, {BUNDLE: bundle}, since, skipped.append, experiment))
    return traces, Counter(skipped)


def describe_skipped(skipped: Mapping[str, int]) -> str:
    """Format the number of unreadable traces with the reasons."""
    reasons = "; ".join(f"{count:,}: {reason}" for reason, count in skipped.items())
    return f"{counted(sum(skipped.values()), 'trace')} not read ({reasons})"
