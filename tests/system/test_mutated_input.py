"""Input of others, changed at random, is read as it is, skipped and counted, or refused in a sentence, in time."""

import csv
import hashlib
import io
import json
import random
import shutil
import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from obstore.store import MemoryStore
from pyarrow.lib import ArrowException

from ragsweep.core.errors import SHOWN, RagsweepError
from ragsweep.core.locks import myself
from ragsweep.stages.executor import Executor
from ragsweep.stages.leases import Leases
from ragsweep.stages.remote import Remote
from ragsweep.stages.shared_store import SharedStore
from ragsweep.sweep.running.delivery import Delivery, from_bytes, to_bytes
from ragsweep_golden.commands.review import open_review
from ragsweep_golden.exchange.importing import import_file
from ragsweep_golden.sets.files import write_rows
from support import nightly
from support.inputs.mutants import change_cell, mutant, mutated
from support.inputs.tool_files import CORPUS, FILES, lines, parquet_of
from support.results import a_result
from test_blobs import with_header
from test_damaged_ledger import fill, read_all, write_as_a_sweep
from test_store import TRUTH, small

pytestmark = pytest.mark.slow

LONGEST = 60
"""Seconds in which one mutant is read, on a machine that does much else."""

Reader = Callable[[random.Random], object]
"""Make one mutant and read it; a mutant that is read must be read rightly."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"not read within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _as_table(record: dict[str, Any]) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows([list(record), [str(one)[:200_000] for one in record.values()]])
    return file.getvalue().encode("utf-8", "replace")


FORMS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    ".csv": _as_table,
    ".json": lambda record: json.dumps([record]).encode(),
    ".jsonl": lambda record: lines(record).encode(),
    ".parquet": parquet_of,
}


def tool_file(name: str, folder: Path) -> Reader:
    """Return a reader of files of another tool, of which the bytes or the parts of a record are changed."""
    text = FILES[name].text
    whole, path = text if isinstance(text, bytes) else text.encode(), folder / name

    def changed(chance: random.Random) -> bytes:
        if path.suffix not in FORMS or chance.random() < 0.5:
            return mutant(whole, chance)
        try:
            return FORMS[path.suffix](mutated(FILES[name].record, chance))
        except (ArrowException, OverflowError, UnicodeEncodeError):  # Parquet has no such record
            return mutant(whole, chance)

    def read(chance: random.Random) -> object:
        path.write_bytes(changed(chance))
        return import_file(path, "auto", CORPUS)

    return read


def journal(folder: Path) -> Reader:
    """Return a reader of the journals of reviews; one that is folded leaves a golden file that is read."""
    golden = folder / "golden.jsonl"
    entry: dict[str, Any] = {
        "question": "How tall is the alder?",
        "reference": "10 metres",
        "evidence": [{"document": "alder.md", "anchor": "The alder measures"}],
        "audit": {"status": "silver", "created_by": "build"},
    }
    given: dict[str, Any] = {"who": "me", "when": "2026-01-01"}
    label = {"document": "alder.md", "anchor": "a tree", "start": 3}
    whole = [
        {"id": "1", "task": "a", "entry": "q1", "action": "accept", **given},
        {"id": "2", "task": "b", "entry": "q2", "action": "edit", "question": "How?", "reference": "so", **given},
        {"id": "3", "task": "c", "entry": "q1", "evidence": label, "grade": 2, **given},
        {"undo": "1"},
    ]

    def read(chance: random.Random) -> object:
        write_rows(golden, [{"id": f"q{n}", **entry} for n in range(3)])
        rows = list(whole)
        if is_tree := chance.random() < 0.5:
            number = chance.randrange(len(rows))
            rows[number] = mutated(rows[number], chance)
        data = lines(*rows).encode()
        golden.with_name("golden.jsonl.reviews.jsonl").write_bytes(data if is_tree else mutant(data, chance))
        for path in folder.glob("*.changes.jsonl"):
            path.unlink()
        opened = open_review(golden, None, "me", CORPUS)
        opened.journal.finish()
        return open_review(golden, None, "me", CORPUS).journal.finish()

    return read


def outcome(folder: Path) -> Reader:
    """Return a reader of outcomes, some of them with a digest that fits."""
    whole = to_bytes("a", Delivery(a_result(), {"calls": 3.0}))
    plain = zlib.decompress(whole[32:])
    end = 8 + int.from_bytes(plain[:8], "little")
    header = json.loads(plain[8:end])

    def read(chance: random.Random) -> object:
        kind = chance.randrange(3)
        facts = json.dumps(mutated(header, chance)).encode()
        inside = mutant(plain, chance) if kind else len(facts).to_bytes(8, "little") + facts + plain[end:]
        data = zlib.compress(inside)
        data = hashlib.blake2b(data, digest_size=32).digest() + data if kind < 2 else mutant(whole, chance)
        found = from_bytes("a", data)
        assert all(isinstance(one, float) for one in found.spent.values())
        return found.outcome.name

    return read


def stored(prefix: str, folder: Path) -> Reader:
    """Return a reader of the objects of a store: what is damaged is made again, and is right."""
    whole = MemoryStore()
    _compute(folder, whole)
    first = Remote(whole, "memory://", pytest.fail)
    names = first.names(prefix) or []
    contents = {
        name: first.get(name) or b"" for one in ("whole/", "rows/", "costs/") for name in first.names(one) or ()
    }

    def read(chance: random.Random) -> None:
        objects = MemoryStore()
        remote, chosen = Remote(objects, "memory://", pytest.fail), chance.choice(names)
        for name, data in contents.items():
            remote.overwrite(name, _damaged(data, chance) if name == chosen else data)
        _compute(folder, objects)

    return read


def _damaged(data: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return mutant(data, chance)
    try:
        if data[:1] == b"{":
            return json.dumps(mutated(json.loads(data), chance)).encode()
        length = int.from_bytes(data[8:16], "little")
        header = mutated(json.loads(data[48 : 48 + length]), chance)
        return with_header(json.dumps(header).encode(), data[48 + length :])
    except ValueError:
        return mutant(data, chance)


def _compute(folder: Path, objects: MemoryStore) -> None:
    warnings: list[str] = []
    store = SharedStore(folder / "machine", warnings.append, Remote(objects, "memory://", pytest.fail))
    assert small().results(Executor(store)) == TRUTH
    store.close()
    shutil.rmtree(folder / "machine")
    assert all("is damaged" in one for one in warnings)


def lease(folder: Path) -> Reader:
    """Return a reader of leases; one that gives no sign of life ends."""
    whole = json.dumps([myself().host, 1, "x", 3]).encode()

    def read(chance: random.Random) -> None:
        remote = Remote(MemoryStore(), "memory://", pytest.fail)
        number = chance.choice([1, 7, 10**7, 99_999_998, 99_999_999])
        tree = mutated({"": json.loads(whole)}, chance)[""]
        remote.put(f"leases/a/{number:08d}", chance.choice([mutant(whole, chance), json.dumps(tree).encode(), b"free"]))
        for _ in range(2):
            with Leases(remote, lapse=0.01).alone("a"):
                pass

    return read


def ledger(harm: Callable[[Path, random.Random], object], folder: Path) -> Reader:
    """Return a reader of ledgers: what is read is what was written."""
    whole = fill(folder / "whole")
    before = read_all(folder / "whole")
    recorded = len(before) - 2

    def read(chance: random.Random) -> None:
        shutil.rmtree(folder / "changed", ignore_errors=True)
        shutil.copytree(whole, folder / "changed")
        harm(folder / "changed" / "ledger.db", chance)
        found = read_all(folder / "changed")
        assert (found[:recorded], found[-2:]) == (before[:recorded], before[-2:])  # between them claims, not checked
        write_as_a_sweep(folder / "changed")

    return read


def _change_bytes(file: Path, chance: random.Random) -> None:
    file.write_bytes(mutant(file.read_bytes(), chance))


READERS: dict[str, Callable[[Path], Reader]] = {
    **{f"import of {name}": partial(tool_file, name) for name in FILES},
    "journal": journal,
    "outcome": outcome,
    **{name: partial(stored, f"{name}/") for name in ("whole", "rows", "costs")},
    "lease": lease,
    "bytes of a ledger": partial(ledger, _change_bytes),
    "cells of a ledger": partial(ledger, change_cell),
}
COUNTS = {"import": 100, "journal": 2000, "outcome": 2000, "whole": 700, "rows": 700, "costs": 700, "lease": 2000}
QUICK = 12
"""Mutants in every run of the tests; at night so many that each kind of input has 2,000."""


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, QUICK) for name in READERS),
        *(nightly(name, COUNTS.get(name.split()[0], 2000)) for name in READERS),
    ],
)
def test_mutant_is_read_skipped_or_refused_in_a_sentence(name: str, count: int, tmp_path: Path) -> None:
    read, refusals = READERS[name](tmp_path), list[str]()
    for number in range(count):
        try:
            with time_limit(LONGEST):
                read(random.Random(f"{name} {number}"))
        except RagsweepError as fault:
            refusals.append(str(fault))
        except Exception as fault:
            raise AssertionError(f"mutant {number}") from fault
    assert all(0 < len(text.splitlines()) <= SHOWN + 1 for text in refusals)
    assert len(refusals) < count
