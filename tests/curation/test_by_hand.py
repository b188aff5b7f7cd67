"""Questions added by hand: what is proposed, what is written, and that nothing of the file is lost."""

import json
from pathlib import Path

import numpy as np
import pytest

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.types import Chunks, Corpus, Spans
from ragsweep.golden.golden_set import find_faults
from ragsweep.golden.judged_spans import DocumentSpan
from ragsweep_golden.commands.add import add_entry, gold_entry, propose_all
from ragsweep_golden.commands.pool import nearest_sentence
from ragsweep_golden.evidence.quotes import Place
from ragsweep_golden.sets.entries import incoherences, lacks_evidence, read_entries
from support import read_rows, write_rows

ALDER = "# Old alder\n\nTrees stand everywhere. The alder measures 10 metres when it is old. It grows beside water."
BIRCH = "The birch is pale. The alder is not like it."
CORPUS = Corpus(["alder", "birch", "empty"], ["", "", ""], [ALDER, BIRCH, ""])
CHUNKS = Chunks(CORPUS, Spans(np.array([0, 1]), np.array([0, 0]), np.array([len(ALDER), len(BIRCH)])))
QUESTION = "How many metres does an old alder measure?"


ENTRY = gold_entry(QUESTION, "", Place(0, 13, 36), CHUNKS, "Ann")


def propose(question: str) -> list[Place]:
    return propose_all([question], CHUNKS, 8)[0]


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (
            "How do I restore a snapshot?",
            "Old.\n\n## How to restore a snapshot\n\nTo restore it, run the tool.",
            "To rest",
        ),
        (
            "How do I restore a snapshot?",
            "How to restore a snapshot\n---\n\nTo restore it, run the tool.",
            "To restore",
        ),
        (
            "可以删除快照吗",
            "如果快照损坏\uff0c守护进程会从第二块磁盘创建新的副本。禁止手动删除快照。",
            "禁止手动删除快照",
        ),
    ],
)
def test_a_sentence_is_proposed_even_if_a_heading_or_a_longer_sentence_is_alike(
    question: str, text: str, answer: str
) -> None:
    chunks = Chunks(Corpus(["a"], [""], [text]), Spans(np.array([0]), np.array([0]), np.array([len(text)])))
    ((place,),) = propose_all([question], chunks, 1)
    assert text[place.start :].startswith(answer)
    whole = DocumentSpan("a", 0, len(text))
    assert text[nearest_sentence(whole, question, chunks.corpus).start :].startswith(answer)


def test_the_best_sentence_of_each_chunk_is_proposed() -> None:
    found = propose(QUESTION)
    assert [CORPUS.texts[one.document][one.start : one.end].strip() for one in found] == [
        "The alder measures 10 metres when it is old.",
        "The alder is not like it.",
    ]
    assert propose("zebra") == []


def test_an_entry_of_a_taken_passage_is_gold_and_without_fault(tmp_path: Path) -> None:
    entry = gold_entry(QUESTION, "10 metres", propose(QUESTION)[0], CHUNKS, "Ann")
    assert entry["evidence"] == [{"document": "alder", "anchor": "The alder measures 10 metres"}]
    assert list(incoherences(entry)) == []
    assert entry["audit"]["reviews"][0]["who"] == "Ann"
    path, faults = tmp_path / "golden.jsonl", Faults()
    add_entry(path, entry)
    find_faults([question for _, question in read_entries(path, faults)], CORPUS, faults)
    assert faults.found == []


def test_adding_keeps_what_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    first = '{"id":  "q1", "question": "Qué?",\t"notes": null}'  # without a line end
    path.write_text(first, encoding="utf-8")
    add_entry(path, ENTRY)
    assert path.read_text(encoding="utf-8") == f"{first}\n{json.dumps(ENTRY)}\n"
    with pytest.raises(InputError, match=r"golden.jsonl:2: already has this question"):
        add_entry(path, ENTRY)
    assert [one.name for one in tmp_path.iterdir()] == ["golden.jsonl"]


