"""A store returns what was kept, to the bit, or nothing; what is damaged is said once, put aside and made again."""

import io
import os
import pickle
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.identity import Node, Spec
from ragsweep.core.locks import Holder, myself
from ragsweep.core.types import Rankings
from ragsweep.stages import store as store_module
from ragsweep.stages.blobs import ALIGNED, StoredPiece
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import Cost, Store, open_store
from support import nightly
from support.inputs.mutants import mutant
from support.inputs.write_faults import QUERIES, Small
from test_blobs import BLOCK, forged

TRUTH = Small(lambda text: None).results(Executor())


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: these tests sync thousands of files."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made = Path(tempfile.mkdtemp(dir=memory))
    yield made / "store"
    shutil.rmtree(made)


def small() -> Small:
    return Small(lambda text: None)


def filled(folder: Path) -> Small:
    """Keep the results of the small graph; its nodes."""
    graph, store = small(), Store(folder, pytest.fail)
    assert graph.results(Executor(store)) == TRUTH
    store.close()
    return graph


def executed(executor: Executor) -> int:
    return sum(work.executed for work in executor.work.values())


def check_healed(folder: Path) -> None:
    """What was made again is there and right, and nobody warns again."""
    store = Store(folder, pytest.fail)
    healed = Executor(store)
    assert small().results(healed) == TRUTH
    assert executed(healed) == 0
    store.close()


def repeat(folder: Path) -> list[str]:
    """Ask for everything again; the warnings."""
    warnings: list[str] = []
    store = Store(folder, warnings.append)
    assert small().results(Executor(store)) == TRUTH
    store.close()
    return warnings


def columns(value: Any) -> list[bytes]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
    return [part.tobytes() if isinstance(part, np.ndarray) else part.encode() for part in parts]


# --- damage ------------------------------------------------------------------------------------------------------


class Damage:
    """Write mutants over one entry of a stage, as often as asked."""

    def __init__(self, folder: Path, stage: str) -> None:
        self.folder = folder
        graph = filled(folder)
        nodes = (graph.embed, graph.index, graph.rank, graph.score, graph.answer)
        self.node = next(node for node in nodes if node.stage == stage)
        self.path = folder / "whole" / self.node.address
        self.database = sqlite3.connect(folder / "store.db", isolation_level=None)

    def data(self) -> tuple[int, bytes]:
        """Return an entry's bytes, with the number of the segment."""
        if self.node.kind == "whole":
            return 0, self.path.read_bytes()
        found = "SELECT id, data FROM segments WHERE address = ? ORDER BY random() LIMIT 1"
        return self.database.execute(found, (self.node.address,)).fetchone()

    def write(self, number: int, data: bytes) -> str:
        """Write an entry; its name in a warning."""
        if self.node.kind == "whole":
            self.path.write_bytes(data)
            return str(self.path)
        self.database.execute("UPDATE segments SET data = ? WHERE id = ?", (data, number))
        return f"{self.folder / 'store.db'}, segment {number}"


def damage_often(folder: Path, stage: str, times: int) -> None:
    warnings: list[str] = []
    damage, store = Damage(folder, stage), Store(folder, warnings.append)
    rows = QUERIES if damage.node.kind == "rows" else None
    right = columns(Executor(store).get(damage.node, rows))
    draw = random.Random(stage)
    for n in range(times):
        number, data = damage.data()
        changed = mutant(data, draw)
        if changed == data:
            continue
        name = damage.write(number, changed)
        executor = Executor(store)
        assert columns(executor.get(damage.node, rows)) == right, n
        assert executor.work[stage].executed == 1, n
        (warning,) = warnings
        assert f"{name} is damaged (" in warning, n
        assert "quarantine" in warning
        warnings.clear()
        again = Executor(store)
        assert columns(again.get(damage.node, rows)) == right, n
        assert again.work[stage].executed == 0
        (aside,) = (folder / "quarantine").iterdir()
        assert aside.read_bytes() == changed
        aside.unlink()
    assert warnings == []
    check_healed(folder)


