"""The ledger: one SQLite file of what was measured, from which tables, reports and MLflow runs are made.

One transaction a config. Nothing that is read can run code.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragsweep.core.errors import InputError
from ragsweep.core.results import DatasetFacts, Failure, Result, Summary
from ragsweep.golden.partition import HOLDOUT, TUNE
from ragsweep.records import seals
from ragsweep.records.claims import COMMAND, CONFIG, FINALIST, UPLOAD, Claims, find_claims, job_tag
from ragsweep.records.ledger_file import LedgerFile, damaged
from ragsweep.records.names import Names
from ragsweep.records.record_format import Encoded, decode, decode_shared, decode_summary, encode

RUNNING, FINISHED, FAILED, KILLED = "RUNNING", "FINISHED", "FAILED", "KILLED"

DECIDED = "status NOT IN ('retry', 'racing')"
"""Condition of the records that are outcomes, not states on the way to one."""


@dataclass(frozen=True)
class Sweep:
    """A multirun: its jobs' overrides in order, the name of each among its siblings, and its parent run."""

    id: str
    name: str
    parent: str  # the MLflow run; empty without tracking
    jobs: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    tracker: str = ""  # identity of the tracker
    status: str = RUNNING
    created: float = 0.0  # seconds since the epoch

    @property
    def key(self) -> str:
        """The key that the sweep shares with its earlier rounds."""
        return self.id.rpartition("-")[0]


@dataclass(frozen=True)
class Record:
    """The outcome of one job, and its MLflow run: incomplete or an earlier attempt's where not ``tracked``."""

    id: int
    sweep: str | None
    kind: str  # CONFIG or FINALIST
    job: int  # its number among the jobs of its kind
    run: str | None
    tracked: bool
    tracker: str  # identity of the tracker
    outcome: Result | Failure

    @property
    def tag(self) -> str:
        """The text that names the job among the runs of its sweep."""
        return job_tag(self.kind, self.job)


