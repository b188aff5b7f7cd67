"""Take an answer by HTTP for what it is: whole, no larger than it may be, JSON, and of the shape that was asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from ragsweep.core.reasons import FILTERED, TRUNCATED
from ragsweep.core.types import Usage
from ragsweep.services.calls.failures import CallFailed

LARGEST = 32 * 2**20
"""Bytes of an answer. 64 vectors of 4,096 numbers are 6 MB."""

CHARACTERS = 4
"""Characters that make a token, where nobody counted them: about right for English."""

HIGHEST = float(np.finfo(np.float32).max)
MOST_TOKENS = 10**9
"""Tokens that one call may be said to have cost; more is no count."""

CUT = frozenset({"length", "model_length", "max_tokens"})


@dataclass(frozen=True)
class Answered:
    """What came back: status, headers and content."""

    status: int
    headers: Any
    content: bytes

    @property
    def text(self) -> str:
        """Read the content as text, whatever it is."""
        return self.content[:4096].decode("utf-8", "replace")

    def json(self) -> Any:
        """Read the content as JSON. Raises ValueError, with the fact, where it is none."""
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind and kind != "application/json" and not kind.endswith("+json"):
            raise ValueError(f"no JSON but {kind}: {self.text}")
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            raise ValueError(f"no JSON: {self.text}") from None


class Chat(NamedTuple):
    """One chat completion as it came."""

    text: str
    finish_reason: str
    model: str
    usage: Usage


def read_chat(answer: Any, asked: int) -> Chat:
    """Read a chat completion; ``asked`` characters were sent.

    Raises:
        ValueError: It is none, or an empty one: asking again may help.
        CallFailed: It is one that must not be used, and asking again would be paid again.
    """
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        text, reason, refusal = message.get("content"), choice.get("finish_reason"), message.get("refusal")
    except (KeyError, TypeError, IndexError, AttributeError):
        raise ValueError("no choices with a message") from None
    if not isinstance(reason, str | None):
        raise ValueError(f"a finish_reason of {reason!r:.60}, which is no word")
    usage = read_usage(answer, asked, len(text) if isinstance(text, str) else 0)
    if reason in CUT:
        raise CallFailed("the answer was cut at the limit of its tokens; raise max_tokens", TRUNCATED, usage)
    if reason == "content_filter" or (refusal and not text):
        raise CallFailed("the service withheld the answer", FILTERED, usage)
    if not isinstance(text, str) or not text.strip():
        raise ValueError("a message without text")
    model = answer.get("model")
    return Chat(text, reason or "", model if isinstance(model, str) else "", usage)


def read_usage(answer: Any, asked: int, said: int) -> Usage:
    """Read what one call cost in tokens; where the service does not say, estimate it from the characters."""
    given = counted(answer, said)
    return given._replace(calls=1) if given else Usage(1, estimate(asked), estimate(said), estimated=True)


def counted(answer: Any, said: int = 0) -> Usage | None:
    """Read the tokens that the service counted; None where it did not. Embeddings have none that are written."""
    given = answer.get("usage") if isinstance(answer, dict) else None
    if isinstance(given, dict):
        tokens_in, tokens_out = given.get("prompt_tokens"), given.get("completion_tokens", None if said else 0)
        if _is_count(tokens_in) and _is_count(tokens_out):
            return Usage(0, tokens_in, tokens_out)
    return None


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def estimate(characters: int) -> int:
    """Estimate the tokens of a text from its characters."""
    return ceil(characters / CHARACTERS)


def read_vectors(answer: Any, texts: int, dimension: int | None = None) -> list[list[float]]:
    """Return one vector a text, in the order of the texts.

    Raises ValueError unless every text has one vector of finite numbers, all of ``dimension`` values where it is known,
    and there is nothing else.
    """
    try:
        found = {entry["index"]: entry["embedding"] for entry in answer["data"]}
        given = len(answer["data"])
    except (KeyError, TypeError):
        raise ValueError("no data with index and embedding") from None
    if given != texts or any(type(index) is not int for index in found) or found.keys() != set(range(texts)):
        raise ValueError(f"{given} vectors for {texts} texts, or not one for each of them")
    for vector in found.values():
        if not isinstance(vector, list) or not vector or len(vector) != (dimension or len(vector)):
            length = f"{len(vector)} values" if isinstance(vector, list) else f"{vector!r}"
            raise ValueError(f"a vector of {length}, where {dimension or 'some'} were expected")
        for value in vector:
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= HIGHEST:
                raise ValueError(f"a vector with {value!r}, which is no finite number")
    return [found[index] for index in range(texts)]
