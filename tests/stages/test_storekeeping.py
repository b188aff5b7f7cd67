"""Listing changes nothing, and removing leaves a store whole wherever it is cut off."""

import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import InputError
from ragsweep.core.identity import Node, Spec
from ragsweep.core.locks import myself
from ragsweep.records.ledger import FINISHED, Ledger
from ragsweep.stages.blobs import StoredPiece
from ragsweep.stages.eviction import Conditions, choose, evict, give_back
from ragsweep.stages.store import Cost, Store
from ragsweep.stages.stored_replies import StoredReplies, reply_node, speed_node
from ragsweep.stages.storekeeping import Contents, Item, StorePlace, SweepResults, contents, read_results
from support import without_root
from support.servers import forked
from test_ledger import opened, result

KEYS = tuple(f"question {n}" for n in range(40))
NOW = 1_000_000.0


def whole(stage: str) -> Node:
    return Node(stage, Spec(f"parts.{stage.title()}", "1"), (), lambda work, rows: None, result=dict)


def rows(stage: str) -> Node:
    return Node(stage, Spec(f"parts.{stage.title()}", "1"), (), lambda work, rows: None, "rows", result=np.ndarray)


NODES = {"chunk": whole("chunk"), "index": whole("index"), "retrieve": rows("retrieve"), "rerank": rows("rerank")}


def value(stage: str, size: int = 1000) -> np.ndarray:
    return np.random.default_rng(len(stage)).random(size)


def fill(folder: Path) -> StorePlace:
    """Make a store of two whole values, two nodes of rows in two segments each, and a piece."""
    said: list[str] = []
    store = Store(folder / "stages", said.append)
    for stage in ("chunk", "index"):
        store.keep_whole(NODES[stage], {"a": value(stage)}, 2.0)
    for stage in ("retrieve", "rerank"):
        numbers = value(stage, 40)
        for part in (slice(0, 20), slice(20, 40)):
            store.keep_rows(NODES[stage], StoredPiece(KEYS[part], numbers[part]), Cost(20, 1.0))
    store.keep_piece(whole("embed"), "0", {"a": value("embed")})
    assert said == []
    store.close()
    return StorePlace(folder)


def kept(folder: Path) -> set[str]:
    """Name the stages whose values are still in a store; the values must be right, and no warning may be given."""
    said: list[str] = []
    store = Store(folder / "stages", said.append)
    there = set()
    for stage in ("chunk", "index"):
        found = store.whole(NODES[stage])
        if found is not None:
            assert np.array_equal(found["a"], value(stage))
            there.add(stage)
    for stage in ("retrieve", "rerank"):
        expected = dict(zip(KEYS, value(stage, 40), strict=True))
        found = [pair for one in store.segments(NODES[stage]) for pair in zip(one.keys, one.value, strict=True)]
        assert all(expected[key] == number for key, number in found)
        assert store.has(NODES[stage], KEYS) == (len(found) == 40)
        there |= {stage} if found else set()
    assert said == []
    return there


