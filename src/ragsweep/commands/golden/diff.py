"""``ragsweep golden diff``: the questions that two golden sets do not have in common, and the fields that differ."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import Parser, ignore_closed_pipe
from ragsweep.core.errors import Faults
from ragsweep.curation.entries import GROUPS, Entry, read_entries
from ragsweep.report.terminal import Terminal

_ABOUT = """Compare two golden files by the ids of their questions. A question with another id and the same text is
renamed."""


def diff(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden diff``; return the exit status."""
    parser = Parser("ragsweep golden diff", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("before", metavar="A", help="a golden file")
    parser.add_argument("after", metavar="B", help="another one, such as a later version")
    parser.add_argument("--json", action="store_true", help="write the differences to standard output")
    options = parser.parse_intermixed_args(arguments)
    faults = Faults()
    sets = [read_entries(Path(file).expanduser(), faults) for file in (options.before, options.after)]
    faults.raise_any()
    found = compare(*sets)
    with ignore_closed_pipe():
        if options.json:
            print(json.dumps(found, ensure_ascii=False))
        else:
            show(Terminal.current(), found)
    return 0


def compare(before: Sequence[Entry], after: Sequence[Entry]) -> dict[str, Any]:
    """Return counts, and the questions added, removed, renamed and changed, in JSON types."""
    old, new = {one["id"]: one for one in before}, {one["id"]: one for one in after}
    same_text = defaultdict(list)
    for identifier, entry in new.items():
        if identifier not in old:
            same_text[entry["question"]].append(identifier)
    renamed = {
        identifier: same_text[entry["question"]].pop(0)
        for identifier, entry in old.items()
        if identifier not in new and same_text[entry["question"]]
    }
    arrived = set(renamed.values())
    found: dict[str, Any] = {
        "added": [_named(one) for one in after if one["id"] not in old and one["id"] not in arrived],
        "removed": [_named(one) for one in before if one["id"] not in new and one["id"] not in renamed],
        "renamed": [
            {"id": one, "new": other, "question": old[one]["question"], "fields": fields(old[one], new[other])}
            for one, other in renamed.items()
        ],
        "changed": [
            _named(entry) | {"fields": changed}
            for identifier, entry in new.items()
            if identifier in old and (changed := fields(old[identifier], entry))
        ],
    }
    return {"counts": {kind: len(entries) for kind, entries in found.items()}, **found}


def fields(one: Entry, other: Entry) -> list[str]:
    """Name the fields that differ, but for the id; null is the same as missing."""
    first, second = _flat(one), _flat(other)
    return [name for name in {**first, **second} if first.get(name) != second.get(name)]


def _flat(entry: Entry) -> dict[str, Any]:
    values = {name: given for name, given in entry.items() if name != "id" and name not in GROUPS}
    for group in GROUPS:
        values |= {f"{group}.{name}": given for name, given in (entry.get(group) or {}).items()}
    return {name: given for name, given in values.items() if given is not None}


def _named(entry: Entry) -> dict[str, Any]:
    return {"id": entry["id"], "question": entry["question"]}


def show(terminal: Terminal, found: dict[str, Any]) -> None:
    """Print the counts, then a line a question."""
    terminal.table([f">{kind}" for kind in found["counts"]], [[f"{count:,}" for count in found["counts"].values()]])
    for kind in found["counts"]:
        for one in found[kind]:
            to = f' is now "{one["new"]}"' if kind == "renamed" else ""
            differing = f": {', '.join(one['fields'])}" if one.get("fields") else ""
            terminal.line(kind, f' "{one["id"]}"{to}{differing} · {one["question"]}')
