"""Which configs of a study are evaluated, by whom, and what came of it: the truth that Optuna's trials follow.

Optuna knows of no process that asks and tells. Here a trial is admitted, taken over from the dead, and settled, each in
one transaction. Whoever takes a trial over gets a new token; a result under an old one is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hydra_plugins.ragsweep_optuna._beating import Heart
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
_COLUMNS = "trial, number, overrides, token, host, process, started, heartbeat, outcome, charged, told"
_MINE = "host = :host AND process = :process AND started = :started"


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
    charged: bool = True
    told: bool = False  # whether Optuna knows the outcome

    def saying(self, overrides: Sequence[str]) -> Evaluation:
        """Return the same with other overrides."""
        return replace(self, overrides=tuple(overrides))


@dataclass
class Evaluations:
    """The evaluations of one study."""

    storage: Storage
    study: str
    lapse: float  # seconds without a heartbeat after which a process counts as dead
    _heart: Heart | None = field(default=None, repr=False)
    _over: list[Evaluation] = field(default_factory=list, repr=False)  # the first ones: they never change again

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
                "now": time.time(), **_me(),
            }  # fmt: skip
            self._run(
                connection,
                "INSERT INTO sweep_evaluations VALUES (:study, :trial, :number, :signature, :overrides, 1, :host,"
                " :process, :started, :now, 1, NULL, 0)",
                values,
            )
            return Evaluation(trial, int(number), tuple(overrides), 1, me, 0.0)

    def take_over(self, most: int, alone: int) -> list[Evaluation]:
        """Take up to ``most`` trials whose process died; each gets a new token, so that a late result is refused.

        A trial that is begun for the ``alone``th time is taken by itself: if its process dies again, it was that trial.
        """
        me, taken = myself(), list[Evaluation]()
        with self.storage.transaction() as connection:
            for one in self._all(connection, "outcome IS NULL AND number >= :over", {"over": len(self._over)}):
                last = one.token + 1 >= alone
                if one.holder.lives(one.silent, self.lapse) or len(taken) == most or (taken and last):
                    continue
                self._run(
                    connection,
                    "UPDATE sweep_evaluations SET token = token + 1, host = :host, process = :process,"
                    " started = :started, heartbeat = :now WHERE study = :study AND trial = :trial",
                    {"now": time.time(), "trial": one.trial} | _me(),
                )
                taken.append(Evaluation(one.trial, one.number, one.overrides, one.token + 1, me, 0.0))
                if last:
                    break
        return taken

    def settle(self, one: Evaluation, outcome: Outcome) -> bool:
        """Write an outcome down; False where another process took the trial over meanwhile: the result is refused."""
        with self.storage.transaction() as connection:
            done = self._run(
                connection,
                "UPDATE sweep_evaluations SET outcome = :outcome, charged = :charged WHERE study = :study"
                f" AND trial = :trial AND token = :token AND outcome IS NULL AND {_MINE}",
                {"outcome": outcome.text(), "charged": int(outcome.charged), "trial": one.trial, "token": one.token}
                | _me(),
            )
            return bool(done.rowcount)

    def give_back(self) -> None:
        """Leave this process's trials to others, as if they had not been begun: it ends before they are done."""
        self._leave("token - 1")

    def bury(self) -> None:
        """Leave this process's trials to whoever takes them over: the processes that evaluated them died."""
        self._leave("token")

    def _leave(self, token: str) -> None:
        with self.storage.transaction() as connection:
            self._run(
                connection,
                f"UPDATE sweep_evaluations SET token = {token}, host = '', process = 0, started = '', heartbeat = 0"
                f" WHERE study = :study AND outcome IS NULL AND {_MINE}",
                _me(),
            )

    def untold(self) -> list[Evaluation]:
        """List what is settled, but not yet told to Optuna."""
        return [one for one in self.all() if one.outcome and not one.told]

    def told(self, trial: int) -> None:
        """Note that Optuna knows."""
        with self.storage.transaction() as connection:
            self._run(
                connection,
                "UPDATE sweep_evaluations SET told = 1 WHERE study = :study AND trial = :trial",
                {"trial": trial},
            )

    def all(self) -> list[Evaluation]:
        """List all evaluations in the order in which they were begun; what is over is read once."""
        with self.storage.reading() as connection:
            rows = self._all(connection, "number >= :over", {"over": len(self._over)})
        for one in list(rows):
            if not one.told or one.number != len(self._over):
                break
            self._over.append(rows.pop(0))
        return [*self._over, *rows]

    def charged(self) -> int:
        """Count the evaluations that count as trials of the study, those under way included."""
        return sum(one.charged for one in self.all())

    def beat(self) -> None:
        """Keep this process's trials alive in the eyes of others, until ``rest`` or as long as somebody has this."""
        if self._heart is None:
            self._heart = Heart(self._beat, self.lapse / 6)

    def rest(self) -> None:
        """Stop the heartbeat."""
        heart, self._heart = self._heart, None
        if heart:
            heart.stop()

    def _beat(self) -> None:
        with self.storage.transaction() as connection:
            self._run(
                connection,
                f"UPDATE sweep_evaluations SET heartbeat = :now WHERE study = :study AND outcome IS NULL AND {_MINE}",
                {"now": time.time()} | _me(),
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
    silent, overrides = time.time() - row[7], tuple(json.loads(row[2]))
    return Evaluation(row[0], row[1], overrides, row[3], holder, silent, outcome, bool(row[9]), bool(row[10]))


def _me() -> dict[str, Any]:
    me = myself()
    return {"host": me.host, "process": me.number, "started": me.started}
