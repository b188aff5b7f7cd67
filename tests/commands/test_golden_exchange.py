"""``ragsweep golden import`` and its neighbours as they are typed, in process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragsweep.commands.golden import golden
from ragsweep.core.errors import ConfigError, InputError

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
        (["harvest", "x", "corpus=pages"], "give log=FILE, or traces=MLFLOW_URI and experiment=NAME"),
        (["harvest", "x", "corpus=pages", "traces=sqlite:///x"], "experiment=NAME"),
        (["harvest", "x", "log=y"], "give the documents"),
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


def test_harvest_adds_what_is_new_once(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "log.csv").write_text("query\nHow tall is the alder?\nhow tall is the alder\nWhere does it grow?\n")
    words = ["harvest", "golden.jsonl", "corpus=pages", "log=log.csv"]
    assert golden([*words, "embedder=hashing"]) == 0
    out = capsys.readouterr().out
    assert "    2   How tall is the alder?" in out
    assert "3 records, 0 without a question; 2 different questions: 0 are in the file" in out
    first = (place / "golden.jsonl").read_text()
    assert [entry["question"] for entry in read_lines(place / "golden.jsonl")] == [
        "How tall is the alder?",
        "Where does it grow?",
    ]
    assert golden(["check", "golden.jsonl", "corpus=pages"]) == 0
    assert golden(words) == 1
    assert (place / "golden.jsonl").read_text() == first
    with pytest.raises(InputError, match=r"golden.jsonl: 2 questions have no weight"):
        golden([*words, "--weights"])
    assert golden(["harvest", "weighted.jsonl", *words[2:], "--weights"]) == 0
    assert [entry["weight"] for entry in read_lines(place / "weighted.jsonl")] == [2, 1]
    with pytest.raises(InputError, match="--weights gives the new ones theirs"):
        golden(["harvest", "weighted.jsonl", *words[2:]])