@pytest.mark.parametrize("times", [200, pytest.param(10_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("stage", ["embed", nightly("index"), nightly("retrieve"), nightly("rerank"), "generate"])
def test_damaged_entry_is_reported_once_put_aside_and_made_again(stage: str, times: int, folder: Path) -> None:
    damage_often(folder, stage, times)


def test_two_entries_that_change_places_are_no_entries(folder: Path) -> None:
    graph, warnings = filled(folder), list[str]()
    nodes = [
        Node("index", Spec("two", "1", {"n": n}), (), lambda work, rows, n=n: {"a": np.full(5, n)}) for n in (1, 2)
    ]
    for node in nodes:
        Executor(Store(folder, pytest.fail)).get(node)
    one, other = (folder / "whole" / node.address for node in nodes)
    middle = folder / "middle"
    one.rename(middle)
    other.rename(one)
    middle.rename(other)
    executor = Executor(Store(folder, warnings.append))
    assert [int(executor.get(node)["a"][0]) for node in nodes] == [1, 2]
    assert len(warnings) == 2
    assert all("it was written under the address of another value" in warning for warning in warnings)

    connection = sqlite3.connect(folder / "store.db")
    (a, first), (b, second) = (
        connection.execute("SELECT id, data FROM segments WHERE address = ?", (node.address,)).fetchone()
        for node in (graph.rank, graph.score)
    )
    connection.executemany("UPDATE segments SET data = ? WHERE id = ?", [(second, a), (first, b)])
    connection.commit()
    warnings = repeat(folder)
    assert len(warnings) == 2
    assert all("it was written under the address of another value" in warning for warning in warnings)
    check_healed(folder)


def test_entry_of_another_format_is_said_once_and_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("ragsweep.stages.blobs.FORMAT", 2)
        filled(folder)
    warnings = repeat(folder)
    segments = len(QUERIES) * 3 - 3  # four of the ranking, one of the scores, four of the answers
    assert len(warnings) == 3 + segments
    assert all("by another version of ragsweep (format 2; this version reads format 1)" in one for one in warnings)
    check_healed(folder)


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_database_of_flipped_bytes_serves_nothing_wrong(suffix: str, folder: Path) -> None:
    draw, told = random.Random(suffix), 0
    filled(folder)
    kept = folder.with_name("kept")
    computed = f"Small(print).results(Executor(open_store(Path({str(folder)!r}), print)))"
    code = f"from support.inputs.write_faults import *; {computed}; os._exit(0)"
    if suffix:  # a process that is killed leaves what it wrote beside the database
        shutil.rmtree(folder)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment)
    shutil.copytree(folder, kept)
    for n in range(30):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        path = folder / f"store.db{suffix}"
        data = bytearray(path.read_bytes())
        for _ in range(draw.choice([1, 20, 400])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        warnings: list[str] = []
        store = Store(folder, warnings.append)
        assert small().results(Executor(store)) == TRUTH, n
        for node in (small().rank, small().chunk):
            store.cost(node)
            store.seconds(node, 1.0)
            store.has(node, QUERIES)
        assert sum("store.db is damaged" in one or "store.db was written" in one for one in warnings) <= 1, warnings
        store.close()
        told += bool(warnings)
        repeat(folder)
        check_healed(folder)
    assert told > 2 or suffix  # SQLite itself leaves out what is damaged beside the database


def fill_with_garbage(path: Path) -> None:
    path.write_bytes(b"garbage" * 1000)


def set_version(path: Path) -> None:
    sqlite3.connect(path, isolation_level=None).execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (fill_with_garbage, "store.db is damaged (file is not a database)"),
        (lambda path: path.write_bytes(b""), ""),
        (lambda path: os.truncate(path, 5000), "store.db is damaged (database disk image is malformed)"),
        (set_version, "store.db was written by another version of ragsweep (format 99; this version reads format 1)"),
    ],
)
def test_database_that_is_none_is_put_aside_once(change: Callable[[Path], object], said: str, folder: Path) -> None:
    filled(folder)
    change(folder / "store.db")
    warnings = repeat(folder)
    assert len(warnings) == bool(said)
    assert said in "".join(warnings)
    check_healed(folder)


@pytest.mark.parametrize("change", [fill_with_garbage, set_version])
def test_database_that_cannot_be_put_aside_is_done_without(change: Callable[[Path], object], folder: Path) -> None:
    filled(folder)
    change(folder / "store.db")
    (folder / "quarantine").write_text("a file, where a folder is needed")
    warnings: list[str] = []
    assert open_store(folder, warnings.append) is None
    damage, loss = warnings
    assert "it cannot be moved to" in damage
    assert loss.startswith(f"cannot use the store in {folder}: ")


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE segments",
        "ALTER TABLE entries RENAME COLUMN seconds TO minutes",
        "UPDATE entries SET seconds = 'long', amount = 'x'",
        "UPDATE segments SET data = 'text', keys = x'ff'",
        "UPDATE segments SET address = CAST(x'ff' AS TEXT)",
    ],
)
def test_database_that_somebody_changed_raises_nothing(change: str, folder: Path) -> None:
    filled(folder)
    connection = sqlite3.connect(folder / "store.db", isolation_level=None)
    connection.execute(change)
    connection.close()
    store = Store(folder, lambda text: None)
    executor = Executor(store)
    assert small().results(executor) == TRUTH
    for node in (small().rank, small().embed):
        assert executor.seconds(node) >= 0
        executor.estimate(node, QUERIES)
        executor.known(node, QUERIES)
    store.close()
    repeat(folder)
    check_healed(folder)


