"""``ragsweep golden import`` and its neighbours as they are typed, in process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragsweep.commands.golden import golden
from ragsweep.core.errors import ConfigError

TEXT = "# Trees\n\nThe alder measures 10 metres. It grows beside water.\n"


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "alder.md").write_text(TEXT)
    records = [{"user_input": "How tall is the alder?", "reference_contexts": [TEXT, "Nothing like it."], "a": [{}]}]
    (tmp_path / "testset.json").write_text(json.dumps(records))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_import_writes_the_set_and_says_what_is_lost(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden(["import", "testset.json", "out=golden.jsonl", "corpus=pages"]) == 1
    out = capsys.readouterr().out
    assert "a of 1 rows has no place: left out" in out
    assert "Nothing like it. (not in the corpus)" in out
    assert "1 questions (ragas) in golden.jsonl, 1 with evidence; texts found: 1 literally, 0 nearly, 1 not" in out
    assert golden(["check", "golden.jsonl", "corpus=pages"]) == 0


def test_import_by_a_reader_writes_the_documents_of_squad_too(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"text": "10 metres", "answer_start": TEXT.index("10 metres")}
    paragraph = {"context": TEXT, "qas": [{"id": "q1", "question": "How tall?", "answers": [answer]}]}
    (place / "squad.json").write_text(json.dumps({"data": [{"title": "alder", "paragraphs": [paragraph]}]}))
    assert golden(["import", "dataset=squad", "dataset.path=squad.json", "out=set.jsonl"]) == 0
    (entry,) = read_lines(place / "set.jsonl")
    assert entry["audit"] == {"status": "silver", "created_by": "import squad"}
    assert golden(["check", "set.jsonl", "corpus=set.corpus.jsonl"]) == 0
    assert "1 question, 1 label, no fault" in capsys.readouterr().out


def test_export_writes_files_or_folders_and_says_what_is_lost(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"id": "q1", "question": "How tall?", "notes": "n", "evidence": [{"document": "alder.md", "anchor": "10"}]}
    (place / "golden.jsonl").write_text(json.dumps(entry))
    words = ["export", "golden.jsonl", "corpus=pages"]
    assert golden([*words, "format=beir", "out=beir"]) == 0
    assert "no place in beir: notes of 1, evidence.anchor of 1" in capsys.readouterr().out
    assert (place / "beir" / "qrels" / "test.tsv").read_text() == "query-id\tcorpus-id\tscore\nq1\talder.md\t1\n"
    assert golden([*words, "format=labelstudio", "out=tasks.json"]) == 0
    assert "1 questions in tasks.json; nothing is lost" in capsys.readouterr().out
    assert golden([*words, "format=triplets", "out=triplets.jsonl"]) == 0
    assert "1 times: questions without a chunk that resembles them are left out" in capsys.readouterr().out
    assert (place / "triplets.jsonl").read_text() == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["export", "x", "out=y"], 'format="auto"; known: argilla, beir, csv'),
        (["export", "x", "format=csv"], "out=FOLDER for beir and trec"),
        (["export", "golden.jsonl", "format=squad", "out=x"], "format=squad needs the documents"),
        (["import", "testset.json"], "out=GOLDEN.jsonl"),
        (["import", "out=x"], "give a file, or a reader"),
        (["import", "testset.json", "out=x", "dataset=squad", "dataset.path=y"], "give a file, or a reader"),
    ],
)
def test_what_is_missing_is_one_sentence(place: Path, words: list[str], message: str) -> None:
    (place / "golden.jsonl").write_text("")
    with pytest.raises(ConfigError, match=message):
        golden(words)
