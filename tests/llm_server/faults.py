"""Faults of a service: the responses in place of a good answer."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from random import Random
from typing import Any

BIG = 50 * 2**20
"""Bytes of an answer that is too large."""

ABSURD = 3600
"""Seconds that no client waits."""


@dataclass
class Response:
    """A response, and how it is sent where that is not at once and as a whole."""

    status: int = 200
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    length: int | None = None  # bytes promised, where it is not the content's length
    wait: float = 0.0  # seconds before anything is sent
    pause: float = 0.0  # seconds between two bytes
    drop: bool = False  # close the connection without an answer


Fault = Callable[[Response, Any], Response]
"""Make a bad response of the good one; the second argument is the server, for its settings."""


def _status(status: int, **headers: str) -> Fault:
    def refuse(good: Response, server: Any) -> Response:
        return Response(status, b'{"error": {"message": "scripted %d"}}' % status, {**good.headers, **headers})

    return refuse


def _rate_limited_date(good: Response, server: Any) -> Response:
    date = formatdate(time.time() + max(server.retry_after, 1), usegmt=True)
    return _status(429, **{"Retry-After": date})(good, server)


def _half(good: Response) -> bytes:
    return good.content[: len(good.content) // 2]


TRANSIENT: dict[str, Fault] = {
    "rate_limited": _status(429),
    "rate_limited_seconds": lambda good, server: _status(429, **{"Retry-After": f"{server.retry_after:g}"})(
        good, server
    ),
    "rate_limited_date": _rate_limited_date,
    "rate_limited_absurd": _status(429, **{"Retry-After": str(ABSURD)}),
    "server_error": _status(500),
    "bad_gateway": _status(502),
    "unavailable": _status(503),
    "hang": lambda good, server: replace(good, wait=server.hang),
    "slow_drip": lambda good, server: replace(good, pause=server.hang / max(len(good.content), 1)),
    "drop": lambda good, server: Response(drop=True),
    "short_body": lambda good, server: Response(content=_half(good), length=len(good.content)),
    "malformed_json": lambda good, server: Response(content=_half(good)),
    "html": lambda good, server: Response(content=b"<html>Sign in</html>", headers={"Content-Type": "text/html"}),
    "wrong_content_type": lambda good, server: Response(content=good.content, headers={"Content-Type": "text/plain"}),
    "big_body": lambda good, server: Response(content=good.content + b" " * BIG),
}
"""Temporary faults: a repeated request may be answered."""

FINAL: dict[str, Fault] = {
    "bad_request": _status(400),
    "window_exceeded": lambda good, server: Response(400, b'{"error": {"code": "context_length_exceeded"}}'),
    "not_implemented": _status(501),
    "unauthorised": _status(401),
    "forbidden": _status(403),
    "not_found": _status(404),
    "redirect": _status(307, Location="http://127.0.0.1:9/elsewhere"),
}
"""Permanent refusals."""

SPOILT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "no_choices": lambda answer: {**answer, "choices": []},
    "null_content": lambda answer: _with(answer, content=None),
    "empty_content": lambda answer: _with(answer, content=""),
    "length": lambda answer: _ended(answer, "length"),
    "content_filter": lambda answer: _ended(answer, "content_filter"),
    "wrong_model": lambda answer: {**answer, "model": "another-model"},
}
"""Complete chat completions of the wrong content."""

FAULTS = frozenset({*TRANSIENT, *FINAL, *SPOILT})


def _with(answer: dict[str, Any], **changed: Any) -> dict[str, Any]:
    choices = [{**choice, "message": {**choice["message"], **changed}} for choice in answer["choices"]]
    return {**answer, "choices": choices}


def _ended(answer: dict[str, Any], reason: str) -> dict[str, Any]:
    text = answer["choices"][0]["message"]["content"] or ""
    cut = _with(answer, content=text[: len(text) // 2])
    return {**cut, "choices": [{**choice, "finish_reason": reason} for choice in cut["choices"]]}


def draw_fault(shares: dict[str, float], seed: int, digest: str, attempt: int) -> str:
    """Draw the fault of a request; empty for none. It is a function of the seed, the question and the attempt."""
    point = Random(f"{seed}:{digest}:{attempt}").random()
    for name, share in shares.items():
        point -= share
        if point < 0:
            return name
    return ""
