"""What is read from the answers of a config for the metrics of a task: each answer once."""

from __future__ import annotations

from typing import Any, NamedTuple

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.types import Answers, OutputReader


class Output(NamedTuple):
    """What was read from an answer; or why nothing could be read."""

    value: Any = None
    unreadable: str = ""


@memoize_by_identity
def read_outputs(answers: Answers, reader: OutputReader) -> list[Output]:
    """Read every answer, failed ones left out."""
    return [Output() if answer.failed else _read(answer.text, reader) for answer in answers.answers]


def _read(text: str, reader: OutputReader) -> Output:
    try:
        return Output(reader.read(text))
    except ValueError as fault:
        return Output(unreadable=str(fault) or "not readable")
