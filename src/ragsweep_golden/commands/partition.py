"""``ragsweep golden partition``: write the tune and the holdout questions of a golden set to two files."""

from collections.abc import Sequence

from ragsweep.commands.command_line import print_blocks
from ragsweep.core.errors import ConfigError
from ragsweep.core.plurals import counted
from ragsweep.golden.partition import HOLDOUT, TUNE, holdout
from ragsweep.report.document import Statement, lines
from ragsweep_golden.commands.inputs import read_inputs, user_name, words_parser
from ragsweep_golden.sets.entries import is_rejected, read_set
from ragsweep_golden.sets.files import record_change, write_rows

_ABOUT = """Write the questions for a search to NAME.tune.jsonl and the held-out questions to NAME.holdout.jsonl, split
as by partition=tune and partition=holdout. Questions about one document, or with nearly the same words, are in one
part."""

SHARES = tuple(n / 20 for n in range(1, 20))
"""Shares that may be suggested if the given share leaves no questions on one side."""


def partition(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden partition``; return the exit status 0. Raises RagsweepError for bad input."""
    words = "the golden file; share=.3, the share of the holdout"
    _, inputs = read_inputs(words_parser("partition", _ABOUT, words), arguments)
    file, share = inputs.path, inputs.values["share"]
    if not isinstance(share, int | float) or not 0 < share < 1:
        raise ConfigError(f"share: must be a number above 0 and below 1, got {share!r}")
    kept = [(entry, question) for entry, question in read_set(file) if not is_rejected(entry)]
    questions = [question for _, question in kept]
    held = set(holdout(questions, share))
    sides = {
        side: [entry for entry, _ in kept if (entry["id"] in held) == (side == HOLDOUT)] for side in (TUNE, HOLDOUT)
    }
    if not all(sides.values()):
        fact = ", ".join(f"{counted(len(entries), 'question')} in {side}" for side, entries in sides.items())
        shares = [one for one in SHARES if 0 < len(holdout(questions, one)) < len(questions)]
        way = f"use share={min(shares, key=lambda one: abs(one - share)):g}, or " if shares else ""
        raise ConfigError(f"share={share:g}: leaves {fact}; {way}add questions on other documents to {file}")
    written = []
    for side, entries in sides.items():
        target = file.with_name(f"{file.name.removesuffix('.gz').removesuffix('.jsonl')}.{side}.jsonl")
        with record_change(target, "partition", user_name(), source=file):
            write_rows(target, entries)
        text = f"{counted(len(entries), 'question')}, in {target}"
        written.append(Statement(side, text, {"questions": len(entries)}))
    print_blocks(lines(written))
    return 0
