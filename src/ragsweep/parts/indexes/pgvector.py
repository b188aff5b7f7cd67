"""Search tables of a PostgreSQL database with the pgvector extension."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar
from urllib.parse import unquote

from ragsweep.core.errors import ConfigError
from ragsweep.core.secrets import mask_text
from ragsweep.core.types import Floats, PartTraits
from ragsweep.parts.indexes.external import ExternalIndex, name_by_content
from ragsweep.parts.indexes.vectors import blocks
from ragsweep.parts.limits import check_at_least
from ragsweep.services.errors import CallFailed, quote

LONGEST = 2000
"""Maximum number of values in a vector that pgvector can index."""

LONGEST_NAME = 63
"""Maximum number of characters in the name of a table or an index."""

EXTENSION = 7_233_100
"""Key of the advisory lock for creating the extension; without a lock, concurrent attempts would fail."""


@dataclass(eq=False)
class PgVector(ExternalIndex):
    """A graph (HNSW) in a PostgreSQL database; the candidates it finds are scored by the original vectors.

    A table is created, filled and indexed in one transaction and under an advisory lock: a killed process leaves no
    table, and concurrent processes wait. If the database lacks the ``vector`` extension, the extension is created; the
    database user needs permission to do so.

    pgvector draws the layers of its graph without a seed and builds with several processes; the search of a rebuilt
    table may therefore miss different neighbours. Vectors may have at most 2,000 values. A ranking has at most
    ``ef_search`` vectors; the rest is padding.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(
        version="1",
        operational=frozenset({"url", "url_env", "table", "build_memory", "build_workers", "timeout"}),
        search_only=frozenset({"ef_search"}),
        requires=("pgvector", "psycopg", "psycopg-binary"),
    )

    url: str | None = "postgresql://localhost/ragsweep"
    url_env: str | None = None
    table: str = "ragsweep"
    m: int = 16
    ef_construction: int = 128
    ef_search: int = 128
    build_memory: str | None = None
    build_workers: int | None = None
    timeout: int = 60

    def __post_init__(self) -> None:
        check_at_least("index", 2, m=self.m)
        check_at_least("index", 1, ef_search=self.ef_search, timeout=self.timeout)
        check_at_least("index", 2 * self.m, ef_construction=self.ef_construction)
        check_at_least("index", 0, build_workers=self.build_workers)
        for key, most in {"m": 100, "ef_construction": 1000, "ef_search": 1000}.items():
            if getattr(self, key) > most:
                raise ConfigError(f"index.{key} is {getattr(self, key)}; pgvector accepts at most {most}")

    def check(self) -> None:
        """Raise ConfigError for invalid values, a secret in the config, or a missing library. No connection is made."""
        if (self.url is None) == (self.url_env is None):
            given = "null; set one of them" if self.url is None else "set; make one of them null"
            raise ConfigError(f"index.url and index.url_env are both {given}")
        # Values are not quoted: they may contain the password.
        if self.url is not None and (not _is_url(self.url) or _secrets(self.url)):
            raise ConfigError(
                "index.url must begin with postgresql:// and contain no password; put the password in ~/.pgpass, or the"
                " whole URL in the environment variable named by index.url_env"
            )
        if self.url_env is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", self.url_env):
            raise ConfigError("index.url_env must be the NAME of an environment variable, in capitals, not the URL")
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,29}", self.table):
            raise ConfigError(
                f"index.table must be 1 to 30 characters (a-z, 0-9, _) and not begin with a digit, got {self.table!r}"
            )
        if self.build_memory is not None and not re.fullmatch(r"\d+(kB|MB|GB)", self.build_memory):
            raise ConfigError(
                f"index.build_memory must be a size such as 512MB or 4GB, or null, got {self.build_memory!r}"
            )
        if any(importlib.util.find_spec(name) is None for name in ("pgvector", "psycopg")):
            raise ConfigError("pgvector or psycopg is not installed; pip install 'ragsweep[pgvector]'")

    def check_key(self) -> None:
        """Raise ConfigError if ``url_env`` is set and the environment variable that it names contains no URL."""
        self._address()

    def _address(self) -> str:
        if self.url_env is None:
            return self.url or ""
        address = os.environ.get(self.url_env, "").strip()
        if not _is_url(address):
            raise ConfigError(
                f"retriever.index: the environment variable {self.url_env}, named by url_env, must contain"
                " the database's URL, which begins with postgresql://; set the variable"
            )
        return address

    def _name(self, vectors: Floats) -> str:
        if vectors.shape[1:] and vectors.shape[1] > LONGEST:
            raise ConfigError(
                f"retriever.index: pgvector indexes vectors of at most {LONGEST} values, got {vectors.shape[1]};"
                " choose an embedder with shorter vectors, or another index"
            )
        facts = [self.TRAITS.version, vectors.shape, self.m, self.ef_construction]
        return name_by_content(self.table, facts, vectors, separator="_")

    def _fill(self, name: str, vectors: Floats) -> None:
        session = self._session
        run = session.run
        with session.alive().transaction():
            run("SELECT set_config('statement_timeout', '0', true)")
            run("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", name)  # wait for processes that fill the table
            if run("SELECT to_regclass(%s)", name) == [(None,)]:
                run(f"CREATE TABLE {name} (position integer NOT NULL, vector vector({vectors.shape[1]}) NOT NULL)")
                session.copy(name, vectors)
                for setting, value in (
                    ("maintenance_work_mem", self.build_memory),
                    ("max_parallel_maintenance_workers", self.build_workers),
                ):
                    if value is not None:
                        run("SELECT set_config(%s, %s, true)", setting, str(value))
                links = f"m = {self.m}, ef_construction = {self.ef_construction}"
                run(f"CREATE INDEX {_index_of(name)} ON {name} USING hnsw (vector vector_ip_ops) WITH ({links})")
            ((count,),) = run(f"SELECT count(*) FROM {name}")
            indexed = run("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", _index_of(name))
        if count != len(vectors) or indexed != [(True,)]:
            lacks = "" if indexed == [(True,)] else " and no valid index"
            fact = f"the table {name} contains {count} of {len(vectors)} vectors{lacks}"
            raise CallFailed(f"{fact}; run DROP TABLE {name}")

    def _near(self, name: str, queries: Floats, number: int) -> list[Sequence[int]]:
        self._session.set_effort(self.ef_search)
        statement = f"SELECT position FROM {name} ORDER BY vector <#> %s LIMIT {min(number, self.ef_search)}"
        return [[position for (position,) in self._session.run(statement, query)] for query in queries]

    @property
    def _session(self) -> _Session:
        return _session(self._address(), self.timeout)

    @contextmanager
    def _readable_faults(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as fault:
            fact = quote(mask_text(str(fault), *_secrets(self._address())))
            way = "correct the fault on the server, or choose another index"
            if not fault.sqlstate:
                way = "start the server, or correct the index's url (or url_env) and password"
            elif isinstance(fault, psycopg.errors.QueryCanceled):
                way = "raise the index's timeout if it was exceeded, or repeat the run"
            raise CallFailed(f"PostgreSQL failed: {fact}; {way}") from None


class _Session:
    """A database connection that is opened on first use and reopened if it was lost."""

    def __init__(self, address: str, timeout: int) -> None:
        self._address, self._timeout = address, timeout
        self._effort = 0

    @cached_property
    def _connection(self) -> Any:
        import psycopg
        from pgvector.psycopg import register_vector

        # By default, PostgreSQL would scan a small table instead of searching its index.
        options = f"-c enable_seqscan=off -c statement_timeout={1000 * self._timeout}"
        connection = psycopg.connect(self._address, autocommit=True, connect_timeout=self._timeout, options=options)
        try:
            if not connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchall():
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (EXTENSION,))
                    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            register_vector(connection)
        except psycopg.Error:
            connection.close()
            raise
        self._effort = 0
        return connection

    def close(self) -> None:
        """Close the connection, if it was opened."""
        if "_connection" in self.__dict__:
            self._connection.close()

    def run(self, statement: Any, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement with values for its placeholders; return its rows, or [] if there are none."""
        cursor = self.alive().execute(statement, values or None, binary=True)
        return list(cursor.fetchall()) if cursor.description else []

    def set_effort(self, effort: int) -> None:
        """Set the search effort of the connection (``hnsw.ef_search``), unless it already has this value."""
        self.alive()
        if effort != self._effort:
            self.run("SELECT set_config('hnsw.ef_search', %s, false)", str(effort))
            self._effort = effort

    def copy(self, table: str, vectors: Floats) -> None:
        """Copy the vectors and their positions to a table."""
        statement = f"COPY {table} (position, vector) FROM STDIN WITH (FORMAT BINARY)"
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(["int4", "vector"])
            for part, block in blocks(vectors):
                for position, vector in enumerate(block, part.start):
                    copy.write_row((position, vector))

    def alive(self) -> Any:
        """Return the connection; open it at the first call, and reopen it if it was lost."""
        if self._connection.closed:
            del self._connection
        return self._connection


@cache
def _session(address: str, timeout: int) -> _Session:
    """Return this process's session for an address and a timeout.

    All configs of a process share the session, because servers limit the number of connections.
    """
    session = _Session(address, timeout)
    atexit.register(session.close)
    return session


def _index_of(table: str) -> str:
    """Return the name of a table's index.

    PostgreSQL cuts names after LONGEST_NAME characters. A suffix added to a name of this length would be lost, and the
    index would have the same name as the table.
    """
    return f"{table}_hnsw" if len(table) < LONGEST_NAME else f"{table[:-5]}_hnsw"


def _is_url(text: str) -> bool:
    return re.match(r"postgres(ql)?://", text) is not None


def _secrets(url: str) -> set[str]:
    """Return the passwords in a URL (before the host, and in the parameters), both as written and decoded.

    The pieces of a password between unescaped ``/``, ``@``, ``?``, ``#`` or ``:`` are included: libraries may parse a
    piece as a port or a host and quote it in a message.
    """
    _, _, inside = url.partition("://")[2].rpartition("@")[0].partition(":")
    found = [inside, *re.split(r"[/@?#:]", inside), *re.findall(r"[?&]password=([^&]*)", url)]
    return {form for text in found if text for form in (text, unquote(text))}
