"""``ragsweep golden partition``: write the tune and holdout questions of a golden set to files."""

from __future__ import annotations

from collections.abc import Sequence

from ragsweep.commands.command_line import Parser
from ragsweep.core.errors import ConfigError, Faults
from ragsweep.core.plurals import counted
from ragsweep.core.secrets import Secrets
from ragsweep.golden.golden_format import REJECTED
from ragsweep.golden.partition import HOLDOUT, TUNE, holdout
from ragsweep.report.terminal import Terminal
from ragsweep_golden.commands.inputs import need_file, read_config, user_name
from ragsweep_golden.sets.changelog import record_change
from ragsweep_golden.sets.entries import read_entries_with_questions, value
from ragsweep_golden.sets.files import write_rows

_ABOUT = """Write the questions for a search to NAME.tune.jsonl and the held-out questions to NAME.holdout.jsonl, split
as by partition=tune and partition=holdout. Questions about one document, or with nearly the same words, are in one
part."""


def partition(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden partition``; return the exit status."""
    parser = Parser("ragsweep golden partition", description=_ABOUT, allow_abbrev=False)
    parser.add_argument(
        "words", nargs="*", metavar="FILE | KEY=VALUE", help="the golden file; share=.3, the share of the holdout"
    )
    options = parser.parse_intermixed_args(arguments)
    file = need_file(options, "partition")
    share = read_config([word for word in options.words if "=" in word], Secrets())["share"]
    if not isinstance(share, int | float) or not 0 < share < 1:
        raise ConfigError(f"share: must be between 0 and 1, given {share!r}")
    faults = Faults()
    read = read_entries_with_questions(file, faults)
    faults.raise_any()
    kept = [(entry, question) for entry, question in read if value(entry, "validation", "status") != REJECTED]
    held = set(holdout([question for _, question in kept], share))
    terminal = Terminal.current()
    for side in (TUNE, HOLDOUT):
        entries = [entry for entry, _ in kept if (entry["id"] in held) == (side == HOLDOUT)]
        target = file.with_name(f"{file.name.removesuffix('.gz').removesuffix('.jsonl')}.{side}.jsonl")
        with record_change(target, "partition", user_name(), source=file):
            write_rows(target, entries)
        terminal.line(side, f" {counted(len(entries), 'question')}, in {target}")
    return 0
