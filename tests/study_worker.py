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

import optuna
import psycopg
import sqlalchemy
from hydra.core.utils import JobReturn, JobStatus

from hydra_plugins.ragsweep_optuna import read_space
from hydra_plugins.ragsweep_optuna._search import Search
from hydra_plugins.ragsweep_optuna._storage import open_storage
from hydra_plugins.ragsweep_optuna._study import Asked, open_study

__all__ = ["optuna", "psycopg"]  # loaded before the clock starts


def search(given: dict[str, Any]) -> float:
    """Search as is said, and return the seconds it took to open the study.

    ``url``, ``trials``, ``queued`` (of these, how many are given), ``log`` (a line for each trial begun), ``wait``
    (seconds a trial), ``lapse``.
    """
    begun, queued = time.monotonic(), int(given.get("queued", 0))
    first = tuple(((f"x={n}",), {"x": float(n)}) for n in range(queued))
    asked = Asked("s", ("minimize",), "", {"name": "random", "seed": 1}, given["trials"], first, given.get("lapse", 90))
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
        Search(study, launch, lambda lines: (" ".join(sorted(lines)), ""), 1, 0.0, ()).run()
    finally:
        storage.close()
        os.close(log)
    return opened


def crash_everywhere(given: dict[str, Any], first: int, step: int) -> None:
    """Let a process die at each commit in turn, and another one complete the study; a JSON line each."""
    for commit in itertools.count(first, step):
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
    told = json.loads(sys.argv[1])
    if len(sys.argv) > 2:
        crash_everywhere(told, int(sys.argv[2]), int(sys.argv[3]))
    else:
        print("ready", flush=True)
        sys.stdin.readline()
        print(f"{search(told):.3f}", flush=True)
