"""How often a golden set's holdout has been used: each use weakens the next conclusion from it."""

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

    A sweep or a single config counts once. A use of another golden set's holdout counts by the share of these questions
    that it contains: a set that grew by one question has nearly as many uses.
    """
    holdouts = {row["golden"]: row["questions"] for row in read_whole(connection, "holdouts")}
    questions, total = set(json.loads(holdouts.get(golden, "[]"))), 0.0
    for viewed, *_ in read_whole(connection, "holdout_views"):
        common = questions & set(json.loads(holdouts.get(viewed, "[]")))
        total += 1.0 if viewed == golden else len(common) / max(len(questions), 1)
    return math.ceil(total - 1e-9)


def record_view(connection: sqlite3.Connection, facts: DatasetFacts, sweep: str | None, kind: str, record: int) -> None:
    """Record the holdout's questions and, if the result is on the holdout, their use.

    A sweep uses them once, a search once for each number of trials after which it evaluates finalists, and a single
    config each time.
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
