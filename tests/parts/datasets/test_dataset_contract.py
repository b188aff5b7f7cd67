"""Every reader keeps the contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragsweep.parts.datasets import Beir, Csv, Folder, Jsonl, PythonReference, Squad, Trec
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
        return Beir(str(self.path), split="test", grades=None, unknown="error", limit=None, seed=0)


class TestJsonl(DatasetContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path
        (tmp_path / "corpus.jsonl").write_text('{"id": "d", "text": "some text"}\n')
        (tmp_path / "golden.jsonl").write_text('{"id": "q", "question": "what", "evidence": [{"document": "d"}]}\n')

    def part(self) -> Jsonl:
        files = {name: str(self.path / f"{name}.jsonl") for name in ("corpus", "golden")}
        return Jsonl(**files, unknown="error", limit=None, seed=0, repeated_passages=False)


class TestTrec(DatasetContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path
        (tmp_path / "corpus").write_text('{"id": "d", "text": "some text"}\n')
        (tmp_path / "topics").write_text("<top>\n<num> Number: 1\n<title> what\n</top>\n")
        (tmp_path / "qrels").write_text("1 0 d 1\n")

    def part(self) -> Trec:
        files = {name: str(self.path / name) for name in ("corpus", "topics", "qrels")}
        return Trec(**files, fields=["title"], grades=None, unknown="error", limit=None, seed=0)


class TestSquad(DatasetContract):
    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "squad.json"
        question = {"id": "q", "question": "what", "answers": [{"text": "text", "answer_start": 5}]}
        paragraph = {"context": "some text", "qas": [question]}
        self.path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [paragraph]}]}))

    def part(self) -> Squad:
        return Squad(str(self.path), unknown="error", limit=None, seed=0)


class TestFolder(DatasetContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path
        (tmp_path / "pages" / "guide").mkdir(parents=True)
        (tmp_path / "pages" / "guide" / "page.md").write_text("# Guide\n\nsome text\n")
        label = {"document": "guide/page.md", "anchor": "some text"}
        (tmp_path / "golden.jsonl").write_text(json.dumps({"id": "q", "question": "what", "evidence": [label]}))

    def part(self) -> Folder:
        paths = {"path": str(self.path / "pages"), "golden": str(self.path / "golden.jsonl")}
        return Folder(**paths, exclude=[], unknown="error", limit=None, seed=0, repeated_passages=False)


class TestCsv(DatasetContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path
        (tmp_path / "corpus.csv").write_text("id,text\nd,some text\n")
        (tmp_path / "questions.tsv").write_text("id\tquestion\tdocument\nq\twhat\td\n")

    def part(self) -> Csv:
        files = {"corpus": str(self.path / "corpus.csv"), "questions": str(self.path / "questions.tsv")}
        options = {"columns": None, "corpus_columns": None, "grades": None}
        return Csv(**files, **options, unknown="error", limit=None, seed=0)
