"""A Qdrant server for tests: its REST interface on loopback, answered by the engine that its client carries."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np


class Server(ThreadingHTTPServer):
    """Hold collections in memory; record calls, and refuse a wrong key."""

    daemon_threads = True

    def __init__(self, key: str = "") -> None:
        from qdrant_client import QdrantClient  # takes seconds, and every process collects all tests

        super().__init__(("127.0.0.1", 0), _Handler)
        self.engine = QdrantClient(":memory:")
        self.key = key
        self.calls: list[str] = []
        self.efforts: list[int] = []  # of the searches; the engine needs none
        self.alone = threading.Lock()
        self.building = 0  # so many more times its index is being built
        self.restarted = False  # while it was building: it builds on after an update only
        self.least = 0  # calls after which it dies
        self.refused: list[float] = []  # a query whose search fails

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, method: str, path: str, body: Any) -> Any:
        """Answer a call; raise KeyError for an unknown one."""
        from qdrant_client import models

        _, name, *rest = path.split("?")[0].strip("/").split("/")
        match method, rest:
            case "GET", ["exists"]:
                return {"exists": self.engine.collection_exists(name)}
            case "GET", []:
                info = json.loads(self.engine.get_collection(name).model_dump_json())
                if self.restarted:
                    return {**info, "status": "grey"}
                self.building -= self.building > 0
                return {**info, "status": "yellow" if self.building else "green"}
            case "PATCH", []:
                self.restarted = False
                return True
            case "PUT", []:
                vectors = models.VectorParams.model_validate(body["vectors"])
                return self.engine.create_collection(name, vectors_config=vectors)
            case "PUT", ["points"]:
                self.engine.upsert(name, models.Batch.model_validate(body["batch"]))
                return {"operation_id": 1, "status": "completed"}
            case "POST", ["points", "count"]:
                return {"count": self.engine.count(name).count}
            case "POST", ["points", "query", "batch"]:
                asked = [one["query"]["nearest"] for one in body["searches"]]
                if self.refused and any(np.allclose(one, self.refused) for one in asked):
                    raise ValueError("no such luck")
                self.efforts += [one["params"]["hnsw_ef"] for one in body["searches"]]
                requests = [models.QueryRequest.model_validate({**one, "params": None}) for one in body["searches"]]
                return [json.loads(one.model_dump_json()) for one in self.engine.query_batch_points(name, requests)]
        raise KeyError(path)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def _do(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        given = self.headers.get("api-key", "")
        if given != self.server.key:
            return self._send(401, {"status": {"error": f"Invalid API key {given}"}})
        with self.server.alone:
            self.server.calls.append(f"{self.command} {self.path.split('?')[0]}")
            if self.command == "PUT" and self.path.split("?")[0].endswith("/points") and self.server.least:
                self.server.least -= 1
                if not self.server.least:
                    return self._send(500, {"status": {"error": "out of disk"}})
            try:
                result = self.server.answer(self.command, self.path, body)
            except ValueError as fault:
                return self._send(409, {"status": {"error": str(fault)}})
        return self._send(200, {"result": result, "status": "ok", "time": 0.0})

    do_GET = do_PUT = do_POST = do_PATCH = _do

    def _send(self, status: int, answer: Any) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@contextmanager
def serving(key: str = "") -> Iterator[Server]:
    """Run a server on a free port."""
    server = Server(key)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
