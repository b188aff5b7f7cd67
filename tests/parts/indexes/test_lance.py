"""LanceDB: tables in a folder, complete or not used, and what their indexes find."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.interruption import deadline
from ragsweep.core.types import Floats
from ragsweep.parts.indexes import LanceHnsw, LanceIvfPq
from ragsweep.parts.indexes.lance import LanceTable
from ragsweep.services.errors import CallFailed, EndpointFailed
from ragsweep.testing.contract import assert_equal
from ragsweep.testing.indexes import VectorIndexContract
from support.parts import drawn, exact, recall
from support.servers.object_store import ObjectServer, object_server

pytestmark = pytest.mark.slow

__all__ = ["object_server"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lance")


class LanceContract(VectorIndexContract):
    """One folder for all tests: equal tables are filled once."""

    exact = False
    number = 260  # a few more than the least that is indexed

    @pytest.fixture(autouse=True)
    def place(self, folder: Path) -> None:
        self.uri = str(folder)


@pytest.mark.nightly
class TestLanceIvfPq(LanceContract):
    def part(self) -> LanceIvfPq:
        return LanceIvfPq(self.uri, num_sub_vectors=8, oversampling=10)


class TestLanceHnsw(LanceContract):
    def part(self) -> LanceHnsw:
        return LanceHnsw(self.uri)


VECTORS, QUERIES = drawn(600), drawn(5, seed=1)
FEW = VECTORS[:60]


def connect(place: Path | str) -> Any:
    import lancedb  # takes seconds, and every process collects all tests

    return lancedb.connect(place)


def names(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.lance")}


def version_of(folder: Path) -> int:
    (name,) = names(folder)
    return int(connect(folder).open_table(name).version)


class Killed(BaseException):
    """The end of a process."""


def leave_incomplete(part: LanceTable, vectors: Floats, patch: pytest.MonkeyPatch) -> None:
    """Stop a filling when the table is filled and indexed, and lacks nothing but its tag."""

    def stop(*_: Any) -> None:
        raise Killed

    with patch.context() as during:
        during.setattr(part, "_check", stop)
        with pytest.raises(Killed):
            part.build(vectors)


@pytest.mark.parametrize(
    "make",
    [
        lambda uri: LanceIvfPq(uri, num_partitions=2, num_sub_vectors=8, oversampling=60),
        lambda uri: LanceHnsw(uri, ef_search=600),
    ],
    ids=["ivf_pq", "hnsw"],
)
def test_enough_effort_finds_and_scores_what_the_exact_index_does(make: Any, folder: Path) -> None:
    part = make(str(folder))
    index = part.build(VECTORS)
    assert [table.index_type for table in connect(folder).open_table(name_of(index)).list_indices()]
    found = part.search(index, VECTORS, QUERIES, 10)
    np.testing.assert_array_equal(found.positions, exact(VECTORS, QUERIES).positions)
    np.testing.assert_array_equal(found.scores, exact(VECTORS, QUERIES).scores)


def name_of(index: Any) -> str:
    return str(index["table"].tobytes().decode())


def test_ef_search_limits_the_length_of_a_ranking(folder: Path) -> None:
    part = LanceHnsw(str(folder), ef_search=30)
    found = part.search(part.build(VECTORS), VECTORS, QUERIES, 50)
    assert (found.positions >= 0).sum(axis=1).tolist() == [30] * 5


def test_more_partitions_and_candidates_find_more(folder: Path) -> None:
    vectors = drawn(2000, dimension=16)
    index = LanceIvfPq(str(folder), num_sub_vectors=4).build(vectors)
    recalls = []
    for nprobes, oversampling in ((1, 1), (7, 1), (7, 20)):
        part = LanceIvfPq(str(folder), num_sub_vectors=4, nprobes=nprobes, oversampling=oversampling)
        recalls.append(recall(part.search(index, vectors, vectors[:40], 10), exact(vectors, vectors[:40])))
    assert recalls == sorted(recalls)
    assert recalls[0] < 0.7 < 0.95 < recalls[-1]


def test_tilde_is_the_home_folder_also_for_the_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    LanceHnsw("~/tables").build(FEW)
    assert [one.name for one in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home" / "tables" / "locks").exists()


def test_other_vectors_and_other_parameters_have_tables_of_their_own(tmp_path: Path) -> None:
    moved = FEW.copy()
    moved[59, 7] += 1e-6
    for vectors, given in (
        (FEW, {}), (FEW, {"nprobes": 9}), (FEW, {"oversampling": 9}), (moved, {}), (FEW[:59], {}),
        (FEW.reshape(120, 4), {}), (FEW, {"num_partitions": 9}), (FEW, {"num_sub_vectors": 4}),
        (FEW, {"table": "other"}),
    ):  # fmt: skip
        LanceIvfPq(str(tmp_path), **given).build(vectors)
    LanceHnsw(str(tmp_path)).build(FEW)
    assert len(names(tmp_path)) == 8
    assert {name.partition("-")[0] for name in names(tmp_path)} == {"ragsweep", "other"}


def test_complete_table_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = LanceHnsw(str(tmp_path)).build(FEW)
    before = version_of(tmp_path)
    again = LanceHnsw(str(tmp_path))
    monkeypatch.setattr(again, "_make", None)
    assert name_of(again.build(FEW)) == name_of(index)
    assert_equal(again.search(index, FEW, QUERIES, 10), exact(FEW, QUERIES))
    assert version_of(tmp_path) == before


def test_table_that_a_kill_left_is_never_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_incomplete(LanceHnsw(str(tmp_path)), FEW, monkeypatch)
    (name,) = names(tmp_path)
    table = connect(tmp_path).open_table(name)
    table.delete("position >= 40")
    part = LanceHnsw(str(tmp_path))
    index = {"table": np.frombuffer(name.encode(), np.uint8)}
    assert_equal(part.search(index, FEW, QUERIES, 10), exact(FEW, QUERIES))
    assert names(tmp_path) == {name}


def test_in_object_storage_an_incomplete_table_is_left_to_whoever_fills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"file://{tmp_path}"
    leave_incomplete(LanceHnsw(place), FEW, monkeypatch)
    with pytest.raises(CallFailed, match="is incomplete: another process is filling it, or was killed"):
        LanceHnsw(place).build(FEW)
    connect(place).drop_table(*names(tmp_path))
    part = LanceHnsw(place)
    assert_equal(part.search(part.build(FEW), FEW, QUERIES, 10), exact(FEW, QUERIES))


def test_deleted_table_is_filled_again(tmp_path: Path) -> None:
    index = LanceHnsw(str(tmp_path)).build(FEW)
    connect(tmp_path).drop_table(*names(tmp_path))
    assert_equal(LanceHnsw(str(tmp_path)).search(index, FEW, QUERIES, 10), exact(FEW, QUERIES))


def test_what_others_add_to_a_table_is_not_searched(tmp_path: Path) -> None:
    index = LanceHnsw(str(tmp_path)).build(FEW)
    table = connect(tmp_path).open_table(*names(tmp_path))
    table.add([{"position": 3, "vector": QUERIES[0]}])
    assert_equal(LanceHnsw(str(tmp_path)).search(index, FEW, QUERIES, 10), exact(FEW, QUERIES))


def test_table_that_lacks_vectors_is_refused(tmp_path: Path) -> None:
    index = LanceHnsw(str(tmp_path)).build(FEW)
    table = connect(tmp_path).open_table(*names(tmp_path))
    table.delete("position = 3")
    table.tags.update("complete", table.version)
    with pytest.raises(
        EndpointFailed, match="must contain 60 vectors, all indexed, but contains 59, and its index contains 60; delete"
    ):
        LanceHnsw(str(tmp_path)).search(index, FEW, QUERIES, 3)


def test_damaged_file_is_one_line(tmp_path: Path) -> None:
    index = LanceHnsw(str(tmp_path)).build(FEW)
    for path in tmp_path.rglob("data/*.lance"):
        path.write_bytes(b"nothing")
    with pytest.raises(CallFailed, match=rf"^{tmp_path} failed: ") as caught:
        LanceHnsw(str(tmp_path)).search(index, FEW, QUERIES, 3)
    assert "\n" not in str(caught.value)


def test_folder_is_shipped_with_no_bundle() -> None:
    with pytest.raises(InputError, match="the index's uri is a folder on this machine, and the bundle does not"):
        LanceHnsw("here").check_ship()
    LanceHnsw("s3://bucket/here").check_ship()


def test_pieces_must_divide_the_vectors(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"the index's num_sub_vectors is 3; for vectors of 8 values, it must be one of 1, 2"
    ):
        LanceIvfPq(str(tmp_path), num_sub_vectors=3).build(VECTORS)
    assert not names(tmp_path)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("LanceIvfPq", {"num_partitions": 0}, r"index\.num_partitions must be .*, got 0"),
        ("LanceIvfPq", {"num_sub_vectors": 0}, r"index\.num_sub_vectors must be .*, got 0"),
        ("LanceIvfPq", {"nprobes": 0}, r"index\.nprobes must be .*, got 0"),
        ("LanceIvfPq", {"oversampling": 0}, r"index\.oversampling must be .*, got 0"),
        ("LanceIvfPq", {"table": "a/b"}, r"index\.table is 'a/b'"),
        ("LanceHnsw", {"uri": "s3://user:s3cret@bucket/x"}, r"index\.uri must be a folder or"),
        ("LanceHnsw", {"uri": ""}, r"index\.uri must be a folder or"),
        ("LanceHnsw", {"m": 1}, r"index\.m must be .*, got 1"),
        ("LanceHnsw", {"ef_construction": 0}, r"index\.ef_construction must be .*, got 0"),
        ("LanceHnsw", {"ef_search": 0}, r"index\.ef_search must be .*, got 0"),
    ],
)
def test_wrong_parameters_are_refused(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Builder().build({"_target_": f"ragsweep.parts.indexes.{name}", **given}, "retriever.index")
    assert "s3cret" not in str(caught.value)


def test_library_that_is_not_installed_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'ragsweep\[lancedb\]'"):
        LanceHnsw().check()


def test_table_in_object_storage_is_filled_once_and_found_again(
    object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    place = f"{object_server.bucket()}/tables"
    index = LanceHnsw(place).build(VECTORS)
    part = LanceHnsw(place, ef_search=600)
    monkeypatch.setattr(part, "_make", None)
    assert_equal(part.search(index, VECTORS, QUERIES, 10), exact(VECTORS, QUERIES))
    assert connect(place).open_table(name_of(index)).tags.list()["complete"]["version"] == 2
    part.check_ship()


FILLING = """
import sys
import numpy as np
from ragsweep.parts.indexes import LanceHnsw
vectors = np.random.default_rng(0).normal(size=(6000, 16)).astype(np.float32)
print("begun", flush=True)
LanceHnsw(sys.argv[1]).build(vectors)
"""
"""What another process does."""


def filling(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", FILLING, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def assert_whole(folder: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(6000, 16)).astype(np.float32)
    part = LanceHnsw(str(folder), ef_search=400)
    found = part.search(part.build(vectors), vectors, vectors[:50], 10)
    assert recall(found, exact(vectors, vectors[:50])) > 0.95
    (name,) = names(folder)
    assert connect(folder).open_table(name).count_rows() == 6000


def test_folder_that_a_process_left_before_its_table_was_written_is_replaced(tmp_path: Path) -> None:
    index = LanceHnsw(str(tmp_path)).build(VECTORS)
    connect(tmp_path).drop_table(name_of(index))
    (tmp_path / f"{name_of(index)}.lance" / "data").mkdir(parents=True)
    part = LanceHnsw(str(tmp_path), ef_search=600)
    assert_equal(part.search(part.build(VECTORS), VECTORS, QUERIES, 10), exact(VECTORS, QUERIES))


@pytest.mark.nightly
@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0, 3.0, 4.0, 6.0])
def test_kill_at_any_time_leaves_nothing_that_is_searched(seconds: float, tmp_path: Path) -> None:
    with filling(tmp_path) as process:
        time.sleep(seconds)
        process.kill()
    assert_whole(tmp_path)


@pytest.mark.nightly
def test_of_processes_that_fill_a_table_at_once_one_does_it(tmp_path: Path) -> None:
    processes = [filling(tmp_path) for _ in range(3)]
    for process in processes:
        with process:
            assert process.wait(timeout=300) == 0
    assert version_of(tmp_path) == 2
    assert_whole(tmp_path)


def test_time_limit_of_the_config_is_no_failure_of_the_index(tmp_path: Path) -> None:
    with (
        pytest.raises(TimeoutError, match="raise timeout"),
        deadline(0.1),
        LanceHnsw(str(tmp_path))._readable_faults(),
    ):
        time.sleep(2)
