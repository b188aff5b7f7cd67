"""What one machine has stored the others find, each thing is computed once, and a remote half never costs a result."""

import gc
import json
import math
import os
import random
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import obstore
import pytest
from obstore.store import LocalStore, MemoryStore

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import Node, Spec
from ragsweep.core.locks import myself
from ragsweep.stages.blobs import StoredPiece
from ragsweep.stages.database import Cost
from ragsweep.stages.executor import Executor
from ragsweep.stages.leases import FREE, Leases
from ragsweep.stages.remote import Remote, open_remote
from ragsweep.stages.remote_url import check_remote
from ragsweep.stages.shared_store import SharedStore
from ragsweep.stages.store import Store
from support import nightly, wait_until
from support.inputs.mutants import mutant
from support.inputs.write_faults import Small
from support.servers.object_store import ObjectServer, object_server, silent_objects
from test_store import TRUTH, executed, small

pytestmark = pytest.mark.slow

__all__ = ["object_server"]


def test_object_store_that_never_answers_is_named_and_left_alone_for_longer_each_time() -> None:
    with silent_objects() as objects:
        warnings: list[str] = []
        remote = Remote(objects, "s3://bucket", warnings.append, pause=0.01, answer=0.3)
        assert remote.get("a") is None
        (warning,) = warnings
        assert "cannot use s3://bucket: no answer within 0.3 s" in warning
        pauses = []
        for ask in (lambda: remote.put("a", b"1"), lambda: remote.names("a/"), lambda: remote.has("a")):
            pauses.append(remote._silent - time.monotonic())
            time.sleep(max(pauses[-1], 0))
            assert not ask()
        assert pauses == sorted(pauses)
        assert len(warnings) == 1


class Shared:
    """Machines with a folder each, and one object store."""

    def __init__(self, folder: Path, open_objects: Callable[[], Remote]) -> None:
        self.folder, self.open_objects = folder, open_objects
        self.warnings: list[str] = []

    def machine(self, name: str, graph: Small | None = None) -> Executor:
        """Compute the small graph on a machine, and check it."""
        remote = self.open_objects()
        remote.warn = self.warnings.append
        store = SharedStore(self.folder / name, self.warnings.append, remote)
        executor = Executor(store)
        assert (graph or small()).results(executor) == TRUTH
        store.close()
        return executor


