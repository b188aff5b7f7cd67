"""``ragsweep golden verify`` and its neighbours as they are typed, in process."""

import json
import re
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.golden.golden_format import read_questions
from ragsweep.golden.partition import holdout as division
from ragsweep_golden.commands import golden
from ragsweep_golden.sets.files import read_changes, read_state
from support import output, printed_json, read_rows, write_rows

pytestmark = pytest.mark.slow

TEXT = "# Trees\n\nThe alder measures 10 metres. It grows beside water.\n"


@pytest.fixture
def place(cwd: Path) -> Path:
    write_rows(cwd / "old.jsonl", [{"id": "alder", "text": TEXT}, {"id": "yew", "text": "It is evergreen."}])
    write_rows(cwd / "new.jsonl", [{"id": "tree/alder", "text": TEXT}])
    label = {"document": "alder", "anchor": "10 metres", "grade": 2}
    entry = {
        "id": "q1", "question": "How tall is the alder?", "evidence": [label], "distractors": ["alder"], "notes": "n",
        "provenance": {"document": "alder", "chunk_id": "alder#4", "start": 0, "end": 9},
        "content": {"passage": "It grows beside water."},
        "validation": {"corpus_digest": "before"}, "audit": {"status": "gold", "reviews": [{"who": "Ann"}]},
    }  # fmt: skip
    other = {"id": "q2", "question": "Is the yew evergreen?", "evidence": [{"document": "yew", "anchor": "evergreen"}]}
    write_rows(cwd / "golden.jsonl", [entry, other])
    return cwd


