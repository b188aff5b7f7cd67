"""Claims of processes on jobs and other work, in a table of the ledger; the claims of a dead process are void."""

import sqlite3
import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ragsweep.core.locks import LAPSE, Holder, Liveness, myself
from ragsweep.records.ledger_file import LedgerFile

PAUSE = 15.0
"""Seconds between the heartbeats of a process."""

CONFIG, FINALIST = "config", "finalist"
"""Kinds of jobs: to evaluate a config of a sweep, or to evaluate a finalist of a search on the holdout."""

COMMAND, UPLOAD, KEY = "command", "upload", "key"
"""Other kinds of work: a command on a sweep, the upload of a record, or the opening or end of sweeps with one key."""


def job_tag(kind: str, number: int) -> str:
    """Return a job's name among the runs of its sweep, such as ``3`` for a config or ``finalist-0``."""
    return str(number) if kind == CONFIG else f"{kind}-{number}"


class ClaimKey(NamedTuple):
    """A piece of work that can be claimed or, if ``number`` is None, all work of the kind ``kind`` in the sweep."""

    kind: str
    sweep: str = ""  # the sweep's id or, for the kind KEY, its key; "" for the kind UPLOAD
    number: int | None = None  # the number of the job or command, or the id of the record


@dataclass(frozen=True)
class Claim:
    """A claim on a piece of work, held by the process ``holder``.

    ``attempts`` is the number of times that the work has been claimed; ``lives`` is true if the holder is alive.
    """

    kind: str
    number: int
    holder: Holder
    attempts: int
    lives: bool

    @property
    def is_own(self) -> bool:
        """Whether this process holds the claim."""
        return self.holder == myself()


class Claims(Liveness[ClaimKey]):
    """The claims in a ledger's file.

    A process on this machine is alive until it ends; a process on another machine is considered alive until ``lapse``
    seconds after its last heartbeat. Methods raise TrackingError if writing fails, and InputError if the file is
    damaged.
    """

    def __init__(self, file: LedgerFile, lapse: float = LAPSE) -> None:
        super().__init__(PAUSE, lapse)
        self._file = file

    def claim(self, work: ClaimKey) -> Holder | None:
        """Claim ``work`` and return None; if another living process already holds the claim, return that process."""
        with self._file.transaction() as connection:
            return self._take_free(connection, work)

    def release(self, work: ClaimKey) -> None:
        """Release this process's claims on ``work``; do nothing if this process holds none."""
        with self._file.transaction() as connection:
            connection.execute(
                "DELETE FROM claims WHERE kind = ? AND sweep = ? AND coalesce(number = ?, 1)"
                " AND host = ? AND process = ? AND started = ?",
                (*work, *myself()),
            )

    def is_alive(self, work: ClaimKey) -> bool:
        """Return whether a living process, possibly this one, holds a claim on ``work``."""
        return any(claim.lives for claim in self.find(work))

    def beat(self) -> None:
        """Set the heartbeat of this process's claims to the current time, as a sign that this process is alive."""
        with self._file.transaction() as connection:
            connection.execute(
                "UPDATE claims SET heartbeat = ? WHERE host = ? AND process = ? AND started = ?",
                (time.time(), *myself()),
            )

    def join_sweep(self, sweep: str) -> None:
        """Claim a sweep for a command of this process, in addition to the claims of other commands."""
        with self._file.transaction() as connection:
            numbers = [claim.number for claim in self.find(ClaimKey(COMMAND, sweep))]
            self.take(connection, ClaimKey(COMMAND, sweep, max(numbers, default=-1) + 1))

    def others(self, sweep: str) -> list[Holder]:
        """Return the other living processes whose commands hold a claim on a sweep.

        Claims without a heartbeat in the last ``lapse`` seconds are ignored.
        """
        claims = self.find(ClaimKey(COMMAND, sweep), since=time.time() - self._lapse)
        return [claim.holder for claim in claims if claim.lives and not claim.is_own]

    def claim_job(
        self, sweep: str, job: int, kind: str = CONFIG, assigned: bool = False
    ) -> Holder | Literal["finished"] | None:
        """Claim a job and return None, or return why it cannot be claimed.

        Return "finished" if the job is finished or was dropped from a race. If another living process holds the claim,
        return that process. If ``assigned`` is true, because an Optuna study has assigned the job to this process,
        transfer the claim to this process instead.
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
        """Return the claims on a sweep's jobs of one kind, including the claims of dead processes."""
        return self.find(ClaimKey(kind, sweep))

    def claim_upload(self, record: int) -> Holder | bool:
        """Claim the upload of a record and return True.

        Return False if the record is tracked or does not exist; if another living process holds the claim, return that
        process.
        """
        with self._file.transaction() as connection:
            row = connection.execute("SELECT tracked FROM records WHERE id = ?", (record,)).fetchone()
            if row is None or row[0]:
                return False
            return self._take_free(connection, ClaimKey(UPLOAD, number=record)) or True

    def wait_for_upload(self, record: int) -> bool:
        """Claim the upload of a record and return True; return False if the record is uploaded or was replaced.

        Wait while another process has claimed the upload.
        """
        while isinstance(taken := self.claim_upload(record), Holder):
            time.sleep(0.1)
        return taken

    def take(self, connection: sqlite3.Connection, work: ClaimKey) -> None:
        """Claim ``work`` for this process, even if another process holds the claim, and start the heartbeats."""
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
        """Return the claims on ``work`` whose last heartbeat is later than ``since`` (seconds since 1970), by number.

        Claims of dead processes are included.
        """
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
