"""Read from the ledger beside a store which results there are."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import NamedTuple

from ragsweep.core.errors import InputError
from ragsweep.core.leases import Holder
from ragsweep.stages.storekeeping.place import Place

SINGLE = "single runs"


class Results(NamedTuple):
    """The names of the sweeps that have a result of each signature, and since when a sweep has been running."""

    names: dict[str, tuple[str, ...]]
    running: float | None


def read_results(place: Place) -> Results | None:
    """Return what the ledger knows, None where there is none; raises InputError where it cannot be read."""
    path = place.path / "ledger.db"
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=60)) as connection:
            rows = connection.execute(
                "SELECT signature, coalesce(name, ?) FROM records LEFT JOIN sweeps ON sweeps.id = records.sweep"
                " WHERE signature IS NOT NULL ORDER BY records.id",
                (SINGLE,),
            ).fetchall()
            claims = connection.execute(
                "SELECT host, process, claims.started, heartbeat, sweeps.created FROM claims"
                " JOIN sweeps ON sweeps.id = claims.sweep"
            ).fetchall()
    except sqlite3.Error as fault:
        raise InputError(f"cannot read {path}: {fault}") from None
    names: dict[str, dict[str, None]] = {}
    for signature, name in rows:
        names.setdefault(signature, {})[name] = None
    now = time.time()
    living = [began for *holder, beat, began in claims if Holder(*holder).lives(now - beat)]
    return Results({signature: tuple(found) for signature, found in names.items()}, min(living, default=None))
