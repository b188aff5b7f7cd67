"""Refuse a database that a later version made, with what is needed to read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hydra.errors import HydraException

FORMAT = 1
"""Of the tables that this plugin keeps beside Optuna's."""

_WHERE = "hydra.sweeper.storage"


@contextmanager
def known_to_optuna(address: str) -> Iterator[None]:
    """Say in one sentence that a database was made by an Optuna that this one does not know."""
    try:
        yield
    except RuntimeError as fault:
        raise HydraException(f"{_WHERE}={address.rpartition('@')[2]}: {' '.join(str(fault).split())}") from None


def check_format(connection: Any) -> None:
    """Note which format the tables have, once; raises HydraException for a later one than this."""
    from sqlalchemy import text

    connection.execute(text("CREATE TABLE IF NOT EXISTS sweep_format (version INTEGER NOT NULL)"))
    found = connection.execute(text("SELECT max(version) FROM sweep_format")).scalar()
    if found is None:
        connection.execute(text("INSERT INTO sweep_format VALUES (:version)"), {"version": FORMAT})
    elif found > FORMAT:
        raise HydraException(
            f"{_WHERE}: the study was made by a later version of the sweeper (format {found}, this one reads {FORMAT});"
            " use that version, or another storage"
        )