def test_file_that_cannot_be_read_now_is_left_where_it_is(folder: Path) -> None:
    graph = filled(folder)
    path = folder / "whole" / graph.index.address
    path.unlink()
    path.mkdir()
    warnings = repeat(folder)
    assert str(path) in warnings[0]
    assert path.is_dir()


# --- what is never stored, and what is ----------------------------------------------------------------------------


def test_value_that_cannot_be_stored_is_said_and_served(folder: Path) -> None:
    warnings: list[str] = []
    node = Node("index", Spec("own", "1"), (), lambda work, rows: {"names": np.array(["a", None])}, label="mine")
    executor = Executor(Store(folder, warnings.append))
    assert executor.get(node)["names"].tolist() == ["a", None]
    (warning,) = warnings
    assert warning.startswith("cannot store index mine: names is an array of object; arrays of Python objects cannot")
    assert warning.endswith("use numbers, or strings of fixed width (dtype=str)")


def test_many_rows_are_several_segments_and_come_back_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "ROWS_A_SEGMENT", 3)
    node, store = (
        Node("rerank", Spec("many", "1"), (), lambda work, rows: None, "rows", result=np.ndarray),
        Store(folder, pytest.fail),
    )
    keys = tuple("abcdefgh")
    assert store.keep_rows(node, StoredPiece(keys, np.arange(8.0)), Cost(8, 1.0))
    found = store.segments(node)
    assert [len(segment.keys) for segment in found] == [3, 3, 2]
    assert np.concatenate([segment.value for segment in found]).tolist() == list(range(8))
    assert store.segments(node, after=found[1].number)[0].keys == ("g", "h")
    assert store.has(node, keys)
    assert store.has(node, keys[:2])
    assert not store.has(node, (*keys, "i"))
    monkeypatch.setattr(store_module, "BYTES_A_SEGMENT", 16)
    assert store.keep_rows(node, StoredPiece(("x", "y", "z"), np.arange(3.0)), Cost(3, 1.0))
    assert [len(one.keys) for one in store.segments(node, after=found[-1].number)] == [2, 1]


def test_half_of_many_segments_is_never_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "ROWS_A_SEGMENT", 2)
    node, warnings = Node("rerank", Spec("many", "1"), (), lambda work, rows: None, "rows", result=Rankings), []
    broken = Rankings(np.zeros((4, 1), np.int32), np.array([[0], [1], [2], [None]]), "")  # of objects: never stored
    store = Store(folder, warnings.append)
    assert not store.keep_rows(node, StoredPiece(tuple("abcd"), broken), Cost(4, 1.0))
    assert store.segments(node) == []
    assert len(warnings) == 1


def test_time_is_told_from_the_part_that_is_most_alike(folder: Path) -> None:
    store = Store(folder, pytest.fail)

    def node(target: str, size: int, stage: str = "chunk") -> Node:
        return Node(
            stage, Spec(target, "1", {"size": size}), (), lambda work, rows: None, amount=100.0, result=np.ndarray
        )

    assert store.seconds(node("a", 1), 100) is None
    for target, size, seconds in (("a", 1, 2.0), ("a", 2, 4.0), ("b", 1, 20.0)):
        store.keep_whole(node(target, size), np.zeros(size), seconds)
    assert store.seconds(node("a", 1), 50) == pytest.approx(1.0)
    assert store.seconds(node("a", 3), 100) == pytest.approx(3.0)
    assert store.seconds(node("c", 1), 100) == pytest.approx(26 / 3)
    assert store.seconds(node("a", 1), 5_001) == pytest.approx(150.03)  # 50 times what was measured: by the whole class
    assert store.seconds(node("c", 1), 15_001) is None  # nothing measured tells of so much
    assert store.seconds(node("a", 1, "embed"), 100) is None
    assert [store.cost(node("a", size)) for size in (1, 2, 3)] == [2.0, 4.0, 0.0]
    with sqlite3.connect(folder / "store.db") as connection:
        connection.execute("UPDATE entries SET machine = 'another'")
    assert store.seconds(node("b", 1), 100) is None
    store.keep_whole(node("b", 1), np.zeros(1), 7.0)  # computed again, on this machine
    assert store.seconds(node("b", 1), 100) == pytest.approx(7.0)


