"""Counts the uses of a golden set's holdout: each use weakens the next conclusion from the holdout."""

import json
import math
import sqlite3
import time

from ragsweep.core.results import DatasetFacts
from ragsweep.golden.partition import HOLDOUT
from ragsweep.records.checksums import changing, read_whole
from ragsweep.records.claims import CONFIG


def count_views(connection: sqlite3.Connection, golden: str) -> int:
    """Return the average number of uses of a golden set's holdout questions, rounded up.

    `record_view` defines one use. A use of another golden set's holdout counts as the share of this set's holdout
    questions that the other holdout contains: a set that grew by one question keeps nearly all uses.
    """
    holdouts = {row["golden"]: row["questions"] for row in read_whole(connection, "holdouts")}
    questions, total = set(json.loads(holdouts.get(golden, "[]"))), 0.0
    for viewed, *_ in read_whole(connection, "holdout_views"):
        common = questions & set(json.loads(holdouts.get(viewed, "[]")))
        total += 1.0 if viewed == golden else len(common) / max(len(questions), 1)
    return math.ceil(total - 1e-9)


def record_view(connection: sqlite3.Connection, facts: DatasetFacts, sweep: str | None, kind: str, record: int) -> None:
    """Record the holdout's questions and, if the result is on the holdout, a use of the holdout.

    A sweep counts as one use, and a single config as one each time that it is evaluated. A search counts as one use
    when it evaluates finalists, and as another whenever it does so again after further trials.
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
