"""A real server on this machine that answers with JSON over HTTP, and can fail in every known way."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Reply = tuple[int, dict[str, str], bytes]
"""Status, headers and content."""

JSON = {"Content-Type": "application/json"}


def as_json(told: Any) -> Reply:
    return 200, JSON, json.dumps(told).encode()


class Server(ThreadingHTTPServer):
    """Answers each call with ``reply(body, number)``, closes the connection for None, and records all calls."""

    daemon_threads = True

    def __init__(self, answer: Callable[[dict[str, Any]], Reply]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply: Callable[[dict[str, Any], int], Reply | None] = lambda body, n: answer(body)
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.most = self.open = 0
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of connections that the client has closed."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        server, body = self.server, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.bodies.append(body)
            server.keys.append(self.headers["Authorization"])
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.paths.append(self.path)
            number = len(server.bodies)
            server.open += 1
            server.most = max(server.most, server.open)
        try:
            reply = server.reply(body, number)
        finally:
            with server.lock:
                server.open -= 1
        if reply is None:
            self.close_connection = True
            return
        status, headers, content = reply
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, answer: Callable[[dict[str, Any]], Reply]) -> Iterator[Server]:
    """Run a server that replies with ``answer`` unless a test replaces ``reply``; clients retry almost at once."""
    monkeypatch.setattr("ragsweep.services.limits.SHORTEST_WAIT", 0.001)
    made = Server(answer)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()
