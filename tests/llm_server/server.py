"""The server: it listens on loopback, logs every request, and answers it well or with a fault."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from llm_server.faults import FAULTS, FINAL, SPOILT, TRANSIENT, Response, draw_fault
from llm_server.requests import DIMENSIONS, ModelRequest, default_answer, embedding, encode
from ragsweep.parts.tokens import count

Answering = Callable[[ModelRequest], "str | Mapping[str, Any]"]


@dataclass
class LoggedRequest:
    """A received request: the ground truth of the calls that were made and paid for."""

    number: int
    request: ModelRequest
    headers: Mapping[str, str]
    fault: str  # empty where it was answered well
    attempt: int  # how many equal requests came before
    began: float  # time.monotonic()
    ended: float = float("nan")
    client: tuple[str, int] = ("", 0)  # address and port of the connection
    lost: bool = False  # the client was gone before the whole answer was sent


@dataclass
class LlmServer:
    """Listen on a free port of 127.0.0.1 inside a ``with`` block."""

    answer: Answering = default_answer
    latency: float = 0.0  # seconds before every good answer
    faults: Mapping[str, float] | None = None  # names of FAULTS -> shares of the requests
    seed: int = 0
    usage: bool = True  # whether answers state their tokens
    window: int = 1_000_000  # the tokens of a prompt that are read; the rest is dropped without an error
    key: str | None = None  # a request without it is refused with 401
    hang: float = 30.0  # seconds of the faults "hang" and "slow_drip"
    retry_after: float = 1.0  # Retry-After of "rate_limited_seconds" and "rate_limited_date"
    log: list[LoggedRequest] = field(default_factory=list, init=False)
    most_open: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown fault."""
        self.faults = dict(self.faults or {})
        self._open = 0
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        if unknown := self.faults.keys() - FAULTS:
            raise ValueError(f"no fault {', '.join(sorted(unknown))}; known: {', '.join(sorted(FAULTS))}")

    def __enter__(self) -> Self:
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        """Return the address that a client is given."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def overrides(self, *parts: str, model: str = "m") -> list[str]:
        """Return the overrides by which parts of a config, such as llm, call this server without a key."""
        values = (f"base_url={self.base_url}", "key_env=null", f"model={model}")
        return [f"{part}.{value}" for part in parts for value in values]

    @property
    def answered(self) -> list[LoggedRequest]:
        """Return the requests that were answered well, to the last byte."""
        return [logged for logged in self.log if not logged.fault and not logged.lost]

    def take(self, request: ModelRequest, headers: Mapping[str, str]) -> LoggedRequest:
        """Log a request, and draw its fault."""
        with self._lock:
            attempt = self._seen[request.digest]
            self._seen[request.digest] += 1
            fault = draw_fault(dict(self.faults or {}), self.seed, request.digest, attempt)
            if self.key is not None and headers.get("Authorization") != f"Bearer {self.key}":
                fault = "unauthorised"
            logged = LoggedRequest(len(self.log), request, headers, fault, attempt, time.monotonic())
            self.log.append(logged)
            self._open += 1
            self.most_open = max(self.most_open, self._open)
            return logged

    def close(self, logged: LoggedRequest) -> None:
        """Log the end of a request."""
        with self._lock:
            logged.ended = time.monotonic()
            self._open -= 1

    def wait(self, seconds: float) -> None:
        """Wait, at most until the server closes."""
        if seconds > 0:
            self._closing.wait(seconds)

    def respond(self, logged: LoggedRequest) -> Response:
        """Make the response to a request."""
        if logged.fault in FINAL:
            return FINAL[logged.fault](Response(), self)
        if logged.request.path.endswith("/chat/completions"):
            answer = self._chat(logged.request)
        elif logged.request.path.endswith("/embeddings"):
            answer = self._embeddings(logged.request)
        else:
            return Response(404, b'{"error": {"message": "no such path"}}')
        if logged.fault in SPOILT and "choices" in answer:
            answer = SPOILT[logged.fault](answer)
        good = Response(content=json.dumps(answer).encode(), wait=self.latency)
        return TRANSIENT[logged.fault](good, self) if logged.fault in TRANSIENT else good

    def _chat(self, request: ModelRequest) -> dict[str, Any]:
        answer = self.answer(request)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        return {
            "id": f"chatcmpl-{request.digest}", "object": "chat.completion", "created": 0,
            "model": request.body.get("model", ""),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            **self._usage(request.prompt, text),
        }  # fmt: skip

    def _embeddings(self, request: ModelRequest) -> dict[str, Any]:
        texts = request.body["input"]
        texts = [texts] if isinstance(texts, str) else texts
        form, size = request.body.get("encoding_format", "float"), request.body.get("dimensions", DIMENSIONS)
        data = [
            {"object": "embedding", "index": n, "embedding": encode(embedding(text, size), form)}
            for n, text in enumerate(texts)
        ]
        model = request.body.get("model", "")
        return {"object": "list", "model": model, "data": data, **self._usage(" ".join(texts), "")}

    def _usage(self, prompt: str, text: str) -> dict[str, Any]:
        if not self.usage:
            return {}
        tokens_in, tokens_out = min(count(prompt), self.window), count(text)
        counted = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
        return {"usage": counted}


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, owner: LlmServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connections that the client closed."""


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        owner = self.server.owner
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        logged = owner.take(ModelRequest(self.path, body), dict(self.headers.items()))
        logged.client = self.client_address
        try:
            self._send(owner.respond(logged))
        except OSError:
            logged.lost = self.close_connection = True
        finally:
            owner.close(logged)

    def _send(self, response: Response) -> None:
        owner = self.server.owner
        owner.wait(response.wait)
        if response.drop:
            self.close_connection = True
            return
        self.send_response(response.status)
        length = len(response.content) if response.length is None else response.length
        for name, value in {**response.headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()
        if response.pause:
            for byte in response.content:
                self.wfile.write(bytes([byte]))
                owner.wait(response.pause)
        else:
            self.wfile.write(response.content)
        if response.length is not None:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Print nothing: the owner logs requests."""
