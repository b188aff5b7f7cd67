"""``ragsweep store``: show and empty the store."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ragsweep.commands.store.listing import LEFTOVERS, SHORT, by_stage, counted, known_stage, print_table, show
from ragsweep.core import interruption
from ragsweep.core.errors import ConfigError, RagsweepError, nearest
from ragsweep.report.numbers import duration, spelled
from ragsweep.report.terminal import Terminal
from ragsweep.stages.eviction import Conditions, choose, evict, give_back
from ragsweep.stages.storekeeping import Item, Place, contents, read_results

_SIZES = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def size(text: str) -> int:
    """Read a size such as 500MB or 2 GiB: bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([KMGT]?I?B)", text.strip().upper())
    if not found:
        raise argparse.ArgumentTypeError(f'must be a size such as 500MB or 2GB, given "{text}"')
    return int(float(found[1]) * _SIZES[found[2]])


def age(text: str) -> float:
    """Read an age such as 12h or 30d: seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([smhdw])", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(f'must be an age such as 45m, 12h, 30d or 8w, given "{text}"')
    return float(found[1]) * _AGES[found[2]]


COMMANDS = ("list", "evict")

_CONDITIONS = ("older_than", "to_size", "unreachable", "stage", "quarantine", "all")


class _Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message.removeprefix("argument "))


def _parser() -> _Parser:
    parser = _Parser(
        prog="ragsweep store", description="Show and empty the store of stage results.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", metavar="list | evict")
    described = {
        "list": "show what is stored (without a command, too)",
        "evict": "remove what fulfils all conditions that are given",
    }
    each = {
        name: commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        for name, text in described.items()
    }
    for one in each.values():
        one.add_argument("--path", help="the store's folder; else the environment's RAGSWEEP_STORE, else .ragsweep")
    add = each["list"].add_argument
    add("--entries", action="store_true", help="one line an entry instead of a stage")
    add("--stage", help="only this stage")
    add("--json", action="store_true", help="for programs: times in Unix seconds, sizes in bytes")
    add = each["evict"].add_argument
    add("--older-than", type=age, metavar="AGE", help="not used for so long: 12h, 30d, 8w")
    add("--unreachable", action="store_true", help="not used by any result in the ledger")
    add("--stage", help="of this stage")
    add("--quarantine", action="store_true", help="what is in quarantine, and nothing else")
    add("--all", action="store_true", help="everything, quarantine included")
    add(
        "--to-size",
        type=size,
        metavar="SIZE",
        help="the least recently used, until the store takes no more: 500MB, 2GB",
    )
    add("--yes", action="store_true", help="do not ask")
    return parser


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command and its options; raises ConfigError, in one line, for what means nothing."""
    words = list(arguments)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "list")
    if not words[0].startswith("-") and words[0] not in COMMANDS:
        raise ConfigError(f'store: no command "{words[0]}"{nearest(words[0], COMMANDS)}')
    given, unknown = _parser().parse_known_args(words)
    if unknown and unknown[0] in COMMANDS:
        raise ConfigError(f"the command comes first: ragsweep store {unknown[0]} ...")
    if unknown:
        known = [f"--{name.replace('_', '-')}" for name in vars(given) if name != "command"]
        raise ConfigError(f'store {given.command}: unknown option "{unknown[0]}"{nearest(unknown[0], known)}')
    if given.command == "evict" and all(
        vars(given)[name] is None or vars(given)[name] is False for name in _CONDITIONS
    ):
        raise ConfigError(
            "store evict: say what to remove: --older-than AGE, --to-size SIZE, --unreachable, --stage STAGE,"
            " --quarantine, --all; what fulfils all that are given is removed"
        )
    return given


def find(path: str | None) -> tuple[Place, str]:
    """Find the store, with how it was found; raises InputError where there is none."""
    for given, how in ((path, "--path"), (os.environ.get("RAGSWEEP_STORE"), "the environment's RAGSWEEP_STORE")):
        if given:
            return Place(Path(given).absolute()), how
    return Place(Path(".ragsweep").absolute()), "the default, in this folder"


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


def store(arguments: Sequence[str]) -> int:
    """Run ``ragsweep store``; return the exit status.

    0 done, 2 bad input or no terminal to confirm at, 130 and 143 interrupted.
    """
    interruption.raise_on_signals()
    try:
        given = read(arguments)
        place, chosen = find(given.path)
        terminal = Terminal.current()
        if not vars(given).get("json"):
            terminal.line("store", f"{place.path} ({chosen})")
        return {"list": show, "evict": remove}[given.command](given, place, terminal)
    except RagsweepError as fault:
        print(f"ragsweep: {fault}", file=sys.stderr)
        return fault.exit_status
    except interruption.Interrupted as signalled:
        interruption.stop_raising()
        return signalled.exit_status
    except BrokenPipeError:  # whoever read it, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as fault:  # a folder that may not be written, a disk that fails
        print(f"ragsweep: {fault.filename or 'store'}: {fault.strerror}", file=sys.stderr)
        return RagsweepError.exit_status
