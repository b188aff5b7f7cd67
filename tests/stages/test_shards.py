"""Shards are computed once each, wherever they are computed, and put together to the same value."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import Node, Rows, Spec, StageContext
from ragsweep.core.types import Chunks, Embeddings, Spans, TokenVectors
from ragsweep.parts.retrievers import Bm25, postings
from ragsweep.stages import shards as shards_module
from ragsweep.stages.executor import Executor
from ragsweep.stages.shards import RayShards, check_compute, embed_chunks, index_chunks, read_chunks
from ragsweep.stages.store import Store
from support.parts import Letters, corpus

WORDS = [f"{'word ' * (n % 7)}{n}" for n in range(30)]


class Elsewhere(RayShards):
    """Compute shards in the reverse order, up to so many, and list them."""

    def __init__(self, most: int = 1000) -> None:
        self.most, self.computed = most, list[str]()

    def compute(
        self, make: Callable[[Any], Any], shards: Sequence[str], read: Callable[[str], Any], address: str, result: type
    ) -> Iterator[tuple[str, Any]]:
        for name in reversed(shards):
            if len(self.computed) == self.most:
                raise KeyboardInterrupt
            self.computed.append(name)
            yield name, make(read(name))


class Reader:
    """Token vectors: one for each word."""

    def read(self, texts: Sequence[str]) -> TokenVectors:
        lengths = [len(text.split()) for text in texts]
        vectors = np.array([[len(word), n] for n, text in enumerate(texts) for word in text.split()], np.float32)
        vectors[:, 1] = 0
        return TokenVectors(vectors, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def spans() -> Spans:
    ends = np.array([len(text) for text in WORDS], dtype=np.int64)
    return Spans(np.arange(len(WORDS), dtype=np.int32), np.zeros(len(WORDS), dtype=np.int64), ends)


def chunks() -> Chunks:
    return Chunks(corpus(WORDS), spans())


def embed(letters: Letters | None = None) -> Node:
    def compute(work: StageContext, rows: Rows) -> Embeddings:
        return embed_chunks(work, letters or Letters(), chunks())

    return Node("embed", Spec("support.parts.Letters", "1"), (), compute, result=Embeddings)


def read() -> Node:
    reader: Any = Reader()
    return Node("embed_tokens", Spec("Reader", "1"), (), lambda work, rows: read_chunks(work, reader, chunks()),
                result=TokenVectors)  # fmt: skip


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_module, "SHARD", 4)
    monkeypatch.setattr(postings, "TEXTS", 4)


def bits(value: Any) -> list[bytes]:
    columns = value.values() if isinstance(value, Mapping) else value
    return [np.asarray(column).tobytes() for column in columns]


def index() -> Node:
    part = Bm25(language="none")
    return Node("index", Spec("Bm25", "1"), (), lambda work, rows: index_chunks(work, part, chunks()))


@pytest.mark.parametrize("node", [embed, read, index])
def test_shards_of_elsewhere_in_any_order_are_the_same_value(node: Callable[[], Node], tmp_path: Path) -> None:
    expected = bits(Executor().get(node()))
    shards = Elsewhere()
    for store in (None, Store(tmp_path, pytest.fail)):
        assert bits(Executor(store, shards=shards).get(node())) == expected
    assert len(shards.computed) == 2 * 8


def test_shards_that_are_stored_are_not_computed_again_wherever_they_were_computed(tmp_path: Path) -> None:
    first = Elsewhere(most=3)
    with pytest.raises(KeyboardInterrupt):
        Executor(Store(tmp_path, pytest.fail), shards=first).get(embed())
    second = Elsewhere(most=2)
    with pytest.raises(KeyboardInterrupt):
        Executor(Store(tmp_path, pytest.fail), shards=second).get(embed())
    letters = Letters()
    executor = Executor(Store(tmp_path, pytest.fail))
    assert bits(executor.get(embed(letters))) == bits(Executor().get(embed()))
    assert not set(first.computed) & set(second.computed)
    assert letters.calls == [4, 4, 4]


def test_shards_whose_words_were_counted_are_not_counted_again(tmp_path: Path) -> None:
    first, second = Elsewhere(most=3), Elsewhere()
    with pytest.raises(KeyboardInterrupt):
        Executor(Store(tmp_path, pytest.fail), shards=first).get(index())
    Executor(Store(tmp_path, pytest.fail), shards=second).get(index())
    assert sorted(first.computed + second.computed) == sorted({*first.computed, *second.computed})
    assert len(first.computed) == 3
    assert len(second.computed) == 5


def test_part_that_calls_a_service_stays_in_this_process() -> None:
    shards, node = Elsewhere(), embed()
    called = Node("embed", node.spec, (), node.compute, result=Embeddings, check=lambda: None)
    Executor(shards=shards).get(called)
    assert shards.computed == []


def test_place_to_compute_that_does_not_exist_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"compute: must be local or ray, got 'rays'$"):
        check_compute("rays")
    with pytest.raises(ConfigError, match="compute=ray: shards would wait for processors"):
        check_compute("ray", in_process=False)
    monkeypatch.setattr("ragsweep.stages.shards.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'ragsweep\[ray\]'"):
        check_compute("ray")