@pytest.fixture(params=["memory", nightly("file"), "s3"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    if request.param == "memory":
        objects = MemoryStore()
        return Shared(tmp_path, lambda: Remote(objects, "memory://", pytest.fail))
    if request.param == "file":
        url = f"file://{tmp_path / 'objects'}"
    else:
        server: ObjectServer = request.getfixturevalue("object_server")
        url = f"{server.bucket()}/a/folder"
    return Shared(tmp_path, lambda: _opened(url))


def _opened(url: str) -> Remote:
    remote = open_remote(url, pytest.fail)
    assert remote is not None
    return remote


def test_object_is_put_if_absent_and_returned_as_it_was(shared: Shared) -> None:
    remote = shared.open_objects()
    assert remote.get("a/b") is None
    assert remote.names("a/") == []
    assert (remote.put("a/b", b"one"), remote.put("a/b", b"two")) == (True, False)
    assert remote.get("a/b") == b"one"
    assert remote.names("a/") == ["a/b"]
    remote.overwrite("a/b", b"three")
    assert remote.get("a/b") == b"three"
    remote.remove("a/b")
    remote.remove("a/b")
    assert not remote.has("a/b")


def test_dropped_rows_are_gone_on_every_machine(shared: Shared) -> None:
    node = Node("latency", Spec("x", "1"), (), lambda work, rows: np.full(len(rows), 7.0), "rows", result=np.ndarray)
    stores = [SharedStore(shared.folder / name, pytest.fail, shared.open_objects()) for name in ("a", "b", "c")]
    executors = [Executor(store) for store in stores]
    executors[0].get(node, ["q"])
    stores[0].close()
    assert executors[1].known(node, ["q"])
    executors[0].drop_rows(node)
    stores[0].close()
    assert not executors[0].known(node, ["q"])
    assert not executors[2].known(node, ["q"])


def test_second_machine_computes_nothing_and_keeps_all_of_it(shared: Shared) -> None:
    assert executed(shared.machine("one")) > 0
    assert executed(shared.machine("two")) == 0
    shared.open_objects = lambda: Remote(MemoryStore(), "memory://", pytest.fail)
    assert executed(shared.machine("two")) == 0  # without the remote half
    assert shared.warnings == []


def test_damaged_objects_are_not_used_and_are_replaced(shared: Shared) -> None:
    shared.machine("one")
    remote, chance = shared.open_objects(), random.Random(5)
    names = [name for prefix in ("whole/", "rows/") for name in remote.names(prefix) or ()]
    assert len(names) >= 5
    for name in names:
        data = remote.get(name) or b""
        while (changed := mutant(data, chance)) == data:
            pass
        remote.overwrite(name, changed)
    assert executed(shared.machine("two")) > 0
    assert len(shared.warnings) == len(names)
    assert all("is damaged" in text and "the object is deleted" in text for text in shared.warnings)
    shared.warnings.clear()
    assert executed(shared.machine("three")) == 0
    assert shared.warnings == []


COSTS = [
    *(json.dumps({"amount": amount, "seconds": seconds, "machine": "x"}).encode()
      for amount in (math.nan, math.inf, -1, True, "3", None, 10**400, [1]) for seconds in (1.0, math.nan)),
    json.dumps({"amount": 1, "seconds": 1, "machine": "\ud800"}).encode(), b'{"amount": 1, "seconds": 1, "machine": 7}',
    b"", b"[]", b"null", b"\xff", b"[" * 9000, b"[" * 100_000, b'{"amount": 1}' + b" " * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("cost", COSTS, ids=range(len(COSTS)))
def test_cost_that_is_none_costs_no_entry_of_the_other_machine(cost: bytes, tmp_path: Path) -> None:
    shared, objects = Shared(tmp_path, lambda: Remote(objects, "memory://", pytest.fail)), MemoryStore()
    shared.machine("one")
    remote = shared.open_objects()
    for name in remote.names("costs/") or ():
        remote.overwrite(name, cost)
    before = (tmp_path / "one" / "store.db").stat().st_ino
    (tmp_path / "one" / "whole").rename(tmp_path / "gone")  # its whole values come from the other half
    assert executed(shared.machine("one")) == 0
    assert (shared.warnings, (tmp_path / "one" / "store.db").stat().st_ino) == ([], before)
    assert executed(shared.machine("two")) == 0
    assert not [*tmp_path.glob("*/quarantine/*")]


@pytest.mark.parametrize("name", ["x", "00000001.tmp", "99999999999999999999", "-1"])
def test_object_that_is_no_lease_is_left_alone(name: str) -> None:
    remote = Remote(MemoryStore(), "memory://", pytest.fail)
    remote.put(f"leases/a/{name}", b"who?")
    with Leases(remote).alone("a", lambda: pytest.fail("waited")):
        assert "leases/a/00000001" in (remote.names("leases/a/") or ())


def test_behind_the_last_number_of_a_lease_nothing_is_waited_for() -> None:
    remote = Remote(MemoryStore(), "memory://", pytest.fail)
    remote.put("leases/a/99999999", FREE)
    for _ in range(2):
        with Leases(remote).alone("a", lambda: pytest.fail("waited")):
            assert remote.names("leases/a/") == ["leases/a/99999999"]


@pytest.mark.parametrize("process", [math.inf, 10**400, -1, 0, 2**31, "7", None, True])
def test_lease_of_no_process_is_over_when_it_gives_no_sign(process: object) -> None:
    remote = Remote(MemoryStore(), "memory://", pytest.fail)
    remote.put("leases/a/00000001", json.dumps([myself().host, process, "", 0]).encode())
    with Leases(remote, lapse=0.01).alone("a"):
        assert remote.names("leases/a/") == ["leases/a/00000001", "leases/a/00000002"]


def test_pieces_of_a_machine_that_died_are_found_by_another(shared: Shared) -> None:
    made: list[str] = []

    class Died(Exception): ...

    def die(text: str) -> None:
        if text == "made embed/3":
            raise Died

    with pytest.raises(Died):
        shared.machine("one", Small(die))
    shared.machine("two", Small(made.append))
    assert [text for text in made if text.startswith("made embed")] == ["made embed/3", "made embed/6"]
    assert "made chunk" not in made
    assert (shared.open_objects().names("pieces/") or []) == []  # the whole is there


def test_out_of_reach_is_one_warning_and_no_result_less(tmp_path: Path, object_server: ObjectServer) -> None:
    lost = Shared(tmp_path, lambda: _opened("s3://no-such-bucket/folder"))
    assert executed(lost.machine("one")) > 0
    assert len(lost.warnings) == 1
    assert lost.warnings[0].startswith("cannot use s3://no-such-bucket/folder: ")
    assert "\n" not in lost.warnings[0]


def test_slow_object_store_does_not_lock_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote, node = Remote(MemoryStore(), "memory://", pytest.fail), small().score
    store, other = SharedStore(tmp_path, pytest.fail, remote), Store(tmp_path, pytest.fail)
    queued = list[str]()

    def put_later(name: str, data: bytes) -> None:  # waits while too many writes are unfinished
        queued.append(name)
        connection = other._database.open()
        connection.execute("PRAGMA busy_timeout=0")
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()

    monkeypatch.setattr(remote, "put_later", put_later)
    assert store.keep_rows(node, StoredPiece(("q",), np.zeros(1)), Cost(1, 1.0))
    assert len(queued) == 1


def test_full_disk_is_no_failure_of_the_object_store(tmp_path: Path) -> None:
    warnings: list[str] = []
    remote, node = Remote(MemoryStore(), "memory://", pytest.fail), small().index
    store = SharedStore(tmp_path, warnings.append, remote)
    remote.put(f"whole/{node.address}", bytes(100_000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        assert store.whole(node) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert remote.reachable
    (warning,) = warnings
    assert warning.startswith(f"cannot store index in {tmp_path}: [Errno 27] File too large")
    assert not list((tmp_path / "temporary").iterdir())


def test_remote_half_is_tried_again_after_a_pause(tmp_path: Path) -> None:
    warnings: list[str] = []
    folder = tmp_path / "objects"
    remote = _opened(f"file://{folder}")
    remote.warn, remote._pause = warnings.append, 0.05
    folder.rename(tmp_path / "away")
    folder.write_text("a file, where the folder was")
    assert remote.put("a", b"1") is None
    assert remote.put("a", b"1") is None
    assert not remote.reachable
    folder.unlink()
    (tmp_path / "away").rename(folder)
    time.sleep(0.1)
    assert remote.put("a", b"1") is True
    assert len(warnings) == 1


def test_lease_whose_release_was_lost_in_an_outage_ends_when_the_object_store_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    folder.mkdir()
    remotes = [Remote(LocalStore(folder), "file://", list[str]().append, pause=0.05) for _ in range(2)]
    # The second owner gives no sign of life, so that only its own claims can end its lease.
    owner, silent = Leases(remotes[0], pause=0.02), Leases(remotes[0], pause=600)
    assert owner.claim("x") is None
    assert silent.claim("y") is None
    folder.rename(tmp_path / "away")
    folder.write_text("a file, where the folder was")
    owner.release("x")
    silent.release("y")
    folder.unlink()
    (tmp_path / "away").rename(folder)
    wait_until(lambda: remotes[0].reachable, 10)
    other = Leases(remotes[1])
    wait_until(lambda: other.claim("x") is None, 10)
    assert other.claim("y") is not None
    with silent.alone("y", lambda: pytest.fail("waits for itself")):
        assert other.claim("y") is not None
    assert other.claim("y") is None


def test_store_that_is_no_longer_used_leaves_no_socket_open() -> None:
    def use() -> None:
        assert Remote(MemoryStore(), "memory://", pytest.fail).get("absent") is None

    def opened() -> int:
        """Count the selectors of event loops; other threads of the process open files and sockets at any time."""
        return sum(os.path.realpath(one).endswith("[eventpoll]") for one in Path("/proc/self/fd").iterdir())

    use()
    gc.collect()
    before = opened()
    for _ in range(20):
        use()

    def closed() -> bool:
        gc.collect()  # again, because a thread that still ran at the last collection kept its loop alive
        return opened() <= before

    wait_until(closed, 10)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (7, "must be a URL such as s3://bucket/folder, or null, got 7"),
        ("bucket", "must be a URL such as s3://bucket/folder"),
        ("s4://bucket", 's4:// is not a supported object store; did you mean "s3"?'),
        ("s3://", "must name a bucket"),
        ("file://mnt/store", "must be a folder, as in file:///mnt/shared/store"),
        ("s3://key:word@bucket/x", "credentials are read from the environment"),
        ("s3://bucket/x?key=word", "credentials are read from the environment"),
    ],
)
def test_place_that_is_none_is_one_sentence(url: object, message: str) -> None:
    with pytest.raises(ConfigError) as fault:
        check_remote(url)
    assert str(fault.value).startswith("store.remote: ")
    assert message in str(fault.value)
    assert "word" not in str(fault.value).replace("must be", "")


@pytest.mark.parametrize("name", ["plain", "a b", "a%20b", "100%", "caf%C3%A9"])
def test_private_folder_is_the_one_that_the_objects_are_in(name: str, tmp_path: Path) -> None:
    assert _opened(f"file://{tmp_path}/{name}").put("a", b"1")
    (folder,) = tmp_path.iterdir()
    assert (folder / "a").read_bytes() == b"1"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.stages.remote_url.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'ragsweep\[remote\]'"):
        open_remote("s3://bucket", pytest.fail)


# --- leases -------------------------------------------------------------------------------------------------------


def test_machines_at_once_compute_each_node_once(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.core.locks.Holder.lives", lambda holder, silent, lapse: True)
    put = Remote.put

    def slow(remote: Remote, name: str, data: object) -> bool | None:
        if not name.startswith("leases/"):
            time.sleep(0.1)  # a lease given back too soon would be taken before the result is there
        return put(remote, name, data)

    monkeypatch.setattr(Remote, "put", slow)
    executors: dict[str, Executor] = {}
    threads = [
        threading.Thread(target=lambda name=name: executors.update({name: shared.machine(name)})) for name in "abc"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    small().results(alone := Executor())
    assert sum(map(executed, executors.values())) == executed(alone)
    assert shared.warnings == []


def foreign(remote: Remote, beat: int = 0) -> str:
    """A lease of another machine's."""
    remote.overwrite("leases/x/00000007", json.dumps(["elsewhere", 1, "1", beat]).encode())
    return "leases/x/00000007"


def test_lease_of_another_machine_is_waited_for_while_it_gives_signs() -> None:
    remote, waits = Remote(MemoryStore(), "memory://", pytest.fail), list[float]()
    lease, stop = foreign(remote), threading.Event()

    def owner() -> None:
        for beat in range(1, 8):
            time.sleep(0.1)
            foreign(remote, beat)
        stop.set()
        remote.overwrite(lease, FREE)

    thread = threading.Thread(target=owner)
    thread.start()
    with Leases(remote, lapse=0.6).alone("x", lambda: waits.append(1)):
        assert stop.is_set()
        assert remote.names("leases/x/") == [lease, "leases/x/00000008"]
    thread.join()
    assert waits == [1]
    assert remote.get("leases/x/00000008") == FREE


def test_silent_machine_loses_its_lease_and_cannot_take_it_back() -> None:
    remote = Remote(MemoryStore(), "memory://", pytest.fail)
    lease = foreign(remote)
    leases = Leases(remote, lapse=0.2)
    with leases.alone("x"):
        foreign(remote, 1)  # it was only paused, and rewrites its own number
        other, entered = Leases(remote, lapse=60), threading.Event()

        def enter() -> None:
            with other.alone("x"):
                entered.set()

        thread = threading.Thread(target=enter)
        thread.start()
        time.sleep(0.3)
        assert not entered.is_set()
    thread.join()
    assert entered.is_set()
    assert (remote.names("leases/x/") or [])[0] == lease


def test_owner_gives_signs_of_life() -> None:
    objects = MemoryStore()
    remote = Remote(objects, "memory://", pytest.fail)
    with Leases(remote, pause=0.02).alone("x"):
        seen = set()
        end = time.monotonic() + 60
        while len(seen) < 3 and time.monotonic() < end:
            seen.add(bytes(obstore.get(objects, "leases/x/00000001").bytes()))
        assert len(seen) >= 3
    time.sleep(0.1)
    assert remote.get("leases/x/00000001") == FREE
