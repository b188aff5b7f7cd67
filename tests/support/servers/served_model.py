"""A registered model behind MLflow's own server, in a separate process, as a user starts it."""

import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import free_port


@dataclass
class ServedModel:
    """A server on loopback that answers; ``cold`` is the time from its start to its first answer, in seconds."""

    port: int
    cold: float = float("nan")

    def ask(self, *rows: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Send rows in one request; return the reply to each, as a row."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = json.dumps({"dataframe_records": rows})
        try:
            connection.request("POST", "/invocations", body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            said = reply.read().decode()
        finally:
            connection.close()
        assert reply.status == 200, said
        return json.loads(said)["predictions"]


@contextmanager
def served(
    python: str, model: str, folder: Path, environment: Mapping[str, str], first: Mapping[str, Any]
) -> Iterator[ServedModel]:
    """Serve a model from a folder, by a Python with its requirements; ``first`` is the row of the first request."""
    found = ServedModel(free_port())
    command = [python, "-m", "mlflow", "models", "serve", "-m", model, "-p", str(found.port), "--env-manager", "local"]
    path = f"{Path(python).parent}:{environment['PATH']}"  # MLflow starts uvicorn by its name
    log, begin = folder / "server.log", time.monotonic()
    with log.open("w") as output, subprocess.Popen(
        command, cwd=folder, env={**environment, "PATH": path}, start_new_session=True, stdout=output, stderr=output
    ) as server:  # fmt: skip
        try:
            while True:
                try:
                    found.ask(first)
                    break
                except (OSError, http.client.HTTPException):
                    assert server.poll() is None, log.read_text()
                    assert time.monotonic() < begin + 180, log.read_text()
                    time.sleep(0.1)
            found.cold = time.monotonic() - begin
            yield found
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
