"""A service behind OpenAI's protocol whose replies a test decides."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler

CHARACTERS = 10
"""Of a token, at most."""


class ScriptedModel(BaseHTTPRequestHandler):
    """Answer chat completions by ``reply``, cut at ``max_tokens`` of ten characters."""

    @abstractmethod
    def reply(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the text of the reply."""

    def do_POST(self) -> None:
        """Answer a chat completion."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply, limit = self.reply(asked["messages"]), CHARACTERS * asked["max_tokens"]
        message = {"role": "assistant", "content": reply[:limit]}
        choice = {"index": 0, "message": message, "finish_reason": "length" if len(reply) > limit else "stop"}
        usage = {"prompt_tokens": 900, "completion_tokens": 300, "total_tokens": 1200}
        body = json.dumps({"model": "m-1", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""
