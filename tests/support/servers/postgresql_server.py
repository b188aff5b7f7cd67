"""A real PostgreSQL server for tests, from the system's packages: on its own socket, removed after the tests."""

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

OPTIONS = "-c listen_addresses='' -c fsync=off -c max_connections=200"
Database = Callable[[], str]


def binaries() -> Path | None:
    """Find the folder of the server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    known = shutil.which("initdb")
    return found[-1].parent if found else Path(known).parent if known else None


def call(*command: str) -> str:
    """Call a program of the server: as the user postgres if this process is root, because the server refuses root."""
    other: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", timeout=120, **other)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def binaries_with_vectors() -> Path | None:
    """Find the programs of the package pgserver, which has the extension vector."""
    found = find_spec("pgserver")
    places = list(found.submodule_search_locations or ()) if found else []
    return Path(places[0]) / "pginstall" / "bin" if places else None


@contextmanager
def serving(programs: Path) -> Iterator[Database]:
    """Run a server on its own socket; yield a function that creates an empty database and returns its URL."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # not in pytest's folder, which the user postgres cannot read
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    data = str(folder / "data")
    call(str(programs / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
    control = str(programs / "pg_ctl")
    call(control, "-D", data, "-w", "-l", str(folder / "log"), "-o", f"{OPTIONS} -k {folder}", "start")

    def make() -> str:
        name = f"study_{uuid.uuid4().hex[:12]}"
        call(str(programs / "psql"), "-h", str(folder), "-U", "postgres", "-qc", f"CREATE DATABASE {name}")
        return f"postgresql://postgres@/{name}?host={folder}"

    try:
        yield make
    finally:
        call(control, "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    """Yield a function that creates an empty database on a server and returns its URL."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed (apt-get install postgresql)")
    if find_spec("psycopg") is None:
        pytest.skip("no driver for PostgreSQL is installed (pip install 'ragsweep[postgresql]')")
    with serving(programs) as made:
        yield made


@pytest.fixture(scope="session")
def vector_database() -> Iterator[Database]:
    """Yield a function as `database` does, of a server that has the extension vector."""
    programs = binaries_with_vectors()
    if programs is None:
        pytest.skip("no PostgreSQL server with pgvector is installed (pip install pgserver)")
    with serving(programs) as made:
        yield made
