"""One event loop of the process: from threads, from a fork, through an interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from llm_server import LlmServer
from ragsweep.services.calls import Endpoint, each, in_caller, run


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def ask(made: Endpoint, text: str) -> str:
    return run(made.chat([{"role": "user", "content": text}])).text


def test_threads_share_the_line_of_one_service() -> None:
    with LlmServer(lambda asked: asked.last, latency=0.02) as server, ThreadPoolExecutor(8) as threads:
        parts = [Endpoint(server.base_url, model, concurrency=2) for model in "ab"]
        texts = [f"q{n}" for n in range(24)]
        found = list(threads.map(lambda n: ask(parts[n % 2], texts[n]), range(24)))
    assert found == texts
    assert server.most_open == 2


def test_each_part_keeps_its_own_limit_on_a_shared_line() -> None:
    with LlmServer(latency=0.02) as server, ThreadPoolExecutor(2) as threads:
        wide, narrow = (Endpoint(server.base_url, model, concurrency=n) for model, n in (("wide", 6), ("narrow", 1)))
        jobs = [
            threads.submit(
                each, range(24), lambda n, made=made: made.chat([{"role": "user", "content": f"{n}"}]), print
            )
            for made in (wide, narrow)
        ]
        for job in jobs:
            job.result()
    assert server.most_open <= 6
    for one in server.log:
        if one.request.body["model"] == "narrow":  # it went only when nobody else was out
            assert not [other for other in server.log if other.began < one.began - 0.005 < other.ended - 0.01]


def test_what_is_handed_back_is_done_in_the_calling_thread_before_later_results() -> None:
    heard: list[tuple[str, int]] = []
    threads = set()

    def hear(word: str, number: int) -> None:
        threads.add(threading.current_thread())
        heard.append((word, number))

    async def work(number: int) -> None:
        in_caller(partial(hear, "on the way", number))

    each(range(9), work, lambda number, _: hear("done", number))
    assert threads == {threading.current_thread()}
    assert len(heard) == 18
    assert all(heard.index(("on the way", n)) < heard.index(("done", n)) for n in range(9))
    in_caller(partial(hear, "alone", 0))
    assert heard[-1] == ("alone", 0)


def test_results_are_handed_over_in_the_calling_thread() -> None:
    seen = set()
    with LlmServer() as server:
        made = Endpoint(server.base_url, "m")
        each(
            "abc",
            lambda text: made.chat([{"role": "user", "content": text}]),
            lambda *_: seen.add(threading.get_ident()),
        )
    assert seen == {threading.get_ident()}


def test_waiting_inside_the_loop_is_refused_instead_of_waiting_for_ever() -> None:
    async def nested() -> None:
        run(nothing())

    async def nothing() -> None: ...

    with pytest.raises(RuntimeError, match="inside a coroutine, await it"):
        run(nested())


def test_item_that_makes_no_call_is_done_too() -> None:
    async def double(number: int) -> int:
        return 2 * number

    found: dict[int, int] = {}
    each(range(5), double, found.__setitem__)
    each([], double, found.__setitem__)
    assert found == {n: 2 * n for n in range(5)}


CHILD = """
    import signal
    import sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
    from ragsweep.services.calls import Endpoint, each
    from ragsweep.core.interruption import Interrupted, caught, listen

    listen()
    made = Endpoint(sys.argv[1], "m", concurrency=4)
    try:
        each(
            range(1000),
            lambda n: made.chat([{"role": "user", "content": str(n)}]),
            lambda n, reply: print("done", n, flush=True),
        )
    except Interrupted as end:
        caught()
        print("interrupted", flush=True)
        sys.exit(end.exit_status)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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
    told = {line for line in lines if line.startswith("done")}
    assert told == {f"done {one.request.last}" for one in server.log if not one.fault}
    assert len(server.log) <= len(told) + 4


def test_process_ends_cleanly_with_connections_open(tmp_path: Path) -> None:
    with LlmServer() as server:
        asked = f"run(Endpoint({server.base_url!r}, 'm').embed(['a']))"
        code = f"from ragsweep.services.calls import *; print({asked}[1].calls)"
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_process_has_a_loop_of_its_own() -> None:
    code = """
        import os, sys, warnings
        from ragsweep.services.calls import Endpoint, run
        warnings.simplefilter("ignore")
        made = Endpoint(sys.argv[1], "m")
        ask = lambda text: run(made.chat([{"role": "user", "content": text}])).text
        first = ask("a")
        child = os.fork()
        if not child:
            os._exit(0 if ask("a") == first else 3)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.exit(status if ask("a") == first else 4)
    """
    with LlmServer() as server:
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), server.base_url], check=False, timeout=60)
    assert done.returncode == 0
    assert len(server.log) == 3
