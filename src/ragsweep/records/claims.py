"""Processes' claims on work, in one table for sweeps and searches; a dead process's claims are void."""

import sqlite3
import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ragsweep.core.locks import LAPSE, Holder, Liveness, myself
from ragsweep.records.ledger_file import LedgerFile

PAUSE = 15.0
"""Seconds between heartbeats."""

CONFIG, FINALIST = "config", "finalist"
"""Kinds of jobs: a config of a sweep, or a finalist of a search, evaluated on the holdout."""

COMMAND, UPLOAD, KEY = "command", "upload", "key"
"""Other kinds of claims: a command on a sweep, an upload to the tracker, the opening of sweeps with one key."""


def job_tag(kind: str, number: int) -> str:
    """Return a job's name among the runs of its sweep: ``3``, ``finalist-0``."""
    return str(number) if kind == CONFIG else f"{kind}-{number}"


class ClaimKey(NamedTuple):
    """The object of a claim or, without a number, all objects of this kind and sweep."""

    kind: str
    sweep: str = ""  # or the key of several sweeps
    number: int | None = None  # of the job, command or record


@dataclass(frozen=True)
class Claim:
    """A claim: the kind and number of its object, its owner, the number of attempts, and whether the owner is alive."""

    kind: str
    number: int
    holder: Holder
    attempts: int
    lives: bool

    @property
    def is_own(self) -> bool:
        """Whether the claim is this process's."""
        return self.holder == myself()


class Claims(Liveness[ClaimKey]):
    """The claims in a ledger's file.

    Unless noted, methods that claim return None on success, else the other living process that holds the claim.
    """

    def __init__(self, file: LedgerFile, lapse: float = LAPSE) -> None:
        super().__init__(PAUSE, lapse)
        self._file = file

    def claim(self, work: ClaimKey) -> Holder | None:
        """Claim an object, unless another living process has claimed it."""
        with self._file.transaction() as connection:
            return self._take_free(connection, work)

    def release(self, work: ClaimKey) -> None:
        """Release this process's claims on an object."""
        with self._file.transaction() as connection:
            connection.execute(
                "DELETE FROM claims WHERE kind = ? AND sweep = ? AND coalesce(number = ?, 1)"
                " AND host = ? AND process = ? AND started = ?",
                (*work, *myself()),
            )

    def is_alive(self, work: ClaimKey) -> bool:
        """Return whether a living process has claimed an object."""
        return any(claim.lives for claim in self.find(work))

    def beat(self) -> None:
        """Renew the heartbeat of this process's claims, so that other processes can see that it is alive."""
        with self._file.transaction() as connection:
            connection.execute(
                "UPDATE claims SET heartbeat = ? WHERE host = ? AND process = ? AND started = ?",
                (time.time(), *myself()),
            )

    def join_sweep(self, sweep: str) -> None:
        """Add a claim on a sweep, which other commands may have claimed, too."""
        with self._file.transaction() as connection:
            numbers = [claim.number for claim in self.find(ClaimKey(COMMAND, sweep))]
            self.take(connection, ClaimKey(COMMAND, sweep, max(numbers, default=-1) + 1))

    def others(self, sweep: str) -> list[Holder]:
        """List the other living processes that have a claim on a sweep and sent a heartbeat recently."""
        claims = self.find(ClaimKey(COMMAND, sweep), since=time.time() - self._lapse)
        return [claim.holder for claim in claims if claim.lives and not claim.is_own]

    def claim_job(
        self, sweep: str, job: int, kind: str = CONFIG, assigned: bool = False
    ) -> Holder | Literal["finished"] | None:
        """Claim a job; return "finished" if the job is finished or was dropped from a race.

        ``assigned``: whether a study has assigned the job to this process; if so, any previous owner is replaced.
        """
        with self._file.transaction() as connection:
            done = connection.execute(
                "SELECT 1 FROM records WHERE sweep = ? AND kind = ? AND job = ? AND status IN ('finished', 'dropped')",
                (sweep, kind, job),
            ).fetchone()
            if done:
                return "finished"
            if not assigned:
                return self._take_free(connection, ClaimKey(kind, sweep, job))
            self.take(connection, ClaimKey(kind, sweep, job))
            return None

    def jobs(self, sweep: str, kind: str = CONFIG) -> list[Claim]:
        """List the claims on a sweep's jobs, including those of dead processes."""
        return self.find(ClaimKey(kind, sweep))

    def claim_upload(self, record: int) -> Holder | bool:
        """Claim the upload of a record; return False if it is tracked or gone, else True or the other living holder."""
        with self._file.transaction() as connection:
            row = connection.execute("SELECT tracked FROM records WHERE id = ?", (record,)).fetchone()
            if row is None or row[0]:
                return False
            return self._take_free(connection, ClaimKey(UPLOAD, number=record)) or True

    def take(self, connection: sqlite3.Connection, work: ClaimKey) -> None:
        """Insert a claim of this process, replacing any previous owner, and start the heartbeats."""
        connection.execute(
            "INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET host = excluded.host,"
            " process = excluded.process, started = excluded.started, heartbeat = excluded.heartbeat,"
            " attempts = attempts + 1",
            (work.kind, work.sweep, work.number or 0, *myself(), time.time()),
        )
        self.start()

    def _take_free(self, connection: sqlite3.Connection, work: ClaimKey) -> Holder | None:
        for claim in self.find(work):
            if claim.lives and not claim.is_own:
                return claim.holder
        self.take(connection, work)
        return None

    def find(self, work: ClaimKey, since: float = 0.0) -> list[Claim]:
        """Read an object's claims whose last heartbeat was after ``since``, including those of dead processes."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT number, attempts, heartbeat, host, process, started FROM claims"
                " WHERE kind = ? AND sweep = ? AND coalesce(number = ?, 1) AND heartbeat > ? ORDER BY number",
                (*work, since),
            ).fetchall()
            claims = []
            try:
                for number, attempts, heartbeat, *process in rows:
                    holder = Holder(*process)
                    lives = holder.lives(time.time() - heartbeat, self._lapse)
                    claims.append(Claim(work.kind, number, holder, attempts, lives))
            except (OverflowError, TypeError):
                raise sqlite3.DatabaseError(f'a claim of the kind "{work.kind}" is malformed') from None
            return claims