def tree(folder: Path) -> dict[str, bytes]:
    """Read all files but those that SQLite makes to read."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path): path.read_bytes() for path in files}


def entry(place: StorePlace, stage: str) -> Item:
    return next(item for item in contents(place).items if item.stage == stage)


@pytest.fixture
def place(tmp_path: Path) -> StorePlace:
    return fill(tmp_path)


@pytest.fixture
def held(place: StorePlace) -> Iterator[forked.Popen]:
    """Another process that has the store open and computes ``chunk``."""
    code = (
        "import sys; from pathlib import Path; from ragsweep.stages.store import Store, locks\n"
        "store = Store(Path(sys.argv[1]), print)\n"
        "with locks(store.folder / 'locks').alone(sys.argv[2]): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(place.folder), NODES["chunk"].address]
    with forked.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.communicate()


# --- looking -------------------------------------------------------------------------------------------------------


def test_everything_is_listed_with_the_bytes_that_are_there(place: StorePlace) -> None:
    found = contents(place)
    assert sorted(item.stage for item in found.entries) == ["chunk", "index", "rerank", "retrieve"]
    chunk, retrieve = entry(place, "chunk"), entry(place, "retrieve")
    assert chunk.bytes == (place.folder / "whole" / chunk.name).stat().st_size
    assert (chunk.target, chunk.seconds, retrieve.rows, retrieve.seconds) == ("parts.Chunk", 2.0, 40, 2.0)
    assert [item.name for item in found.items if item.sort == "pieces"] == [whole("embed").address]


def test_listing_changes_nothing(place: StorePlace) -> None:
    before = tree(place.path)
    contents(place)
    assert tree(place.path) == before


def test_value_whose_row_was_never_written_is_listed(place: StorePlace) -> None:
    with sqlite3.connect(place.database) as connection:
        connection.execute("DELETE FROM entries WHERE stage = 'chunk'")
    connection.close()
    (found,) = (item for item in contents(place).entries if not item.stage)
    assert found.name == NODES["chunk"].address


def test_row_whose_file_is_gone_is_no_entry_and_can_be_removed(place: StorePlace) -> None:
    (place.folder / "whole" / NODES["chunk"].address).unlink()
    assert "chunk" not in {item.stage for item in contents(place).entries}
    assert [why for _, why in evict(place, [entry(place, "chunk")])] == [""]
    assert "chunk" not in {item.stage for item in contents(place).items}


def test_strange_files_are_named_and_left_alone(place: StorePlace) -> None:
    strange = [place.folder / "notes.txt", place.folder / "whole" / "README", place.folder / "pieces" / "x"]
    for path in strange:
        path.write_text("mine")
    (place.folder / "whole" / ("a" * 64)).symlink_to(strange[0])
    assert set(place.unknown()) == {*strange, place.folder / "whole" / ("a" * 64)}
    list(evict(place, choose(contents(place), Conditions(everything=True), None, time.time())))
    assert all(path.read_text() == "mine" for path in strange)


@pytest.mark.parametrize("name", ["", "stages"])
def test_folder_that_is_no_store_is_said(name: str, place: StorePlace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"did you mean" if name else r"no store in .*--path"):
        StorePlace(tmp_path / name if name else tmp_path / "other")


# --- choosing ------------------------------------------------------------------------------------------------------

ITEMS = st.builds(
    Item,
    sort=st.sampled_from(["whole", "rows", "pieces", "quarantine", "temporary"]),
    name=st.just("n"),
    bytes=st.integers(0, 100),
    made=st.just(0.0),
    used=st.floats(0, NOW),
    stage=st.sampled_from(["", "chunk", "index"]),
    users=st.lists(st.sampled_from(["known", "gone"]), max_size=2).map(tuple),
    written=st.booleans(),
)
CONDITIONS = st.builds(
    Conditions,
    older_than=st.none() | st.floats(0, NOW),
    unreachable=st.booleans(),
    stage=st.none() | st.just("chunk"),
    quarantine=st.booleans(),
    everything=st.booleans(),
    to_size=st.none() | st.integers(0, 1000),
)
RESULTS = SweepResults({"known": ("sweep",)}, None)
ANCHOR = Item("whole", "anchor", 0, 0.0, NOW, "context", users=("known",))


@given(st.lists(ITEMS, max_size=8), CONDITIONS)
def test_what_is_chosen_fulfils_all_conditions_and_nothing_else_is(items: list[Item], conditions: Conditions) -> None:
    found = Contents((ANCHOR, *items), sum(item.bytes for item in items if item.sort == "rows"), 0)
    chosen = choose(found, conditions, RESULTS, NOW)
    whatever = choose(found, Conditions(**{**vars(conditions), "to_size": None}), RESULTS, NOW)
    for item in found.items:
        expected = (
            not item.written
            and (conditions.older_than is None or item.used <= NOW - conditions.older_than + 1e-6)
            and (conditions.stage is None or item.stage == "chunk")
            and (not conditions.unreachable or "known" not in item.users)
            and (item.sort == "quarantine" or not conditions.quarantine)
            and (item.sort != "quarantine" or conditions.quarantine or conditions.everything)
        )
        if item in whatever:
            assert expected
        elif expected:
            assert conditions.older_than is not None
            assert NOW - item.used == pytest.approx(conditions.older_than, abs=1e-6)
    if conditions.to_size is not None:
        assert chosen == whatever[: len(chosen)]  # the least recently used first
        left = [found.bytes - sum(item.bytes for item in whatever[:n]) for n in range(len(whatever) + 1)]
        assert chosen == whatever or left[len(chosen)] <= conditions.to_size
        assert not chosen or left[len(chosen) - 1] > conditions.to_size
    assert [item.used for item in chosen] == sorted(item.used for item in chosen)


def test_what_a_result_was_made_from_is_reachable(place: StorePlace) -> None:
    ledger, store = Ledger(place.path), Store(place.folder, print)
    sweep = opened(ledger, "a")
    ledger.write(sweep.id, 0, result("a"))
    store.used([NODES["chunk"].address], "s" * 64)
    store.used([NODES["index"].address], "another")
    ledger.set_status(sweep.id, FINISHED)
    results = read_results(place)
    assert results == SweepResults({"s" * 64: ("s",)}, None)
    chosen = choose(contents(place), Conditions(unreachable=True), results, time.time())
    assert {item.stage for item in chosen} == {"index", "retrieve", "rerank", ""}


def test_replies_and_the_speed_of_the_machine_are_reachable(place: StorePlace) -> None:
    Ledger(place.path).write(None, 0, result("a"))
    store = Store(place.folder, print)
    store.used([NODES["chunk"].address], "s" * 64)
    for node in (reply_node(NODES["chunk"].spec, "judge"), speed_node()):
        StoredReplies(node, store)["1"] = "a paid reply"
    chosen = choose(contents(place), Conditions(unreachable=True), read_results(place), time.time())
    assert {item.stage for item in chosen} == {"index", "retrieve", "rerank", ""}


def test_results_of_a_read_only_folder_are_read(place: StorePlace) -> None:
    Ledger(place.path).write(None, 0, result("a"))
    code = (
        "import sys; from pathlib import Path; from ragsweep.stages.storekeeping import StorePlace, read_results\n"
        "print(list(read_results(StorePlace(Path(sys.argv[1]))).names.values()))"
    )
    command = without_root([sys.executable, "-c", code, str(place.path)])
    with closing(sqlite3.connect(place.path / "ledger.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for name in ("-wal", "-shm"):
        (place.path / f"ledger.db{name}").unlink(missing_ok=True)
    place.path.chmod(0o500)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    place.path.chmod(0o700)
    assert done.stdout == "[('single runs',)]\n", done.stderr


def test_what_a_running_sweep_made_is_reachable(place: StorePlace) -> None:
    opened(Ledger(place.path), "a")  # claimed by this process, which lives
    assert choose(contents(place), Conditions(unreachable=True), read_results(place), 0.0)
    store = Store(place.folder, print)
    store.used([NODES["chunk"].address], "s" * 64)
    chosen = choose(contents(place), Conditions(unreachable=True), read_results(place), time.time())
    assert "chunk" not in {item.stage for item in chosen}


@pytest.mark.parametrize("ledger", ["of another store", "without results", "none"])
def test_nothing_is_called_unreachable_only_because_nothing_is_known(ledger: str, place: StorePlace) -> None:
    if ledger == "of another store":
        Ledger(place.path).write(None, 0, result("a"))
    elif ledger == "without results":
        ended = Ledger(place.path)
        ended.set_status(opened(ended, "a").id, FINISHED)
    with pytest.raises(InputError, match=r"--unreachable: .*(no |does not )"):
        choose(contents(place), Conditions(unreachable=True), read_results(place), time.time())


# --- removing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [set(), {"chunk"}, {"retrieve"}, {"index", "rerank"}, set(NODES)])
def test_what_is_removed_is_a_miss_and_the_rest_is_untouched(stages: set[str], place: StorePlace) -> None:
    wanted = [item for item in contents(place).items if item.stage in stages]
    assert all(why == "" for _, why in evict(place, wanted))
    assert kept(place.path) == set(NODES) - stages
    assert {item.stage for item in contents(place).entries} == set(NODES) - stages
    store = Store(place.folder, print)
    assert [store.cost(NODES[stage]) > 0 for stage in sorted(NODES)] == [stage not in stages for stage in sorted(NODES)]


def test_entry_that_another_process_computes_is_left(place: StorePlace, held: forked.Popen) -> None:
    left = {item.stage: why for item, why in evict(place, contents(place).entries) if why}
    assert left == {"chunk": "another process is computing it"}
    assert kept(place.path) == {"chunk"}


def test_entry_that_was_used_after_it_was_listed_is_left(place: StorePlace) -> None:
    items = contents(place).entries
    store = Store(place.folder, print)
    store.used([NODES["index"].address], "s" * 64)
    store.keep_rows(NODES["rerank"], StoredPiece(("new",), value("rerank", 1)), Cost(1, 1.0))
    left = {item.stage: why for item, why in evict(place, items) if why}
    assert left == {"index": "it has been used in the meantime", "rerank": "it has been used in the meantime"}


def test_name_in_the_database_leads_nowhere(place: StorePlace, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    with sqlite3.connect(place.database) as connection:
        connection.execute("UPDATE entries SET address = '../../victim' WHERE stage = 'chunk'")
    connection.close()
    list(evict(place, contents(place).items))
    assert victim.read_text() == "mine"


def test_temporary_files_of_the_living_stay(place: StorePlace) -> None:
    process = forked.Popen([sys.executable, "-c", ""])
    process.wait()
    me = myself()
    names = [f"{socket.gethostname()}~{number}~{me.started}~1" for number in (os.getpid(), process.pid)]
    for name in (*names, "elsewhere~1~2~3"):
        (place.folder / "temporary" / name).write_bytes(b"half")
    found = choose(contents(place), Conditions(everything=True), None, time.time())
    list(evict(place, found))
    assert {path.name for path in (place.folder / "temporary").iterdir()} == {names[0], "elsewhere~1~2~3"}


KILLING = """
import os, shutil, signal, sys
from pathlib import Path
from ragsweep.stages import storekeeping
from ragsweep.stages.eviction import evict, give_back
from ragsweep.stages.storekeeping import StorePlace, contents

