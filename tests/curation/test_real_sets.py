"""Public sets pass through the gates with the values that their files have, counted here in another way."""

from pathlib import Path
from typing import Any

import pytest

from ragsweep_golden.commands import golden
from support import printed_json, read_rows, write_rows

pytestmark = pytest.mark.nightly


def entry(row: dict[str, Any]) -> dict[str, Any]:
    spans = {(one["start"], one["text"]) for one in row["answer_spans"]}
    start, text = min(spans, default=(None, None))
    label = {"document": row["context_id"], "anchor": text, "start": start}
    made = {"id": row["id"], "question": row["question"], "answerable": row["answerable"]}
    return {**made, "reference": row["reference_answer"], "evidence": [label]} if row["answerable"] else made


@pytest.mark.parametrize("name", ["squad2_dev", "piaf_1_1"])
def test_public_sets_by_count(name: str, collections: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = read_rows(collections / name / "golden.jsonl")
    write_rows(tmp_path / "golden.jsonl", map(entry, rows))
    texts = {document["_id"]: document["text"] for document in read_rows(collections / name / "corpus.jsonl")}
    whole = ["chunker.size=1000000"]  # a chunk a document
    words = [str(tmp_path / "golden.jsonl"), f"corpus={collections / name}", "profile=full", *whole]
    report = printed_json(capsys, golden, "gates", *words, status=1)
    found = {one["gate"]: (one["value"], one["verdict"]) for one in report["gates"]}
    answerable = [row for row in rows if row["answerable"]]
    assert report["questions"] == len(rows)
    assert found["G0-2"][0] == pytest.approx(len({row["context_id"] for row in answerable}) / len(texts))
    placed = [any(texts[row["context_id"]].startswith(one["text"], one["start"]) for one in row["answer_spans"][:1])
              for row in answerable]  # fmt: skip
    assert found["G1-1"][0] == pytest.approx(sum(placed) / len(placed), abs=0.001)
    quoted = [row["reference_answer"] in texts[row["context_id"]] for row in answerable]
    note = next(one["note"] for one in report["gates"] if one["gate"] == "G1-2")
    literal = len(quoted) if note == "all literally" else int(note.split()[0].replace(",", ""))
    assert literal / len(quoted) == pytest.approx(sum(quoted) / len(quoted), abs=0.001)
    assert found["G1-2"] == ((1, "passed") if literal == len(quoted) else (None, "not_measured"))
    assert found["G1-4"][0] == pytest.approx(
        sum(row["question"].rstrip(' ")\u201d').endswith("?") for row in rows) / len(rows)
    )
    assert found["G1-4"][1] == "failed"
    assert found["G2-2"][0] == pytest.approx(1 - len(answerable) / len(rows))
    assert found["G4-1"] == (5, "failed")
    assert found["G5-1"] == (None, "not_measured")


MARKS = Path(__file__).parent.parent / "fixtures" / "rule_questions.jsonl"


@pytest.mark.parametrize(("corpus", "language"), [("squad2_dev", "en"), ("piaf_1_1", "fr"), ("python_faq_fr", "fr")])
def test_most_questions_by_rule_are_usable_by_the_marks_of_a_reader(
    corpus: str, language: str, collections: Path, cwd: Path
) -> None:
    """The first 20 are marked; where the rules change, new ones must be read."""
    usable = {one["id"]: one["usable"] for one in read_rows(MARKS) if one["corpus"] == corpus}
    words = ["out=set.jsonl", "questions=60", f"language={language}", "embedder=null"]
    golden(["build", f"corpus={collections / corpus}", *words])
    first = [one["id"] for one in read_rows(Path("set.jsonl")) if one["answerable"]][:20]
    read = [usable[name] for name in first if name in usable]
    assert len(read) >= 15
    assert sum(read) >= 0.6 * len(read)


def test_a_corpus_without_sentences_to_ask_about_says_how_few_questions_there_are(
    collections: Path, cwd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden(["build", f"corpus={collections / 'cranfield'}", "out=set", "questions=60", "language=en", "embedder=null"])
    assert "0 of 60 questions: no other is specific and passes the gates." in " ".join(capsys.readouterr().out.split())
