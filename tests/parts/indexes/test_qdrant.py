"""Qdrant: the engine of its client in a folder, and the same behind its REST interface."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_server import Server, serving

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.indexes import Flat, Qdrant, qdrant
from ragsweep.parts.rerankers import NoReranker
from ragsweep.parts.retrievers import Vector
from ragsweep.services.errors import CallFailed, EndpointFailed
from ragsweep.stages.executor import Executor
from ragsweep.testing.contract import assert_equal
from ragsweep.testing.indexes import VectorIndexContract
from support.parts import Letters, Whole, built, corpus, drawn, exact


class TestQdrant(VectorIndexContract):
    number = 60

    @pytest.fixture(autouse=True)
    def place(self, running: Server) -> None:
        self.url = running.url

    def part(self) -> Qdrant:
        return Qdrant(self.url)


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


VECTORS, QUERIES = drawn(70), drawn(5, seed=1)


def sent(server: Server) -> int:
    return sum(line.startswith("PUT") and line.endswith("/points") for line in server.calls)


def names(server: Server) -> set[str]:
    return {one.name for one in server.engine.get_collections().collections}


@pytest.mark.parametrize("embedded", [False, True], ids=["server", "folder"])
def test_it_finds_and_scores_what_the_exact_index_does(server: Server, embedded: bool, tmp_path: Path) -> None:
    part = Qdrant(None, str(tmp_path)) if embedded else Qdrant(server.url)
    found = part.search(part.build(VECTORS), VECTORS, QUERIES, 10)
    expected = exact(VECTORS, QUERIES)
    np.testing.assert_array_equal(found.positions, expected.positions)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Qdrant(None, "~/collections").build(VECTORS)
    assert [one.name for one in tmp_path.iterdir()] == ["home"]


def test_ef_search_limits_candidates_and_the_length_of_a_ranking(server: Server) -> None:
    index = Qdrant(server.url).build(VECTORS)
    for effort, depth, length in ((30, 10, 10), (30, 50, 30)):
        found = Qdrant(server.url, ef_search=effort).search(index, VECTORS, QUERIES[:1], depth)
        assert (found.positions >= 0).sum() == length
    assert server.efforts == [30, 30]


def test_other_vectors_and_other_parameters_have_collections_of_their_own(server: Server) -> None:
    moved = VECTORS.copy()
    moved[69, 7] += 1e-6
    for vectors, given in (
        (VECTORS, {}), (VECTORS, {"ef_search": 9}), (moved, {}), (VECTORS[:69], {}), (VECTORS.reshape(140, 4), {}),
        (VECTORS, {"m": 8}), (VECTORS, {"ef_construct": 9}), (VECTORS, {"collection": "other"}),
    ):  # fmt: skip
        Qdrant(server.url, **given).build(vectors)
    assert len(names(server)) == 7
    assert {name.partition("-")[0] for name in names(server)} == {"ragsweep", "other"}


def test_complete_collection_is_used_as_it_is(server: Server) -> None:
    index = Qdrant(server.url).build(VECTORS)
    before = sent(server)
    again = Qdrant(server.url)
    assert again.build(VECTORS)["collection"].tobytes() == index["collection"].tobytes()
    again.search(index, VECTORS, QUERIES, 3)
    assert sent(server) == before > 0
    before = len(server.calls)
    again.search(index, VECTORS, QUERIES[:1], 3)
    assert len(server.calls) == before + 1  # a question alone costs one call, or its latency would be another


def test_half_filled_collection_is_filled_before_it_is_searched(server: Server, monkeypatch: Any) -> None:
    monkeypatch.setattr(qdrant, "POINTS", 20)
    server.least = 3
    with pytest.raises(CallFailed, match="out of disk"):
        Qdrant(server.url).build(VECTORS)
    (name,) = names(server)
    assert server.engine.count(name).count == 40
    part = Qdrant(server.url)
    index = {"collection": np.frombuffer(name.encode(), np.uint8)}
    found = part.search(index, VECTORS, QUERIES, 10)
    assert_equal(found, exact(VECTORS, QUERIES))


def test_deleted_collection_is_filled_again(server: Server) -> None:
    index = Qdrant(server.url).build(VECTORS)
    server.engine.delete_collection(*names(server))
    found = Qdrant(server.url).search(index, VECTORS, QUERIES, 10)
    assert_equal(found, exact(VECTORS, QUERIES))


def test_collection_with_points_of_others_is_refused(server: Server) -> None:
    from qdrant_client import models

    index = Qdrant(server.url).build(VECTORS)
    (name,) = names(server)
    server.engine.upsert(name, models.Batch(ids=[99], vectors=VECTORS[:1].tolist()))
    with pytest.raises(
        EndpointFailed, match=f"the collection {name} contains 71 points, instead of 70; delete the collection"
    ):
        Qdrant(server.url).search(index, VECTORS, QUERIES, 3)


def test_search_waits_until_the_index_is_built(server: Server, monkeypatch: Any) -> None:
    monkeypatch.setattr(qdrant, "PAUSE", 0.0)
    server.building = 4
    Qdrant(server.url).build(VECTORS)
    assert sum(line.startswith("GET /collections/") and "exists" not in line for line in server.calls) == 4


def test_restarted_server_is_told_to_build_on(server: Server, monkeypatch: Any) -> None:
    monkeypatch.setattr(qdrant, "PAUSE", 0.0)
    index = Qdrant(server.url).build(VECTORS)
    server.restarted, server.building = True, 2
    Qdrant(server.url).search(index, VECTORS, QUERIES, 3)
    assert (server.restarted, server.building) == (False, 0)
    assert sum(line.startswith("PATCH") for line in server.calls) == 1


def test_quicker_process_is_no_error(server: Server, monkeypatch: Any) -> None:
    Qdrant(server.url).build(VECTORS)
    part = Qdrant(server.url)
    before = names(server)
    monkeypatch.setattr(part._client, "collection_exists", lambda name: False)
    built = part.build(VECTORS)
    assert names(server) == before
    assert part.search(built, VECTORS, VECTORS[:3], 1).positions[:, 0].tolist() == [0, 1, 2]


def test_key_is_read_when_the_server_is_called_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving("s3cret") as guarded:
        part = Qdrant(guarded.url, key_env="STORE_KEY")
        with pytest.raises(ConfigError, match="STORE_KEY"):
            part.build(VECTORS)
        monkeypatch.setenv("STORE_KEY", "wr0ng")
        with pytest.warns(UserWarning, match="insecure"), pytest.raises(CallFailed) as caught:
            Qdrant(guarded.url, key_env="STORE_KEY").build(VECTORS)
        assert "401" in str(caught.value)
        assert "Invalid API key ***" in str(caught.value)
        monkeypatch.setenv("STORE_KEY", "s3cret")
        with pytest.warns(UserWarning, match="insecure"):
            part.build(VECTORS)


def test_server_that_is_not_there_is_one_line() -> None:
    with pytest.raises(CallFailed, match=r"^http://127\.0\.0\.1:9 failed: .*refused"):
        Qdrant("http://127.0.0.1:9").build(VECTORS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the client leaves its lock open
def test_folder_that_another_process_has_open_is_one_line(tmp_path: Path) -> None:
    from qdrant_client import QdrantClient

    client = QdrantClient(path=str(tmp_path))
    try:
        with pytest.raises(CallFailed, match=r"cannot open the index in the folder .*: .*already accessed"):
            Qdrant(None, str(tmp_path)).build(VECTORS)
    finally:
        client.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "here"}, r"index\.base_url and retriever\.index\.path are both set; make one"),
        ({"base_url": None}, "are both null; set one of them"),
        ({"base_url": "http://user:pass@host"}, r"index\.base_url must begin with http"),
        ({"key_env": "sk-123"}, r"index\.key_env must be the NAME"),
        ({"collection": "a/b"}, r"index\.collection must be .*, got 'a/b'"),
        ({"m": 1}, r"index\.m must be .*, got 1"),
        ({"ef_construct": 3}, r"index\.ef_construct must be .*, got 3"),
        ({"ef_search": 0}, r"index\.ef_search must be .*, got 0"),
    ],
)
def test_wrong_parameters_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Builder().build({"_target_": "ragsweep.parts.indexes.Qdrant", **given}, "retriever.index")


def test_client_that_is_not_installed_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'ragsweep\[qdrant\]'"):
        Qdrant().check()


def test_search_that_fails_for_one_question_leaves_the_others_their_rankings(server: Server) -> None:
    part = Vector(Letters(), Qdrant(server.url), Flat())
    specs = {"embedder": Spec("Letters", "1"), "index": Spec("Qdrant", "1"), "exact": Spec("Flat", "1")}
    retriever = BuiltPart(part, Spec("Vector", "1", specs))
    config = graph(Parts(corpus(), built(Whole()), retriever, built(NoReranker()), 4, 2))
    queries, executor = ["cats on the mat", "source code", "bread and water"], Executor()
    whole = Executor().get(config.ranking, queries)
    server.refused = Letters().embed_queries(queries[1:2])[0].tolist()
    found = executor.get(config.ranking, queries)
    assert found.failed.tolist() == [False, True, False]
    np.testing.assert_array_equal(found.positions[[0, 2]], whole.positions[[0, 2]])
    assert "no such luck" in str(executor.failure(config.ranking, queries[1]))
