"""A process that works on a study with others, or dies at its n-th commit.

python study_worker.py JSON     search; waits for a line before it opens anything
python study_worker.py JSON FIRST STEP    processes that die at commit FIRST, FIRST + STEP, ..., each then completed
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy
from hydra.core.utils import JobReturn, JobStatus

from ragsweep.sweep.search.loop import SearchLoop
from ragsweep.sweep.search.space import read_space
from ragsweep.sweep.search.storage import open_storage
from ragsweep.sweep.search.study import StudyPlan, open_study

__all__ = ["psycopg"]  # loaded before the clock starts


def search(given: dict[str, Any]) -> float:
    """Search as is said, and return the seconds it took to open the study.

    ``url``, ``trials``, ``queued`` (of these, how many are given), ``log`` (a line for each trial begun), ``wait``
    (seconds a trial), ``lapse``.
    """
    begun, queued = time.monotonic(), int(given.get("queued", 0))
    first = tuple(((f"x={n}",), {"x": float(n)}) for n in range(queued))
    asked = StudyPlan(
        "s", ("minimize",), "", {"name": "random", "seed": 1}, given["trials"], first, given.get("lapse", 90)
    )
    storage = open_storage(given["url"])
    study = open_study(asked, read_space(["x=interval(0,1000)"], {}), storage)
    opened = time.monotonic() - begun
    log = os.open(given["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def launch(jobs: list[list[str]], number: int) -> Sequence[JobReturn]:
        os.write(log, f"{number} {os.getpid()} {' '.join(jobs[0])}\n".encode())
        time.sleep(given.get("wait", 0))
        done = JobReturn(status=JobStatus.COMPLETED)
        done.return_value = float(os.getpid())
        return [done]

    try:
        SearchLoop(study, launch, lambda lines: (" ".join(sorted(lines)), "")).run()
    finally:
        storage.close()
        os.close(log)
    return opened


def rounds(asked: list[dict[str, Any]]) -> None:
    """Search with several processes that begin at once, and say how each ended and how long it took to open the study.

    ``processes``; ``kill``: seconds after the first trial was begun at which the first process is killed, or null.
    """
    for given in asked:
        gate, opening = os.pipe()
        told, telling = os.pipe()
        children = [_waiting(given, gate, opening, telling) for _ in range(given["processes"])]
        os.close(gate)
        os.close(telling)
        os.close(opening)  # now all of them begin
        if given.get("kill") is not None:
            while not Path(given["log"]).exists() or not Path(given["log"]).stat().st_size:
                time.sleep(0.01)
            time.sleep(given["kill"])
            os.kill(children[0], signal.SIGKILL)
        with os.fdopen(told) as lines:
            opened = [float(line) for line in lines]
        statuses = [os.waitpid(child, 0)[1] for child in children]
        print(json.dumps({"statuses": statuses, "opened": opened}), flush=True)


def _waiting(given: dict[str, Any], gate: int, opening: int, telling: int) -> int:
    process = os.fork()
    if process:
        return process
    os.close(opening)
    os.read(gate, 1)  # ends when the last writer has closed it
    try:
        os.write(telling, f"{search(given):.3f}\n".encode())
    except BaseException:
        logging.exception("the search failed")
        os._exit(1)
    os._exit(0)


def crashes(given: dict[str, Any]) -> None:
    """Let a process die at each commit in turn, and another one complete the study; a JSON line each."""
    for commit in itertools.count(given["first"], given["step"]):
        folder = Path(given["folder"], str(commit))
        folder.mkdir()
        one = given | {"url": f"sqlite:///{folder / 'study.db'}", "log": str(folder / "log")}
        died = _forked(one, commit)
        print(json.dumps({"commit": commit, "died": died, "completed": not _forked(one, 0)}), flush=True)
        if not died:
            return


def _forked(given: dict[str, Any], commit: int) -> bool:
    """Search in another process; True if it died."""
    process = os.fork()
    if not process:
        counted = itertools.count(1)

        def committing(connection: Any) -> None:
            if next(counted) == commit:
                os.kill(os.getpid(), signal.SIGKILL)

        sqlalchemy.event.listen(sqlalchemy.engine.Engine, "commit", committing)
        try:
            search(given)
        except BaseException:
            logging.exception("the search failed")
            os._exit(1)
        os._exit(0)
    return os.waitpid(process, 0)[1] != 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
    told = json.loads(sys.argv[2])
    search({"url": "sqlite:///:memory:", "trials": 1, "log": os.devnull})  # which loads what all need
    if sys.argv[1] == "rounds":
        rounds(told)
    elif sys.argv[1] == "crashes":
        crashes(told)
    else:
        print("ready", flush=True)
        sys.stdin.readline()
        print(f"{search(told):.3f}", flush=True)
