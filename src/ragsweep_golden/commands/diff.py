"""``ragsweep golden diff``: the questions in only one of two golden sets, and the fields that differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import Parser, ignore_closed_pipe
from ragsweep.core.errors import Faults
from ragsweep.report.terminal import Terminal
from ragsweep_golden.sets.changelog import compare, describe_version, read_state, version_facts

_ABOUT = """Compare two golden files by question id. A question with a different id and the same text is renamed."""


def diff(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden diff``; return the exit status."""
    parser = Parser("ragsweep golden diff", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("before", metavar="A", help="a golden file")
    parser.add_argument("after", metavar="B", help="another one, such as a later version")
    parser.add_argument("--json", action="store_true", help="write the differences to standard output")
    options = parser.parse_intermixed_args(arguments)
    faults = Faults()
    files = [Path(file).expanduser() for file in (options.before, options.after)]
    states = [read_state(file, faults) for file in files]
    faults.raise_any()
    sets = [version_facts(file, str(state.digest)) for file, state in zip(files, states, strict=True)]
    found = {"sets": sets, **compare(*(state.entries for state in states))}
    with ignore_closed_pipe():
        if options.json:
            print(json.dumps(found, ensure_ascii=False))
        else:
            show(Terminal.current(), found)
    return 0


def show(terminal: Terminal, found: dict[str, Any]) -> None:
    """Print the versions and the counts, then one line per question."""
    for word, facts in zip("AB", found["sets"], strict=True):
        terminal.line(word, f"{facts['file']}: {describe_version(facts)}")
    terminal.table([f">{kind}" for kind in found["counts"]], [[f"{count:,}" for count in found["counts"].values()]])
    for kind in found["counts"]:
        for one in found[kind]:
            to = f' is now "{one["new"]}"' if kind == "renamed" else ""
            differing = f": {', '.join(one['fields'])}" if one.get("fields") else ""
            terminal.line(kind, f' "{one["id"]}"{to}{differing} · {one["question"]}')
