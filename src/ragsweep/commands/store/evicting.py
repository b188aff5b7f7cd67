"""Evict entries of a store."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence

from ragsweep.commands.store.listing import (
    LEFTOVERS,
    SHORT,
    by_stage,
    counted,
    duration,
    known_stage,
    print_table,
    spelled,
)
from ragsweep.core.errors import ConfigError
from ragsweep.report.terminal import Terminal
from ragsweep.stages.eviction import Conditions, choose, evict, give_back
from ragsweep.stages.storekeeping import Item, Place, contents, read_results


def remove(given: argparse.Namespace, place: Place, terminal: Terminal) -> int:
    """Print what will be removed, ask for confirmation, and remove it."""
    conditions = Conditions(
        given.older_than, given.unreachable, given.stage, given.quarantine, given.all, given.to_size
    )
    found = contents(place)
    known_stage(given.stage, found)
    items = choose(found, conditions, read_results(place) if given.unreachable else None, time.time())
    if items:
        _say_removal(terminal, items)
        if not (given.yes or _confirmed()):
            terminal.line("removed", "nothing")
            return 0
        _remove(terminal, place, items)
    else:
        terminal.line("remove", "nothing: nothing in the store fulfils all of this")
    _say_room(terminal, place, give_back(place) if items else "")
    return 0


def _say_removal(terminal: Terminal, items: Sequence[Item]) -> None:
    rows = [
        [stage, str(len(found)), spelled(sum(item.bytes for item in found)), duration(sum(i.seconds for i in found))]
        for stage, found in by_stage(items)
    ]
    print_table(terminal, ["remove", ">count", ">size", ">took to compute"], rows)
    terminal.line("remove", _amount(items))


def _amount(items: Sequence[Item]) -> str:
    entries = [item for item in items if item.sort in ("whole", "rows")]
    counts = [counted(len(entries), "entry", "entries")] if entries else []
    counts += [f"{n} in {sort}" for sort in LEFTOVERS if (n := sum(item.sort == sort for item in items))]
    seconds = sum(item.seconds for item in items)
    cost = f" · {duration(seconds)} of computing" if entries else ""
    return f"{', '.join(counts)} · {spelled(sum(item.bytes for item in items))}{cost}"


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("store evict: not a terminal, so nobody can be asked; --yes removes without asking")
    print("remove? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _remove(terminal: Terminal, place: Place, items: Sequence[Item]) -> None:
    removed = []
    with terminal.console.status("") as status:
        for item, why in evict(place, items):
            if why:
                terminal.line("left", f"{item.stage or item.sort} {item.name[:SHORT]}: {why}")
            else:
                removed.append(item)
            status.update(f"{len(removed)} of {len(items)} removed")
    terminal.line("removed", _amount(removed) if removed else "nothing")


def _say_room(terminal: Terminal, place: Place, kept: str) -> None:
    found = contents(place)
    if kept:
        terminal.line("note", f"{spelled(found.unused)} stay unused inside store.db until the next evict: {kept}")
    free = shutil.disk_usage(place.folder).free
    terminal.line("disk", f"the store takes {spelled(found.bytes)} · {spelled(free)} free")
