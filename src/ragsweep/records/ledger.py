"""The ledger: an SQLite file of results, from which tables, reports and MLflow runs are created.

The outcome of a job (a result or a failure) is written in one transaction. Reading never executes code from the file.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ragsweep.core.errors import InputError
from ragsweep.core.results import Failure, Result, Summary
from ragsweep.golden.partition import TUNE
from ragsweep.records.checksums import COLUMNS, changing, read_whole
from ragsweep.records.claims import COMMAND, CONFIG, FINALIST, UPLOAD, ClaimKey, Claims
from ragsweep.records.ledger_file import LedgerFile, damaged
from ragsweep.records.names import Names
from ragsweep.records.record_format import decode_summary, encode
from ragsweep.records.record_rows import (
    FAILED,
    FINISHED,
    KILLED,
    LARGE,
    RUNNING,
    Record,
    Sweep,
    count_views,
    read_encoded,
    read_record,
    read_sweep,
    record_view,
    results_by_job,
)

__all__ = ["FAILED", "FINISHED", "KILLED", "RUNNING", "Ledger", "Record", "Sweep", "results_by_job"]

UNDECIDED = ("retry", "racing")
"""The statuses of records whose outcome is not final."""


class Ledger:
    """The ledger in ``folder``, created if it does not exist; several processes on one machine can use it at once.

    Methods raise TrackingError if the file cannot be written, and InputError if it is damaged or cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self._file = LedgerFile(self.path)
        self.is_writable = self._file.is_writable  # if false, the file is opened read-only
        self.claims = Claims(self._file)
        self.names = Names(self._file)

    def check_writable(self) -> None:
        """Raise TrackingError if the ledger's file cannot be written."""
        with self._file.transaction():
            pass

    # --- sweeps ------------------------------------------------------------------------------------------------

    def latest(self, key: str) -> Sweep | None:
        """Return the last round of the sweep with this key (``rerun=true`` adds a round); None for an unknown key."""
        with self._file.reading() as connection:
            rounds = [row for row in read_whole(connection, "sweeps") if row["key"] == key]
        return read_sweep(max(rounds, key=lambda row: int(row["round"]))) if rounds else None

    def next_id(self, key: str) -> str:
        """Return the id that the next round of the sweep with this key will have."""
        last = self.latest(key)
        return f"{key}-{int(last.id.rpartition('-')[2]) + 1 if last else 0}"

    def open_sweep(self, key: str, sweep: Sweep) -> Sweep:
        """Write ``sweep`` as the next round of ``key``, with the status RUNNING; claim and return the written sweep."""
        with self._file.transaction() as connection:
            (rounds,) = connection.execute("SELECT count(*) FROM sweeps WHERE key = ?", (key,)).fetchone()
            identifier = f"{key}-{rounds}"
            row = (
                *(identifier, key, rounds, sweep.tracker, sweep.name, sweep.parent, RUNNING),
                *(json.dumps(sweep.jobs), json.dumps(sweep.names), time.time()),
            )
            with changing(connection, "sweeps", "id = ?", identifier):
                connection.execute(f"INSERT INTO sweeps VALUES ({', '.join('?' * len(row))})", row)
            self.claims.take(connection, ClaimKey(COMMAND, identifier))
        return self.sweep(identifier)

    def sweep(self, identifier: str) -> Sweep:
        """Return the sweep with this id. Raises InputError if it does not exist."""
        for sweep in self.sweeps():
            if sweep.id == identifier:
                return sweep
        raise damaged(self.path, f"the sweep {identifier} is missing")

    def sweeps(self) -> list[Sweep]:
        """Return all sweeps, oldest first."""
        with self._file.reading() as connection:
            return sorted(map(read_sweep, read_whole(connection, "sweeps")), key=lambda sweep: sweep.created)

    def set_status(self, sweep: str, status: str) -> None:
        """Set a sweep's status; unless the status is RUNNING, remove the claims of commands on the sweep."""
        self._update_sweep(sweep, status=status)

    def set_jobs(self, sweep: str, names: Sequence[str]) -> None:
        """Replace the names, and thus the number, of a search's jobs; a resumed search may have more jobs."""
        self._update_sweep(sweep, jobs=json.dumps([[]] * len(names)), names=json.dumps(list(names)))

    def set_parent(self, sweep: str, parent: str) -> None:
        """Set the id of the MLflow run that is the parent of a sweep's runs."""
        self._update_sweep(sweep, parent=parent)

    def _update_sweep(self, sweep: str, **values: str) -> None:
        columns = ", ".join(f"{column} = ?" for column in values)
        with self._file.transaction() as connection:
            with changing(connection, "sweeps", "id = ?", sweep):
                connection.execute(f"UPDATE sweeps SET {columns} WHERE id = ?", (*values.values(), sweep))
            if values.get("status", RUNNING) != RUNNING:
                connection.execute("DELETE FROM claims WHERE kind = ? AND sweep = ?", (COMMAND, sweep))

    def abandoned(self) -> list[Sweep]:
        """Return the sweeps with the status RUNNING on which no living process holds the claim of a command."""
        running = [sweep for sweep in self.sweeps() if sweep.status == RUNNING]
        return [sweep for sweep in running if not self.claims.is_alive(ClaimKey(COMMAND, sweep.id))]

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
        """Write the outcome of a job in one transaction, and return the id of the new record.

        An earlier record of the same job in the same sweep is replaced, but the id of its MLflow run is kept. The claim
        on the job is removed, and any use of the holdout is recorded. Raises InputError, without writing anything, if
        ``fenced`` is true and this process does not hold the claim.
        """
        encoded = encode(outcome)
        facts = outcome.run.dataset if isinstance(outcome, Result) else None
        with self._file.transaction() as connection:
            if fenced and not any(claim.is_own for claim in self.claims.find(ClaimKey(kind, sweep or "", job))):
                raise InputError(f"config #{job + 1} was taken over by another process; this result is discarded")
            job_of = "sweep = ? AND kind = ? AND job = ?"
            earlier = connection.execute(f"SELECT run FROM records WHERE {job_of}", (sweep, kind, job)).fetchone()
            (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM records").fetchone()
            connection.execute("DELETE FROM claims WHERE sweep = ? AND kind = ? AND number = ?", (sweep, kind, job))
            connection.execute("INSERT OR IGNORE INTO shared VALUES (?, ?)", (encoded.shared_digest, encoded.shared))
            row = {
                "sweep": sweep, "kind": kind, "job": job, "status": encoded.status,
                "partition": facts.partition if facts else "", "golden": facts.undivided if facts else "",
                "signature": encoded.signature, "tracker": tracker, "run": earlier and earlier["run"], "tracked": 0,
                "shared": encoded.shared_digest, "digest": encoded.digest(), "created": time.time(),
                **{name: getattr(encoded, name) for name in LARGE},
            }  # fmt: skip
            with changing(connection, "records", f"id > ? OR {job_of}", last, sweep, kind, job):
                connection.execute(f"DELETE FROM records WHERE {job_of}", (sweep, kind, job))
                cursor = connection.execute(
                    f"INSERT INTO records ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", tuple(row.values())
                )
            record = int(cursor.lastrowid or 0)
            if facts:
                record_view(connection, facts, sweep, kind, record)
            return record

    def drop_unused(self) -> None:
        """Delete golden sets' columns that no record uses any longer, such as the columns of a race's earlier rungs."""
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM shared WHERE name NOT IN (SELECT shared FROM records)")

    def holdout_views(self, golden: str) -> int:
        """Return how often the holdout questions of a golden set have been used (see ``record_rows.count_views``)."""
        with self._file.reading() as connection:
            return count_views(connection, golden)

    def tune_records(self, golden: str) -> list[Record]:
        """Return the records of finished results on the tune questions of the golden set with this digest."""
        return self._found("partition = ? AND golden = ? AND status = 'finished'", TUNE, golden)

    def summaries(self, golden: str, partition: str, metric: str) -> dict[str, dict[int, tuple[str, Summary, str]]]:
        """Return the summaries of ``metric``: sweep id -> job -> the config's name, its summary and its signature.

        Only finished configs on ``partition`` of the golden set with the digest ``golden`` are included.
        """
        found: dict[str, dict[int, tuple[str, Summary, str]]] = {}
        with self._file.reading() as connection:
            query = "SELECT DISTINCT sweep FROM records WHERE golden = ? AND partition = ? AND sweep IS NOT NULL"
            for (sweep,) in connection.execute(query, (golden, partition)).fetchall():
                for row in sorted(read_whole(connection, "records", sweep), key=lambda row: row["job"]):
                    of = (row["golden"], row["partition"], row["kind"], row["status"])
                    if of == (golden, partition, CONFIG, "finished"):
                        known = decode_summary(read_encoded(connection, row).text, metric)
                        found.setdefault(sweep, {}).update({row["job"]: (*known, row["signature"])} if known else {})
        return found

    def mark_tracked(self, record: int, run: str) -> None:
        """Set the MLflow run of a record, mark the record as tracked, and remove the claim on its upload."""
        with self._file.transaction() as connection:
            with changing(connection, "records", "id = ?", record):
                connection.execute("UPDATE records SET run = ?, tracked = 1 WHERE id = ?", (run, record))
            connection.execute("DELETE FROM claims WHERE kind = ? AND number = ?", (UPLOAD, record))

    def run(self, record: int) -> str | None:
        """Return the id of the MLflow run of a record or of an earlier attempt at its job; None if there is no run."""
        return self._run("id = ?", record)

    def job_run(self, sweep: str, job: int) -> str | None:
        """Return the MLflow run id of a sweep's config; None if the config has no run or no record."""
        return self._run("sweep = ? AND kind = ? AND job = ?", sweep, CONFIG, job)

    def _run(self, condition: str, *values: Any) -> str | None:
        with self._file.reading() as connection:
            row = connection.execute(f"SELECT run FROM records WHERE {condition}", values).fetchone()
        return row[0] if row else None

    def retry(self, sweep: str) -> None:
        """Set the status of a sweep's failed and partial records to "retry", so that their jobs are run again."""
        with self._file.transaction() as connection, changing(connection, "records", "sweep = ?", sweep):
            connection.execute(
                "UPDATE records SET status = 'retry' WHERE sweep = ? AND status IN ('failed', 'partial')", (sweep,)
            )

    def forget_runs(self, sweep: str) -> None:
        """Remove the ids of MLflow runs from all records of a sweep, because the tracker no longer has these runs."""
        with self._file.transaction() as connection, changing(connection, "records", "sweep = ?", sweep):
            connection.execute("UPDATE records SET run = NULL, tracked = 0 WHERE sweep = ?", (sweep,))

    def jobs(self, sweep: str, *statuses: str) -> set[int]:
        """Return the job numbers of a sweep's configs whose record has one of the ``statuses``."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT job, status FROM records WHERE sweep = ? AND kind = ?", (sweep, CONFIG)
            ).fetchall()
        return {job for job, status in rows if status in statuses}

    def record(self, sweep: str, job: int) -> Record:
        """Return a config's record, without verifying its sweep's checksum; raises InputError if it is missing."""
        with self._file.reading() as connection:
            row = connection.execute(
                f"SELECT {COLUMNS['records']} FROM records WHERE sweep = ? AND kind = ? AND job = ?",
                (sweep, CONFIG, job),
            ).fetchone()
            if row is None:
                raise sqlite3.DatabaseError(f"the record of config #{job + 1} of the sweep {sweep} is missing")
            return read_record(connection, row, {})

    def records(self, sweep: str) -> list[Record]:
        """Return the records of a sweep's configs whose outcome is final, in job order."""
        return self._records(sweep, lambda row: row["kind"] == CONFIG and row["status"] not in UNDECIDED)

    def finalists(self, sweep: str) -> list[Record]:
        """Return the records of a search's finalists on the holdout, in job order."""
        return self._records(sweep, lambda row: row["kind"] == FINALIST)

    def untracked(self, sweep: str) -> list[Record]:
        """Return the records of a sweep's configs and finalists that are final but not tracked, in job order."""
        return self._records(sweep, lambda row: not row["tracked"] and row["status"] not in UNDECIDED)

    def raced(self, sweep: str) -> list[Record]:
        """Return the records of a sweep's configs that are finished, still racing, or dropped from a race."""
        known = ("finished", "racing", "dropped")
        return self._records(sweep, lambda row: row["kind"] == CONFIG and row["status"] in known)

    def singles(self) -> list[Record]:
        """Return the records of single configs, evaluated outside a sweep."""
        return self._records(None, lambda row: True)

    def single(self, number: int) -> list[Record]:
        """Return, as a list, the record with the id ``number``; [] if it does not exist or has the status "retry"."""
        return self._found("id = ?", number)

    def of_run(self, run: str) -> list[Record]:
        """Return the records whose MLflow run id begins with ``run`` and whose status is not "retry", oldest first."""
        return self._found("substr(run, 1, ?) = ?", len(run), run)

    # --- reading -----------------------------------------------------------------------------------------------

    def _found(self, condition: str, *values: Any) -> list[Record]:
        """Return the records that meet ``condition`` (SQL) and whose status is not "retry", oldest first."""
        with self._file.reading() as connection:
            rows = connection.execute(f"SELECT id, sweep FROM records WHERE {condition}", values).fetchall()
            wanted = {number for number, _ in rows}
            found = [
                record
                for sweep in {sweep for _, sweep in rows}
                for record in self._records(sweep, lambda row: row["id"] in wanted and row["status"] != "retry")
            ]
        return sorted(found, key=lambda record: record.id)

    def _records(self, sweep: str | None, wanted: Callable[[sqlite3.Row], bool]) -> list[Record]:
        """Return, in job order, the records of a sweep (None: of single configs) for which ``wanted`` is true."""
        with self._file.reading() as connection:
            rows = filter(wanted, read_whole(connection, "records", sweep))
            shared: dict[str, dict[str, list[Any]]] = {}
            return [read_record(connection, row, shared) for row in sorted(rows, key=lambda row: row["job"])]