def test_an_edited_question_is_not_added_again(tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    path.write_text(json.dumps(ENTRY | {"question": "Of what height is it?"}))
    with pytest.raises(InputError, match=r"golden.jsonl:1: already has this question"):
        add_entry(path, ENTRY)


def test_an_entry_without_evidence_gets_it_and_keeps_the_rest(tmp_path: Path) -> None:
    path, review = tmp_path / "golden.jsonl", {"who": "Bob", "when": "2024-01-01", "what": "wrote it"}
    other = {"id": "q0", "question": "Why?", "answerable": False}
    asked = {"id": "q1", "question": QUESTION, "category": "trees", "audit": {"reviews": [review]}}
    write_rows(path, [other, asked])
    entry = gold_entry(QUESTION, "10 metres", propose(QUESTION)[0], CHUNKS, "Ann")
    add_entry(path, entry)
    first, second = read_rows(path)
    assert first == other
    assert (second["id"], second["category"], second["evidence"]) == ("q1", "trees", entry["evidence"])
    assert [one["who"] for one in second["audit"]["reviews"]] == ["Bob", "Ann"]
    for question in ("Why?", QUESTION):
        with pytest.raises(InputError, match="already has this question"):
            add_entry(path, {**entry, "question": question})


def test_an_entry_with_only_irrelevant_evidence_gets_evidence_and_keeps_its_labels(tmp_path: Path) -> None:
    path, entry = tmp_path / "golden.jsonl", gold_entry(QUESTION, "10 metres", propose(QUESTION)[0], CHUNKS, "Ann")
    other, same = {"document": "birch", "grade": 0}, entry["evidence"][0] | {"grade": 0}
    asked = {"id": "q1", "question": QUESTION, "evidence": [other, same], "notes": "needs_review: asked 2 times"}
    write_rows(path, [asked])
    add_entry(path, entry)
    (row,) = read_rows(path)
    assert (row["evidence"], row["notes"]) == ([other, *entry["evidence"]], "asked 2 times")
    assert not lacks_evidence(row)


def test_of_equal_questions_the_first_that_lacks_evidence_gets_it(tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    asked = [{"id": f"q{n}", "question": QUESTION} for n in range(3)]
    write_rows(path, [asked[0] | {"evidence": [{"document": "birch"}]}, *asked[1:]])
    for given, expected in ((ENTRY | {"id": "q2"}, [1, 0, 1]), (ENTRY, [1, 1, 1])):
        add_entry(path, given)
        assert [(row["id"], len(row.get("evidence", ()))) for row in read_rows(path)] == list(
            zip(["q0", "q1", "q2"], expected, strict=True)
        )
    with pytest.raises(InputError, match=r"golden.jsonl:1: already has this question"):
        add_entry(path, ENTRY)


def test_the_quote_is_at_the_answer_in_a_long_passage() -> None:
    entry = gold_entry(QUESTION, "water", Place(0, 0, len(ALDER)), CHUNKS, "Ann")
    assert entry["evidence"] == [{"document": "alder", "anchor": "old. It grows beside water."}]


ARRAY = '[\n{"id": "q1", "question": "Why?"}\n]'
NOT_PLAIN = "only to plain JSON lines in UTF-8; to convert the file, run ragsweep golden verify"


@pytest.mark.parametrize(
    ("text", "encoding", "message"),
    [
        (ARRAY, "utf-16", NOT_PLAIN),
        (ARRAY, "utf-8-sig", NOT_PLAIN),
        ("[]", "utf-8", NOT_PLAIN),
        ("{", "utf-8", "not JSON"),
    ],
)
def test_a_file_that_cannot_be_added_to_stays(tmp_path: Path, text: str, encoding: str, message: str) -> None:
    path = tmp_path / "golden.jsonl"
    path.write_text(text, encoding=encoding)
    with pytest.raises(InputError, match=message):
        add_entry(path, ENTRY)
    assert path.read_text(encoding=encoding) == text
