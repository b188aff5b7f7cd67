"""Read HTTP responses as JSON, and check that they contain what the request requires."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from ragsweep.core.escaping import well_formed
from ragsweep.core.missing import FILTERED, THINKING, TOO_LONG, TRUNCATED
from ragsweep.core.plurals import counted
from ragsweep.core.types import Usage
from ragsweep.services.errors import CallFailed
from ragsweep.services.thoughts import TAGS, Separated, read_content, separate

MAX_BYTES = 32 * 2**20
"""Maximum size of a response in bytes. As JSON, 64 vectors of 4,096 numbers take up about 6 MB."""

CHARACTERS_PER_TOKEN = 4
"""Characters per token, to estimate token counts that a service omits; approximately right for English."""

MAX_FLOAT = float(np.finfo(np.float32).max)
MAX_TOKENS = 10**9
"""Maximum number of tokens of one call; a larger number in a response is invalid."""

APART = ("reasoning_content", "reasoning")  # fields in which a server with a reasoning parser returns thoughts

_LONGER = (
    "raise max_tokens of the part that makes the call, such as llm.max_tokens (or llm.extra.max_completion_tokens) or"
    " system.body.max_tokens"
)

TRUNCATION = frozenset({"length", "model_length", "max_tokens"})

ABORTION = frozenset({"error", "abort", "insufficient_system_resource", "network_error"})
"""Finish reasons of an aborted reply: of Mistral and OpenRouter, of vLLM, of DeepSeek, and of Z.ai."""

FILTERING = ("content_filter", "sensitive")
"""Prefixes of the finish reasons of a withheld reply: of OpenAI and Gemini, and of Z.ai."""

WINDOW_FULL = "model_context_window_exceeded"
"""Finish reason of Z.ai and Anthropic for a reply that reached the end of the model's context window."""


@dataclass(frozen=True)
class HttpResponse:
    """The status, headers and content of an HTTP response."""

    status: int
    headers: Any
    content: bytes

    @property
    def text(self) -> str:
        """The first 4,096 bytes of the content as text, with invalid bytes replaced."""
        return self.content[:4096].decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the content, parsed as JSON or, if its type is text/event-stream, as an EventStream.

        A missing type counts as JSON. Raises ValueError for any other type that is not JSON, for invalid JSON, and for
        a stream that `read_events` rejects.
        """
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            return read_events(self.content.decode("utf-8-sig", "replace"))
        if kind and kind != "application/json" and not kind.endswith("+json"):
            raise ValueError(f"the response is {kind} instead of JSON: {self.text}")
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            raise ValueError(f"the response is not JSON: {self.text}") from None


@dataclass(frozen=True)
class EventStream:
    """The data of the events in a streamed response: JSON objects and strings are parsed; other data remains text."""

    events: tuple[Any, ...]


def read_events(text: str) -> EventStream:
    """Return the server-sent events in ``text``, except the ``[DONE]`` of OpenAI's protocol.

    The blank line after the last event may be missing. Raises ValueError for an event of type ``error``, for an object
    with a non-empty ``error``, and for a chat completion that ends before its ``finish_reason``.

    Source of the format: WHATWG, HTML Living Standard, section 9.2.6.
    """
    events, data, kind, is_done = list[Any](), list[str](), "", False
    for line in [*re.split(r"\r\n|\r|\n", text), ""]:
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif name == "event":
            kind = value.strip()
        elif not line:
            joined, is_json = "\n".join(data), "".join(data).lstrip()[:1] in ("{", '"')
            event: Any = joined
            with suppress(ValueError, RecursionError):
                event = json.loads(joined) if is_json else joined
            if kind == "error" or (isinstance(event, dict) and event.get("error")):
                raise ValueError(f"the stream reports an error: {joined}")
            if data and joined != "[DONE]":
                events.append(event)
            data, kind, is_done = [], "", is_done or joined == "[DONE]"
    reasons = list[Any]()
    for event in events:
        with suppress(KeyError, TypeError, IndexError):  # not a chat completion, or without a reason
            reasons.append(event["choices"][0]["finish_reason"])
    if reasons and not any(reasons) and not is_done:
        raise ValueError(
            "the stream ended without finish_reason or [DONE]; if the service never sends either, set"
            f" system=openai_chat, which does not stream: {text}"
        )
    return EventStream(tuple(events))


class NoAnswer(ValueError):
    """A complete chat completion that contains no text."""


class Reply(NamedTuple):
    """A model's reply in a chat: the answer (``text``), the thoughts, and the model, usage and duration of the call."""

    text: str
    model: str  # the name that the service returned
    usage: Usage
    seconds: float = 0.0  # of the attempt that succeeded and of earlier unusable replies, not of other failures
    thoughts: str = ""


