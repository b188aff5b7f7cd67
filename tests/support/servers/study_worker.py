"""A process that works on a study with others, or dies at its n-th commit.

python study_worker.py search JSON     search in this process
python study_worker.py rounds JSON     search with several processes that begin at once, a round for each item
python study_worker.py crashes JSON    search with a process that dies at each commit in turn, then with another one
"""

import itertools
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import sqlalchemy
from hydra.core.utils import JobReturn, JobStatus

from hydra_plugins.optuna_sweeper.sweeper import OptunaSweeperConf
from optuna_sweeper.loop import SearchLoop
from optuna_sweeper.open_study import open_study
from optuna_sweeper.settings import SearchSettings
from optuna_sweeper.signatures import Signature
from optuna_sweeper.space import read_space
from optuna_sweeper.storage import open_storage
from optuna_sweeper.study import StudyPlan
from optuna_sweeper.trials import Evaluation

__all__ = ["psycopg"]  # loaded before the clock starts

DEFAULTS = {key: value for key, value in vars(OptunaSweeperConf()).items() if key not in ("_target_", "defaults")}
SETTINGS = SearchSettings.read({**DEFAULTS, "sampler": {"name": "random"}})


def search(settings: dict[str, Any]) -> float:
    """Search, and return the seconds it took to open the study.

    ``url``, ``trials``, ``queued`` (how many of these are enqueued), ``log`` (a line for each trial begun), ``wait``
    (seconds per trial), ``lapse``.
    """
    begun = time.monotonic()
    first = tuple(((f"x={n}",), {"x": float(n)}) for n in range(settings.get("queued", 0)))
    sampler = {"name": "random", "seed": 1}
    plan = StudyPlan("s", ("minimize",), "", sampler, settings["trials"], first, lapse=settings.get("lapse", 90))
    storage = open_storage(settings["url"])
    study = open_study(plan, read_space(["x=interval(0,1000)"], {}), storage)
    opened = time.monotonic() - begun
    log = os.open(settings["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def launch(jobs: Sequence[Evaluation], until: int | None) -> Sequence[JobReturn]:
        os.write(log, f"{jobs[0].job} {os.getpid()} {' '.join(jobs[0].overrides)}\n".encode())
        time.sleep(settings.get("wait", 0))
        done = JobReturn(status=JobStatus.COMPLETED)
        done.return_value = float(os.getpid())
        return [done]

    try:
        SearchLoop(study, launch, lambda lines: Signature(" ".join(sorted(lines))), SETTINGS).run()
    finally:
        storage.close()
        os.close(log)
    return opened


def rounds(settings_of_rounds: list[dict[str, Any]]) -> None:
    """Search with processes that begin at once; print how each ended, and how long it took to open the study.

    ``processes``; ``kill``: seconds after the first trial was begun at which the first process is killed, or null.
    """
    for settings in settings_of_rounds:
        gate, opening = os.pipe()
        results, writing = os.pipe()
        children = [_waiting(settings, gate, opening, writing) for _ in range(settings["processes"])]
        os.close(gate)
        os.close(writing)
        os.close(opening)  # now all of them begin
        if settings.get("kill") is not None:
            while not Path(settings["log"]).exists() or not Path(settings["log"]).stat().st_size:
                time.sleep(0.01)
            time.sleep(settings["kill"])
            os.kill(children[0], signal.SIGKILL)
        with os.fdopen(results) as lines:
            opened = [float(line) for line in lines]
        statuses = [os.waitpid(child, 0)[1] for child in children]
        print(json.dumps({"statuses": statuses, "opened": opened}), flush=True)


def _waiting(settings: dict[str, Any], gate: int, opening: int, writing: int) -> int:
    process = os.fork()
    if not process:
        os.close(opening)
        os.read(gate, 1)  # ends when the last writer has closed it
        _search_and_exit(settings, writing)
    return process


def _search_and_exit(settings: dict[str, Any], results: int | None = None) -> NoReturn:
    try:
        opened = search(settings)
        if results is not None:
            os.write(results, f"{opened:.3f}\n".encode())
    except BaseException:
        logging.exception("the search failed")
        os._exit(1)
    os._exit(0)


def crashes(settings: dict[str, Any]) -> None:
    """Make a process die at each commit in turn, and another one complete the study; print a JSON line for each."""
    for commit in itertools.count(1):
        folder = Path(settings["folder"], str(commit))
        folder.mkdir()
        here = settings | {"url": f"sqlite:///{folder / 'study.db'}", "log": str(folder / "log")}
        died = _dies(here, commit)
        print(json.dumps({"commit": commit, "died": died, "completed": not _dies(here, 0)}), flush=True)
        if not died:
            return


def _dies(settings: dict[str, Any], commit: int) -> bool:
    """Search in another process that is killed at a commit (0: at none); return whether it died."""
    process = os.fork()
    if not process:
        counted = itertools.count(1)

        def committing(connection: Any) -> None:
            if next(counted) == commit:
                os.kill(os.getpid(), signal.SIGKILL)

        sqlalchemy.event.listen(sqlalchemy.engine.Engine, "commit", committing)
        _search_and_exit(settings)
    return os.waitpid(process, 0)[1] != 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent may ignore it
    search({"url": "sqlite:///:memory:", "trials": 1, "log": os.devnull})  # imports everything before the first fork
    modes: dict[str, Callable[[Any], object]] = {"search": search, "rounds": rounds, "crashes": crashes}
    modes[sys.argv[1]](json.loads(sys.argv[2]))
