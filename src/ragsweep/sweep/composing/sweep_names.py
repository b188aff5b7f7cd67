"""Derive the names of sweeps and of their parameters from overrides."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragsweep.core.plurals import counted
from ragsweep.report.naming import short_keys, varying_keys
from ragsweep.sweep.composing.trees import OPERATIONAL, parse

if TYPE_CHECKING:
    from ragsweep.records.ledger import Sweep

REFERENCE = 8
"""Number of characters of a sweep's id in commands."""

DEFAULTS = "defaults"
"""Name of a config without overrides."""

MOST_KEYS = 4
"""Maximum number of swept parameters in a sweep's name."""


def read_settings(overrides: Sequence[str]) -> dict[str, str]:
    """Map the key of each override to its value as text, without quotes and escapes; "" for a deletion."""
    return {one.get_key_element(): "" if one.is_delete() else _spell(one.value()) for one in map(parse, overrides)}


def _spell(value: Any) -> str:
    is_json = value is None or isinstance(value, bool | list | dict)
    return json.dumps(value).replace('"', "").replace(" ", "") if is_json else str(value)


def reference(sweep: Sweep) -> str:
    """Return a sweep's short id for commands.

    This is a prefix of the id of the sweep's parent run or, if it has no parent run, of the sweep's own id.
    """
    return (sweep.parent or sweep.id)[:REFERENCE]


def is_search(sweep: Sweep) -> bool:
    """Return whether a sweep is a search, whose jobs are recorded without overrides.

    A multirun without overrides is not a search: its single job is named `DEFAULTS`.
    """
    return not any(sweep.jobs) and sweep.names != (DEFAULTS,)


def sweep_title(sweep: Sweep) -> str:
    """Return `study_title` or, for a search, `study_title` and the number of trials: ``hybrid_tpe, 40 trials``."""
    return study_title(sweep) + (f", {counted(len(sweep.names), 'trial')}" if is_search(sweep) else "")


def study_title(sweep: Sweep) -> str:
    """Name a sweep by its typed ``name`` and ``sweeps``, if any, and its swept parameters: ``demo: top_k × retriever``.

    For a search, the parameters are omitted.
    """
    given = re.search(r"(?:^| )name=(\S+)", sweep.name)
    return f"{given[1]}: {_what_is_swept(sweep)}" if given else _what_is_swept(sweep)


def _what_is_swept(sweep: Sweep) -> str:
    named = re.search(r"(?:^| )sweeps=(\S+)", sweep.name)
    if is_search(sweep):
        return named[1] if named else "search"
    # Hydra's parser is not used, because masked values may be invalid overrides.
    pairs = ([line.lstrip("+~").partition("=") for line in job] for job in sweep.jobs)
    keys = varying_keys([{key: value for key, _, value in job} for job in pairs])
    shown = list(short_keys(keys).values())
    more = f" and {len(shown) - MOST_KEYS} more" if len(shown) > MOST_KEYS else ""
    swept = " × ".join(shown[:MOST_KEYS]) + more or (sweep.name if any(sweep.jobs) else DEFAULTS)
    return f"{named[1]}: {swept}" if named and named[1] != swept else swept


def defining(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that define a config and may appear in its name: those without an `OPERATIONAL` key."""
    return [line for line in overrides if root(line) not in OPERATIONAL]


def root(line: str) -> str:
    """Return the first part of an override's key: ``constraints`` for ``constraints.context_tokens=150``."""
    return re.split(r"[./=@]", line.lstrip("+~"))[0]
