"""``ragsweep golden verify`` and its neighbours as they are typed, in process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragsweep.commands.golden import golden
from ragsweep.core.errors import ConfigError

TEXT = "# Trees\n\nThe alder measures 10 metres. It grows beside water.\n"


def write_lines(path: Path, entries: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_lines(tmp_path / "old.jsonl", [{"id": "alder", "text": TEXT}, {"id": "yew", "text": "It is evergreen."}])
    write_lines(tmp_path / "new.jsonl", [{"id": "tree/alder", "text": TEXT}])
    label = {"document": "alder", "anchor": "10 metres", "grade": 2}
    entry = {
        "id": "q1", "question": "How tall is the alder?", "evidence": [label], "distractors": ["alder"], "notes": "n",
        "provenance": {"document": "alder", "start": 0, "end": 9}, "content": {"passage": "It grows beside water."},
        "validation": {"corpus_digest": "before"}, "audit": {"status": "gold", "reviews": [{"who": "Ann"}]},
    }  # fmt: skip
    other = {"id": "q2", "question": "Is the yew evergreen?", "evidence": [{"document": "yew", "anchor": "evergreen"}]}
    write_lines(tmp_path / "golden.jsonl", [entry, other])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_verify_writes_what_is_sure_with_a_changelog_and_leaves_the_rest(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", "golden.jsonl", "corpus=new.jsonl"]
    assert golden([*words, "old=old.jsonl", "out=golden.jsonl", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == {"moved": 1, "edited": 0, "deleted": 1, "ambiguous": 0}
    assert [(one["where"], one["kind"]) for one in report["changes"]] == [
        ("golden.jsonl:1", "moved"),
        ("golden.jsonl:2", "deleted"),
    ]
    first, second = read_lines(place / "golden.jsonl")
    assert first["evidence"] == [{"document": "tree/alder", "anchor": "10 metres", "grade": 2}]
    assert first["distractors"] == ["tree/alder"]
    start = TEXT.index("It grows")
    assert first["provenance"] == {"document": "tree/alder", "start": start, "end": start + 22}
    assert first["notes"] == "n"
    assert first["validation"]["corpus_digest"] == report["corpus"]["after"]
    kept, line = first["audit"]["reviews"]
    assert kept == {"who": "Ann"}
    assert line["what"] == "label moved"
    assert line["old"]["document"] == "alder"
    assert line["new"] == first["evidence"][0]
    assert line["corpus"] == report["corpus"]
    assert second["evidence"] == [{"document": "yew", "anchor": "evergreen"}]
    assert golden(words) == 1  # the other is left
    out = capsys.readouterr().out
    assert "2 labels: 1 hold, 0 repaired, 1 need a person" in out
    assert 'golden.jsonl:2 "q2": "evergreen" of "yew"' in out


def test_verify_takes_sets_of_other_readers_and_their_corpus_as_the_old_one(place: Path) -> None:
    answer = {"text": "10 metres", "answer_start": TEXT.index("10 metres")}
    paragraph = {"context": TEXT, "qas": [{"id": "q1", "question": "How tall?", "answers": [answer]}]}
    (place / "squad.json").write_text(json.dumps({"data": [{"title": "alder", "paragraphs": [paragraph]}]}))
    words = ["dataset=squad", "dataset.path=squad.json", "corpus=new.jsonl", "out=out.jsonl"]
    assert golden(["verify", *words]) == 0
    (entry,) = read_lines(place / "out.jsonl")
    assert entry["reference"] == "10 metres"
    assert entry["evidence"] == [{"document": "tree/alder", "anchor": "10 metres", "start": answer["answer_start"]}]
    assert golden(["verify", "out.jsonl", "corpus=new.jsonl"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [(["verify", "golden.jsonl"], "give the corpus of now"), (["verify", "corpus=new.jsonl"], "give the golden file")],
)
def test_bad_input_is_one_sentence(place: Path, words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as fault:
        golden(words)
    assert message in str(fault.value)
