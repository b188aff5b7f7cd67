"""Rows of the ledger's file that say which process works on which job, for as long as it lives."""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ragsweep.core.errors import TrackingError
from ragsweep.core.leases import BEAT, Holder, myself
from ragsweep.records.ledger_file import LedgerFile


@dataclass(frozen=True)
class Claim:
    """Who works on a job, how often it was begun, and whether that process still lives."""

    job: int
    holder: Holder
    attempts: int
    lives: bool

    @property
    def mine(self) -> bool:
        """Whether it is this process's."""
        return self.holder == myself()


def take(connection: sqlite3.Connection, sweep: str, job: int) -> None:
    """Write a job down as this process's, whoever had it before."""
    me = myself()
    connection.execute(
        "INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET host = excluded.host,"
        " process = excluded.process, started = excluded.started, heartbeat = excluded.heartbeat,"
        " attempts = attempts + 1",
        (sweep, job, me.host, me.process, me.started, time.time()),
    )


def taken(connection: sqlite3.Connection, condition: str, values: Sequence[Any]) -> list[Claim]:
    """Read the claims of which a condition holds, those of dead processes included."""
    rows = connection.execute(
        f"SELECT job, host, process, started, heartbeat, attempts FROM claims WHERE {condition}", values
    ).fetchall()
    return [_claim(row) for row in rows]


def drop(connection: sqlite3.Connection, condition: str, values: Sequence[Any]) -> None:
    """Delete those claims of this process of which a condition holds."""
    me = myself()
    connection.execute(
        f"DELETE FROM claims WHERE {condition} AND host = ? AND process = ? AND started = ?",
        (*values, me.host, me.process, me.started),
    )


class Heart:
    """Keep this process's claims alive in the eyes of other machines for as long as somebody has the file."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = weakref.ref(file)  # whoever forgets the ledger closes its file
        self._beating = False

    def beat(self) -> None:
        """Begin, unless it beats already."""
        if not self._beating:
            self._beating = True
            threading.Thread(target=_beat, args=(self._file,), name="ragsweep-heartbeat", daemon=True).start()


def _beat(kept: weakref.ref[LedgerFile]) -> None:
    me = myself()
    while True:
        time.sleep(BEAT)
        file = kept()
        if file is None:
            return
        with suppress(sqlite3.Error, TrackingError), file.transaction() as connection:
            connection.execute(
                "UPDATE claims SET heartbeat = ? WHERE host = ? AND process = ? AND started = ?",
                (time.time(), me.host, me.process, me.started),
            )
        del file


def _claim(row: Sequence[Any]) -> Claim:
    holder = Holder(row[1], row[2], row[3])
    return Claim(row[0], holder, row[5], holder.lives(time.time() - row[4]))
