"""The outputs that a task's metrics score; each answer of a config is parsed once."""

from typing import Any, NamedTuple

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import TRUNCATED, UNREADABLE
from ragsweep.core.types import Answer, Answers, OutputReader


class Output(NamedTuple):
    """The output read from an answer, or the reason why it is unreadable."""

    value: Any = None
    unreadable: str = ""


def mark_cut(answers: list[Answer], reader: OutputReader | None) -> list[Answer]:
    """Mark answers truncated at the token limit as unreadable, if there is a reader.

    Unlike a failed answer, an unreadable one does not make a task's result partial. A higher limit may not help: a
    model that repeats itself reaches any limit.
    """
    return [one._replace(failed=UNREADABLE) if reader and one.failed == TRUNCATED else one for one in answers]


@memoize_by_identity
def read_outputs(answers: Answers, reader: OutputReader) -> list[Output]:
    """Parse every answer; a failed answer yields no value, and a reason only if ``mark_cut`` marked it."""
    return [_read(answer, reader) for answer in answers.answers]


def _read(answer: Answer, reader: OutputReader) -> Output:
    if answer.failed:
        return Output(unreadable="cut at max_tokens" if answer.failed == UNREADABLE else "")
    try:
        return Output(reader.read(answer.text))
    except ValueError as fault:
        return Output(unreadable=str(fault) or "not readable")
