"""Serve the review page on this machine, and accept only requests from this page.

The address of the page contains a random token. A request is rejected if its path lacks the token, if its ``Host``
header does not name this server, or if its ``Origin`` header names another site. No other page in the browser can
therefore read or write judgements.
"""

import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Thread
from typing import Any

from ragsweep.core.errors import InputError
from ragsweep_golden.review.tasks import Review

HOST = "127.0.0.1"
LARGEST = 2**20  # maximum size of the body of a request in bytes
Reply = Mapping[str, Any]


class ReviewServer(ThreadingHTTPServer):
    """The server of one review; ``serve_forever`` returns when the Done button on the page is pressed."""

    daemon_threads = True

    def __init__(self, review: Review, port: int) -> None:
        """Listen on a port; 0 chooses a free one. Raises InputError if the port cannot be used."""
        self.review = review
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError, TypeError) as fault:
            why = getattr(fault, "strerror", None) or "not a whole number from 0 to 65535"
            raise InputError(f"port={port}: cannot be used: {why}; use port=0 for a free port") from fault

    @property
    def address(self) -> str:
        """The URL of the page, with the token."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def state(self, _: Reply) -> Reply:
        """Return the name of the golden file, all tasks, and the last judgement of each judged task."""
        return {"file": self.review.journal.golden.name, "tasks": self.review.tasks, "judged": self.review.judged()}

    def undo(self, _: Reply) -> Reply:
        """Undo the last judgement; return its task, and the task's previous judgement, which is valid again.

        The judgement is None if the task has no previous judgement. If there is nothing to undo, the task is "" and
        the judgement is None.
        """
        undone = self.review.undo()
        task = undone["task"] if undone else ""
        return {"task": task, "judgement": self.review.judged().get(task)}

    def done(self, _: Reply) -> Reply:
        """Merge the journal into the golden file, stop the server, and return the number of judgements merged."""
        folded = self.review.journal.fold()
        Thread(target=self.shutdown).start()
        return {"folded": folded}


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        nonce = secrets.token_urlsafe(16)
        if self._refuses(""):
            return
        page = (files(__package__) / "review.html").read_text(encoding="utf-8")
        policy = f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'"
        policy += "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        body, headers = page.replace("{{nonce}}", nonce).encode(), {"Content-Security-Policy": policy}
        self._send(body, "text/html; charset=utf-8", headers)

    def do_POST(self) -> None:
        served = self.server
        actions = {"state": served.state, "judge": served.review.judge, "undo": served.undo, "done": served.done}
        if self._refuses(*actions):
            return
        try:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = actions[self.path.rpartition("/")[2]](given if isinstance(given, dict) else {})
        except (InputError, ValueError) as fault:
            self._send(json.dumps({"error": str(fault)}).encode(), status=HTTPStatus.BAD_REQUEST)
        else:
            self._send(json.dumps(reply).encode())

    def _refuses(self, *names: str) -> bool:
        """Reject a request with an invalid path, host, origin, media type or size; return whether it was rejected."""
        hosts = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        token, _, name = self.path[1:].partition("/")
        length = self.headers.get("Content-Length", "")
        refusal = None
        if not secrets.compare_digest(token.encode(), self.server.token.encode()) or name not in names:
            refusal = HTTPStatus.NOT_FOUND
        elif host not in hosts or origin not in (None, f"http://{host}"):
            refusal = HTTPStatus.FORBIDDEN
        elif self.command == "POST" and self.headers.get_content_type() != "application/json":
            refusal = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        elif self.command == "POST" and not (length.isdigit() and int(length) <= LARGEST):
            refusal = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        if refusal:
            self._send(b"{}", headers={"Connection": "close"}, status=refusal)
        return refusal is not None

    def _send(
        self,
        body: bytes,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> None:
        self.send_response(status)
        fixed = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}
        for name, text in {"Content-Type": kind, "Content-Length": str(len(body)), **fixed, **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the address contains the token."""