def test_everything_is_for_its_owner_only(folder: Path) -> None:
    before = os.umask(0)
    try:
        filled(folder)
    finally:
        os.umask(before)
    open_to_others = [path for path in folder.rglob("*") if path.stat().st_mode & 0o077]
    assert [path.name for path in open_to_others] == []


def test_what_the_dead_began_is_swept_and_what_the_living_write_is_not(folder: Path) -> None:
    Store(folder, pytest.fail)
    temporary = folder / "temporary"
    alive = [myself(), Holder("elsewhere", 1, "")]
    dead = [
        Holder(alive[0].host, alive[0].process, "0"),
        Holder(alive[0].host, 2**22 + 1, "0"),
    ]
    for holder in (*alive, *dead):
        (temporary / f"{holder.host}~{holder.process}~{holder.started}~1").touch()
    old = temporary / "elsewhere~1~~2"
    old.touch()
    os.utime(old, (0, 0))
    (temporary / "a stranger's").touch()
    os.utime(temporary / "a stranger's", (0, 0))
    Store(folder, pytest.fail)
    left = sorted(path.name.split("~")[0] for path in temporary.iterdir())
    assert left == sorted([alive[0].host, "elsewhere"])


def test_pieces_of_what_is_whole_are_swept(folder: Path) -> None:
    graph = filled(folder)
    for address in (graph.embed.address, "unfinished"):
        (folder / "pieces" / address).mkdir()
    Store(folder, pytest.fail)
    assert [path.name for path in (folder / "pieces").iterdir()] == ["unfinished"]


# --- poison ------------------------------------------------------------------------------------------------------


class Bomb:
    """Makes a folder where it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Path]]:
        return os.mkdir, (self.folder,)


def test_poisoned_entries_run_nothing(folder: Path) -> None:
    graph, bang = filled(folder), folder / "bang"
    array = io.BytesIO()
    np.save(array, np.array([Bomb(bang)], dtype=object), allow_pickle=True)
    poison = pickle.dumps(Bomb(bang))
    lying = forged(bytes(ALIGNED), address=graph.chunk.address, arrays=[["document", "|O8", [8], BLOCK]])
    for node, data in ((graph.chunk, lying), (graph.index, array.getvalue())):
        (folder / "whole" / node.address).write_bytes(data)
    (folder / "whole" / graph.embed.address).unlink()
    (folder / "pieces" / graph.embed.address).mkdir()
    (folder / "pieces" / graph.embed.address / "0").write_bytes(poison)
    connection = sqlite3.connect(folder / "store.db", isolation_level=None)
    connection.execute("UPDATE segments SET data = ?", (poison,))
    connection.close()
    warnings = repeat(folder)
    assert not bang.exists()
    assert len(warnings) == 2 + 1 + 9  # whole values, the piece, segments
    check_healed(folder)
    pickle.loads(poison)
    assert bang.is_dir()  # it would have been seen


def test_folder_that_cannot_be_made_is_a_warning() -> None:
    warnings: list[str] = []
    assert open_store(Path("/proc/nowhere/store"), warnings.append) is None
    assert "cannot use the store in /proc/nowhere/store" in warnings[0]


def test_damaged_database_is_put_aside_by_one_process_only(folder: Path) -> None:
    graph = filled(folder)
    said: list[str] = []
    first, second = Store(folder, said.append), Store(folder, said.append)
    with (folder / "store.db").open("r+b") as file:  # all but the page that says what is in the others
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    assert graph.results(Executor(first)) == TRUTH
    assert graph.results(Executor(second)) == TRUTH
    assert len(said) == 1
    assert len(list((folder / "quarantine").glob("*store.db"))) == 1
    first.close()
    second.close()
    check_healed(folder)


def test_constraint_that_fails_is_no_damage_of_the_file(folder: Path) -> None:
    warnings: list[str] = []
    store = Store(folder, warnings.append)
    before = (folder / "store.db").stat().st_ino
    with pytest.raises(sqlite3.IntegrityError), store._database.transaction() as connection:
        connection.execute("INSERT INTO uses VALUES ('a', 'b', NULL)")
    store.close()
    Store(folder, warnings.append).close()
    assert (warnings, (folder / "store.db").stat().st_ino) == ([], before)
