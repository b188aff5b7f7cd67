"""Which configs of a study are evaluated, by whom, and what came of it: the truth that Optuna's trials follow.

Optuna knows of no process that asks and tells. Here a trial is admitted, taken over from the dead, and settled, each in
one transaction. Whoever takes a trial over gets a new token; a result under an old one is refused.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from hydra_plugins.ragsweep_optuna._outcomes import Outcome, outcome_of
from hydra_plugins.ragsweep_optuna._processes import Process, myself
from hydra_plugins.ragsweep_optuna._storage import Storage

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS sweep_evaluations (study VARCHAR(512) NOT NULL, trial INTEGER NOT NULL,"
    " number INTEGER NOT NULL, signature VARCHAR(64) NOT NULL, overrides TEXT NOT NULL, token INTEGER NOT NULL,"
    " host VARCHAR(255) NOT NULL, process INTEGER NOT NULL, started VARCHAR(64) NOT NULL, heartbeat FLOAT NOT NULL,"
    " charged INTEGER NOT NULL, outcome TEXT, told INTEGER NOT NULL,"
    " PRIMARY KEY (study, trial), UNIQUE (study, signature), UNIQUE (study, number))",
)
_COLUMNS = "trial, number, overrides, token, host, process, started, heartbeat, outcome"


@dataclass(frozen=True)
class Evaluation:
    """A trial whose config no earlier trial of the study had."""

    trial: int  # Optuna's number
    number: int  # among the study's evaluations, from 0
    overrides: tuple[str, ...]
    token: int  # how often it was begun
    holder: Process
    silent: float  # seconds since the holder's last heartbeat
    outcome: Outcome | None = None

    def saying(self, overrides: Sequence[str]) -> Evaluation:
        """Return the same with other overrides."""
        return replace(self, overrides=tuple(overrides))


@dataclass
class Evaluations:
    """The evaluations of one study."""

    storage: Storage
    study: str
    lapse: float  # seconds without a heartbeat after which a process counts as dead
    _beating: threading.Event | None = field(default=None, repr=False)

    def admit(self, trial: int, signature: str, overrides: Sequence[str]) -> Evaluation | int:
        """Take a trial for this process; where an earlier trial had the same signature, return that one's number."""
        me = myself()
        with self.storage.transaction() as connection:
            before = self._all(connection, "signature = :signature", {"signature": signature})
            if before:
                return before[0].trial
            (number,) = self._run(connection, "SELECT count(*) FROM sweep_evaluations WHERE study = :study").fetchone()
            values = {
                "trial": trial, "number": number, "signature": signature, "overrides": json.dumps(list(overrides)),
                "host": me.host, "process": me.number, "started": me.started, "now": time.time(),
            }  # fmt: skip
            self._run(
                connection,
                "INSERT INTO sweep_evaluations VALUES (:study, :trial, :number, :signature, :overrides, 1, :host,"
                " :process, :started, :now, 1, NULL, 0)",
                values,
            )
            return Evaluation(trial, int(number), tuple(overrides), 1, me, 0.0)

    def take_over(self, most: int) -> list[Evaluation]:
        """Take up to ``most`` trials whose process died; each gets a new token, so that a late result is refused."""
        me, taken = myself(), list[Evaluation]()
        with self.storage.transaction() as connection:
            for one in self._all(connection, "outcome IS NULL"):
                if one.holder.lives(one.silent, self.lapse) or len(taken) == most:
                    continue
                self._run(
                    connection,
                    "UPDATE sweep_evaluations SET token = token + 1, host = :host, process = :process,"
                    " started = :started, heartbeat = :now WHERE study = :study AND trial = :trial",
                    {"host": me.host, "process": me.number, "started": me.started, "now": time.time()}
                    | {"trial": one.trial},
                )
                taken.append(Evaluation(one.trial, one.number, one.overrides, one.token + 1, me, 0.0))
        return taken

    def settle(self, one: Evaluation, outcome: Outcome) -> bool:
        """Write an outcome down; False where another process took the trial over meanwhile: the result is refused."""
        with self.storage.transaction() as connection:
            done = self._run(
                connection,
                "UPDATE sweep_evaluations SET outcome = :outcome, charged = :charged WHERE study = :study"
                " AND trial = :trial AND token = :token AND outcome IS NULL",
                {"outcome": outcome.text(), "charged": int(outcome.charged), "trial": one.trial, "token": one.token},
            )
            return bool(done.rowcount)

    def untold(self) -> list[Evaluation]:
        """List what is settled, but not yet told to Optuna."""
        with self.storage.transaction() as connection:
            return self._all(connection, "outcome IS NOT NULL AND told = 0")

    def told(self, trial: int) -> None:
        """Note that Optuna knows."""
        with self.storage.transaction() as connection:
            self._run(
                connection,
                "UPDATE sweep_evaluations SET told = 1 WHERE study = :study AND trial = :trial",
                {"trial": trial},
            )

    def all(self) -> list[Evaluation]:
        """List all evaluations in the order in which they were begun."""
        with self.storage.transaction() as connection:
            return self._all(connection, "1 = 1")

    def charged(self) -> int:
        """Count the evaluations that count as trials of the study, those under way included."""
        with self.storage.transaction() as connection:
            statement = "SELECT count(*) FROM sweep_evaluations WHERE study = :study AND charged = 1"
            return int(self._run(connection, statement).fetchone()[0])

    def beat(self) -> None:
        """Keep this process's trials alive in the eyes of others, until ``rest``."""
        if self._beating is None:
            self._beating = threading.Event()
            threading.Thread(target=self._keep_beating, args=(self._beating,), daemon=True).start()

    def rest(self) -> None:
        """Stop the heartbeat."""
        if self._beating:
            self._beating.set()
        self._beating = None

    def _keep_beating(self, stopped: threading.Event) -> None:
        me = myself()
        while not stopped.wait(self.lapse / 6):
            with suppress(Exception), self.storage.transaction() as connection:  # the next beat may reach the database
                self._run(
                    connection,
                    "UPDATE sweep_evaluations SET heartbeat = :now WHERE study = :study AND host = :host"
                    " AND process = :process AND started = :started AND outcome IS NULL",
                    {"now": time.time(), "host": me.host, "process": me.number, "started": me.started},
                )

    def _all(self, connection: Any, condition: str, values: dict[str, Any] | None = None) -> list[Evaluation]:
        statement = f"SELECT {_COLUMNS} FROM sweep_evaluations WHERE study = :study AND {condition} ORDER BY number"
        return [_evaluation(row) for row in self._run(connection, statement, values).fetchall()]

    def _run(self, connection: Any, statement: str, values: dict[str, Any] | None = None) -> Any:
        from sqlalchemy import text

        return connection.execute(text(statement), {"study": self.study, **(values or {})})


def _evaluation(row: Sequence[Any]) -> Evaluation:
    holder = Process(row[4], row[5], row[6])
    outcome = outcome_of(row[8]) if row[8] else None
    return Evaluation(row[0], row[1], tuple(json.loads(row[2])), row[3], holder, time.time() - row[7], outcome)
