"""Batches of calls: order, threads, forks, shared limits, and interruption."""

import asyncio
import signal
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer
from ragsweep.core.errors import ConfigError
from ragsweep.core.interruption import deadline
from ragsweep.services.endpoint import Endpoint
from ragsweep.services.errors import EndpointFailed
from ragsweep.services.http_client import Service
from ragsweep.services.session import ServiceSession, each
from support import nightly


def chat(made: Endpoint, text: object) -> Any:
    return made.chat([{"role": "user", "content": str(text)}])


async def double(number: int) -> int:
    await asyncio.sleep(0.001)
    return 2 * number


def test_results_arrive_in_the_calling_thread_and_no_items_are_no_work() -> None:
    found, threads = {}, set()

    def done(number: int, result: int) -> None:
        threads.add(threading.current_thread())
        found[number] = result

    each(range(50), double, done, at_once=7)
    each([], double, done)
    assert found == {n: 2 * n for n in range(50)}
    assert threads == {threading.current_thread()}


def test_items_begin_in_their_order_and_no_more_than_allowed_at_a_time() -> None:
    begun: list[int] = []
    finished: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)
        assert len(begun) - len(finished) <= 3
        await asyncio.sleep(0.002 if number % 5 else 0.02)
        finished.append(number)

    each(range(30), work, lambda *_: None, at_once=3)
    assert begun == list(range(30))


@pytest.mark.parametrize("fault", [ValueError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_first_exception_is_raised_itself(fault: BaseException) -> None:
    async def work(number: int) -> None:
        if number == 2:
            raise fault
        await asyncio.sleep(30)

    with pytest.raises(type(fault)) as caught:
        each(range(9), work, lambda *_: None)
    assert caught.value is fault


def test_parts_of_one_session_share_the_pauses_of_a_service() -> None:
    session, url = ServiceSession(), "http://127.0.0.1:9/v1"
    parts = [Endpoint(url, model) for model in "ab"]
    for one in parts:
        one.connect(session)
    host = session.host(f"{url}/", "")
    assert host is session.host(url, "") is not session.host(url, "key")
    host.breaker._open_until = float("inf")
    for one in parts:
        with pytest.raises(EndpointFailed):
            asyncio.run(chat(one, "hello"))


def test_connect_reaches_the_clients_that_a_part_holds() -> None:
    class Part:
        __slots__ = ()

    class PaidStage:
        def __init__(self) -> None:
            self.service, self.endpoint, self.name = Service("http://x"), Endpoint("http://x", "m"), "caller"

    session, caller = ServiceSession(), PaidStage()
    for part in (caller, Part(), 3):
        session.connect(part)
    assert caller.service.session is caller.endpoint.session is session


def test_connections_last_for_the_block() -> None:
    with LlmServer() as server:
        made, session = Endpoint(server.base_url, "m"), ServiceSession()
        made.connect(session)
        texts: dict[int, str] = {}
        with session:  # the connections of the first batch serve the second
            for _ in range(2):
                made.each("abc", lambda text: chat(made, text), lambda n, reply: texts.update({n: reply.text}))
        made.each("abc", lambda text: chat(made, text), lambda n, reply: texts.update({n: reply.text}))
    assert len(server.log) == 9
    assert len({one.client for one in server.log[:6]}) == 3
    assert not {one.client for one in server.log[:6]} & {one.client for one in server.log[6:]}


def test_batches_read_the_certificates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than a short call, and a shipped config makes a batch for each step of a question."""
    read, load = [], ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda **given: read.append(given) or load(**given))
    with LlmServer() as server:
        made = Endpoint(server.base_url, "m")
        for _ in range(2):
            made.each("ab", lambda text: chat(made, text), lambda *_: None)
    assert len(server.log) == 4
    assert len(read) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("ALL_PROXY", "ftp://proxy"), ("HTTPS_PROXY", "http://proxy:port"), ("SSL_CERT_FILE", "/missing")],
)
def test_proxy_or_certificates_that_cannot_be_used_are_an_error_of_the_environment(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=rf"that the environment names cannot be used: .*; correct or unset .*{name}"):
        asyncio.run(chat(Endpoint("http://127.0.0.1:9/v1", "m"), "hello"))


def test_threads_run_batches_of_their_own() -> None:
    with LlmServer(lambda request: request.last) as server:
        made, session = Endpoint(server.base_url, "m", concurrency=2), ServiceSession()
        made.connect(session)
        found: dict[int, str] = {}

        async def in_a_thread(number: int) -> str:
            return await asyncio.to_thread(lambda: session.run(chat(made, number)).text)

        with session:
            made.each(range(6), in_a_thread, found.__setitem__)
    assert found == {n: str(n) for n in range(6)}


def test_batch_is_run_in_a_thread_whose_loop_is_running() -> None:
    """As in a notebook that asks a shipped config."""
    found: dict[int, str] = {}

    async def cell(made: Endpoint) -> None:
        made.each("abc", lambda text: chat(made, text), lambda n, reply: found.update({n: reply.text}))

    with LlmServer(lambda request: request.last) as server:
        asyncio.run(cell(Endpoint(server.base_url, "m")))
    assert found == {0: "a", 1: "b", 2: "c"}


def test_timeout_of_a_config_is_not_taken_for_that_of_a_call() -> None:
    with LlmServer(faults={"hang": 1}, hang=60) as server:
        made = Endpoint(server.base_url, "m", timeout=50)
        with pytest.raises(TimeoutError, match=r"within 0\.2 s; raise timeout"), deadline(0.2):
            made.each(range(3), lambda n: chat(made, n), lambda *_: None)


CHILD = """
    import signal
    import sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent may ignore it
    from ragsweep.services.endpoint import Endpoint
    from ragsweep.core.interruption import Interrupted, stop_raising, raise_on_signals

    raise_on_signals()
    made = Endpoint(sys.argv[1], "m", concurrency=4)
    try:
        with made.session:
            made.each(
                range(1000),
                lambda n: made.chat([{"role": "user", "content": str(n)}]),
                lambda n, reply: print("done", n, flush=True),
            )
    except Interrupted as end:
        stop_raising()
        print("interrupted", flush=True)
        sys.exit(end.exit_status)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, nightly(signal.SIGTERM)])
def test_interruption_ends_at_once_and_costs_the_calls_in_flight(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(CHILD))
    with LlmServer(latency=0.1, hang=60) as server:
        child = subprocess.Popen(
            [sys.executable, str(script), server.base_url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while len(server.answered) < 12:
            time.sleep(0.02)
            assert child.poll() is None
        server.faults = {"hang": 1}  # those in flight would last a minute
        time.sleep(0.3)
        sent = time.monotonic()
        child.send_signal(number)
        out, err = child.communicate(timeout=120)
        assert time.monotonic() - sent < 15
    assert child.returncode == 128 + number, err
    assert err == ""
    lines = out.splitlines()
    assert lines[-1] == "interrupted"
    done = {line for line in lines if line.startswith("done")}
    assert done == {f"done {one.request.last}" for one in server.log if not one.fault}
    assert len(server.log) <= len(done) + 4
