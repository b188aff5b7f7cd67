"""Read the trials of a search from the database in which Optuna stores them."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy

from optuna_sweeper.storage import check_url

TRIALS = (
    "SELECT trials.number, CAST(trials.state AS VARCHAR(20)), value_json FROM trials JOIN trial_user_attributes"
    " ON trial_user_attributes.trial_id = trials.trial_id WHERE key = 'evaluation' ORDER BY trials.number"
)
LEFT = "SELECT count(*) FROM trials WHERE state IN ('RUNNING', 'WAITING')"


class StoredTrial(NamedTuple):
    """The last trial of a job."""

    number: int
    state: str
    facts: dict[str, Any]  # job, overrides, signature, attempt, owner

    @property
    def process(self) -> int | None:
        """The process that evaluates it."""
        return self.facts["owner"][1] if self.state == "RUNNING" else None


def by_job(rows: Sequence[Sequence[Any]]) -> dict[int, StoredTrial]:
    """Return the last trial of each job, from the rows of ``TRIALS``."""
    found = [StoredTrial(number, state, json.loads(text)) for number, state, text in rows]
    return {one.facts["job"]: one for one in sorted(found, key=lambda each: (each.facts["job"], each.number))}


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Query the database of a study by its URL."""
    engine = sqlalchemy.create_engine(check_url(url), poolclass=sqlalchemy.pool.NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sqlalchemy.text(statement))]


def select(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Query a SQLite file without writing to it; return [] if the file or its tables do not exist yet."""
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as connection:
        try:
            return connection.execute(statement).fetchall()
        except sqlite3.OperationalError:
            return []


def stored_trials(path: Path) -> dict[int, StoredTrial]:
    """Read the trials of a SQLite study, by job."""
    return by_job(select(path, TRIALS))


def working(path: Path) -> set[int]:
    """Return the processes that are running trials of a SQLite study."""
    return {one.process for one in stored_trials(path).values() if one.process}


def ended_jobs(path: Path) -> list[int]:
    """Return the jobs of a SQLite study that ended."""
    return [job for job, one in stored_trials(path).items() if one.state in ("COMPLETE", "FAIL", "PRUNED")]
