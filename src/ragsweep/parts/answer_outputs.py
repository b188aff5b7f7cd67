"""Parse the answers of a config into outputs, once for all metrics of a task."""

from typing import Any, NamedTuple

from ragsweep.core import interruption
from ragsweep.core.errors import RagsweepError
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import TRUNCATED, UNREADABLE
from ragsweep.core.types import Answer, Answers, OutputReader


class Output(NamedTuple):
    """The parsed output of an answer; if there is none, ``unreadable`` is the reason (see ``read_output``), or ""."""

    value: Any = None
    unreadable: str = ""


def mark_cut(answers: list[Answer], reader: OutputReader | None) -> list[Answer]:
    """Return the answers; if ``reader`` is not None, mark the answers truncated at the token limit as unreadable.

    A failed answer makes a task's result partial; an unreadable answer does not. Truncated answers count as unreadable
    because a higher limit may not help: a model that repeats itself reaches any limit.
    """
    return [one._replace(failed=UNREADABLE) if reader and one.failed == TRUNCATED else one for one in answers]


@memoize_by_identity
def read_outputs(answers: Answers, reader: OutputReader) -> list[Output]:
    """Return one output per answer, in order (see ``read_output``)."""
    return [read_output(answer, reader) for answer in answers.answers]


def read_output(answer: Answer, reader: OutputReader) -> Output:
    """Return the output of an answer.

    If ``reader`` raises ValueError, ``unreadable`` is the error's message; for any other error, it is the error's type
    and message. A RagsweepError is never caught; after the config's deadline, only ValueError is caught. A failed
    answer is not parsed; the ``unreadable`` of its output is empty unless ``mark_cut`` marked the answer as unreadable.
    """
    if answer.failed:
        return Output(unreadable="cut at max_tokens" if answer.failed == UNREADABLE else "")
    try:
        return Output(reader.read(answer.text))
    except ValueError as fault:
        return Output(unreadable=str(fault) or "not readable")
    except RagsweepError:
        raise
    except Exception as fault:  # a reader from another package may raise anything, such as a KeyError
        if interruption.is_overdue():
            raise
        return Output(unreadable=f"{type(fault).__name__}: {fault}")
