"""Make the n-th write of a process fail, or be its last: a shim over the calls, and a small graph to test it with.

    python write_faults.py FOLDER KIND FIRST STEP    fail the n-th call, then repeat in a new process; a JSON line per n

Kinds: kill (SIGKILL instead of the call), torn (half a write, then SIGKILL), short (half a write, reported as such),
enospc and eio (the call fails once), full (this and all later calls fail with ENOSPC).
"""

import builtins
import errno
import hashlib
import io
import itertools
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.core.identity import Node, Rows, Spec, StageContext
from ragsweep.core.types import Answer, Embeddings, Rankings, Spans
from ragsweep.evaluation.answering import cacheable, packed
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import open_store

KINDS = ("kill", "torn", "short", "enospc", "eio", "full")
QUERIES = ("one", "two", "three", "four")


class Shim:
    """Counts the calls that write, and makes one or more of them fail."""

    def __init__(self, at: int, kind: str) -> None:
        self.at = at
        self.kind = kind
        self.calls = 0
        self.hit = ""

    def install(self) -> None:
        """Wrap every call that changes a file."""
        for name in ("fsync", "replace", "mkdir", "unlink", "rmdir", "posix_fallocate"):
            setattr(os, name, self._before(name, getattr(os, name)))
        os.write = self._writing(os.write)
        os.open = self._before("open", os.open, lambda path, flags, *more, **named: flags & (os.O_WRONLY | os.O_RDWR))
        io.open = self._before("open", io.open, lambda file, mode="r", *more, **named: set(mode) & set("wax+"))
        builtins.open = io.open
        connect, shim = sqlite3.connect, self

        class Counted(sqlite3.Connection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                if not sql.lstrip().startswith("SELECT"):
                    shim.fault(" ".join(sql.split()[:2]), sqlite3.OperationalError)
                return super().execute(sql, *values)

        sqlite3.connect = lambda *given, **named: connect(*given, factory=Counted, **named)

    def fault(self, name: str, error: Callable[..., Exception] = OSError) -> None:
        """Count a call, and make it fail if its turn has come."""
        if not self._turn(name):
            return
        if self.kind in ("kill", "torn"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind != "short":
            number = errno.EIO if self.kind == "eio" else errno.ENOSPC
            raise error(number, os.strerror(number)) if error is OSError else error(os.strerror(number))

    def _turn(self, name: str) -> bool:
        self.calls += 1
        if self.kind == "full":  # a full disk still permits deletion
            turn = self.calls >= self.at and name not in ("unlink", "rmdir")
        else:
            turn = self.calls == self.at
        if turn and not self.hit:
            self.hit = name
        return turn

    def _before(self, name: str, call: Any, counts: Callable[..., Any] = lambda *given, **named: True) -> Any:
        def stood_before(*given: Any, **named: Any) -> Any:
            if counts(*given, **named):
                self.fault(name)
            return call(*given, **named)

        return stood_before

    def _writing(self, call: Any) -> Any:
        def write(handle: int, data: Any) -> int:
            if self.kind not in ("torn", "short"):
                self.fault("write")
            elif self._turn("write"):
                written: int = call(handle, memoryview(data)[: len(data) // 2])
                if self.kind == "torn":
                    os.kill(os.getpid(), signal.SIGKILL)
                return written
            return int(call(handle, data))

        return write


# --- a small graph of all kinds of nodes --------------------------------------------------------------------------


class Small:
    """A graph of whole values, one of them in pieces, and rows, some stored early; ``note`` receives every step."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.chunk = Node("chunk", Spec("small.Chunk", "1"), (), self._chunk, result=Spans)
        self.embed = Node("embed", Spec("small.Embed", "1"), (self.chunk,), self._embed, result=Embeddings)
        self.index = Node("index", Spec("small.Index", "1"), (self.embed,), self._index, result=dict)
        self.rank = Node("retrieve", Spec("small.Rank", "1"), (self.index,), self._rank, "rows", result=Rankings)
        self.score = Node("rerank", Spec("small.Score", "1"), (self.rank,), self._score, "rows", result=np.ndarray)
        self.answer = Node(
            "generate", Spec("small.Answer", "1"), (self.rank,), self._answer, "rows", result=np.ndarray,
            cacheable=cacheable(Answer),
        )  # fmt: skip

    def _chunk(self, work: StageContext, rows: Rows) -> Spans:
        self.note("made chunk")
        return Spans(np.arange(9, dtype=np.int32), np.zeros(9, np.int64), np.arange(9, dtype=np.int64))

    def _embed(self, work: StageContext, rows: Rows) -> Embeddings:
        spans, filled = work.get(self.chunk), work.space((9, 4), np.float32)
        for name, shard in work.pieces(lambda start: self._shard(spans, start), ["0", "3", "6"], int):
            start = int(name)
            self.note(f"kept embed/{start}")
            filled[start : start + 3] = shard.vectors
        return Embeddings(filled, np.arange(9, dtype=np.int32), np.arange(9, dtype=np.int32))

    def _shard(self, spans: Spans, start: int) -> Embeddings:
        self.note(f"made embed/{start}")
        three = spans.document[start : start + 3]
        return Embeddings(np.sin(three[:, None] + np.arange(4, dtype=np.float32)).astype(np.float32), three, three)

    def _index(self, work: StageContext, rows: Rows) -> dict[str, np.ndarray]:
        self.note("made index")
        vectors = work.get(self.embed).vectors
        return {"vectors": vectors, "longest": np.array([np.abs(vectors).max()]), "nothing": np.empty((0, 3))}

    def _rank(self, work: StageContext, rows: Rows) -> Rankings:
        vectors = work.get(self.index)["vectors"]
        parts = []
        for row in rows:
            self.note(f"made rank/{row}")
            scores = vectors @ np.full(4, len(row), np.float32)
            order = np.argsort(-scores, kind="stable")[None, :5].astype(np.int32)
            parts.append(Rankings(order, scores[order], "small"))
            work.keep([row], parts[-1])
            self.note(f"kept rank/{row}")
        return Rankings(
            np.concatenate([p.positions for p in parts]), np.concatenate([p.scores for p in parts]), "small"
        )

    def _score(self, work: StageContext, rows: Rows) -> np.ndarray:
        self.note("made score")
        return work.get(self.rank, rows).scores.sum(axis=1, dtype=np.float32)

    def _answer(self, work: StageContext, rows: Rows) -> np.ndarray:
        said = [Answer(f"{row}: {best}") for row, best in zip(rows, work.get(self.rank, rows).positions, strict=True)]
        for row, one in zip(rows, said, strict=True):
            self.note(f"made answer/{row}")
            work.keep([row], packed([one]))
            self.note(f"kept answer/{row}")
        return packed(said)

    def results(self, executor: Executor) -> str:
        """Compute all values, and return their hash."""
        state = hashlib.sha256()
        for node in (self.chunk, self.embed, self.index, self.rank, self.score, self.answer):
            value = executor.get(node, QUERIES[:3] if node is self.rank else QUERIES)
            self.note(f"kept {node.stage}")
            fields = (
                value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, tuple) else [value])
            )
            for name, field in fields:
                state.update(f"{name} {getattr(field, 'dtype', field)} {getattr(field, 'shape', '')}".encode())
                state.update(np.ascontiguousarray(field).tobytes() if isinstance(field, np.ndarray) else b"")
        return state.hexdigest()


# --- every n ------------------------------------------------------------------------------------------------------


def attempt(folder: Path, shim: Shim | None) -> dict[str, Any]:
    """Compute the small graph with a store in a separate process; return what it reported before it ended."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        say, leave = os.write, os._exit  # without the shim
        try:
            _child(folder, shim, lambda line: say(writer, (json.dumps(line) + "\n").encode()))
        except BaseException as fault:
            say(writer, (json.dumps({"raised": repr(fault)}) + "\n").encode())
        leave(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        said = [json.loads(line) for line in lines]
    _, status = os.waitpid(process, 0)
    result: dict[str, Any] = {
        "killed": os.WIFSIGNALED(status),
        "notes": [line for line in said if isinstance(line, str)],
    }
    for line in said:
        result.update(line if isinstance(line, dict) else {})
    return result


def _child(folder: Path, shim: Shim | None, say: Callable[[Any], None]) -> None:
    warnings: list[str] = []
    if shim:
        shim.install()
    store = open_store(folder, warnings.append)
    digest = Small(say).results(Executor(store))
    again = Executor(open_store(folder, warnings.append) if not shim else store)
    recalled = Small(lambda text: None).results(again)
    say({
        "digest": digest,
        "recalled": recalled,
        "executed_again": sum(work.executed for work in again.work.values()),
        "warnings": warnings,
        "temporary": len(list((folder / "temporary").iterdir())) if (folder / "temporary").is_dir() else 0,
        "hit": shim.hit if shim else "",
    })  # fmt: skip


def every_call(folder: Path, kind: str, begin: int, step: int) -> Iterator[dict[str, Any]]:
    """Make each call fail in turn, and after each failure repeat the computation in a new process."""
    for n in itertools.count(begin, step):
        first = attempt(folder / f"{n}", Shim(n, kind))
        yield {"n": n, "kind": kind, "first": first, "then": attempt(folder / f"{n}", None)}
        if not first["killed"] and not first.get("hit"):
            return


if __name__ == "__main__":
    Small(lambda text: None).results(Executor())  # imports everything before processes are forked
    for outcome in every_call(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])):
        print(json.dumps(outcome))
