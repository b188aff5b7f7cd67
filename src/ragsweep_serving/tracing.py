"""Asynchronous tracing of served answers: no answer waits for MLflow, or fails because MLflow fails."""

import atexit
import logging
import math
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ragsweep.core.plurals import counted
from ragsweep.core.types import Turn
from ragsweep.parts.tracking.served_traces import ServedStep, ServedTrace
from ragsweep_serving.pipeline import ServedAnswer, ServedPassage

MOST_WAITING = 1000  # capacity of the queue; additional traces are dropped, and counted in a warning
EXIT_SECONDS = 5.0  # maximum time that the exit of a process waits for pending traces
SHOWN = 300  # maximum number of characters of a chunk in a trace
RATIO = "MLFLOW_TRACE_SAMPLING_RATIO"
"""MLflow's environment variable; if it is set, MLflow samples the traces, and the shipped ratio is ignored."""

_log = logging.getLogger(__name__)
Asked = tuple[str, Sequence[Turn]]  # a question, and the earlier turns


class TraceQueue:
    """A queue of traces, sent one at a time by a thread that starts with the first trace.

    Args:
        send: Function that sends one trace; an exception is logged, and the trace is lost.
        ratio: Share of requests to trace.
    """

    def __init__(self, send: Callable[[ServedTrace], None], ratio: float = 1.0) -> None:
        self._send, self._ratio = send, ratio
        self._waiting: queue.Queue[Callable[[], ServedTrace]] = queue.Queue(MOST_WAITING)
        self._lock, self._process, self.dropped = threading.Lock(), 0, 0

    def put(self, make: Callable[[], ServedTrace]) -> None:
        """Enqueue a function that makes a trace; drop it if the request is not sampled or the queue is full."""
        if RATIO not in os.environ and random.random() >= self._ratio:
            return
        self._start()
        try:
            self._waiting.put_nowait(make)
        except queue.Full:
            self.dropped += 1
            if self.dropped & (self.dropped - 1) == 0:  # warn at 1, 2, 4, 8, ...
                why = "MLflow accepts them too slowly, or not at all"
                way = "check MLFLOW_TRACKING_URI, or ship with a smaller --trace-sample"
                _log.warning("%s dropped so far: %s; %s", counted(self.dropped, "trace"), why, way)

    def flush(self, seconds: float) -> bool:
        """Wait until no trace is pending, for at most ``seconds``; return whether none is pending.

        A trace that could not be sent is no longer pending.
        """
        end = time.monotonic() + seconds
        while self._waiting.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.01)
        return not self._waiting.unfinished_tasks

    def _start(self) -> None:
        with self._lock:
            if self._process != os.getpid():  # a server may fork after loading the model
                self._process = os.getpid()
                threading.Thread(target=self._work, daemon=True, name="ragsweep traces").start()
                threading.Thread(target=self._wait_at_exit, daemon=False, name="ragsweep traces at exit").start()

    def _wait_at_exit(self) -> None:
        """Wait for pending traces when the main thread ends, before any exit handler runs.

        MLflow registers the exit handler of its own queue when the first trace is sent. An exit handler that this class
        registered earlier would run after that handler, and a handler that is registered during the exit does not run
        at all.
        """
        threading.main_thread().join()
        if self.flush(EXIT_SECONDS):  # else the exit has waited long enough
            atexit.register(self.flush, EXIT_SECONDS)  # for requests in threads that outlive the main thread

    def _work(self) -> None:
        while True:
            make = self._waiting.get()
            try:
                self._send(make())
            except Exception as fault:
                _log.warning("a trace was not sent: %s; check MLFLOW_TRACKING_URI", fault)
            finally:
                self._waiting.task_done()


def describe(model: str, bundle: str, asked: Asked, began: float, found: ServedAnswer) -> ServedTrace:
    """Return the trace of an answered request; ``began`` is the request's start in seconds since the epoch."""
    (question, history), answer = asked, found.answer
    said: dict[str, Any] = {}
    if answer:
        said = {"answer": answer.text, "abstained": answer.abstained, "failed": answer.failed, "money": answer.money}
        said |= {"tokens_in": answer.usage.tokens_in, "tokens_out": answer.usage.tokens_out, "generator": answer.model}
    return ServedTrace(
        model,
        bundle,
        question,
        began,
        found.milliseconds["total"],
        _steps(question, found),
        history=list(map(vars, history)),
        query=found.query,
        results=len(found.context),
        documents=list(dict.fromkeys(passage.document for passage in found.context)),
        **said,
    )


def describe_failure(model: str, bundle: str, asked: Asked, began: float, fault: BaseException) -> ServedTrace:
    """Return the trace of a request that raised ``fault``; the other arguments are as in ``describe``."""
    (question, history), milliseconds = asked, 1000 * (time.time() - began)
    turns, failed = list(map(vars, history)), type(fault).__name__
    return ServedTrace(model, bundle, question, began, milliseconds, history=turns, failed=failed)


def _steps(question: str, found: ServedAnswer) -> list[ServedStep]:
    """Return the timed steps of an answer in order, then the ranking steps without a time."""
    steps = []
    for name in dict.fromkeys([*found.steps, *found.rankings]):
        ranked = found.rankings.get(name)
        inputs: Any = {"query": found.query or question}
        outputs: Any = [_document(passage) for passage in ranked.found] if ranked else None
        if name == "generate" and found.answer:
            inputs = {"question": question, "passages": [_name(one) for one in found.context]}
            outputs = {"role": "assistant", "content": found.answer.text}
        top, gap = (ranked.top_score, ranked.gap) if ranked else (math.nan, math.nan)
        steps.append(ServedStep(name, found.steps.get(name, math.nan), top, gap, inputs, outputs))
    return steps


def _document(passage: ServedPassage) -> dict[str, Any]:
    """Return a chunk in the document format of MLflow's traces, with at most `SHOWN` characters of its text."""
    text = passage.text if len(passage.text) <= SHOWN else f"{passage.text[:SHOWN]} ..."
    metadata = {"chunk": _name(passage), "score": passage.score}
    return {"id": _name(passage), "page_content": text, "metadata": metadata}


def _name(passage: ServedPassage) -> str:
    return f"{passage.document}:{passage.start}-{passage.end}"