def work(place, what):
    if what == "evict":
        for _ in evict(place, contents(place).items): pass
        give_back(place)

def killed_at(line):
    # Every line of our own modules counts one; at the given one the process is gone.
    count = 0
    def trace(frame, event, argument):
        nonlocal count
        if not frame.f_code.co_filename.endswith(("storekeeping.py", "eviction.py")): return None
        count += event == "line"
        if count == line: os.kill(os.getpid(), signal.SIGKILL)
        return trace
    return trace

original, what = Path(sys.argv[1]), sys.argv[2]
start, step = int(sys.argv[3]), int(sys.argv[4])
for line in range(start, 100_000, step):
    copy = original.with_name(f"killed-{what}-{line}")
    shutil.copytree(original, copy)
    child = os.fork()
    if not child:
        sys.settrace(killed_at(line))
        work(StorePlace(copy), what)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        assert status == 0
        break
"""


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.nightly)])
def test_whole_wherever_it_is_killed(step: int, tmp_path: Path) -> None:
    original = tmp_path / "store"
    fill(original)
    forked.run([sys.executable, "-c", KILLING, str(original), "evict", "1", str(step)], check=True)
    copies = list(tmp_path.glob("killed-*"))
    assert len(copies) * step > 100
    for copy in copies:
        place = StorePlace(copy)
        kept(copy)
        found = contents(place)
        assert all(why == "" for _, why in evict(place, found.items))
        assert kept(copy) == set()
        assert contents(place).entries == []


# --- giving room back ----------------------------------------------------------------------------------------------


@pytest.fixture
def large(place: StorePlace) -> StorePlace:
    store = Store(place.folder, print)
    for n in range(8):
        store.keep_rows(NODES["retrieve"], StoredPiece((f"more {n}",), value("x", 50_000)[None]), Cost(1, 1.0))
    store.keep_rows(NODES["rerank"], StoredPiece(("last",), value("x", 1)), Cost(1, 1.0))
    store.close()
    return place


def test_room_is_given_back_and_numbers_go_on(large: StorePlace) -> None:
    store = Store(large.folder, print)
    last = store.segments(NODES["rerank"])[-1].number
    store.close()
    list(evict(large, [entry(large, "retrieve")]))
    assert contents(large).unused > 3_000_000
    assert give_back(large) == ""
    assert contents(large).database < 500_000
    store = Store(large.folder, print)
    store.keep_rows(NODES["retrieve"], StoredPiece(KEYS[:1], value("retrieve", 1)), Cost(1, 1.0))
    assert store.segments(NODES["retrieve"])[0].number > last  # else who has read up to there would miss it


def test_room_stays_where_the_database_is_in_use(large: StorePlace) -> None:
    list(evict(large, [entry(large, "retrieve")]))
    other = sqlite3.connect(large.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "locked" in give_back(large)
    other.execute("ROLLBACK")
    other.close()