def read_chat(response: Any, characters: int, tags: Sequence[str] | None = TAGS) -> Reply:
    """Return the reply in a chat completion.

    ``tags`` names the tags that enclose thoughts (None means that all text is the answer). ``characters`` is the
    length of the request, from which a missing token count is estimated.

    Raises:
        ValueError: The response is not a complete chat completion, or its text is blank. Another attempt may help.
        CallFailed: The reply is truncated or withheld, or the prompt is too long. Another attempt would fail, too.
    """
    try:
        choice = response["choices"][0]
        message = choice["message"]
        reason, refusal = choice.get("finish_reason"), message.get("refusal")
        content = message.get("content")
        fields = [well_formed(given) for name in APART if isinstance(given := message.get(name), str)]
    except (KeyError, TypeError, IndexError, AttributeError):
        raise ValueError("the response contains no choices with a message") from None
    written, parts, _ = read_content(content)
    apart = list(dict.fromkeys(filter(None, (*fields, parts))))  # some servers repeat the thoughts in several fields
    usage = read_usage(response, characters, len(written) + max(map(len, apart), default=0))
    said = separate(written, tags)
    said = said._replace(thoughts="\n\n".join(filter(None, (*apart, said.thoughts))))
    check_finish(reason, said, usage, refused=bool(refusal and not said.answer))
    if not said.answer.strip():
        raise NoAnswer("the message contains no text")
    model = response.get("model")
    return Reply(said.answer, model if isinstance(model, str) else "", usage, thoughts=said.thoughts)


def check_finish(reason: Any, said: Separated, usage: Usage, refused: bool = False) -> None:
    """Raise an error unless the reply of a chat completion with the finish reason ``reason`` is complete.

    ``said`` is the separated text of the reply. ``usage`` becomes the usage of a CallFailed. ``refused`` is true if the
    message contains a refusal and no answer.

    Raises:
        ValueError: The service aborted the reply, or the reason is not a string. Another attempt may help.
        CallFailed: The reply is truncated or withheld, or the prompt is too long. Another attempt would fail, too.
    """
    if not isinstance(reason, str | None):
        raise ValueError(f"the finish_reason is {reason!r:.60}, which is not a string")
    if reason in ABORTION:
        raise ValueError(f"the service aborted the reply (finish_reason {reason})")
    if reason == WINDOW_FULL:
        fact = "the prompt leaves no room for the answer in the model's context window"
        raise CallFailed(f"{fact}; shorten the prompt", TOO_LONG, usage)
    if said.unclosed or (reason in TRUNCATION and said.thoughts and not said.answer.strip()):
        raise CallFailed(f"the reply ended while the model was thinking; {_LONGER}", THINKING, usage)
    if reason in TRUNCATION:
        raise CallFailed(f"the answer was truncated at the token limit; {_LONGER}", TRUNCATED, usage)
    if refused or (reason or "").startswith(FILTERING):
        raise CallFailed("the service withheld the answer; change the prompt, or choose another model", FILTERED, usage)


def read_usage(response: Any, sent: int, received: int) -> Usage:
    """Return the usage of one call; token counts that are not reported are estimated from the numbers of characters.

    If text was sent, a count of 0 input tokens, as from LM Studio for embeddings, is treated as not reported.
    """
    counts = read_token_counts(response, received)
    if counts and (counts.tokens_in or not sent):
        return counts._replace(calls=1)
    return Usage(1, estimate_tokens(sent), estimate_tokens(received), estimated=True)


def read_token_counts(response: Any, received: int = 0) -> Usage | None:
    """Return the token counts that a service reports, as a Usage of 0 calls; None if any is missing or out of range.

    ``received`` is the number of characters of the output. If it is 0, a missing count of output tokens is read as 0,
    and the total replaces a missing count of input tokens.
    """
    usage = response.get("usage") if isinstance(response, dict) else None
    if isinstance(usage, dict):
        tokens_in = usage.get("prompt_tokens", None if received else usage.get("total_tokens"))  # Voyage, Jina
        tokens_out = usage.get("completion_tokens", None if received else 0)
        if _is_count(tokens_in) and _is_count(tokens_out):
            total = usage.get("total_tokens") if "completion_tokens" in usage else None
            # At xAI and Gemini, only the total includes the thoughts, which are billed as output.
            return Usage(0, tokens_in, max(tokens_out, total - tokens_in) if _is_count(total) else tokens_out)
    return None


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MAX_TOKENS


def estimate_tokens(characters: int) -> int:
    """Return an estimate of the number of tokens in a text with this number of characters."""
    return ceil(characters / CHARACTERS_PER_TOKEN)


def is_float32(value: Any) -> bool:
    """Return whether a value in a response is a number within the range of 32-bit floats, and therefore not NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_FLOAT


def read_vectors(response: Any, texts: int, dimension: int | None = None) -> list[list[float]]:
    """Return one vector per text, in the order of the texts.

    A vector without an index belongs to the text at the same position, because Gemini omits an index of 0. Raises
    ValueError unless the response has exactly one vector of finite 32-bit numbers per text. If ``dimension`` is given,
    each vector must have this length.
    """
    try:
        vectors = {entry.get("index", place): entry["embedding"] for place, entry in enumerate(response["data"])}
        count = len(response["data"])
    except (KeyError, TypeError, AttributeError):
        raise ValueError("the response contains no data with index and embedding") from None
    fact = f"the response contains {counted(count, 'vector')} for {counted(texts, 'text')}"
    if count != texts or any(type(index) is not int for index in vectors) or vectors.keys() != set(range(texts)):
        raise ValueError(f"{fact}; there must be one for each index from 0 to {texts - 1}")
    for vector in vectors.values():
        if not isinstance(vector, list) or not vector or len(vector) != (dimension or len(vector)):
            fact = f"has {counted(len(vector), 'value')}" if isinstance(vector, list) else f"is {vector!r}"
            raise ValueError(f"a vector {fact}, but must have {dimension or 'one or more'}")
        for value in vector:
            if not is_float32(value):
                raise ValueError(f"a vector contains {value!r}, which is not a finite 32-bit number")
    return [vectors[index] for index in range(texts)]
