"""Choose what of a store shall go."""

from __future__ import annotations

from dataclasses import dataclass

from ragsweep.core.errors import InputError
from ragsweep.stages.storekeeping.contents import Contents, Item
from ragsweep.stages.storekeeping.results import Results


@dataclass(frozen=True)
class Conditions:
    """What shall be removed: whatever fulfils all of these; None and False ask for nothing.

    Files in quarantine are meant only where ``quarantine`` (then nothing else is) or ``everything`` says so.
    """

    older_than: float | None = None  # seconds since the last use
    unreachable: bool = False
    stage: str | None = None
    quarantine: bool = False
    everything: bool = False
    to_size: int | None = None  # bytes that the store may take after it


def choose(contents: Contents, conditions: Conditions, results: Results | None, now: float) -> list[Item]:
    """Return what fulfils all conditions, the least recently used first; raises InputError where that is not known."""
    if conditions.unreachable:
        _refuse_to_guess(contents, results)
    found = sorted(
        (item for item in contents.items if _fulfils(item, conditions, results, now)), key=lambda item: item.used
    )
    if conditions.to_size is None:
        return found
    left, count = contents.bytes - contents.unused, 0
    while count < len(found) and left > conditions.to_size:
        left -= found[count].bytes
        count += 1
    return found[:count]


def reachable(item: Item, results: Results) -> bool:
    """Say whether a result in the ledger was made from an item, or a sweep that still runs may have touched it."""
    running = results.running is not None and item.used >= results.running
    return running or any(user in results.names for user in item.users)


def _fulfils(item: Item, conditions: Conditions, results: Results | None, now: float) -> bool:
    aside = item.sort == "quarantine"
    return (
        (aside if conditions.quarantine else not aside or conditions.everything)
        and not item.written
        and (conditions.older_than is None or now - item.used >= conditions.older_than)
        and (conditions.stage is None or item.stage == conditions.stage)
        and not (conditions.unreachable and results is not None and reachable(item, results))
    )


def _refuse_to_guess(contents: Contents, results: Results | None) -> None:
    """Call nothing unreachable where nothing tells what was reached."""
    if results is None:
        raise InputError("--unreachable: no ledger beside the store tells which results there are")
    used = {user for item in contents.entries for user in item.users}
    if results.names and not used & results.names.keys():
        raise InputError(
            "--unreachable: no entry tells which result in the ledger was made from it; use --older-than or --stage"
        )