class Ledger:
    """Open (or make) the ledger in a folder; safe for many processes of one machine."""

    def __init__(self, folder: Path) -> None:
        self._file = LedgerFile(folder / "ledger.db")
        self.claims = Claims(self._file)
        self.names = Names(self._file)

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
        """Record a sweep before its first job starts, as the next round of its key, and claim it."""
        with self._file.transaction() as connection:
            (rounds,) = connection.execute("SELECT count(*) FROM sweeps WHERE key = ?", (key,)).fetchone()
            identifier = f"{key}-{rounds}"
            connection.execute(
                "INSERT INTO sweeps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    identifier, key, rounds, sweep.tracker, sweep.name, sweep.parent, RUNNING, json.dumps(sweep.jobs),
                    json.dumps(sweep.names), time.time(),
                ),
            )  # fmt: skip
            seals.seal_sweep(connection, identifier)
            self.claims.take(connection, COMMAND, identifier, 0)
        return self.sweep(identifier)

    def sweep(self, identifier: str) -> Sweep:
        """Read a sweep."""
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
                raise damaged(self.path, f"it has {len(rows)} sweeps, and {sealed} were written")
            return [self._sweep(connection, row) for row in rows]

    def set_status(self, sweep: str, status: str) -> None:
        """Set the status of a sweep; one that is not RUNNING has no commands at it."""
        self._update_sweep(sweep, status=status)

    def set_jobs(self, sweep: str, names: Sequence[str]) -> None:
        """Set the jobs of a search, which may be continued with more than it was begun with."""
        self._update_sweep(sweep, jobs=json.dumps([[]] * len(names)), names=json.dumps(list(names)))

    def set_parent(self, sweep: str, parent: str) -> None:
        """Set a sweep's parent run."""
        self._update_sweep(sweep, parent=parent)

    def _update_sweep(self, sweep: str, **values: str) -> None:
        """Set columns of a sweep."""
        columns = ", ".join(f"{column} = ?" for column in values)
        with self._file.transaction() as connection:
            connection.execute(f"UPDATE sweeps SET {columns} WHERE id = ?", (*values.values(), sweep))
            seals.seal_sweep(connection, sweep)
            if values.get("status", RUNNING) != RUNNING:
                connection.execute("DELETE FROM claims WHERE kind = ? AND sweep = ?", (COMMAND, sweep))

    def abandoned(self) -> list[Sweep]:
        """List the sweeps with status RUNNING whose commands' processes are dead."""
        return [sweep for sweep in self.sweeps() if sweep.status == RUNNING and self.claims.is_abandoned(sweep.id)]

    # --- records -----------------------------------------------------------------------------------------------

    def write(
        self,
        sweep: str | None,
        job: int,
        outcome: Result | Failure,
        tracker: str = "",
        kind: str = CONFIG,
        fenced: bool = False,
    ) -> int:
        """Write the outcome of a job, all of it or nothing, and return the record's number.

        A repeated job replaces its record and keeps its run. Rankings are left to store and tracker. ``fenced``: raise
        InputError where this process has lost the job to another one.
        """
        encoded = encode(outcome)
        facts = outcome.dataset if isinstance(outcome, Result) else None
        with self._file.transaction() as connection:
            if fenced and not any(claim.is_own for claim in find_claims(connection, kind, sweep or "", job)):
                raise InputError(f"job {job} was taken over by another process; this result comes too late")
            row = connection.execute(
                "SELECT run, id FROM records WHERE sweep = ? AND kind = ? AND job = ?", (sweep, kind, job)
            ).fetchone()
            run, replaced = row or (None, None)
            if replaced is not None:
                connection.execute("DELETE FROM records WHERE id = ?", (replaced,))
                seals.forget_record(connection, replaced)
            connection.execute("DELETE FROM claims WHERE sweep = ? AND kind = ? AND number = ?", (sweep, kind, job))
            connection.execute("INSERT OR IGNORE INTO shared VALUES (?, ?)", (encoded.shared_digest, encoded.shared))
            cursor = connection.execute(
                "INSERT INTO records (sweep, kind, job, status, partition, golden, signature, tracker, run, tracked,"
                " text, scores, counts, own, shared, digest, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)",
                (
                    sweep, kind, job, encoded.status, facts.partition if facts else "",
                    facts.undivided if facts else "", encoded.signature, tracker, run, encoded.text,
                    encoded.scores, encoded.counts, encoded.own, encoded.shared_digest, encoded.digest(), time.time(),
                ),
            )  # fmt: skip
            record = int(cursor.lastrowid or 0)
            seals.seal_records(connection, "id = ?", (record,))
            if facts:
                _record_view(connection, facts, sweep, kind, record)
            return record

    def drop_unused(self) -> None:
        """Delete the shared columns that no record uses any more: each rung of a race has other questions."""
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM shared WHERE name NOT IN (SELECT shared FROM records)")

    def holdout_views(self, golden: str) -> int:
        """Count how often each question of a golden set's holdout was used, on average and rounded up.

        A sweep counts once, and so does a single config. A use of another golden set's holdout counts by the share of
        these questions in it: a set that grew by a question has been used nearly as often.
        """
        with self._file.reading() as connection:
            views = connection.execute("SELECT golden, count(*) FROM holdout_views GROUP BY golden").fetchall()
            holdouts = dict(connection.execute("SELECT golden, questions FROM holdouts").fetchall())
        questions, total = set(json.loads(holdouts.get(golden, "[]"))), 0.0
        for viewed, count in views:
            common = questions & set(json.loads(holdouts.get(viewed, "[]")))
            total += count * (1.0 if viewed == golden else len(common) / max(len(questions), 1))
        return math.ceil(total - 1e-9)

    def tune_records(self, golden: str) -> list[Record]:
        """Read what was measured on the tune questions of the golden set with this digest."""
        return self._records("partition = ? AND golden = ? AND status = 'finished' ORDER BY id", (TUNE, golden))

    def summaries(self, golden: str, partition: str, metric: str) -> dict[str, dict[int, tuple[str, Summary]]]:
        """Read what all sweeps measured of a metric on these questions: sweep -> job -> name of the config, summary."""
        found: dict[str, dict[int, tuple[str, Summary]]] = {}
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT sweep, job, text FROM records WHERE golden = ? AND partition = ? AND kind = ?"
                " AND status = 'finished' AND sweep IS NOT NULL ORDER BY job",
                (golden, partition, CONFIG),
            ).fetchall()
        for sweep, job, text in rows:
            if (known := decode_summary(text, metric)) is not None:
                found.setdefault(sweep, {})[job] = known
        return found

    def mark_tracked(self, record: int, run: str) -> None:
        """Set the MLflow run that shows a record."""
        with self._file.transaction() as connection:
            connection.execute("UPDATE records SET run = ?, tracked = 1 WHERE id = ?", (run, record))
            seals.seal_records(connection, "id = ?", (record,))
            connection.execute("DELETE FROM claims WHERE kind = ? AND number = ?", (UPLOAD, record))

    def run(self, record: int) -> str | None:
        """Return the MLflow run that an earlier attempt at a record's job left."""
        with self._file.reading() as connection:
            row = connection.execute("SELECT run FROM records WHERE id = ?", (record,)).fetchone()
        return row[0] if row else None

    def job_run(self, sweep: str, job: int) -> str | None:
        """Return the MLflow run of a config of a sweep."""
        with self._file.reading() as connection:
            row = connection.execute(
                "SELECT run FROM records WHERE sweep = ? AND kind = ? AND job = ?", (sweep, CONFIG, job)
            ).fetchone()
        return row[0] if row else None

    def retry(self, sweep: str) -> None:
        """Open the jobs of a sweep again that failed, or of which too few questions could be scored."""
        with self._file.transaction() as connection:
            connection.execute(
                "UPDATE records SET status = 'retry' WHERE sweep = ? AND status IN ('failed', 'partial')", (sweep,)
            )
            seals.seal_records(connection, "sweep = ? AND status = 'retry'", (sweep,))

    def forget_runs(self, sweep: str) -> None:
        """Forget the runs of a sweep's records, which the tracker has lost."""
        with self._file.transaction() as connection:
            connection.execute("UPDATE records SET run = NULL, tracked = 0 WHERE sweep = ?", (sweep,))
            seals.seal_records(connection, "sweep = ?", (sweep,))

    def jobs(self, sweep: str, *statuses: str) -> set[int]:
        """Return the numbers of a sweep's configs whose record has one of these statuses."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT job, status FROM records WHERE sweep = ? AND kind = ?", (sweep, CONFIG)
            ).fetchall()
        return {job for job, status in rows if status in statuses}

    def record(self, sweep: str, job: int) -> Record:
        """Read the record of a config of a sweep."""
        return self._records("records.sweep = ? AND kind = ? AND job = ?", (sweep, CONFIG, job), sweep)[0]

    def records(self, sweep: str) -> list[Record]:
        """Read the outcomes of a sweep's configs so far, in the order of the jobs."""
        condition = f"records.sweep = ? AND kind = ? AND {DECIDED} ORDER BY job"
        return self._records(condition, (sweep, CONFIG), sweep)

    def finalists(self, sweep: str) -> list[Record]:
        """Read the outcomes of a search's best configs on the holdout."""
        return self._records("records.sweep = ? AND kind = ? ORDER BY job", (sweep, FINALIST), sweep)

    def untracked(self, sweep: str) -> list[Record]:
        """Read the outcomes of a sweep, finalists included, that the tracker does not have."""
        return self._records(f"records.sweep = ? AND tracked = 0 AND {DECIDED}", (sweep,), sweep)

    def raced(self, sweep: str) -> list[Record]:
        """Read what is measured of a sweep's configs so far, those that are still in a race included."""
        condition = "records.sweep = ? AND kind = ? AND status IN ('finished', 'racing', 'dropped') ORDER BY job"
        return self._records(condition, (sweep, CONFIG), sweep)

    def singles(self) -> list[Record]:
        """Read the outcomes of configs that belong to no sweep."""
        return self._records("records.sweep IS NULL ORDER BY id", (), None)

    def single(self, number: int) -> list[Record]:
        """Read the record of this number."""
        return self._records("records.id = ?", (number,))

    def of_run(self, run: str) -> list[Record]:
        """Read the records of the MLflow run of this id, or of all whose id begins so."""
        return self._records("substr(run, 1, ?) = ? ORDER BY id", (len(run), run))

    # --- reading -----------------------------------------------------------------------------------------------

    def _records(self, condition: str, values: Sequence[Any], *whole: str | None) -> list[Record]:
        """Read records of which a condition holds; ``whole`` are sweeps that are checked even where no row is found."""
        with self._file.reading() as connection:
            rows = connection.execute(
                f"SELECT {seals.RECORD}, seals.seal, text, scores, counts, own FROM records"
                f" LEFT JOIN seals ON seals.name = 'record ' || records.id WHERE {condition}",
                values,
            ).fetchall()
            for sweep in {*whole, *(row[1] for row in rows)}:
                if wrong := seals.unlisted(connection, sweep):
                    what = f"the sweep {sweep}" if sweep else "single configs"
                    raise damaged(self.path, f"record {wrong[0]} of {what} is lost, or was not written by ragsweep")
            shared = {name: self._shared(connection, name) for name in {row[11] for row in rows}}
        return [self._record(row[:14], row[14], row[15:], shared[row[11]]) for row in rows]

    def _shared(self, connection: sqlite3.Connection, digest: str) -> dict[str, list[Any]]:
        if not digest:
            return {}
        row = connection.execute("SELECT data FROM shared WHERE name = ?", (digest,)).fetchone()
        try:
            return decode_shared(bytes(row[0]), digest)
        except (InputError, TypeError, ValueError):  # it is gone, or of another type
            raise damaged(self.path, f"the golden set's columns {digest:.12} are not what was written") from None

    def _record(self, row: Sequence[Any], seal: str, blocks: Sequence[Any], shared: dict[str, list[Any]]) -> Record:
        number, sweep, kind, job, status, _, _, signature, tracker, run, tracked, name, digest, _ = row
        encoded = Encoded(*(status, signature, *blocks, b"", name))
        try:
            if seals.seal(row) == seal and encoded.digest() == digest:
                return Record(number, sweep, kind, job, run, bool(tracked), tracker, decode(encoded, shared))
        except (InputError, TypeError, ValueError):  # a column holds something of another type
            pass
        raise damaged(self.path, f"record {number} ({kind} {job}) is not what was written")

    def _sweep(self, connection: sqlite3.Connection, row: Sequence[Any]) -> Sweep:
        identifier, _, _, tracker, name, parent, status, jobs, names, created = row
        if not seals.is_sealed(connection, identifier, row):
            raise damaged(self.path, f"the sweep {identifier} is not what was written")
        return Sweep(
            identifier, name, parent, tuple(map(tuple, json.loads(jobs))), tuple(json.loads(names)), tracker, status,
            created,
        )  # fmt: skip


def _record_view(
    connection: sqlite3.Connection, facts: DatasetFacts, sweep: str | None, kind: str, record: int
) -> None:
    """Record the holdout's questions, and, where a result is of these, that they were used.

    A sweep uses them once, a search once after so many trials, and a single config each time.
    """
    golden = facts.undivided
    if facts.held:
        connection.execute("INSERT OR IGNORE INTO holdouts VALUES (?, ?)", (golden, json.dumps(facts.held)))
    if facts.partition == HOLDOUT:
        viewer = sweep or f"record {record}"
        if sweep is not None and kind != CONFIG:
            trials = "SELECT count(*) FROM records WHERE sweep = ? AND kind = ?"
            viewer = f"{sweep} after {connection.execute(trials, (sweep, CONFIG)).fetchone()[0]}"
        connection.execute("INSERT OR IGNORE INTO holdout_views VALUES (?, ?, ?)", (golden, viewer, time.time()))
