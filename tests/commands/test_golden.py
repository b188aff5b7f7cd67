"""``ragsweep golden gates`` as it is typed, in process."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import ConfigError, InputError
from ragsweep_golden.commands import golden
from support import output, printed_json, write_rows
from support.inputs.tool_files import parquet_of

TEXT = "# Trees\n\nThe alder measures 10 metres. It grows beside water.\n"


@pytest.fixture
def place(cwd: Path) -> Path:
    (cwd / "pages" / "wet").mkdir(parents=True)
    (cwd / "pages" / "wet" / "alder.md").write_text(TEXT)
    entry = {
        "id": "q1", "question": "How tall is the alder?", "reference": "10 metres",
        "evidence": [{"document": "wet/alder.md", "anchor": "10 metres"}],
    }  # fmt: skip
    (cwd / "golden.jsonl").write_text(json.dumps(entry) + "\n")
    return cwd


def test_the_report_has_every_gate_with_its_value_and_verdict(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["golden.jsonl", "corpus=pages", "profile=full", "gates.G0-1.threshold=1", "embedder=hashing"]
    report = printed_json(capsys, golden, "gates", *words, "--report", "report.json", status=1)  # few fields
    assert json.loads((place / "report.json").read_text()) == report
    found = {one["gate"]: (one["value"], one["verdict"]) for one in report["gates"]}
    assert len(found) == 31
    assert found["G0-1"] == found["G0-2"] == found["G1-1"] == found["G1-2"] == found["G5-8"] == (1, "passed")
    assert found["G3-1"] == (None, "not_measured")
    assert found["G4-1"] == (4, "failed")
    assert found["G5-1"] == (0, "passed")


def test_notes_on_the_documents_are_shown_beside_a_report(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "pages" / "picture.png").write_bytes(b"")
    note = "files of other types skipped: 1 .png"
    golden(["check", "golden.jsonl", "corpus=pages"])
    assert note in capsys.readouterr().err
    data = ["dataset=folder", "dataset.path=pages", "dataset.golden=golden.jsonl"]
    for given in (["golden.jsonl", "corpus=pages"], data):
        golden(["gates", *given, "embedder=hashing", "--json"])
        printed = capsys.readouterr()
        assert note in printed.err
        assert json.loads(printed.out)


def test_a_label_without_a_document_is_no_label_of_an_unknown_document(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"id": "q1", "question": "How tall is the alder?", "evidence": [{"anchor": "10 metres"}]}
    (place / "golden.jsonl").write_text(json.dumps(entry) + "\n")
    assert golden(["check", "golden.jsonl", "corpus=pages"]) == 1
    found = [line.split(maxsplit=1)[1] for line in capsys.readouterr().out.splitlines() if line.startswith("fault")]
    assert found == ['golden.jsonl:1: has no "document"']


def test_a_beir_folder_may_be_gzipped(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "beir").mkdir()
    row = {"_id": "wet/alder.md", "title": "", "text": TEXT}
    (place / "beir" / "corpus.jsonl.gz").write_bytes(gzip.compress(json.dumps(row).encode()))
    for corpus in ("beir", "beir/corpus.jsonl"):
        assert golden(["check", "golden.jsonl", f"corpus={corpus}"]) == 0
        assert "golden.jsonl: 1 question, 1 label, 0 faults" in " ".join(capsys.readouterr().out.split())


def test_faults_of_a_golden_file_in_parquet_are_listed_by_row(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = json.loads((place / "golden.jsonl").read_text())
    wrong = {**entry, "id": "q2", "evidence": [{"document": "wet/alder.md", "anchor": "11 metres"}]}
    (place / "golden.parquet").write_bytes(parquet_of(entry, wrong))
    assert golden(["check", "golden.parquet", "corpus=pages"]) == 1
    assert "golden.parquet:row 2: anchor" in " ".join(capsys.readouterr().out.split())


def test_table_and_exit_status_say_what_was_not_measured(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lenient = [f"gates.{gate}.blocking=false" for gate in ("G0-1", "G2-1", "G3-1", "G3-2", "G5-4", "G5-6", "G5-2")]
    full = ["golden.jsonl", "profile=full", "gates.G4-1.threshold=1", "gates.G6-5.threshold=1", *lenient]
    assert golden(["gates", *full, "corpus=pages"]) == 0
    assert golden(["gates", *full]) == 3  # no corpus
    assert golden(["gates", *full, "dataset=null", "embedder=null", "llm=null"]) == 3
    assert "NOT MEASURED" in capsys.readouterr().out


def test_a_reader_of_another_format_brings_its_corpus(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["dataset=folder", "dataset.path=pages", "dataset.golden=golden.jsonl", "profile=full"]
    report = printed_json(capsys, golden, "gates", *words, status=1)
    found = {one["gate"]: one["value"] for one in report["gates"]}
    assert found["G0-2"] == found["G1-1"] == found["G1-2"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gate"], 'no command "gate"; did you mean "gates"'),
        (["gates"], "specify the golden file"),
        (["gates", "a.jsonl", "b.jsonl"], "takes only one file, got a.jsonl, b.jsonl; write settings"),
        (["gates", "golden.jsonl", "gates.G5-8.threshold=many"], "gates.G5-8.threshold: must be a number"),
        (["gates", "golden.jsonl", "~gates.G1-1"], "gates.G1-1 is missing; add it, or list only the other"),
        (["gates", "golden.jsonl", "corpsu=pages"], 'no key "corpsu"; did you mean "corpus"'),
        (["gates", "golden.jsonl", "old=pages"], "old=pages: is not used by golden gates, only by golden verify; "),
        (
            ["partition", "golden.jsonl", "seed=3"],
            "seed=3: is not used by golden partition, only by golden build, golden e",
        ),
        (["verify", "golden.jsonl"], "specify the documents"),
        (["verify", "corpus=pages"], "specify the golden file"),
        (["verify", "golden.jsonl", "chunker.size=9"], "chunker.size=9: is not used by golden verify, only by golden "),
        (
            ["add", "golden.jsonl", "Why?", "embedder=minilm"],
            "embedder=minilm: is not used by golden add, only by gold",
        ),
        (["check", "golden.jsonl", "dataset=squad"], "dataset=squad: is not used by golden check, only by golden "),
        (
            ["verify", "golden.jsonl", "corpus=pages", "strata.fewest=2"],
            "strata.fewest=2: is not used by golden verify",
        ),
        (["export", "golden.jsonl", "prompt@answer_prompt=default"], "only by golden gates; remove it"),
    ],
)
def test_bad_input_is_one_sentence(place: Path, words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as fault:
        golden(words)
    assert message in str(fault.value)


def test_report_is_always_written_and_other_layouts_name_a_key(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden(["gates", "golden.jsonl", "~gates.G0-1", "--path", "kept"]) == 1  # the profile lacks this gate
    assert "REPORT    kept/gates.json" in capsys.readouterr().out
    assert len(json.loads((place / "kept" / "gates.json").read_text())["gates"]) == 12
    (place / "other.jsonl").write_text('{"id": "q1", "question": "How tall?", "reference_answer": "10 metres"}\n')
    with pytest.raises(InputError, match="for a set in another format, name its reader, such as dataset=beir"):
        golden(["gates", "other.jsonl"])


def test_a_set_of_a_person_is_judged_by_what_matters_to_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten questions without a field of a generation pass; one whose evidence is not found is named."""
    lines: list[dict[str, Any]] = []
    for n, name in enumerate(("alder", "birch", "cedar", "dogwood", "elder", "fir", "gorse", "hazel", "ivy", "yew")):
        (place / "pages" / f"{name}.md").write_text(f"# {name}\n\nThis tree has {n + 10} metres of wood.\n")
        evidence = [{"document": f"{name}.md", "anchor": f"{n + 10} metres"}]
        lines.append({"id": f"q{n}", "question": f"height of a full-grown {name}", "evidence": evidence})
    write_rows(place / "golden.jsonl", lines)
    shown = " ".join(output(capsys, golden, "gates", "golden.jsonl", "corpus=pages", "llm=none").split())
    assert "without any context: not measured (no model" in shown
    assert "PROFILE hand (0 of 10 entries with a generator); for other gates: profile=generated, profile=full" in shown
    assert "10 questions: accepted" in shown
    lines[3]["evidence"] = [{"document": "dogwood.md", "anchor": "77 metres"}]
    write_rows(place / "golden.jsonl", lines)
    shown = " ".join(output(capsys, golden, "gates", "golden.jsonl", "corpus=pages", status=1).split())
    assert 'q3 "height of a full-grown dogwood": 0 of 1 labels found: dogwood.md "77 metres"' in shown


def test_a_page_that_cannot_be_read_is_to_be_moved(place: Path) -> None:
    (place / "pages" / "broken.pdf").write_bytes(b"%PDF-1.7 no")
    with pytest.raises(InputError, match="repair it, or move it out of the folder"):
        golden(["gates", "golden.jsonl", "corpus=pages"])
