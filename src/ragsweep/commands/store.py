"""``ragsweep store``: show and empty the store."""

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ragsweep.commands.command_line import Parser, print_document
from ragsweep.commands.store_report import Listing, eviction_document, listing_document, removal_document
from ragsweep.core.errors import ConfigError, InputError, nearest
from ragsweep.report.terminal import Terminal
from ragsweep.stages.eviction import Conditions, choose, evict, give_back
from ragsweep.stages.storekeeping import Contents, Item, StorePlace, contents, read_results

_LIST = "show the stored stages (the default command)"
_COMMANDS = {"list": _LIST, "evict": "remove the entries that meet all given conditions"}
_CONDITION = """store evict: specify a condition: --older-than AGE, --to-size SIZE, --unreachable, --stage STAGE, \
--quarantine, --all; entries that meet all of them are removed"""
_SIZES = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def store(arguments: Sequence[str]) -> int:
    """Run ``ragsweep store``; return 0. Raises InputError if a confirmation is needed but there is no terminal."""
    options = read(arguments)
    place, origin = _find(options.path)
    try:
        found = contents(place)
        _check_stage(options.stage, found)
        if options.command == "list":
            print_document(listing_document(_list(place, found, options), origin), options)
        else:
            _evict(place, found, origin, options)
    except OSError as fault:  # a read-only folder, a failing disk
        way = "check the permissions and the disk of the store"
        raise InputError(f"{fault.filename or 'store'}: {fault.strerror}; {way}") from None
    return 0


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command and its options; raises ConfigError, with a one-line message, for invalid ones."""
    parser = Parser("ragsweep store", description="Show and empty the store of stage results.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="list | evict")
    add_parser = partial(commands.add_parser, allow_abbrev=False)
    parsers = {name: add_parser(name, help=text, description=text) for name, text in _COMMANDS.items()}
    folder = "the store's folder; default: the environment's RAGSWEEP_STORE, else .ragsweep"
    for each in parsers.values():
        each.add_argument("--path", help=folder)
        each.add_argument("--stage", help="only this stage")
    add = parsers["list"].add_argument
    add("--entries", action="store_true", help="one line per entry instead of per stage")
    add("--json", action="store_true", help="for programs: times in Unix seconds, sizes in bytes")
    add = parsers["evict"].add_argument
    add("--older-than", type=read_age, metavar="AGE", help="unused for at least: 12h, 30d, 8w")
    add("--unreachable", action="store_true", help="not used by any result in the ledger")
    add("--quarantine", action="store_true", help="only the quarantine")
    add("--all", action="store_true", help="everything, quarantine included")
    to_size = "the least recently used, down to this size of the store: 500MB, 2GB"
    add("--to-size", type=read_size, metavar="SIZE", help=to_size)
    add("--yes", action="store_true", help="remove without confirmation")
    words = list(arguments)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "list")
    options = parser.parse_args(words)
    if options.command == "evict":
        options.conditions = Conditions(
            options.older_than, options.unreachable, options.stage, options.quarantine, options.all, options.to_size
        )
        if options.conditions == Conditions():
            raise ConfigError(_CONDITION)
    return options


def read_size(text: str) -> int:
    """Return a size such as 500MB or 2 GiB in bytes; raises ArgumentTypeError for any other text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *((?:[KMGT]I?)?B)", text.strip().upper())
    if not match:
        raise argparse.ArgumentTypeError(f'must be a size such as 500MB or 2GB, got "{text}"')
    return int(float(match[1]) * _SIZES[match[2]])


def read_age(text: str) -> float:
    """Return an age such as 12h or 30d in seconds; raises ArgumentTypeError for any other text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([smhdw])", text.strip().lower())
    if not match:
        raise argparse.ArgumentTypeError(f'must be an age such as 45m, 12h, 30d or 8w, got "{text}"')
    return float(match[1]) * _AGES[match[2]]


def _find(path: str | None) -> tuple[StorePlace, str]:
    """Return the store and the source of its path; raises InputError if there is none."""
    for folder, origin in ((path, "--path"), (os.environ.get("RAGSWEEP_STORE"), "the environment's RAGSWEEP_STORE")):
        if folder:
            return StorePlace(Path(folder).absolute()), origin
    return StorePlace(Path(".ragsweep").absolute()), "the default, in this folder"


def _check_stage(stage: str | None, found: Contents) -> None:
    """Raise ConfigError, whose message suggests the nearest known stage, for a stage without entries."""
    known = {item.stage for item in found.items if item.stage}
    if stage is not None and stage not in known:
        raise ConfigError(f'--stage: no entry of the stage "{stage}" in this store{nearest(stage, known)}')


def _list(place: StorePlace, found: Contents, options: argparse.Namespace) -> Listing:
    """Return the store's entries of the chosen stage, or of all stages, with the results that use them."""
    entries = [item for item in found.entries if options.stage in (None, item.stage)]
    try:
        return Listing(place, found, entries, options.stage, options.entries, read_results(place))
    except InputError as fault:
        return Listing(place, found, entries, options.stage, options.entries, None, str(fault))


def _evict(place: StorePlace, found: Contents, origin: str, options: argparse.Namespace) -> None:
    """Print the items to remove, and remove them if the user confirms it or has given ``--yes``."""
    results = read_results(place) if options.unreachable else None
    items = choose(found, options.conditions, results, time.time())
    print_document(eviction_document(place, items, origin))
    if not items or not (options.yes or _confirmed()):
        print_document(removal_document(place, found, []))
        return
    outcomes: list[tuple[Item, str]] = []
    with Terminal.current().console.status("") as status:
        for outcome in evict(place, items):
            outcomes.append(outcome)
            status.update(f"{len(outcomes)} of {len(items)}")
    kept = give_back(place)
    print_document(removal_document(place, contents(place), outcomes, kept))


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("store evict: confirmation needs a terminal; --yes removes without confirmation")
    print("remove? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
