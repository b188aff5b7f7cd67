"""pgvector on a real PostgreSQL server: what it finds, tables that are whole or not there, and secrets."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psycopg
import pytest

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Arrays, Floats
from ragsweep.parts.indexes import PgVector, pgvector
from ragsweep.services.errors import CallFailed, EndpointFailed
from ragsweep.testing.contract import assert_equal
from ragsweep.testing.indexes import VectorIndexContract
from support.parts import drawn, exact
from support.servers.postgresql_server import Database, vector_database

__all__ = ["vector_database"]


@pytest.fixture(scope="module")
def shared(vector_database: Database) -> str:
    return vector_database()


@pytest.fixture
def url(vector_database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    closing: list[Any] = []
    monkeypatch.setattr(pgvector.atexit, "register", closing.append)
    yield vector_database()
    pgvector._session.cache_clear()
    for close in closing:
        close()


class TestPgVector(VectorIndexContract):
    exact = False

    @pytest.fixture(autouse=True)
    def place(self, shared: str) -> None:
        self.url = shared

    def part(self) -> PgVector:
        return PgVector(self.url)


VECTORS, QUERIES = drawn(70), drawn(5, seed=1)


def asked(url: str, statement: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def names(url: str) -> set[str]:
    return {name for (name,) in asked(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


def name_of(index: Arrays) -> str:
    return index["table"].tobytes().decode()


def test_enough_effort_finds_and_scores_what_the_exact_index_does(shared: str) -> None:
    vectors = drawn(800)
    part = PgVector(shared, ef_search=1000)
    index = part.build(vectors)
    found = part.search(index, vectors, QUERIES, 10)
    np.testing.assert_array_equal(found.positions, exact(vectors, QUERIES).positions)
    np.testing.assert_array_equal(found.scores, exact(vectors, QUERIES).scores)


def test_it_is_the_graph_that_is_searched(shared: str) -> None:
    name = name_of(PgVector(shared).build(VECTORS))
    session = PgVector(shared)._session
    plan = session.run(f"EXPLAIN SELECT position FROM {name} ORDER BY vector <#> %s LIMIT 10", QUERIES[0])
    assert f"Index Scan using {name}_hnsw" in str(plan)


def test_ef_search_limits_the_length_of_a_ranking_whatever_was_searched_before(shared: str) -> None:
    index = PgVector(shared).build(VECTORS)
    for effort, depth, length in ((30, 10, 10), (30, 50, 30), (60, 50, 50), (30, 50, 30)):
        found = PgVector(shared, ef_search=effort).search(index, VECTORS, QUERIES[:1], depth)
        assert (found.positions >= 0).sum() == length


def test_other_vectors_and_other_parameters_have_tables_of_their_own(url: str) -> None:
    moved = VECTORS.copy()
    moved[69, 7] += 1e-6
    for vectors, given in (
        (VECTORS, {}), (VECTORS, {"ef_search": 9}), (moved, {}), (VECTORS[:69], {}), (VECTORS.reshape(140, 4), {}),
        (VECTORS, {"m": 8}), (VECTORS, {"ef_construction": 40}), (VECTORS, {"table": "other"}),
        (VECTORS, {"build_memory": "20MB", "build_workers": 0}),
    ):  # fmt: skip
        PgVector(url, **given).build(vectors)
    assert len(names(url)) == 7
    assert {name.partition("_")[0] for name in names(url)} == {"ragsweep", "other"}


@pytest.mark.parametrize("length", [25, 26, 29, 30])
def test_longest_names_of_tables_have_an_index_too(length: int, shared: str) -> None:
    part = PgVector(shared, table="t" * length)
    part.check()
    index = part.build(VECTORS)
    np.testing.assert_array_equal(part.build(VECTORS)["table"], index["table"])
    assert (part.search(index, VECTORS, QUERIES, 10).positions >= 0).all()


def test_complete_table_is_used_as_it_is(url: str) -> None:
    index = PgVector(url).build(VECTORS)
    made = asked(url, f"SELECT '{name_of(index)}'::regclass::oid")
    again = PgVector(url)
    assert name_of(again.build(VECTORS)) == name_of(index)
    assert_equal(again.search(index, VECTORS, QUERIES, 10), exact(VECTORS, QUERIES))
    assert asked(url, f"SELECT '{name_of(index)}'::regclass::oid") == made


def test_connection_that_breaks_while_a_table_is_filled_leaves_none(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = pgvector._Session.copy

    def broken(session: Any, table: str, vectors: Floats) -> None:
        copy(session, table, vectors)
        ((process,),) = session.run("SELECT pg_backend_pid()")
        asked(url, f"SELECT pg_terminate_backend({process})")

    with monkeypatch.context() as during:
        during.setattr(pgvector._Session, "copy", broken)
        with pytest.raises(CallFailed, match=r"^PostgreSQL failed: .*terminat"):
            PgVector(url).build(VECTORS)
    assert names(url) == set()
    part = PgVector(url)
    assert_equal(part.search(part.build(VECTORS), VECTORS, QUERIES, 10), exact(VECTORS, QUERIES))


def test_of_two_that_fill_a_table_at_once_one_waits(url: str) -> None:
    vectors = drawn(600)
    parts = [PgVector(url, timeout=timeout) for timeout in (10, 20, 30)]  # with a connection each
    with ThreadPoolExecutor() as pool:
        indexes = list(pool.map(lambda part: part.build(vectors), parts))
    assert names(url) == {name_of(index) for index in indexes}
    assert asked(url, f"SELECT count(*) FROM {name_of(indexes[0])}") == [(600,)]


def test_dropped_table_is_filled_again(url: str) -> None:
    index = PgVector(url).build(VECTORS)
    asked(url, f"DROP TABLE {name_of(index)}")
    assert_equal(PgVector(url).search(index, VECTORS, QUERIES, 10), exact(VECTORS, QUERIES))


@pytest.mark.parametrize(
    ("change", "held"),
    [
        ("DELETE FROM {} WHERE position = 3", "69 of 70 vectors"),
        ("DROP INDEX {}_hnsw", "70 of 70 vectors and no valid index"),
    ],
)
def test_table_that_someone_changed_is_refused(change: str, held: str, url: str) -> None:
    index = PgVector(url).build(VECTORS)
    asked(url, change.format(name_of(index)))
    with pytest.raises(EndpointFailed, match=f"the table {name_of(index)} contains {held}; run DROP TABLE"):
        PgVector(url).search(index, VECTORS, QUERIES, 3)


def test_lost_connection_is_made_again(url: str) -> None:
    part = PgVector(url)
    index = part.build(VECTORS)
    asked(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = "
               "current_database()")  # fmt: skip
    with pytest.raises(CallFailed, match="PostgreSQL failed"):
        part.search(index, VECTORS, QUERIES, 10)
    assert_equal(part.search(index, VECTORS, QUERIES, 10), exact(VECTORS, QUERIES))


def test_user_who_may_not_create_the_extension_gets_one_line(url: str) -> None:
    asked(url, "CREATE ROLE guest LOGIN")
    with pytest.raises(CallFailed, match=r'^PostgreSQL failed: permission denied to create extension "vector"'):
        PgVector(url.replace("postgres@", "guest@")).build(VECTORS)


def test_password_is_read_when_the_server_is_called_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    part = PgVector(None, "STUDY_URL")
    with pytest.raises(ConfigError, match=r"variable STUDY_URL, named by url_env, must contain .* postgresql://"):
        part.check_key()
    monkeypatch.setenv("STUDY_URL", "postgresql://me:s3cr%21t@127.0.0.1:9/x")
    part.check_key()
    with pytest.raises(CallFailed, match=r"^PostgreSQL failed: .*refused"):
        part.build(VECTORS)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:s3cret@127.0.0.1:9/x",
        "postgresql://127.0.0.1:9/x?user=me&password=s3cret",
        "postgresql://me:s3cret/more@127.0.0.1:9/x",  # not escaped: what is before the / is taken for a port
        "postgresql://me:a@s3cret:9/x@127.0.0.1:9/x",
    ],
)
def test_no_message_shows_a_password(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUDY_URL", address)
    with pytest.raises(CallFailed, match=r"^PostgreSQL failed: ") as caught:
        PgVector(None, "STUDY_URL", timeout=2).build(VECTORS)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_vectors_that_are_too_long_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"vectors of at most 2000 values, got 2001"):
        PgVector().build(np.zeros((1, 2001), np.float32))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"url_env": "STUDY_URL"}, r"index\.url and retriever\.index\.url_env are both set; make one of them null"),
        ({"url": None}, "are both null; set one of them"),
        ({"url": "postgresql://me:s3cret@host/x"}, r"index\.url must begin with postgresql:// and contain no password"),
        ({"url": "postgresql://host/x?password=s3cret"}, r"index\.url must begin with postgresql://"),
        ({"url": "host=there password=s3cret"}, r"index\.url must begin with postgresql://"),
        ({"url": None, "url_env": "postgresql://me:s3cret@host"}, r"index\.url_env must be the NAME"),
        ({"table": 'a"; DROP TABLE b'}, r"index\.table must be "),
        ({"build_memory": "much"}, r"index\.build_memory must be .*, got 'much'"),
        ({"build_workers": -1}, r"index\.build_workers must be .*, got -1"),
        ({"m": 1}, r"index\.m must be .*, got 1"),
        ({"m": 101, "ef_construction": 500}, r"index\.m is 101; pgvector accepts at most 100"),
        ({"ef_construction": 31}, r"index\.ef_construction must be at least 32, got 31"),
        ({"ef_search": 1001}, r"index\.ef_search is 1001; pgvector accepts at most 1000"),
        ({"timeout": 0}, r"index\.timeout must be .*, got 0"),
    ],
)
def test_wrong_parameters_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Builder().build({"_target_": "ragsweep.parts.indexes.PgVector", **given}, "retriever.index")
    assert "s3cret" not in str(caught.value)


def test_client_that_is_not_installed_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgvector.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'ragsweep\[pgvector\]'"):
        PgVector().check()
