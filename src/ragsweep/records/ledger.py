"""Keep what was measured in one SQLite file: the truth that tables, reports and MLflow are made from.

One transaction a config. Every value is JSON (NaN as null) and nothing is ever executed that was read.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragsweep.core.errors import InputError
from ragsweep.core.leases import LAPSE, Holder
from ragsweep.core.results import DatasetFacts, Failure, Result
from ragsweep.golden.partition import HOLDOUT
from ragsweep.records import claims, seals
from ragsweep.records.claims import Claim
from ragsweep.records.ledger_file import LedgerFile, damaged
from ragsweep.records.record_format import Encoded, decode, encode

FINALS = 1_000_000
"""From this number on, a search's jobs are its best configs on the holdout: no trials, and no configs of the sweep."""

WHOLE = -1
"""The number under which a sweep itself is claimed, by the process that runs the command.

Further commands that work on the same search have the numbers below it.
"""

SHOWING = "records"
"""What the records that are being shown in the tracker are claimed under, by their own numbers."""

RUNNING, FINISHED, FAILED, KILLED = "RUNNING", "FINISHED", "FAILED", "KILLED"


@dataclass(frozen=True)
class Sweep:
    """A multirun: its jobs' overrides in order, what tells each from its siblings, and its parent run."""

    id: str
    name: str
    parent: str  # the MLflow run; empty without tracking
    jobs: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    place: str = ""  # where it is tracked
    status: str = RUNNING


@dataclass(frozen=True)
class Record:
    """What became of one job, and its MLflow run: half written or an earlier attempt's where not ``mirrored``."""

    id: int
    sweep: str | None
    job: int
    run: str | None
    mirrored: bool
    place: str  # where it is tracked
    outcome: Result | Failure


