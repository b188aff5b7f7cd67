"""The ways in which a service fails: what is sent in place of a good answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from random import Random
from typing import Any

BIG = 50 * 2**20
"""Bytes of an answer that is too large."""

ABSURD = 3600
"""Seconds that nobody waits."""


@dataclass
class Response:
    """What is sent: and how, where it is not sent at once and whole."""

    status: int = 200
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    length: int | None = None  # bytes promised, where it is not the content's length
    wait: float = 0.0  # seconds before anything is sent
    pause: float = 0.0  # seconds between two bytes
    drop: bool = False  # close the connection without a word


Fault = Callable[[Response, Any], Response]
"""Make a bad response of the good one; the second argument is the server, for its settings."""


def _status(status: int, **headers: str) -> Fault:
    def refuse(good: Response, server: Any) -> Response:
        return Response(status, b'{"error": {"message": "scripted %d"}}' % status, {**good.headers, **headers})

    return refuse


def _rate_limited_seconds(good: Response, server: Any) -> Response:
    return _status(429, **{"Retry-After": f"{server.retry_after:g}"})(good, server)


def _rate_limited_date(good: Response, server: Any) -> Response:
    date = formatdate(time.time() + max(server.retry_after, 1), usegmt=True)
    return _status(429, **{"Retry-After": date})(good, server)


def _hang(good: Response, server: Any) -> Response:
    return Response(**{**vars(good), "wait": server.hang})


def _slow_drip(good: Response, server: Any) -> Response:
    return Response(**{**vars(good), "pause": server.hang / max(len(good.content), 1)})


def _drop(good: Response, server: Any) -> Response:
    return Response(drop=True)


def _short_body(good: Response, server: Any) -> Response:
    return Response(content=good.content[: len(good.content) // 2], length=len(good.content))


def _malformed_json(good: Response, server: Any) -> Response:
    return Response(content=good.content[: len(good.content) // 2])


def _html(good: Response, server: Any) -> Response:
    return Response(content=b"<html><body>Sign in</body></html>", headers={"Content-Type": "text/html"})


def _wrong_content_type(good: Response, server: Any) -> Response:
    return Response(content=good.content, headers={"Content-Type": "text/plain; charset=utf-8"})


def _big_body(good: Response, server: Any) -> Response:
    return Response(content=good.content + b" " * BIG)


TRANSIENT: dict[str, Fault] = {
    "rate_limited": _status(429),
    "rate_limited_seconds": _rate_limited_seconds,
    "rate_limited_date": _rate_limited_date,
    "rate_limited_absurd": _status(429, **{"Retry-After": str(ABSURD)}),
    "server_error": _status(500),
    "bad_gateway": _status(502),
    "unavailable": _status(503),
    "hang": _hang,
    "slow_drip": _slow_drip,
    "drop": _drop,
    "short_body": _short_body,
    "malformed_json": _malformed_json,
    "html": _html,
    "wrong_content_type": _wrong_content_type,
    "big_body": _big_body,
}
"""Faults that may pass: whoever asks again may be answered."""

FINAL: dict[str, Fault] = {
    "bad_request": _status(400),
    "unauthorised": _status(401),
    "forbidden": _status(403),
    "not_found": _status(404),
    "redirect": _status(307, Location="http://127.0.0.1:9/elsewhere"),
}
"""Refusals that do not pass."""

SPOILT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "no_choices": lambda answer: {**answer, "choices": []},
    "null_content": lambda answer: _with(answer, content=None),
    "empty_content": lambda answer: _with(answer, content=""),
    "length": lambda answer: _ended(answer, "length"),
    "content_filter": lambda answer: _ended(answer, "content_filter"),
    "wrong_model": lambda answer: {**answer, "model": "another-model"},
}
"""Chat completions that are whole, and not what they should be."""

FAULTS = frozenset({*TRANSIENT, *FINAL, *SPOILT})


def _with(answer: dict[str, Any], **changed: Any) -> dict[str, Any]:
    choices = [{**one, "message": {**one["message"], **changed}} for one in answer["choices"]]
    return {**answer, "choices": choices}


def _ended(answer: dict[str, Any], reason: str) -> dict[str, Any]:
    choices = []
    for one in answer["choices"]:
        text = one["message"]["content"] or ""
        choices.append(
            {**one, "finish_reason": reason, "message": {**one["message"], "content": text[: len(text) // 2]}}
        )
    return {**answer, "choices": choices}


def drawn(shares: dict[str, float], seed: int, digest: str, attempt: int) -> str:
    """Draw the fault of a request; empty for none. It follows from the seed, the question and the attempt."""
    point = Random(f"{seed}:{digest}:{attempt}").random()
    for name, share in shares.items():
        point -= share
        if point < 0:
            return name
    return ""
