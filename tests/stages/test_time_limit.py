"""The time limit of a config ends it also while it waits for a store, whose failures are only warnings."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.identity import Node, Spec
from ragsweep.core.interruption import deadline
from ragsweep.stages import store as store_module
from ragsweep.stages.blobs import StoredPiece
from ragsweep.stages.database import Cost, Database
from ragsweep.stages.remote import Remote
from ragsweep.stages.store import Store
from ragsweep.stages.store_files import StoreFiles
from support.servers.object_store import silent_objects

WHOLE = Node("chunk", Spec("parts.Chunk", "1"), (), lambda work, rows: None)
ROWS = Node("rerank", Spec("parts.Rerank", "1"), (), lambda work, rows: None, "rows", result=np.ndarray)
VALUE = np.arange(4.0)


def slow(*_: Any) -> Any:
    time.sleep(2)


ACTS: dict[str, Callable[[Store], object]] = {
    "write": lambda store: store.keep_whole(WHOLE, {"a": VALUE}, 1.0),
    "read": lambda store: store.whole(WHOLE),
    "read rows": lambda store: store.segments(ROWS),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_store(act: Callable[[Store], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path, pytest.fail)
    store.keep_whole(WHOLE, {"a": VALUE}, 1.0)
    store.keep_rows(ROWS, StoredPiece(("a", "b", "c", "d"), VALUE), Cost(4, 1.0))
    monkeypatch.setattr(StoreFiles, "write", slow)
    monkeypatch.setattr(store_module, "map_file", slow)
    monkeypatch.setattr(Database, "open", slow)
    with pytest.raises(TimeoutError, match="raise timeout"), deadline(0.1):
        act(store)


def test_object_store() -> None:
    with silent_objects() as objects:
        remote = Remote(objects, "s3://bucket", pytest.fail, answer=2)
        with pytest.raises(TimeoutError, match="raise timeout"), deadline(0.1):
            remote.get("a")
        assert remote.reachable
