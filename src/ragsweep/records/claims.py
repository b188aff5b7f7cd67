"""Claims of processes on work, in one table for sweeps and searches; the claims of a dead process are void."""

from __future__ import annotations

import sqlite3
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ragsweep.core.errors import TrackingError
from ragsweep.core.locks import BEAT, LAPSE, Holder, beat, myself
from ragsweep.records.ledger_file import LedgerFile

CONFIG, FINALIST = "config", "finalist"
"""Kinds of jobs: a config of a sweep, or a finalist of a search on the holdout."""

COMMAND, UPLOAD, KEY = "command", "upload", "key"
"""Other kinds of claims: a command on a sweep, an upload to the tracker, the opening of sweeps of one key."""


def job_tag(kind: str, number: int) -> str:
    """Return the name of a job among the runs of its sweep: ``3``, ``finalist-0``."""
    return str(number) if kind == CONFIG else f"{kind}-{number}"


@dataclass(frozen=True)
class Claim:
    """The owner of a claim, the number of attempts, and whether the owner is alive."""

    kind: str
    number: int
    holder: Holder
    attempts: int
    lives: bool

    @property
    def is_own(self) -> bool:
        """Whether the claim is this process's."""
        return self.holder == myself()


class Claims:
    """The claims in a ledger's file.

    Methods that claim return None on success, and the claim of another living process otherwise.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._beats = False

    # --- sweeps ------------------------------------------------------------------------------------------------

    def claim_sweep(self, sweep: str) -> Claim | None:
        """Claim a sweep exclusively for this process's command."""
        with self._file.transaction() as connection:
            return self._take_free(connection, COMMAND, sweep, 0, find_claims(connection, COMMAND, sweep))

    def join_sweep(self, sweep: str) -> None:
        """Claim a sweep that other commands may share."""
        with self._file.transaction() as connection:
            numbers = [claim.number for claim in find_claims(connection, COMMAND, sweep)]
            self.take(connection, COMMAND, sweep, max(numbers, default=-1) + 1)

    def leave_sweep(self, sweep: str) -> None:
        """Release this process's claim on a sweep."""
        self._release(COMMAND, sweep)

    def is_abandoned(self, sweep: str) -> bool:
        """Return whether no living process has a claim on a sweep."""
        with self._file.reading() as connection:
            return not any(claim.lives for claim in find_claims(connection, COMMAND, sweep))

    def others(self, sweep: str) -> list[Holder]:
        """List the other processes with claims on a sweep, except those with a stale heartbeat."""
        with self._file.reading() as connection:
            claims = find_claims(connection, COMMAND, sweep, since=time.time() - LAPSE)
        return [claim.holder for claim in claims if claim.lives and not claim.is_own]

    def claim_key(self, key: str) -> Claim | None:
        """Claim the right to open and close sweeps of a key."""
        with self._file.transaction() as connection:
            return self._take_free(connection, KEY, key, 0)

    def release_key(self, key: str) -> None:
        """Release this process's right to open and close sweeps of a key."""
        self._release(KEY, key)

    # --- jobs --------------------------------------------------------------------------------------------------

    def claim_job(
        self, sweep: str, job: int, kind: str = CONFIG, assigned: bool = False
    ) -> Claim | Literal["finished"] | None:
        """Claim a job; return "finished" if it is done.

        ``assigned``: a study has assigned the job to this process, which replaces any owner.
        """
        with self._file.transaction() as connection:
            done = connection.execute(
                "SELECT 1 FROM records WHERE sweep = ? AND kind = ? AND job = ? AND status IN ('finished', 'dropped')",
                (sweep, kind, job),
            ).fetchone()
            if done:
                return "finished"
            return self._take_free(connection, kind, sweep, job, [] if assigned else None)

    def jobs(self, sweep: str, kind: str = CONFIG) -> list[Claim]:
        """List the claims on a sweep's jobs, including those of dead processes."""
        with self._file.reading() as connection:
            return find_claims(connection, kind, sweep)

    def release_job(self, sweep: str, job: int | None = None) -> None:
        """Release this process's claim on an unfinished job; None: on all jobs of the sweep."""
        for kind in (CONFIG, FINALIST):
            self._release(kind, sweep, job)

    # --- uploads -----------------------------------------------------------------------------------------------

    def claim_upload(self, record: int) -> Claim | bool:
        """Claim the upload of a record to the tracker; return True, or False if it is tracked or replaced."""
        with self._file.transaction() as connection:
            row = connection.execute("SELECT tracked FROM records WHERE id = ?", (record,)).fetchone()
            if row is None or row[0]:
                return False
            return self._take_free(connection, UPLOAD, "", record) or True

    def release_uploads(self) -> None:
        """Release this process's claims on uploads."""
        self._release(UPLOAD, "")

    # --- the table ---------------------------------------------------------------------------------------------

    def take(self, connection: sqlite3.Connection, kind: str, sweep: str, number: int) -> None:
        """Insert a claim, replacing any previous owner, and start the heartbeat of this process."""
        me = myself()
        connection.execute(
            "INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET host = excluded.host,"
            " process = excluded.process, started = excluded.started, heartbeat = excluded.heartbeat,"
            " attempts = attempts + 1",
            (kind, sweep, number, me.host, me.process, me.started, time.time()),
        )
        if not self._beats:
            self._beats = True
            file = weakref.ref(self._file)  # an unreferenced ledger closes its file
            beat(partial(_renew, file), BEAT, "ragsweep-heartbeat")

    def _take_free(
        self, connection: sqlite3.Connection, kind: str, sweep: str, number: int, rivals: list[Claim] | None = None
    ) -> Claim | None:
        """Insert a claim unless another living process has a rival claim (None: a claim on the same object)."""
        for claim in find_claims(connection, kind, sweep, number) if rivals is None else rivals:
            if claim.lives and not claim.is_own:
                return claim
        self.take(connection, kind, sweep, number)
        return None

    def _release(self, kind: str, sweep: str, number: int | None = None) -> None:
        me = myself()
        with self._file.transaction() as connection:
            connection.execute(
                "DELETE FROM claims WHERE kind = ? AND sweep = ? AND coalesce(number = ?, 1)"
                " AND host = ? AND process = ? AND started = ?",
                (kind, sweep, number, me.host, me.process, me.started),
            )


def find_claims(
    connection: sqlite3.Connection, kind: str, sweep: str, number: int | None = None, since: float = 0.0
) -> list[Claim]:
    """Read claims of one kind, including those of dead processes; ``number``: of one job only."""
    rows = connection.execute(
        "SELECT number, attempts, heartbeat, host, process, started FROM claims"
        " WHERE kind = ? AND sweep = ? AND coalesce(number = ?, 1) AND heartbeat > ? ORDER BY number",
        (kind, sweep, number, since),
    ).fetchall()
    claims = []
    for position, attempts, heartbeat, *process in rows:
        holder = Holder(*process)
        try:
            claims.append(Claim(kind, position, holder, attempts, holder.lives(time.time() - heartbeat)))
        except (OverflowError, TypeError):
            raise sqlite3.DatabaseError(f"the claim on {kind} {position} of {sweep} is malformed") from None
    return claims


def _renew(ledger_file: weakref.ref[LedgerFile]) -> bool:
    """Renew this process's claims, for other machines; return whether the file is still in use."""
    me, file = myself(), ledger_file()
    if file is None:
        return False
    with suppress(sqlite3.Error, TrackingError), file.transaction() as connection:
        connection.execute(
            "UPDATE claims SET heartbeat = ? WHERE host = ? AND process = ? AND started = ?",
            (time.time(), me.host, me.process, me.started),
        )
    return True
