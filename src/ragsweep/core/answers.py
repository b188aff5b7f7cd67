"""Requests, answers, judgements, and their cost. Import them from `types`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation before the question."""

    role: str  # "user" or "assistant"
    text: str


class Passage(NamedTuple):
    """A piece of context as a generator reads it."""

    name: str  # the chunk's name, as in tables
    text: str


class Request(NamedTuple):
    """Input of a generator: a question, its history, and the context, best first (may be empty)."""

    question: str
    passages: tuple[Passage, ...] = ()
    history: tuple[Turn, ...] = ()


class Usage(NamedTuple):
    """The number of calls and their tokens; ``estimated`` where the service did not count the tokens."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    estimated: bool = False


class Answer(NamedTuple):
    """Output of a generator for one request, or the reason why there is none.

    ``failed`` is a reason (see missing.py) and empty where there is an answer; a failed answer is never stored.
    ``abstained``: the generator declined, by a threshold or by the words of its prompt.
    """

    text: str = ""
    abstained: bool = False
    failed: str = ""
    support: float = float("nan")  # the generator's confidence, where it has one; used by the risk-coverage curve
    seconds: float = float("nan")  # of this answer alone; needed unless it failed: without them it has no latency
    usage: Usage = Usage()
    model: str = ""  # as the service names it
    thoughts: str = ""  # of a reasoning model before its answer; never scored
    money: float = float("nan")  # price of the usage, set when a row is read; never stored. NaN: no price is known


class Route(NamedTuple):
    """A router's decision whether a question needs the corpus.

    ``failed`` is a reason and empty where there is a decision. After a failure the corpus is searched, and the next run
    asks the router again.
    """

    search: bool = True
    score: float = float("nan")  # the higher, the more it is conversation; NaN if the router has no score
    failed: str = ""
    usage: Usage = Usage()


class Response(NamedTuple):
    """Output of an external system for one request, and the context it used, best first.

    A passage's name is the id that the system gave it (a document, or a document's span). Name and text may be empty.
    ``scores`` has one score a passage, or is empty.
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
    """Output of a judge for one case: a value, or NaN and the reason; one in missing.CALL_FAILURES is never stored."""

    value: float = float("nan")
    reason: str = ""
    usage: Usage = Usage()
    suspicious: bool = False  # the judged text contains what may be instructions to the judge
    spread: float = float("nan")  # standard deviation between samples, where it was judged more than once
    model: str = ""  # the judge model as the config names it, by which the judgement is priced
    words: str = ""  # the judge's own reasons, a line each
    money: float = float("nan")  # as that of an answer


class RequestSize(NamedTuple):
    """The expected size of one request or case, in tokens; NaN where unknown."""

    passages: float = 0.0
    context: float = 0.0  # tokens of all passages together
    rest: float = 0.0  # tokens of everything else: question, answer, reference


class CostEstimate(NamedTuple):
    """The highest cost of one request or case before it is made; NaN where it is unknown."""

    calls: float
    tokens_in: float
    tokens_out: float
    model: str = ""  # whose price applies


class Answers(NamedTuple):
    """The answers to all questions under one config, with their contexts.

    ``passages`` are those in the generator's request; ``cut`` counts those beyond the token budget (questions,).
    """

    answers: Sequence[Answer]
    passages: Sequence[tuple[Passage, ...]]
    cut: NDArray[np.int64]
