"""Requests, answers, judgements, and their costs. Import these classes from `types`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Turn:
    """One turn of the conversation before the question."""

    role: str  # "user" or "assistant"
    text: str


class Passage(NamedTuple):
    """One passage of a context: a chunk as a generator reads it, or a passage that an external system returned."""

    name: str  # the chunk's name, as in tables, or the id that the external system gave
    text: str


class Request(NamedTuple):
    """The input of a generator, router, query writer or system: a question, its context and its history."""

    question: str
    passages: tuple[Passage, ...] = ()  # the context, best passage first; empty except for a generator
    history: tuple[Turn, ...] = ()


class Usage(NamedTuple):
    """Counts of calls, input tokens and output tokens.

    ``estimated`` is true if a token count is an estimate, because a service did not report the count.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    estimated: bool = False


class Answer(NamedTuple):
    """The output of a generator, query writer or external system for one request, or the reason why the request failed.

    ``failed`` is the reason for the failure, usually a constant of missing.py, and "" on success. A failed answer is
    never stored. ``abstained`` is true if the generator or system declined to answer. The extractive generator, for
    example, declines if the context has no text or its confidence is below a threshold. A language model declines if
    its reply begins with a refusal phrase of the prompt.
    """

    text: str = ""
    abstained: bool = False
    failed: str = ""
    support: float = float("nan")  # the generator's confidence, for the risk-coverage curve; NaN if unknown
    seconds: float = float("nan")  # how long the request took; required unless it failed
    usage: Usage = Usage()
    model: str = ""  # the model's name as the service returned it
    thoughts: str = ""  # a reasoning model's output before its answer; never scored
    money: float = float("nan")  # price of the usage, set whenever the answer is read, never stored; NaN if unknown


class Route(NamedTuple):
    """A router's decision on whether to search the corpus for a question.

    ``failed`` is the reason for a failure, "" on success. After a failure, the corpus is searched, and the next run
    calls the router again.
    """

    search: bool = True
    score: float = float("nan")  # higher means more conversational; NaN if the router computes no score
    failed: str = ""
    usage: Usage = Usage()


class Response(NamedTuple):
    """The output of an external system for one request: its answer, and the passages of its context, best first.

    The name of a passage is the system's id of a document or of a part of a document. A passage may have an empty name
    or an empty text, but not both. ``scores`` has one score per passage or is empty.
    """

    answer: Answer = Answer()
    contexts: tuple[Passage, ...] = ()
    scores: tuple[float, ...] = ()


class Case(NamedTuple):
    """The input of a judge for one question; fields that the metric does not use are empty."""

    question: str = ""
    answer: str = ""
    contexts: tuple[str, ...] = ()
    reference: str = ""


class Judgement(NamedTuple):
    """The output of a judge for one case: a value, or NaN and a reason. The output of a failed call is not stored."""

    value: float = float("nan")
    reason: str = ""
    usage: Usage = Usage()
    suspicious: bool = False  # the judged text may contain instructions to the judge
    spread: float = float("nan")  # standard deviation of the judge's samples; NaN for a single sample
    model: str = ""  # the judge model's name in the config, which determines the price
    words: str = ""  # the judge's reasons, one per line
    money: float = float("nan")  # as in Answer


class RequestSize(NamedTuple):
    """The expected size of one ``Request`` or ``Case``; NaN where unknown."""

    passages: float = 0.0  # number of passages
    context: float = 0.0  # tokens of all passages together
    rest: float = 0.0  # tokens of everything else: question, answer, reference


class CostEstimate(NamedTuple):
    """The highest possible cost of one ``Request`` or ``Case``, estimated before any call; NaN where unknown."""

    calls: float
    tokens_in: float
    tokens_out: float
    model: str = ""  # the model whose price applies


class Answers(NamedTuple):
    """The answers to all questions under one config, with the contexts of the questions.

    ``passages`` has the context of each question, as passed to the generator. ``cut`` (questions,) has the number of
    chunks that the token budget removed from each context.
    """

    answers: Sequence[Answer]
    passages: Sequence[tuple[Passage, ...]]
    cut: NDArray[np.int64]


def describe_wrong_type(item: object, kind: type[Answer | Judgement | Route | Response]) -> str:
    """Return why ``item`` is not a valid ``kind``: a wrong type, or a negative time or cost; "" if it is valid."""
    if not isinstance(item, kind):
        return f"a result must be of the type ragsweep.core.types.{kind.__name__}, got {item!r}"
    if isinstance(item, Response):
        return describe_wrong_type(item.answer, Answer)
    for name, default in kind._field_defaults.items():
        value = getattr(item, name)
        plain = value.item() if isinstance(value, np.generic) else value
        if not isinstance(plain, (int, float) if isinstance(default, float) else type(default)):
            return f"{kind.__name__}.{name} must be of the type {type(default).__name__}, got {value!r}"
        if name in ("seconds", "money") and plain < 0:
            return f"{kind.__name__}.{name} must not be negative, got {value!r}"
    return ""