def test_verify_writes_what_is_sure_with_a_changelog(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", "golden.jsonl", "corpus=new.jsonl"]
    report = printed_json(capsys, golden, *words, "old=old.jsonl", "out=golden.jsonl", status=1)
    assert report["counts"] == {"moved": 1, "edited": 0, "deleted": 1, "ambiguous": 0}
    kinds = {one["where"]: one["kind"] for one in report["changes"]}
    assert kinds == {"golden.jsonl:1": "moved", "golden.jsonl:2": "deleted"}
    first, second = read_rows(place / "golden.jsonl")
    assert first["evidence"] == [{"document": "tree/alder", "anchor": "10 metres", "grade": 2}]
    assert first["distractors"] == ["tree/alder"]
    start = TEXT.index("It grows")
    assert first["provenance"] == {
        "document": "tree/alder", "chunk_id": "tree/alder#4", "start": start, "end": start + 22
    }  # fmt: skip
    assert first["notes"] == "n"
    assert first["validation"]["corpus_digest"] == report["corpus"]["after"]
    kept, line = first["audit"]["reviews"]
    assert kept == {"who": "Ann"}
    assert line["what"] == "label moved"
    assert line["old"]["document"] == "alder"
    assert line["new"] == first["evidence"][0]
    assert line["corpus"] == report["corpus"]
    assert second["evidence"] == [{"document": "yew", "anchor": "evergreen"}]
    (change,) = read_changes(place / "golden.jsonl")
    assert (change["command"], change["changed"], change["added"]) == ("golden verify", 1, 0)
    assert golden(words) == 1  # the other is left
    out = capsys.readouterr().out
    assert "2 labels: 1 unchanged, 0 repaired, 1 needs manual repair" in out
    assert 'golden.jsonl:2 "q2": "evergreen" of "yew"' in out


def test_verify_takes_sets_of_other_readers_and_their_corpus_as_the_old_one(place: Path) -> None:
    answer = {"text": "10 metres", "answer_start": TEXT.index("10 metres")}
    paragraph = {"context": TEXT, "qas": [{"id": "q1", "question": "How tall?", "answers": [answer]}]}
    (place / "squad.json").write_text(json.dumps({"data": [{"title": "alder", "paragraphs": [paragraph]}]}))
    words = ["dataset=squad", "dataset.path=squad.json", "corpus=new.jsonl", "out=out.jsonl"]
    assert golden(["verify", *words]) == 0
    (entry,) = read_rows(place / "out.jsonl")
    assert entry["reference"] == "10 metres"
    assert entry["evidence"] == [{"document": "tree/alder", "anchor": "10 metres", "start": answer["answer_start"]}]
    assert golden(["verify", "out.jsonl", "corpus=new.jsonl"]) == 0


def test_diff_counts_and_names_what_differs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_rows(place / "golden.jsonl")
    changed = before[0] | {"notes": None, "category": "height", "audit": {"status": "gold", "reviews": []}}
    after = [changed, before[1] | {"id": "yew"}, {"id": "q3", "question": "Why\nnot?"}]
    write_rows(place / "after.jsonl", after)
    found = printed_json(capsys, golden, "diff", "golden.jsonl", "after.jsonl")
    sets = [(one["file"], one["version"], one["recorded"]) for one in found.pop("sets")]
    assert sets == [("golden.jsonl", None, None), ("after.jsonl", None, None)]
    assert found == {
        "counts": {"added": 1, "removed": 0, "renamed": 1, "changed": 1},
        "added": [{"id": "q3", "question": "Why\nnot?"}],
        "removed": [],
        "renamed": [{"id": "q2", "new": "yew", "question": "Is the yew evergreen?", "fields": []}],
        "changed": [{"id": "q1", "question": before[0]["question"], "fields": ["notes", "audit.reviews", "category"]}],
    }
    assert golden(["diff", "after.jsonl", "golden.jsonl"]) == 0
    assert 'removed   "q3" · Why not?' in capsys.readouterr().out


def test_check_lists_every_fault_in_the_order_of_the_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = {"id": "q1", "question": "How tall?", "evidence": [{"document": "alder", "anchor": "10 metres"}]}
    write_rows(place / "golden.jsonl", [good])
    words = ["check", "golden.jsonl", "corpus=old.jsonl"]
    counts, version = output(capsys, golden, *words).splitlines()
    assert counts.endswith("golden.jsonl: 1 question, 1 label, 0 faults")
    assert version.endswith(", no changes recorded")
    entries = [
        good | {"id": f"e{n}", "evidence": [{"document": "alder", "anchor": f"measures {n} feet"}]} for n in range(30)
    ]
    strange = good | {"id": "s", "querstion": "?", "evidence": [{"document": "oak"}], "content": {"answer_type": 1}}
    write_rows(place / "golden.jsonl", [good, *entries[:15], strange, *entries[15:], good])
    lines = [line.split(maxsplit=1)[1] for line in output(capsys, golden, *words, status=1).splitlines()]
    faulty = [int(line.split(":")[1]) for line in lines[:-1]]
    assert faulty == sorted([*range(2, 33), 17, 17, 33])
    assert 'the nearest passage, at 19, is "measures 10 metres."' in lines[0]
    assert {fact.split(": ", 1)[1][:30] for fact in lines if fact.startswith("golden.jsonl:17:")} == {
        'unknown key "querstion"; did y',
        '"content.answer_type" is 1, no',
        'document "oak" is not in the c',
    }
    assert lines[-1] == "golden.jsonl: 33 questions, 33 labels, 34 faults"


def test_check_refuses_labels_that_a_run_refuses(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = ("context_ndcg", "success_rate", "category", "weight", "team")
    write_rows(place / "golden.jsonl", [{"id": one, "question": "Why?", "labels": {one: "x"}} for one in taken])
    assert golden(["check", "golden.jsonl", "corpus=old.jsonl"]) == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    named = [*["a metric"] * 2, *["a column of the table of questions"] * 2]
    assert lines[:4] == [
        f'fault golden.jsonl:{n}: the label "{label}" has the same name as {what}; rename it'
        for n, label, what in zip(range(1, 5), taken, named, strict=False)
    ]
    assert lines[4] == "read golden.jsonl: 5 questions, 0 labels, 4 faults"


@pytest.mark.nightly
def test_add_takes_the_choice(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["How tall is an alder tree?", "corpus=old.jsonl"]
    monkeypatch.setattr("builtins.input", lambda _: "")
    assert golden(["add", "mine.jsonl", *words]) == 1
    assert not (place / "mine.jsonl").exists()
    answers = iter(["9", "one", "1"])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    assert golden(["add", "mine.jsonl", *words, "--answer", "10 metres"]) == 0
    assert golden(["add", "mine.jsonl", "Is it evergreen?", "corpus=old.jsonl", "--take", "1"]) == 0
    first, second = read_rows(place / "mine.jsonl")
    assert (first["question"], first["reference"]) == (words[0], "10 metres")
    assert first["evidence"][0]["document"] == "alder"
    assert second["evidence"] == [{"document": "yew", "anchor": "It is evergreen."}]
    changes = read_changes(place / "mine.jsonl")
    assert [(one["version"], one["command"], one["added"]) for one in changes] == [(n, "golden add", 1) for n in (1, 2)]
    assert [one["before"] for one in changes] == [None, changes[0]["after"]]
    assert {one["who"] for one in changes} == {second["audit"]["created_by"]}
    capsys.readouterr()
    shown = " ".join(output(capsys, golden, "check", "mine.jsonl", "corpus=old.jsonl").split())
    assert f"version 2, digest {changes[1]['after'][:12]} version 2: " in shown
    assert golden(["add", "mine.jsonl", "Zzz qqq?", "corpus=old.jsonl", "--take", "1"]) == 1
    with pytest.raises(InputError) as fault:
        golden(["check", "missing.jsonl", "corpus=old.jsonl"])
    assert str(fault.value).count("missing.jsonl") == 1


def test_check_finds_a_file_without_questions_faulty(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rejected = {"id": "r", "question": "No?", "validation": {"status": "rejected"}}
    for entries, reason in (([], "the file has none"), ([rejected], "questions rejected by their validation: 1")):
        write_rows(place / "few.jsonl", entries)
        shown = " ".join(output(capsys, golden, "check", "few.jsonl", "corpus=old.jsonl", status=1).split())
        assert f"few.jsonl:1: no questions to evaluate ({reason}); add some" in shown
        assert shown.endswith("few.jsonl: 0 questions, 0 labels, 1 fault")


def test_add_fills_evidence(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "table.csv").write_text(
        "id,question,answer,answerable\nq1,How tall is it?,10 metres,yes\nq2,Is it evergreen?,It is,yes\n"
        "q3,Where does it grow?,It grows beside water.,yes\nq4,Who planted it?,,no\n"
    )
    words = ["mine.jsonl", "corpus=old.jsonl"]
    assert golden(["import", "table.csv", "out=mine.jsonl", "corpus=old.jsonl"]) == 0
    assert ["evidence" in one for one in read_rows(place / "mine.jsonl")] == [False, False, False, False]
    assert "ragsweep golden add mine.jsonl corpus=old.jsonl" in capsys.readouterr().out
    answers = iter(["1", "", "1"])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    assert golden(["add", *words]) == 0
    monkeypatch.setattr("builtins.input", lambda _: "1")
    printed = output(capsys, golden, "gates", *words, status=1)
    assert "2 of 3 questions added to mine.jsonl" in printed
    assert "choose the evidence for 1 question without any" in printed
    assert golden(["add", *words]) == 0
    entries = read_rows(place / "mine.jsonl")
    assert [one["id"] for one in entries] == ["q1", "q2", "q3", "q4"]
    assert [len(one.get("evidence", ())) for one in entries] == [1, 1, 1, 0]
    with pytest.raises(ConfigError, match="--answer and --take need a question"):
        golden(["add", *words, "--take", "1"])


def test_a_question_without_a_weight_is_not_added_to_those_with_weights(place: Path) -> None:
    weighted = {"id": "q1", "question": "Does water help?", "weight": 2}
    write_rows(place / "mine.jsonl", [weighted])
    with pytest.raises(
        InputError, match=r'mine\.jsonl: its questions have weights, but .* with an "id" and a "weight"'
    ):
        golden(["add", "mine.jsonl", "Is it evergreen?", "corpus=old.jsonl", "--take", "1"])
    assert golden(["add", "mine.jsonl", "Does water help?", "corpus=old.jsonl", "--take", "1"]) == 0


def test_add_fills_each_of_several_equal_questions(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"question": "How tall is it?", "reference": "10 metres"}
    history = [{"role": "user", "text": "The alder."}, {"role": "assistant", "text": "Yes?"}]
    write_rows(place / "mine.jsonl", [{"id": "q1", **asked}, {"id": "q2", **asked, "history": history}])
    for reply, known in (("", [False, True]), ("1", [True, True])):  # without a choice for q1, q2 is filled first
        answers = iter([reply, "1"])
        monkeypatch.setattr("builtins.input", lambda _, given=answers: next(given))
        assert golden(["add", "mine.jsonl", "corpus=old.jsonl"]) == 0
        assert ["evidence" in one for one in read_rows(place / "mine.jsonl")] == known
    assert [one["id"] for one in read_rows(place / "mine.jsonl")] == ["q1", "q2"]


def test_partition_writes_the_two_sides_that_a_sweep_has(place: Path) -> None:
    entries = [
        {"id": f"q{n}", "question": f"{'abcdefghij'[n // 10] * 9} {n % 10}?", "evidence": [{"document": f"d{n // 4}"}]}
        for n in range(100)
    ]
    write_rows(place / "set.jsonl", [*entries, {"id": "r", "question": "No?", "validation": {"status": "rejected"}}])
    held = {}
    for share in (0.3, 0.6):
        assert golden(["partition", "set.jsonl", f"share={share}"]) == 0
        tune, holdout = (read_rows(place / f"set.{side}.jsonl") for side in ("tune", "holdout"))
        assert sorted([*tune, *holdout], key=lambda one: int(one["id"][1:])) == entries
        documents = [{one["evidence"][0]["document"] for one in side} for side in (tune, holdout)]
        assert documents[0].isdisjoint(documents[1])
        assert len(holdout) == pytest.approx(100 * share, abs=6)
        held[share] = {one["id"] for one in holdout}
    before = read_state(place / "set.jsonl", Faults()).digest
    for side in ("tune", "holdout"):
        (change,) = read_changes(place / f"set.{side}.jsonl")
        assert (change["command"], change["before"]) == ("golden partition", before)
    faults = Faults()
    questions = read_questions(place / "set.jsonl", "", faults).questions
    assert held[0.3] == set(division(questions))  # as partition=holdout does
    assert held[0.3] < held[0.6]


@pytest.mark.parametrize(
    ("share", "counts", "nearest"), [(0.9, "0 questions in tune, 4", 0.85), (0.1, "4 questions in tune, 0", 0.15)]
)
def test_partition_writes_no_empty_side(place: Path, share: float, counts: str, nearest: float) -> None:
    write_rows(place / "set.jsonl", [{"id": f"q{n}", "question": f"{n * 'a'}?"} for n in range(1, 5)])
    advice = f"share={share}: leaves {counts} questions in holdout; use share={nearest}, or add"
    with pytest.raises(ConfigError, match=re.escape(advice)):
        golden(["partition", "set.jsonl", f"share={share}"])
    assert not list(place.glob("set.*.jsonl*"))
    assert golden(["partition", "set.jsonl", f"share={nearest}"]) == 0


def test_no_share_is_suggested_for_questions_on_one_document(place: Path) -> None:
    entries = [{"id": f"q{n}", "question": f"{n * 'a'}?", "evidence": [{"document": "d"}]} for n in range(1, 5)]
    write_rows(place / "set.jsonl", entries)
    with pytest.raises(ConfigError, match=r"leaves 4 questions in tune, 0 questions in holdout; add questions"):
        golden(["partition", "set.jsonl", "share=0.3"])


def test_a_passage_that_the_search_did_not_find_is_not_taken(place: Path) -> None:
    with pytest.raises(ConfigError, match="the search found 1 passage;"):
        golden(["add", "m.jsonl", "Is it evergreen?", "corpus=old.jsonl", "--take", "3"])
