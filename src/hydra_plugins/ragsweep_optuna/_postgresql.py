"""Reach a PostgreSQL server: with the driver that is there, and with one sentence where that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from hydra.errors import HydraException

WHERE = "hydra.sweeper.storage"
SECONDS = 10
"""Seconds after which a server that does not answer counts as out of reach."""

_SCHEME = "postgresql"
_DRIVERS = {"psycopg": f"{_SCHEME}+psycopg", "psycopg2": f"{_SCHEME}+psycopg2"}


def is_postgresql(url: object) -> bool:
    """Say whether a storage is in a PostgreSQL database."""
    return str(url).partition("://")[0].partition("+")[0] == _SCHEME


def driven(url: str) -> str:
    """Name the driver in a URL that leaves it open. Raises HydraException where none is installed."""
    scheme, _, rest = url.partition("://")
    if scheme != _SCHEME:
        return url
    for module, named in _DRIVERS.items():
        if find_spec(module):
            return f"{named}://{rest}"
    raise HydraException(
        f"{WHERE}: PostgreSQL needs a driver, and none is installed; pip install 'ragsweep[postgresql]'"
    )


def reach(url: object) -> None:
    """Connect once to a storage that is on a server. Raises HydraException, without the password, where that fails."""
    if is_postgresql(url):
        with reaching(str(url)), engine(str(url)).connect():
            pass


def engine(url: str) -> Any:
    """Make an engine that keeps no connection."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    return create_engine(driven(url), poolclass=NullPool, connect_args={"connect_timeout": SECONDS})


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Say in one sentence, without the password, that a server cannot be reached, or does not let us in."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError

    try:
        yield
    except OperationalError as fault:
        known = make_url(url)
        said = " ".join(str(fault.orig).split("\n")[0].split())
        raise HydraException(f"{WHERE}: cannot use {known}: {_without(said, known.password)}") from None
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as fault:
        raise HydraException(f"{WHERE}: no such database can be opened: {type(fault).__name__}") from None


def _without(said: str, password: Any) -> str:
    return said.replace(str(password), "***") if password else said
