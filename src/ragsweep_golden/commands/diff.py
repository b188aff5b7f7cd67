"""``ragsweep golden diff``: list the questions and fields in which two golden sets differ."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import Parser, print_document
from ragsweep.core.errors import Faults
from ragsweep.report.document import Document, Section, Statement, Table, lines
from ragsweep_golden.sets.files import compare, describe_version, read_state, version_facts

_ABOUT = """Compare two golden files by question id. A question with another id but the same text counts as renamed."""


def diff(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden diff``; return the exit status 0. Raises RagsweepError for bad input."""
    parser = Parser("ragsweep golden diff", description=_ABOUT)
    parser.add_argument("before", metavar="A", help="a golden file")
    parser.add_argument("after", metavar="B", help="another golden file, such as a later version")
    parser.add_argument("--json", action="store_true", help="write the differences to standard output as JSON")
    options = parser.parse_intermixed_args(arguments)
    faults = Faults()
    files = [Path(file).expanduser() for file in (options.before, options.after)]
    states = [read_state(file, faults) for file in files]
    faults.raise_any()
    sets = [version_facts(file, str(state.digest)) for file, state in zip(files, states, strict=True)]
    found = {"sets": sets, **compare(*(state.entries for state in states))}
    counts = Table([f">{kind}" for kind in found["counts"]], [[f"{count:,}" for count in found["counts"].values()]])
    named = zip("AB", sets, strict=True)
    versions = (Statement(word, f"{one['file']}: {describe_version(one)}", one) for word, one in named)
    section = Section([lines(versions), counts, lines(_questions(found))])
    print_document(Document(f"{files[0]} and {files[1]}", [section], found), options)
    return 0


def _questions(found: dict[str, Any]) -> Iterator[Statement]:
    for kind in found["counts"]:
        for one in found[kind]:
            to = f' is now "{one["new"]}"' if kind == "renamed" else ""
            differing = f": {', '.join(one['fields'])}" if one.get("fields") else ""
            yield Statement(kind, f'"{one["id"]}"{to}{differing} · {" ".join(one["question"].split())}', one)
