"""Every reader keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragsweep.datasets import Beir, Jsonl, PythonReference
from ragsweep.testing.datasets import DatasetContract


class TestPythonReference(DatasetContract):
    def part(self) -> PythonReference:
        return PythonReference(limit=None, seed=0)


class TestBeir(DatasetContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path
        (tmp_path / "qrels").mkdir()
        (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "title": "t", "text": "some text"}\n')
        (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "what"}\n')
        (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")

    def part(self) -> Beir:
        return Beir(str(self.path), split="test", unknown="error", limit=None, seed=0)


class TestJsonl(DatasetContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path
        (tmp_path / "corpus.jsonl").write_text('{"id": "d", "text": "some text"}\n')
        (tmp_path / "golden.jsonl").write_text('{"id": "q", "question": "what", "evidence": [{"document": "d"}]}\n')

    def part(self) -> Jsonl:
        files = {name: str(self.path / f"{name}.jsonl") for name in ("corpus", "golden")}
        return Jsonl(**files, unknown="error", limit=None, seed=0, repeated_passages=False)
