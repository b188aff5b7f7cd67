"""``ragsweep golden import``, ``export`` and ``harvest`` as they are typed, in process."""

import json
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError, InputError
from ragsweep_golden.commands import golden
from ragsweep_golden.commands.harvest import read_existing
from ragsweep_golden.sets.files import read_changes
from support import output, read_rows

TEXT = "# Trees\n\nThe alder measures 10 metres. It grows beside water.\n"


@pytest.fixture
def place(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (cwd / "pages").mkdir()
    (cwd / "pages" / "alder.md").write_text(TEXT)
    monkeypatch.setenv("COLUMNS", "200")
    return cwd


def commands(path: Path) -> list[str]:
    return [change["command"] for change in read_changes(path)]


def test_import_writes_the_set_and_says_what_is_lost(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"user_input": "How tall is the alder?", "reference_contexts": [TEXT, "Nothing like it."], "a": [{}]}]
    (place / "testset.json").write_text(json.dumps(records))
    out = output(capsys, golden, "import", "testset.json", "out=golden.jsonl", "corpus=pages", status=1)
    assert "no field for a of 1 row: left out" in out
    assert "Nothing like it. (not in the corpus)" in out
    assert "1 question (ragas) in golden.jsonl, 1 with evidence; texts: 1 literally, 0 nearly, 1 not found" in out
    (entry,) = read_rows(place / "golden.jsonl")
    assert entry["evidence"] == [{"document": "alder.md", "anchor": "The alder measures 10 metres."}]
    assert commands(place / "golden.jsonl") == ["golden import"]


def test_import_by_a_reader_writes_the_documents_of_squad_too(place: Path) -> None:
    answer = {"text": "10 metres", "answer_start": TEXT.index("10 metres")}
    paragraph = {"context": TEXT, "qas": [{"id": "q1", "question": "How tall?", "answers": [answer]}]}
    (place / "squad.json").write_text(json.dumps({"data": [{"title": "alder", "paragraphs": [paragraph]}]}))
    words = ["import", "dataset=squad", "dataset.path=squad.json", "out=set.jsonl"]
    (place / "set.corpus.jsonl").write_text("other documents")
    with pytest.raises(ConfigError, match=r"set\.corpus\.jsonl already exists; choose another out=, or add overwrite"):
        golden(words)
    assert (place / "set.corpus.jsonl").read_text() == "other documents"
    assert golden([*words, "overwrite=true"]) == 0
    (entry,) = read_rows(place / "set.jsonl")
    assert entry["audit"] == {"status": "silver", "created_by": "ragsweep golden import squad"}
    assert entry["evidence"][0]["document"] == "alder/1"
    assert read_rows(place / "set.corpus.jsonl") == [{"id": "alder/1", "title": "alder", "text": TEXT}]


def test_import_by_a_reader_prints_the_notes_of_the_reader(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "questions.csv").write_text('id,question,document,meta\nq1,How tall?,alder.md,"[1, 2]"\n')
    words = ["dataset=csv", "dataset.corpus=pages", "dataset.questions=questions.csv"]
    assert golden(["import", *words, "out=set.jsonl"]) == 0
    assert "columns whose lists and objects are not read as labels: meta" in capsys.readouterr().err


def test_export_writes_files_or_folders_and_says_what_is_lost(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"id": "q1", "question": "How tall?", "notes": "n", "evidence": [{"document": "alder.md", "anchor": "10"}]}
    rejected = {"id": "q2", "question": "Why?", "validation": {"status": "rejected"}}
    (place / "golden.jsonl").write_text(f"{json.dumps(entry)}\n{json.dumps(rejected)}\n")
    words = ["export", "golden.jsonl", "corpus=pages"]
    out = output(capsys, golden, *words, "format=beir", "out=beir")
    assert "beir has no field for: notes (1 value), evidence.anchor (1 value)" in out
    assert "1 question read, written to beir." in out
    assert (place / "beir" / "qrels" / "test.tsv").read_text() == "query-id\tcorpus-id\tscore\nq1\talder.md\t1\n"
    assert golden([*words, "format=triplets", "out=triplets.jsonl", "chunker=none"]) == 0
    assert "1 time: questions without a similar chunk are omitted" in capsys.readouterr().out
    assert (place / "triplets.jsonl").read_text() == ""


READ = ("dataset=jsonl", "dataset.corpus=corpus.jsonl", "dataset.golden=golden.jsonl")