class Ledger:
    """Open (or make) the ledger in a folder; safe for many processes of one machine."""

    def __init__(self, folder: Path) -> None:
        self._file = LedgerFile(folder / "ledger.db")
        self._heart = claims.Heart(self._file)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    # --- sweeps ------------------------------------------------------------------------------------------------

    def latest(self, key: str) -> Sweep | None:
        """Return the last sweep of this key: of these configs, tracked at one place."""
        with self._file.reading() as connection:
            row = connection.execute(
                f"SELECT {seals.SWEEP} FROM sweeps WHERE key = ? ORDER BY round DESC LIMIT 1", (key,)
            ).fetchone()
            return self._sweep(connection, row) if row else None

    def open_sweep(self, key: str, sweep: Sweep) -> Sweep:
        """Write a sweep down before its first job starts, as the next round of its key, and claim it."""
        with self._file.transaction() as connection:
            (rounds,) = connection.execute("SELECT count(*) FROM sweeps WHERE key = ?", (key,)).fetchone()
            identifier = f"{key}-{rounds}"
            connection.execute(
                "INSERT INTO sweeps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    identifier, key, rounds, sweep.place, sweep.name, sweep.parent, RUNNING, json.dumps(sweep.jobs),
                    json.dumps(sweep.names), time.time(),
                ),
            )  # fmt: skip
            seals.seal_sweep(connection, identifier)
            claims.take(connection, identifier, WHOLE)
        self._heart.beat()
        return self.sweep(identifier)

    def sweep(self, identifier: str) -> Sweep:
        """Read a sweep back; in a job's process, say."""
        with self._file.reading() as connection:
            row = connection.execute(f"SELECT {seals.SWEEP} FROM sweeps WHERE id = ?", (identifier,)).fetchone()
            if row is None:
                raise damaged(self.path, f"the sweep {identifier} is not in it any more")
            return self._sweep(connection, row)

    def sweeps(self) -> list[Sweep]:
        """Read all sweeps, the oldest first."""
        with self._file.reading() as connection:
            rows = connection.execute(f"SELECT {seals.SWEEP} FROM sweeps ORDER BY created").fetchall()
            if len(rows) != (sealed := seals.sealed_sweeps(connection)):
                raise damaged(self.path, f"it holds {len(rows)} sweeps, and {sealed} were written")
            return [self._sweep(connection, row) for row in rows]

    def set_status(self, sweep: str, status: str) -> None:
        """Say how far a sweep is; one that is not RUNNING is claimed by nobody."""
        with self._file.transaction() as connection:
            connection.execute("UPDATE sweeps SET status = ? WHERE id = ?", (status, sweep))
            seals.seal_sweep(connection, sweep)
            if status != RUNNING:
                connection.execute("DELETE FROM claims WHERE sweep = ? AND job <= ?", (sweep, WHOLE))

    def set_jobs(self, sweep: str, names: Sequence[str]) -> None:
        """Say how many jobs a search has: it may be continued with more than it was begun with."""
        with self._file.transaction() as connection:
            connection.execute(
                "UPDATE sweeps SET jobs = ?, names = ? WHERE id = ?",
                (json.dumps([[]] * len(names)), json.dumps(list(names)), sweep),
            )
            seals.seal_sweep(connection, sweep)

    def set_parent(self, sweep: str, parent: str) -> None:
        """Note a sweep's parent run, which is made only when there is something to show."""
        with self._file.transaction() as connection:
            connection.execute("UPDATE sweeps SET parent = ? WHERE id = ?", (parent, sweep))
            seals.seal_sweep(connection, sweep)

    def abandoned(self) -> list[Sweep]:
        """List the sweeps that are running by name only: the processes of their commands are dead."""
        return [one for one in self.sweeps() if one.status == RUNNING and not self._held(one.id)]

    def others(self, sweep: str) -> list[Holder]:
        """List the other processes whose commands are at a sweep; one that has long been silent does not count."""
        with self._file.reading() as connection:
            recent = sweep, WHOLE, time.time() - LAPSE
            found = claims.taken(connection, "sweep = ? AND job <= ? AND heartbeat > ?", recent)
        return [claim.holder for claim in found if claim.lives and not claim.mine]

    def leave(self, sweep: str) -> None:
        """Say that this process's command is not at a sweep any more."""
        with self._file.transaction() as connection:
            claims.drop(connection, "sweep = ? AND job <= ?", (sweep, WHOLE))

    # --- jobs --------------------------------------------------------------------------------------------------

    def claim(self, sweep: str, job: int, given: bool = False) -> Claim | Literal["finished"] | None:
        """Take a job for this process; None if it is now ours, else who has it, or that it is finished.

        A sweep as a whole is had by any command that is at it. ``given``: it is decided elsewhere who works on what,
        and this process was given the job, whoever had it before.
        """
        with self._file.transaction() as connection:
            found = connection.execute(
                "SELECT 1 FROM records WHERE sweep = ? AND job = ? AND status IN ('finished', 'dropped')",
                (sweep, job),
            ).fetchone()
            if found:
                return "finished"
            which = "job <= ?" if job == WHOLE else "job = ?"
            for claim in claims.taken(connection, f"sweep = ? AND {which}", (sweep, job)):
                if claim.lives and not claim.mine and not given:
                    return claim
            claims.take(connection, sweep, job)
        self._heart.beat()
        return None

    def release(self, sweep: str, job: int) -> None:
        """Give a job of this process back that was not done, and that is to be done later."""
        with self._file.transaction() as connection:
            claims.drop(connection, "sweep = ? AND job = ?", (sweep, job))

    def release_mine(self, sweep: str) -> None:
        """Give back all jobs of a sweep that this process holds; its command stays at the sweep."""
        if any(claim.mine for claim in self.claims(sweep)):
            with self._file.transaction() as connection:
                claims.drop(connection, "sweep = ? AND job > ?", (sweep, WHOLE))

    def claims(self, sweep: str) -> list[Claim]:
        """List who works on which job, dead processes included."""
        with self._file.reading() as connection:
            return claims.taken(connection, "sweep = ? AND job > ?", (sweep, WHOLE))

    def write(
        self, sweep: str | None, job: int, outcome: Result | Failure, place: str = "", fenced: bool = False
    ) -> int:
        """Write down what became of a job, all of it or nothing, and return the record's number.

        A repeated job replaces its record and keeps its run. Rankings are not kept: they are large, and the tracker
        has them. ``fenced``: raise InputError where this process does not have the job any more.
        """
        kept = encode(outcome)
        with self._file.transaction() as connection:
            if fenced and not any(one.mine for one in claims.taken(connection, "sweep = ? AND job = ?", (sweep, job))):
                raise InputError(f"job {job} was given to another process meanwhile; this result comes too late")
            before = connection.execute(
                "SELECT run, id FROM records WHERE sweep = ? AND job = ?", (sweep, job)
            ).fetchone()
            if before:
                connection.execute("DELETE FROM records WHERE id = ?", (before[1],))
                seals.forget_record(connection, before[1])
            connection.execute("DELETE FROM claims WHERE sweep = ? AND job = ?", (sweep, job))
            connection.execute("INSERT OR IGNORE INTO shared VALUES (?, ?)", (kept.shared_digest, kept.shared))
            cursor = connection.execute(
                "INSERT INTO records (sweep, job, status, signature, place, run, mirrored, text, scores, counts, own,"
                " shared, digest, created) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)",
                (
                    sweep, job, kept.status, kept.signature, place, before[0] if before else None, kept.text,
                    kept.scores, kept.counts, kept.own, kept.shared_digest, kept.digest(), time.time(),
                ),
            )  # fmt: skip
            record = int(cursor.lastrowid or 0)
            seals.seal_records(connection, "id = ?", (record,))
            if isinstance(outcome, Result):
                _note_look(connection, outcome.dataset, _look(connection, sweep, job) or f"record {record}")
            return record

    def forget_unread(self) -> None:
        """Forget what several records had in common of which none is left: each rung of a race has other questions."""
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM shared WHERE name NOT IN (SELECT shared FROM records)")

    def looks(self, golden: str) -> int:
        """Count how often each question of a golden set's holdout was looked at, on average and rounded up.

        A sweep looks once, and so does a config by itself. A look at the holdout of another golden set counts by the
        share of these questions that it saw: a set that has grown by a question has been seen nearly as often.
        """
        with self._file.reading() as connection:
            found = connection.execute("SELECT golden, count(*) FROM looks GROUP BY golden").fetchall()
            held = dict(connection.execute("SELECT golden, questions FROM holdouts").fetchall())
        own, total = set(json.loads(held.get(golden, "[]"))), 0.0
        for other, count in found:
            shared = own & set(json.loads(held.get(other, "[]")))
            total += count * (1.0 if other == golden else len(shared) / max(len(own), 1))
        return math.ceil(total - 1e-9)

    def tuned(self, golden: str) -> list[Record]:
        """Read what was measured on the tune questions of the golden set with this digest."""
        marks = '"partition":"tune"', f'"whole_digest":"{golden}"'
        return self._records("instr(text, ?) AND instr(text, ?) AND status = 'finished' ORDER BY id", marks)

    def show(self, record: int) -> bool | Claim:
        """Take it upon this process to show a record; False if it is shown, or replaced, else who is at it."""
        with self._file.transaction() as connection:
            found = connection.execute("SELECT mirrored FROM records WHERE id = ?", (record,)).fetchone()
            if found is None or found[0]:
                return False
            for claim in claims.taken(connection, "sweep = ? AND job = ?", (SHOWING, record)):
                if claim.lives and not claim.mine:
                    return claim
            claims.take(connection, SHOWING, record)
        self._heart.beat()
        return True

    def mirrored(self, record: int, run: str) -> None:
        """Note the MLflow run that shows a record."""
        with self._file.transaction() as connection:
            connection.execute("UPDATE records SET run = ?, mirrored = 1 WHERE id = ?", (run, record))
            seals.seal_records(connection, "id = ?", (record,))
            connection.execute("DELETE FROM claims WHERE sweep = ? AND job = ?", (SHOWING, record))

    def run(self, record: int) -> str | None:
        """Return the MLflow run that an earlier attempt at a record's job left."""
        with self._file.reading() as connection:
            found = connection.execute("SELECT run FROM records WHERE id = ?", (record,)).fetchone()
        return found[0] if found else None

    def retry(self, sweep: str) -> None:
        """Let the jobs of a sweep be run again that failed, or that came to a part of their scores only."""
        again = "UPDATE records SET status = 'retry' WHERE sweep = ? AND status IN ('failed', 'partial')"
        with self._file.transaction() as connection:
            connection.execute(again, (sweep,))
            seals.seal_records(connection, "sweep = ? AND status = 'retry'", (sweep,))

    def jobs(self, sweep: str, *statuses: str) -> set[int]:
        """Return the jobs of a sweep whose record has one of these statuses (``record_format.STATUS``, or "failed").

        Those on the holdout at the end of a search are not among them.
        """
        with self._file.reading() as connection:
            rows = connection.execute("SELECT job, status FROM records WHERE sweep = ?", (sweep,)).fetchall()
        return {job for job, status in rows if status in statuses and job < FINALS}

    def record(self, sweep: str, job: int) -> Record:
        """Read the record of a job."""
        return self._records("records.sweep = ? AND job = ?", (sweep, job), sweep)[0]

    def forget_runs(self, sweep: str) -> None:
        """Forget the runs of a sweep's records: the tracker that had them has lost them."""
        with self._file.transaction() as connection:
            connection.execute("UPDATE records SET run = NULL, mirrored = 0 WHERE sweep = ?", (sweep,))
            seals.seal_records(connection, "sweep = ?", (sweep,))

    def records(self, sweep: str) -> list[Record]:
        """Read what became of a sweep's jobs so far, in the order of the jobs."""
        part = "records.sweep = ? AND job < ? AND status NOT IN ('retry', 'racing') ORDER BY job"
        return self._records(part, (sweep, FINALS), sweep)

    def unshown(self, sweep: str) -> list[Record]:
        """Read those of a sweep that the tracker does not show whole, its best configs on the holdout included."""
        return self._records(
            "records.sweep = ? AND mirrored = 0 AND status NOT IN ('retry', 'racing')", (sweep,), sweep
        )

    def raced(self, sweep: str) -> list[Record]:
        """Read what is known of a sweep's jobs so far, those that are still in a race included."""
        part = "records.sweep = ? AND job < ? AND status IN ('finished', 'racing', 'dropped') ORDER BY job"
        return self._records(part, (sweep, FINALS), sweep)

    def finals(self, sweep: str) -> list[Record]:
        """Read what became of a search's best configs on the holdout."""
        return self._records("records.sweep = ? AND job >= ? ORDER BY job", (sweep, FINALS), sweep)

    def singles(self) -> list[Record]:
        """Read the records of configs that were run by themselves."""
        return self._records("records.sweep IS NULL ORDER BY id", (), None)

    def of_run(self, run: str) -> list[Record]:
        """Read the records of the MLflow run of this id, or of all whose id begins so."""
        return self._records("substr(run, 1, ?) = ? ORDER BY id", (len(run), run))

    def _records(self, condition: str, values: Sequence[Any], *whole: str | None) -> list[Record]:
        """Read records of which a condition holds; ``whole`` are sweeps that must be there even if no row is."""
        with self._file.reading() as connection:
            rows = connection.execute(
                f"SELECT {seals.RECORD}, seals.seal, text, scores, counts, own, data FROM records"
                " LEFT JOIN shared ON shared.name = records.shared"
                f" LEFT JOIN seals ON seals.name = 'record ' || records.id WHERE {condition}",
                values,
            ).fetchall()
            for sweep in {*whole, *(row[1] for row in rows)}:
                self._check_list(connection, sweep)
        return [self._record(row[:11], *row[11:]) for row in rows]

    def _check_list(self, connection: sqlite3.Connection, sweep: str | None) -> None:
        """Raise InputError where the records of a sweep, or those of none, are not those that were written."""
        if wrong := seals.unlisted(connection, sweep):
            what = f"the sweep {sweep}" if sweep else "configs by themselves"
            raise damaged(self.path, f"record {wrong[0]} of {what} is lost, or was not written by ragsweep")

    def _record(self, row: Sequence[Any], seal: str, *blocks: Any) -> Record:
        number, sweep, job, status, signature, place, run, mirrored, shared, digest, _ = row
        kept = Encoded(*(status, signature, *blocks, shared))
        try:
            if seals.seal(row) == seal and kept.digest() == digest:
                return Record(number, sweep, job, run, bool(mirrored), place, decode(kept))
        except (InputError, TypeError, ValueError):  # a column holds something of another type
            pass
        raise damaged(self.path, f"record {number} (job {job}) is not what was written")

    # --- inside ------------------------------------------------------------------------------------------------

    def _sweep(self, connection: sqlite3.Connection, row: Sequence[Any]) -> Sweep:
        identifier, _, _, place, name, parent, status, jobs, names, _ = row
        if not seals.is_sealed(connection, identifier, row):
            raise damaged(self.path, f"the sweep {identifier} is not what was written")
        return Sweep(
            identifier, name, parent, tuple(map(tuple, json.loads(jobs))), tuple(json.loads(names)), place, status
        )

    def _held(self, sweep: str) -> bool:
        with self._file.reading() as connection:
            return any(claim.lives for claim in claims.taken(connection, "sweep = ? AND job <= ?", (sweep, WHOLE)))


def _note_look(connection: sqlite3.Connection, facts: DatasetFacts, by: str) -> None:
    """Note which questions the holdout has, and, where a result is of these, that they were looked at."""
    if facts.held:
        connection.execute(
            "INSERT OR IGNORE INTO holdouts VALUES (?, ?)", (facts.undivided, json.dumps(list(facts.held)))
        )
    if facts.partition == HOLDOUT:
        connection.execute("INSERT OR IGNORE INTO looks VALUES (?, ?, ?)", (facts.undivided, by, time.time()))


def _look(connection: sqlite3.Connection, sweep: str | None, job: int) -> str | None:
    """Name a look at the holdout: a sweep looks once, and a search once after so many trials."""
    if sweep is None or job < FINALS:
        return sweep
    trials = "SELECT count(*) FROM records WHERE sweep = ? AND job < ?"
    return f"{sweep} after {connection.execute(trials, (sweep, FINALS)).fetchone()[0]}"
