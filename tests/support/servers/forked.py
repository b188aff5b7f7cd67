"""`run` and `Popen` as in subprocess, for Python commands, forked from one process that has imported everything.

A command then starts in milliseconds instead of seconds, and still has its own memory, signals, files, environment and
exit status. Not for tests of imports, launchers or the interpreter's own settings (see `library`).
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import fcntl
import gc
import io
import json
import os
import random
import runpy
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import IO, Any

PRELOADED = (
    "ragsweep.commands.cli", "ragsweep.sweep.sweeping", "ragsweep.commands.sync", "ragsweep.report.plots",
    "ragsweep.parts.chunkers", "ragsweep.parts.datasets", "ragsweep.parts.generators", "ragsweep.parts.judges",
    "ragsweep.parts.metrics", "ragsweep.parts.retrievers", "ragsweep.parts.rerankers", "ragsweep.parts.tracking",
    "hydra_plugins.optuna_sweeper.sweeper", "hydra_plugins.ragsweep_grid.sweeper", "hydra", "numpy", "scipy.stats",
    "pandas", "pyarrow.parquet", "matplotlib.pyplot", "matplotlib.backends.backend_agg", "optuna", "optuna.storages",
    "faiss", "bm25s", "langchain_text_splitters", "openai", "rich.table", "rich.progress", "mlflow",
    "mlflow.store.tracking.sqlalchemy_store", "mlflow.store.tracking.sqlalchemy_workspace_store",
    "mlflow.data.meta_dataset", "alembic.command", "alembic.config", "ragsweep.parts.queries", "ragsweep.parts.routers",
    "ragsweep.parts.systems", "chonkie", "httpx", "tenacity", "threadpoolctl", "filelock", "zstandard",
    "multiprocessing.synchronize", "pyarrow.pandas_compat", "sqlalchemy.dialects.sqlite", "PIL.JpegImagePlugin",
)  # fmt: skip

STUCK_AFTER = 240
"""Seconds after which a process dumps its tracebacks: less than the time limit of a test (faulthandler_timeout)."""


# --- the client ---------------------------------------------------------------------------------------------------


def library(command: Sequence[str | os.PathLike[str]]) -> ModuleType:
    """Return the module whose `run` and `Popen` suit a command: subprocess for launchers, which start processes."""
    return subprocess if any("hydra/launcher=" in str(one) for one in command) else sys.modules[__name__]


class Popen:
    """A forked process with the interface of `subprocess.Popen`, as far as tests use it."""

    def __init__(
        self, command: Sequence[str | os.PathLike[str]], *, cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None, stdin: int | IO[Any] | None = None, stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None, text: bool = False, start_new_session: bool = False,
    ) -> None:  # fmt: skip
        executable, *arguments = map(str, command)
        assert executable == sys.executable, executable
        self.args, self.returncode = command, None
        theirs: list[int] = []
        self.stdin = self._end(stdin, theirs, "r", text)
        self.stdout = self._end(stdout, theirs, "w", text)
        self.stderr = self._end(stderr, theirs, "w", text)
        request = {
            "arguments": arguments, "cwd": str(cwd or Path.cwd()), "session": start_new_session,
            "env": dict(os.environ if env is None else env),
        }  # fmt: skip
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_address())
        data = json.dumps(request).encode()
        socket.send_fds(self._connection, [struct.pack("!I", len(data))], theirs)
        self._connection.sendall(data)
        for descriptor in theirs:
            os.close(descriptor)
        self.pid = struct.unpack("!i", _exactly(self._connection, 4))[0]

    def _end(self, given: int | IO[Any] | None, theirs: list[int], mode: str, text: bool) -> Any:
        """Append the child's end of a stream, and return ours if it is a pipe."""
        number = {"r": 0, "w": len(theirs)}[mode]
        if given == subprocess.PIPE:
            read, write = os.pipe()
            theirs.append(read if mode == "r" else write)
            ours = os.fdopen(write if mode == "r" else read, "wb" if mode == "r" else "rb", buffering=-1)
            return io.TextIOWrapper(ours, encoding="utf-8", write_through=True) if text else ours
        if given == subprocess.DEVNULL:
            theirs.append(os.open(os.devnull, os.O_RDWR))
        elif given == subprocess.STDOUT:
            theirs.append(os.dup(theirs[1]))
        else:
            theirs.append(os.dup(number if given is None else given if isinstance(given, int) else given.fileno()))
        return None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._connection.settimeout(None if timeout is None else max(timeout, 1e-3))
            try:
                self.returncode = struct.unpack("!i", _exactly(self._connection, 4))[0]
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
            self._connection.close()
        return self.returncode

    def communicate(self, input: str | bytes | None = None, timeout: float | None = None) -> tuple[Any, Any]:
        read: dict[str, Any] = {}
        streams = {name: stream for name in ("stdout", "stderr") if (stream := getattr(self, name)) is not None}
        threads = [
            threading.Thread(target=lambda n=name, s=stream: read.setdefault(n, s.read()), daemon=True)
            for name, stream in streams.items()
        ]
        for thread in threads:
            thread.start()
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                if input:
                    self.stdin.write(input)
                self.stdin.close()
        end = None if timeout is None else time.monotonic() + timeout
        for thread in threads:
            thread.join(None if end is None else max(end - time.monotonic(), 0.001))
        self.wait(None if end is None else max(end - time.monotonic(), 0.001))
        for stream in streams.values():
            stream.close()
        return read.get("stdout"), read.get("stderr")

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Popen:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.wait()


