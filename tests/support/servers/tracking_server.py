"""A real tracking server, and functions that read its records."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragsweep.parts.tracking import Mlflow
from support import free_port
from support.commands import empty_database

QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
}


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """Run a tracking server on a free port, and yield its address."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    (folder / "server.db").write_bytes(empty_database())
    command += ["--backend-store-uri", f"sqlite:///{folder}/server.db", "--artifacts-destination", f"{folder}/files"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **QUIET}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # the server and its workers share a session
        server.wait(30)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        try:
            opener.open(url, timeout=2)
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"mlflow server did not start:\n{log.read_text()[-2000:]}")


def client(tracker: Mlflow) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracker.uri)


def files(tracker: Mlflow, run: str, folder: str | None = None) -> set[str]:
    return {info.path for info in client(tracker).list_artifacts(run, folder)}


def content(tracker: Mlflow, run: str, name: str) -> bytes:
    return Path(client(tracker).download_artifacts(run, name)).read_bytes()