@pytest.mark.parametrize("command", ["build", "export", "import", "pool", "verify"])
def test_a_dash_is_refused_as_the_output(command: str) -> None:
    with pytest.raises(ConfigError, match="out: - means standard output, which is not supported; name a file"):
        golden([command, "out=-"])


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        (["export", "golden.jsonl", "format=csv", "out=./golden.jsonl"], "golden.jsonl"),
        (["export", "golden.jsonl", "format=beir", "out=.", "corpus=corpus.jsonl"], "corpus.jsonl"),
        (["export", *READ, "format=csv", "out=golden.jsonl"], "golden.jsonl"),
        (["import", "golden.jsonl", "out=golden.jsonl", "overwrite=true"], "golden.jsonl"),
        (["import", "golden.jsonl", "out=corpus.jsonl", "corpus=corpus.jsonl", "overwrite=true"], "corpus.jsonl"),
        (["import", *READ, "out=golden.jsonl", "overwrite=true"], "golden.jsonl"),
        (["verify", "golden.jsonl", "corpus=corpus.jsonl", "out=corpus.jsonl"], "corpus.jsonl"),
        (["pool", "a", "golden=golden.jsonl", "out=golden.jsonl"], "golden.jsonl"),
        (["items", "a", "--golden", "golden.jsonl", "--mini", "golden.jsonl"], "golden.jsonl"),
    ],
)
def test_no_input_is_overwritten(place: Path, words: list[str], lost: str) -> None:
    (place / "golden.jsonl").write_text('{"id": "q1", "question": "How?", "evidence": [{"document": "d"}]}\n')
    (place / "corpus.jsonl").write_text('{"id": "d", "text": "So."}\n')
    before = (place / lost).read_text()
    with pytest.raises(ConfigError, match=f"{lost}: is read by this command; choose another file"):
        golden(words)
    assert (place / lost).read_text() == before


def test_harvest_adds_what_is_new_once(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "log.csv").write_text("query\nHow tall is the alder?\nhow tall is the alder\nWhere does it grow?\n")
    words = ["harvest", "golden.jsonl", "corpus=pages", "log=log.csv", "chunker=none", "--weights"]
    out = output(capsys, golden, *words)
    assert "    2   How tall is the alder?" in out
    assert "3 records, 0 without a question; 2 different questions: 0 already in the file" in out
    first = (place / "golden.jsonl").read_text()
    added = [(entry["question"], entry["weight"]) for entry in read_rows(place / "golden.jsonl")]
    assert added == [("How tall is the alder?", 2), ("Where does it grow?", 1)]
    assert golden(words) == 1
    assert (place / "golden.jsonl").read_text() == first
    assert commands(place / "golden.jsonl") == ["golden harvest"]


def test_all_questions_of_a_set_have_a_weight_or_none(place: Path) -> None:
    assert read_existing(place / "missing.jsonl", has_weights=True) == []
    lines = ['{"id": "a", "question": "x"}\n', '{"id": "b", "question": "y", "weight": 2}\n']
    for line, has_weights, message in zip(lines, (True, False), ('out a "weight"', "the new questions"), strict=True):
        (place / "golden.jsonl").write_text(line)
        assert len(read_existing(place / "golden.jsonl", not has_weights)) == 1
        with pytest.raises(InputError, match=message):
            read_existing(place / "golden.jsonl", has_weights)
    (place / "golden.jsonl").write_text("".join(lines))
    with pytest.raises(InputError, match=r'1 question without a "weight"; add one to each$'):
        read_existing(place / "golden.jsonl", has_weights=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["harvest", "x", "corpus=pages", "traces=sqlite:///x"],
            "needs exactly one of --model NAME@ALIAS, log=FILE, or traces=",
        ),
        (["check", "x", "corpus="], "specify the documents with corpus=FOLDER or corpus=FILE"),
        (["export", "x", "out=y"], "specify the format with format=NAME; known: argilla, beir, csv"),
        (["import", "x", "out=y", "dataset=squad", "dataset.path=y"], "specify either a file or a reader"),
        (["import", "x", "out=pages"], "pages already exists; choose another out=, or add overwrite=true"),
        (["import", "out=y", "dataset=squad", "dataset.path=y", "question=q", "format=csv"], "question=q, format=csv:"),
        (["import", "out=y", "dataset=squad", "dataset.path=y", "corpus=pages"], "corpus=pages: only for a file"),
        (["import", "log.csv", "out=y", "question=q", "format=ragas"], "format=ragas has fixed fields; omit "),
        (["import", "log.csv", "out=y", "qestion=q"], r"no key .*; keys that name a field: id, question, answerable, "),
        (["import", "out=y", "dataset=squad", "dataset.path="], r"^dataset.path: requires a value"),
    ],
)
def test_what_is_missing_is_one_sentence(place: Path, words: list[str], message: str) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        golden(words)