def run(
    command: Sequence[str | os.PathLike[str]], *, input: str | None = None, capture_output: bool = False,
    text: bool = False, check: bool = False, timeout: float | None = None, **more: Any,
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """Run a Python command to its end, as `subprocess.run` does."""
    if capture_output:
        more |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        more["stdin"] = subprocess.PIPE
    process = Popen(command, text=text, **more)
    try:
        out, error = process.communicate(input, timeout)
    except BaseException:
        process.kill()
        raise
    done = subprocess.CompletedProcess(command, process.wait(), out, error)
    if check:
        done.check_returncode()
    return done


@cache
def _address() -> str:
    """Return the path of the server's socket, after starting it if needed; the workers of a test run share a server."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
    folder = Path(tempfile.gettempdir(), f"forked-{run[:12]}")
    folder.mkdir(mode=0o700, exist_ok=True)
    path = str(folder / "socket")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _stays(path):
            _start(path)
            assert _stays(path)
    return path


def _stays(path: str) -> bool:
    """Keep the server alive until this process ends; return whether it is running."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return False
    connection.sendall(struct.pack("!I", 0))  # in place of a request
    atexit.register(connection.close)
    return True


def _start(path: str) -> None:
    """Start a server, which ends when all connections of `_stays` are closed."""
    Path(path).unlink(missing_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "RAGSWEEP_", "HYDRA_"))
    }
    server = subprocess.Popen(
        [sys.executable, __file__, path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        env={**kept, "PYTHONWARNINGS": "ignore", "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1",
             "PYTEST_XDIST_WORKER": "", "MPLBACKEND": "agg",
             "JE_ARROW_MALLOC_CONF": "background_thread:false"},  # the process that forks must have no threads
    )  # fmt: skip
    while not Path(path).exists():
        assert server.poll() is None, "the server of forked processes did not start"
        time.sleep(0.02)
    server.returncode = 0  # the server may outlive this process: no warning that it still runs


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the server of forked processes has gone")
        data += more
    return data


# --- the server ---------------------------------------------------------------------------------------------------


def serve(path: str) -> dict[str, Any]:
    """Fork a child for each request; return the request, in the child."""
    from ragsweep.parts.tracking.connection import SETTINGS

    gc.disable()
    os.environ |= SETTINGS  # libraries read them when they are imported
    for name in PRELOADED:
        __import__(name)
    sys.modules["hydra.core.plugins"].Plugins.instance()  # imports the plugins, which Hydra searches for
    assert len(list(Path("/proc/self/task").glob("*"))) <= 1, (
        "threads do not survive a fork, but the locks that they hold do"
    )
    gc.collect()
    gc.freeze()
    gc.enable()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(64)
    wakes, waker = socket.socketpair()
    for one in (wakes, waker):
        one.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno())
    Path(f"{path}.new").rename(path)
    children: dict[int, socket.socket] = {}
    staying: set[Any] = set()
    chosen = selectors.DefaultSelector()
    for one in (listener, wakes):
        chosen.register(one, selectors.EVENT_READ)
    while True:
        ready = [key.fileobj for key, _ in chosen.select()]
        for one in staying.intersection(ready):
            chosen.unregister(one)
            staying.remove(one)
            if not staying:
                shutil.rmtree(Path(path).parent, ignore_errors=True)
                os._exit(0)  # the tests have ended
        if wakes in ready:
            wakes.recv(4096)
        if listener in ready:
            connection = listener.accept()[0]
            header, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
            if header == struct.pack("!I", 0):
                staying.add(connection)
                chosen.register(connection, selectors.EVENT_READ)
                continue
            request: dict[str, Any] = json.loads(_exactly(connection, struct.unpack("!I", header)[0]))
            if (child := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                for one in (listener, wakes, waker, connection, *staying, *children.values()):
                    one.close()
                chosen.close()
                return request | {"descriptors": descriptors}
            children[child] = connection
            connection.sendall(struct.pack("!i", child))
            for descriptor in descriptors:
                os.close(descriptor)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with contextlib.suppress(OSError), children.pop(ended[0]) as connection:
                    connection.sendall(struct.pack("!i", os.waitstatus_to_exitcode(ended[1])))


def become(request: dict[str, Any]) -> None:
    """Give the child the state of a new interpreter, and run its command."""
    faulthandler.dump_traceback_later(STUCK_AFTER, file=os.dup(2))  # to the standard error of the tests
    for number, descriptor in enumerate(request["descriptors"]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["session"]:
        os.setsid()
    for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores SIGINT
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    random.seed()
    sys.modules["numpy"].random.seed()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    leave(_status_of(request["arguments"]))


def _status_of(command: Sequence[str]) -> int:
    """Run a command, and return its exit status."""
    try:
        _run(command)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException as fault:
        sys.excepthook(type(fault), fault, fault.__traceback__)
        return 130 if isinstance(fault, KeyboardInterrupt) else 1
    return 0


def leave(status: int) -> None:
    """Exit as an interpreter does, but without freeing its memory, which would copy the shared pages."""
    threading._shutdown()  # ends the workers of executors, and waits for all threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _run(command: Sequence[str]) -> None:
    kind, *arguments = command
    added = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one and one not in sys.path]
    sys.path[0:1] = [str(Path(kind).parent) if Path(kind).is_file() else "", *added]
    if kind == "-m":
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *arguments[1:]]
        exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [kind, *arguments]
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    become(serve(sys.argv[1]))
