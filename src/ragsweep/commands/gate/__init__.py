"""``ragsweep gate``: may the candidate replace the baseline?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragsweep.commands.command_line import Named, find_record, until_closed
from ragsweep.commands.gate.arguments import read
from ragsweep.commands.gate.deciding import EXIT_STATUS, GateRules, decide
from ragsweep.commands.gate.showing import as_json, as_markdown, show
from ragsweep.core.errors import InputError
from ragsweep.report.terminal import Terminal

__all__ = ["gate"]


def gate(arguments: Sequence[str]) -> int:
    """Run ``ragsweep gate``; return the exit status.

    0 pass, 1 fail, 2 bad input, 3 inconclusive, or refused: the two runs cannot be compared.
    """
    given = read(arguments)
    candidate = Named(*find_record(given.path, given.candidate))
    baseline = Named(*find_record(given.path, given.baseline)) if given.baseline else None
    found = decide(baseline, candidate, GateRules(given.margin, given.slice or (), given.questions, given.each))
    for path, text in ((given.json, as_json), (given.markdown, as_markdown)):
        if path:
            _write(path, text(found))

    def tell() -> int:
        show(found, Terminal.current())
        return 0

    until_closed(tell)
    return EXIT_STATUS[found.decision]


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}") from None
