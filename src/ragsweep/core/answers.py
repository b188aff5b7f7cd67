"""Requests, answers, judgements, and their costs. Import these classes from `types`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Turn:
    """One of the turns of a conversation that precede the question."""

    role: str  # "user" or "assistant"
    text: str


class Passage(NamedTuple):
    """A piece of context as a generator reads it."""

    name: str  # the chunk's name, as in tables
    text: str


class Request(NamedTuple):
    """A question, its history, and its context: the input of a generator, router, query writer or system."""

    question: str
    passages: tuple[Passage, ...] = ()  # the context, best passage first; only generators get one
    history: tuple[Turn, ...] = ()


class Usage(NamedTuple):
    """The numbers of calls and of tokens; ``estimated`` is true if a service did not report the tokens."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    estimated: bool = False


class Answer(NamedTuple):
    """Output of a generator, query writer or external system for one request, or the reason why it failed.

    ``failed`` is the reason (such as those in missing.py), empty on success; a failed answer is never stored.
    ``abstained`` is true if the generator or system declined to answer. A generator declines if it has no context, if
    its confidence is below a threshold, or if its reply begins with a refusal phrase of its prompt.
    """

    text: str = ""
    abstained: bool = False
    failed: str = ""
    support: float = float("nan")  # the generator's confidence, for the risk-coverage curve; NaN if unknown
    seconds: float = float("nan")  # how long the answer took; a successful answer must have it
    usage: Usage = Usage()
    model: str = ""  # the model's name as the service returned it
    thoughts: str = ""  # a reasoning model's output before its answer; never scored
    money: float = float("nan")  # price of the usage, set when a row is read, never stored; NaN if unknown


class Route(NamedTuple):
    """A router's decision on whether a question needs the corpus.

    ``failed`` is a reason, empty on success. After a failure the corpus is searched, and the next run calls the router
    again.
    """

    search: bool = True
    score: float = float("nan")  # higher means more conversational; NaN if the router has no score
    failed: str = ""
    usage: Usage = Usage()


class Response(NamedTuple):
    """Output of an external system for one request: its answer, and the context that it used (best passage first).

    The name of a passage is the system's id of a document, or of a part of a document. Name and text may be empty.
    ``scores`` has one score per passage, or is empty.
    """

    answer: Answer = Answer()
    contexts: tuple[Passage, ...] = ()
    scores: tuple[float, ...] = ()


class Case(NamedTuple):
    """Input of a judge for one question; fields that a metric does not use are empty."""

    question: str = ""
    answer: str = ""
    contexts: tuple[str, ...] = ()
    reference: str = ""


class Judgement(NamedTuple):
    """Output of a judge for one case: a value, or NaN and a reason. It is not stored if the judge failed."""

    value: float = float("nan")
    reason: str = ""
    usage: Usage = Usage()
    suspicious: bool = False  # the judged text may contain instructions to the judge
    spread: float = float("nan")  # standard deviation between samples; NaN unless judged repeatedly
    model: str = ""  # the judge model's name in the config, which determines the price
    words: str = ""  # the judge's reasons, one per line
    money: float = float("nan")  # as in Answer


class RequestSize(NamedTuple):
    """The expected size of one request or case; NaN where unknown."""

    passages: float = 0.0  # number of passages
    context: float = 0.0  # tokens of all passages together
    rest: float = 0.0  # tokens of everything else: question, answer, reference


class CostEstimate(NamedTuple):
    """The highest possible cost of one request or case, estimated before the call; NaN where unknown."""

    calls: float
    tokens_in: float
    tokens_out: float
    model: str = ""  # the model whose price applies


class Answers(NamedTuple):
    """The answers to all questions under one config, with their contexts.

    ``passages`` has the context of each question, as in the generator's request; ``cut`` (questions,) is the number of
    chunks that the token budget removed from each context.
    """

    answers: Sequence[Answer]
    passages: Sequence[tuple[Passage, ...]]
    cut: NDArray[np.int64]
