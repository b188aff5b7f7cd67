"""Rows of the ledger: sweeps, records, and uses of holdouts."""

import json
import math
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ragsweep.core.errors import InputError
from ragsweep.core.results import DatasetFacts, Failure, Result
from ragsweep.golden.partition import HOLDOUT
from ragsweep.records.checksums import changing, read_whole
from ragsweep.records.claims import CONFIG, job_tag
from ragsweep.records.ledger_file import FOLDER
from ragsweep.records.record_format import Encoded, OtherRecordFormat, decode, decode_shared

RUNNING, FINISHED, FAILED, KILLED = "RUNNING", "FINISHED", "FAILED", "KILLED"

LARGE = ("text", "scores", "counts", "own")
"""The columns of a record that are read only when they are needed, because they are large."""


@dataclass(frozen=True)
class Sweep:
    """A sweep (one Hydra multirun) as the ledger records it."""

    id: str
    name: str
    parent: str  # the id of the MLflow run that is the parent of the jobs' runs; "" if they have none
    jobs: tuple[tuple[str, ...], ...]  # the overrides of each job; empty for every job of a search
    names: tuple[str, ...]  # the name of each job
    tracker: str = ""  # identity of the tracker
    status: str = RUNNING
    created: float = 0.0  # seconds since the epoch

    @property
    def key(self) -> str:
        """The key that all rounds of the sweep have in common; ``rerun=true`` starts a new round."""
        return self.id.rpartition("-")[0]


@dataclass(frozen=True)
class Record:
    """The outcome of a job; ``run`` is the id of the job's MLflow run, or None.

    If ``tracked`` is false, the run is incomplete or belongs to an earlier attempt at the job.
    """

    id: int
    sweep: str | None
    kind: str  # CONFIG or FINALIST
    job: int  # index of the job among the jobs of its kind, from 0
    run: str | None
    tracked: bool
    tracker: str  # identity of the tracker
    outcome: Result | Failure

    @property
    def tag(self) -> str:
        """The name of the job among the runs of its sweep, such as ``3`` or ``finalist-0``."""
        return job_tag(self.kind, self.job)


def results_by_job(records: Iterable[Record]) -> dict[int, Result]:
    """Map job numbers to results; ``records`` are of one sweep's configs, and failures are omitted."""
    return {record.job: record.outcome for record in records if isinstance(record.outcome, Result)}


def read_sweep(row: sqlite3.Row) -> Sweep:
    """Return the sweep in a row of the table ``sweeps``."""
    identifier, _, _, tracker, name, parent, status, jobs, names, created = row
    listed = tuple(map(tuple, json.loads(jobs)))
    return Sweep(identifier, name, parent, listed, tuple(json.loads(names)), tracker, status, created)


def read_record(connection: sqlite3.Connection, row: sqlite3.Row, shared: dict[str, dict[str, list[Any]]]) -> Record:
    """Return the record in a row of the table ``records``, with its outcome.

    ``shared`` is a cache, digest -> columns of a golden set, to which this function adds the columns that it reads.
    Raises sqlite3.DatabaseError if the record or the golden set's columns do not match their digest, or cannot be
    decoded, and InputError if another version of ragsweep wrote the record.
    """
    encoded, name = read_encoded(connection, row), row["shared"]
    try:
        if name not in shared:
            data = connection.execute("SELECT data FROM shared WHERE name = ?", (name,)).fetchone()
            shared[name] = decode_shared(data[0], name) if name else {}
        outcome = decode(encoded, shared[name])
    except OtherRecordFormat as fault:
        path = connection.execute("PRAGMA database_list").fetchone()["file"]
        way = f"read the file with that version, or set {FOLDER} to another folder"
        raise InputError(f"{path}: {fault}; {way}") from None
    except (InputError, TypeError, ValueError):  # a column is missing or has the wrong type
        raise sqlite3.DatabaseError(f"record {row['id']} cannot be decoded") from None
    number, sweep, kind, job, *_ = row
    return Record(number, sweep, kind, job, row["run"], bool(row["tracked"]), row["tracker"], outcome)


def read_encoded(connection: sqlite3.Connection, row: sqlite3.Row) -> Encoded:
    """Return the stored form of a record, without the golden set's columns.

    Raises sqlite3.DatabaseError if the record does not match its digest.
    """
    (found,) = connection.execute(f"SELECT {', '.join(LARGE)} FROM records WHERE id = ?", (row["id"],))
    large = {name: found[name] for name in LARGE}
    encoded = Encoded(row["status"], row["signature"], **large, shared_digest=row["shared"])
    with suppress(TypeError, ValueError):  # a column has the wrong type
        if encoded.digest() == row["digest"]:
            return encoded
    raise sqlite3.DatabaseError(f"record {row['id']} ({row['kind']} {row['job']}) does not match its digest")


def count_views(connection: sqlite3.Connection, golden: str) -> int:
    """Return the average number of times that a holdout question of a golden set has been used, rounded up.

    ``golden`` is the digest of the golden set, and `record_view` defines a use. A use of another golden set's holdout
    is counted as a fraction: the share of this set's holdout questions that are also in the other holdout. So a golden
    set keeps nearly all of its uses when a question is added to it. Return 0 if no holdout has been used.
    """
    holdouts = {row["golden"]: row["questions"] for row in read_whole(connection, "holdouts")}
    questions, total = set(json.loads(holdouts.get(golden, "[]"))), 0.0
    for viewed, *_ in read_whole(connection, "holdout_views"):
        common = questions & set(json.loads(holdouts.get(viewed, "[]")))
        total += 1.0 if viewed == golden else len(common) / max(len(questions), 1)
    return math.ceil(total - 1e-9)


def record_view(connection: sqlite3.Connection, facts: DatasetFacts, sweep: str | None, kind: str, record: int) -> None:
    """Store the holdout of a result's golden set and, if the result was measured on this holdout, one use of it.

    A sweep is one use, and so is each evaluation of a single config. The evaluation of a search's finalists is one use,
    and each repetition of this evaluation after more trials is another.
    """
    golden = facts.undivided
    if facts.held:
        with changing(connection, "holdouts", "golden = ?", golden):
            connection.execute("INSERT OR IGNORE INTO holdouts VALUES (?, ?)", (golden, json.dumps(facts.held)))
    if facts.partition == HOLDOUT:
        viewer = sweep or f"record {record}"
        if sweep is not None and kind != CONFIG:
            trials = "SELECT count(*) FROM records WHERE sweep = ? AND kind = ?"
            viewer = f"{sweep} after {connection.execute(trials, (sweep, CONFIG)).fetchone()[0]}"
        with changing(connection, "holdout_views", "golden = ? AND viewer = ?", golden, viewer):
            connection.execute("INSERT OR IGNORE INTO holdout_views VALUES (?, ?, ?)", (golden, viewer, time.time()))
