"""``ragsweep name``: name a config or a sweep for use in commands."""

from collections.abc import Sequence

from ragsweep.commands.command_line import Parser, add_path, print_blocks
from ragsweep.core.errors import InputError, nearest
from ragsweep.report.document import Statement, lines
from ragsweep.sweep.concluding.recorded_runs import find_target, open_ledger

_ABOUT = """Name a config or a sweep, for compare, gate, ablate, show, report and list; NAME#3 is the third config of a
named sweep. In a run command, name=NAME names the sweep."""


def name(arguments: Sequence[str]) -> int:
    """Run ``ragsweep name``; return the exit status 0. Raises RagsweepError for bad input."""
    parser = Parser("ragsweep name", description=_ABOUT)
    parser.add_argument("target", nargs="?", metavar="RUN", help="a config (SWEEP#NUMBER or a run id), or a sweep")
    parser.add_argument("name", metavar="NAME", help="begins with a letter; then letters, digits, . _ and -")
    parser.add_argument("--drop", action="store_true", help="free the name; the named config or sweep is kept")
    add_path(parser)
    options = parser.parse_args(arguments)
    names = open_ledger(options.path).names
    if options.drop == bool(options.target):
        parser.error("needs RUN and NAME, or --drop and NAME")
    if options.drop:
        if not names.drop(options.name):
            way = nearest(options.name, names.all()) or f"; {options.path} has no names; use another --path"
            raise InputError(f'no name "{options.name}"{way}')
        fact = "is free"
    else:
        target = find_target(options.path, options.target)
        names.give(options.name, target)
        fact = f"is the name of {names.shown(target)}"
    print_blocks(lines(Statement("name", f"{options.name} {fact}")))
    return 0
