"""Sets of other tools: which layout is recognised, what each field becomes, and what is counted as lost."""

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import InputError
from ragsweep.core.types import Corpus
from ragsweep.sweep.composing.trees import parse
from ragsweep_golden.exchange.evidence import Imported
from ragsweep_golden.exchange.importing import import_file
from ragsweep_golden.sets.entries import as_entry, read_set
from ragsweep_golden.sets.files import write_rows

ALDER = "Trees stand everywhere. The alder measures 10 metres when it is old. It grows beside water."
YEW = "The yew is evergreen and very slow. Its seeds are poisonous to most animals."
CORPUS = Corpus(["alder", "yew", "copy"], ["", "", ""], [ALDER, YEW, f"{YEW} Again."])
HOW_TALL = "How tall is the alder?"
PASSAGE = ("content", "provenance")
EVIDENCE = [{"document": "alder", "anchor": "The alder measures 10 metres"}]
SAID = {"answer": "I think 3 metres.", "contexts": [YEW]}


def imported(folder: Path, records: Any, name: str = "auto", corpus: Corpus | None = CORPUS) -> Imported:
    (folder / "given.json").write_text(json.dumps(records))
    return import_file(folder / "given.json", name, corpus)


def table(folder: Path, rows: list[dict[str, Any]]) -> Imported:
    with (folder / "given.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return import_file(folder / "given.csv", "auto", CORPUS)


def without_audit(found: Imported) -> list[dict[str, Any]]:
    silver = {"status": "silver", "created_by": f"ragsweep golden import {found.format}"}
    assert [entry["audit"] for entry in found.entries] == [silver] * len(found.entries)
    return [
        {name: value for name, value in entry.items() if name not in (*PASSAGE, "audit", "schema_version")}
        for entry in found.entries
    ]


def test_keywords_categories_and_notes_have_their_places_and_other_columns_go_to_the_notes(tmp_path: Path) -> None:
    row = {"id": "q1", "question": HOW_TALL, "expected_keywords": "10 metres; old", "category": "height", "notes": "n"}
    found = table(tmp_path, [{**row, "team": "docs"}, {**row, "id": "q2", "notes": "", "team": ""}])
    entry = {"id": "q1", "question": HOW_TALL, "keywords": ["10 metres", "old"], "category": "height"}
    assert without_audit(found) == [{**entry, "notes": "n; team: docs"}, {**entry, "id": "q2"}]
    assert (found.format, found.in_notes, found.left) == ("keywords", {"team": 1}, {})


@pytest.mark.parametrize("answer", ["expected_keywords", "reference"])
def test_a_column_without_a_name_is_noted_if_it_has_a_cell(answer: str, tmp_path: Path) -> None:
    for cell, noted in (("7", ["columns without a name, not read: "]), ("", [])):
        (tmp_path / "given.csv").write_text(f",id,question,{answer}\n{cell},q1,How tall?,ten\n")
        notes = import_file(tmp_path / "given.csv", "auto", None).notes
        assert [note.removesuffix(str(tmp_path / "given.csv")) for note in notes] == noted


@pytest.mark.parametrize("identifier", ["[1]", "['a', 'b']", "[a"])
def test_an_id_in_brackets_is_kept(identifier: str, tmp_path: Path) -> None:
    for name in ("id", "qid"):
        record = {name: identifier, "question": HOW_TALL, "answer": "10 metres"}
        for found in (imported(tmp_path, [record]), table(tmp_path, [record])):
            assert [entry["id"] for entry in found.entries] == [identifier]


@pytest.mark.parametrize("count", [3, "3", 3.0])
def test_an_expected_count_is_kept_as_the_whole_number_that_it_is(count: object, tmp_path: Path) -> None:
    record = {"query": HOW_TALL, "answer": "10 metres", "expected_count": count}
    for found in (imported(tmp_path, [record]), table(tmp_path, [record])):
        assert [entry["expected_count"] for entry in found.entries] == [3]
    with pytest.raises(InputError, match=r'"expected_count" is 2\.5, not a whole number'):
        imported(tmp_path, [record | {"expected_count": 2.5}])


def test_chunks_are_found_literally_nearly_or_not_at_all(tmp_path: Path) -> None:
    nearly = "The yew is evergreen, and very slow. Its seeds are poisonous for most animals."
    records = [
        {"query": HOW_TALL, "relevant_chunks": [f"{ALDER[24:]}\n"]},
        {"query": "Is the yew evergreen?", "relevant_chunks": [nearly, "Nothing of the kind is written here."]},
        {"query": "Is the yew evergreen?", "relevant_chunks": YEW},
    ]
    found = imported(tmp_path, records)
    first, second, third = without_audit(found)
    assert first["evidence"] == EVIDENCE
    assert [found.entries[0][group] for group in PASSAGE] == [
        {"passage": ALDER[24:]}, {"document": "alder", "start": 24, "end": len(ALDER)},
    ]  # fmt: skip
    assert second["evidence"] == third["evidence"] == [{"document": "yew", "anchor": "The yew is evergreen and"}]
    assert "nearest passage, with 93% of the words" in second["notes"]
    assert third["notes"] == "evidence is also in 1 other document"
    assert (found.exact, found.near) == (2, 1)
    assert found.unfound == [(second["id"], "Nothing of the kind is written here.")]


def test_evidence_of_a_long_chunk_is_its_answer_or_the_sentence_most_like_the_question(tmp_path: Path) -> None:
    chunk = " ".join([ALDER, *(f"The birch number {n} is pale and stands on dry ground." for n in range(4))])
    corpus = Corpus(["trees"], [""], [chunk])
    records = [
        {"query": "What is pale?", "relevant_chunks": [chunk], "reference": "beside water"},
        {"query": HOW_TALL, "relevant_chunks": [chunk]},
    ]
    first, second = imported(tmp_path, records, corpus=corpus).entries
    assert "beside water" in first["evidence"][0]["anchor"]
    assert second["evidence"][0]["anchor"] in "The alder measures 10 metres when it is old."


def test_ids_of_passages_are_compared_in_their_composed_form(tmp_path: Path) -> None:
    corpus = Corpus(["copy", "caf\u00e9"], ["", ""], [ALDER, ALDER])
    of_text = {"user_input": HOW_TALL, "reference_contexts": [ALDER], "reference_context_ids": ["cafe\u0301"]}
    alone = {"qid": "q1", "query": HOW_TALL, "retrieval_gt": [["cafe\u0301"]]}
    for record in (of_text, alone):
        (entry,) = imported(tmp_path, [record], corpus=corpus).entries
        assert [one["document"] for one in entry["evidence"]] == ["caf\u00e9"]


def test_an_answer_of_a_faq_is_evidence_where_it_stands_literally(tmp_path: Path) -> None:
    records = [
        {"question": HOW_TALL, "answer": "The alder measures 10 metres when it is old."},
        {"question": "Why?", "answer": "The yew is evergreen, and so very slow."},
    ]
    short = {"question": "Where?", "answer": "beside water"}  # which many pages may have
    found = imported(tmp_path, [*records, short, records[1]])
    first, *others = without_audit(found)
    assert first["reference"] == records[0]["answer"]
    assert first["evidence"] == EVIDENCE
    assert [entry.get("evidence") for entry in others] == [None, None]
    assert (found.format, found.unfound, found.repeated) == ("faq", [], 1)
    rows = [{"id": f"q{n}", **records[0], "answerable": one} for n, one in enumerate(("yes", "no"), 1)]
    own = table(tmp_path, rows)
    assert (own.format, [one.get("evidence") for one in own.entries]) == ("csv", [EVIDENCE, None])


def test_a_testset_of_ragas_keeps_its_synthesizer_as_the_category(tmp_path: Path) -> None:
    record = {
        "user_input": HOW_TALL, "reference": "10 metres", "reference_contexts": [ALDER], "persona_name": "Ann",
        "synthesizer_name": "single_hop", "response": "9", "rubrics": {"1": "bad"},
    }  # fmt: skip
    found = imported(tmp_path, [record])
    (entry,) = without_audit(found)
    assert entry.pop("id")
    assert entry == {
        "question": HOW_TALL, "reference": "10 metres", "category": "single_hop", "labels": {"persona_name": "Ann"},
        "evidence": EVIDENCE,
    }  # fmt: skip
    assert found.left == {"response": 1, "rubrics": 1}
    cells = {**record, "reference_contexts": repr([ALDER]), "rubrics": repr(record["rubrics"])}  # as pandas writes them
    (from_table,) = without_audit(table(tmp_path, [cells]))
    assert from_table | {"id": ""} == entry | {"id": ""}


def test_numbers_of_hops_before_the_passages_of_ragas_are_no_part_of_them(tmp_path: Path) -> None:
    record = {"user_input": HOW_TALL, "reference_contexts": [f"<1-hop>\n\n{ALDER}", "<2-hop>\n\nvery slow."]}
    found = imported(tmp_path, [record])
    assert (found.exact, found.near, found.unfound) == (2, 0, [])


def test_a_conversation_is_a_question_with_its_history(tmp_path: Path) -> None:
    turns = [("human", "Hello"), ("ai", "Yes?"), ("tool", "x"), ("human", HOW_TALL), ("ai", "10 metres")]
    found = imported(tmp_path, [{"user_input": [{"type": role, "content": text} for role, text in turns]}])
    (entry,) = found.entries
    assert entry["question"] == HOW_TALL
    assert entry["history"] == [{"role": "user", "text": "Hello"}, {"role": "assistant", "text": "Yes?"}]


def test_records_of_mlflow(tmp_path: Path) -> None:
    record = {
        "dataset_record_id": "r1", "inputs": {"question": HOW_TALL, "user": "Ann"}, "created_time": 1,
        "expectations": {
            "expected_response": "10 metres", "expected_facts": ["10"], "guidelines": ["Be brief"],
            "expected_retrieved_context": [{"doc_uri": "copy", "content": YEW}, {"doc_uri": "yew"}],
        },
        "tags": {"team": "docs", "mlflow.user": "Bob"},
    }  # fmt: skip
    found = imported(tmp_path, [record])
    (entry,) = without_audit(found)
    assert entry == {
        "id": "r1", "question": HOW_TALL, "reference": "10 metres", "keywords": ["10"], "labels": {"team": "docs"},
        "evidence": [{"document": "copy", "anchor": "The yew is evergreen and"}, {"document": "yew"}],
        "notes": "user: Ann; guidelines: Be brief",
    }  # fmt: skip
    assert found.left == {"created_time": 1}


def test_records_of_argilla_take_answers_of_people_before_suggestions(tmp_path: Path) -> None:
    record = {
        "id": "a1", "fields": {"prompt": HOW_TALL, "context": ALDER}, "metadata": {"category": "height"},
        "suggestions": {"answer": {"value": "9", "score": 0.5, "agent": "m"}, "tone": {"value": "dry"}},
        "responses": {"answer": [{"value": "10 metres", "user_id": "u"}, {"value": "10 m", "user_id": "v"}]},
        "vectors": {"v": [1.0]}, "_server_id": "s",
    }  # fmt: skip
    found = imported(tmp_path, [record])
    assert without_audit(found) == [{
        "id": "a1", "question": HOW_TALL, "category": "height", "reference": "10 metres", "references": ["10 m"],
        "notes": "tone: dry", "evidence": EVIDENCE,
    }]  # fmt: skip
    assert found.left == {"vectors": 1}


def test_tasks_of_label_studio_take_marked_spans_as_evidence(tmp_path: Path) -> None:
    def result(name: str, kind: str, **value: Any) -> dict[str, Any]:
        return {"id": "x", "from_name": name, "to_name": "text", "type": kind, "value": value}

    answers = [
        result("answer", "textarea", text=["10 metres"]),
        result("category", "choices", choices=["height"]),
        result("span", "labels", start=24, end=67, text=ALDER[24:67], labels=["evidence"]),
    ]
    cancelled = {"was_cancelled": True, "result": [result("answer", "textarea", text=["wrong"])]}
    task = {"id": 7, "data": {"question": HOW_TALL, "text": ALDER}, "annotations": [cancelled, {"result": answers}],
            "predictions": [{"result": [result("answer", "textarea", text=["9"])]}], "project": 3}  # fmt: skip
    found = imported(tmp_path, [task])
    assert without_audit(found) == [{
        "id": "7", "question": HOW_TALL, "reference": "10 metres", "category": "height", "evidence": EVIDENCE,
        "notes": f"text: {ALDER}",
    }]  # fmt: skip
    assert found.left == {"project": 1}


def test_a_table_of_our_own_columns_keeps_several_evidences_and_labels(tmp_path: Path) -> None:
    row = {"id": "q1", "question": HOW_TALL, "answer": "10 metres", "document": "alder", "anchor": "10 metres",
           "team": "docs"}  # fmt: skip
    found = table(tmp_path, [row, {**row, "document": "yew", "anchor": ""}])
    assert without_audit(found) == [{
        "id": "q1", "question": HOW_TALL, "answerable": True, "needs_retrieval": True, "reference": "10 metres",
        "evidence": [{"document": "alder", "anchor": "10 metres"}, {"document": "yew"}], "labels": {"team": "docs"},
    }]  # fmt: skip


def test_the_advice_for_a_grade_with_a_decimal_comma_is_a_reader_and_an_override_that_it_reads(tmp_path: Path) -> None:
    row = {"id": "q1", "question": HOW_TALL, "document": "alder", "anchor": "10 metres", "grade": "1,5"}
    with pytest.raises(InputError) as refused:
        table(tmp_path, [row])
    words = shlex.split(str(refused.value).partition("e.g. ")[2].partition("; scores")[0])
    assert words[:3] == ["dataset=csv", "dataset.corpus=FOLDER", f"dataset.questions={tmp_path / 'given.csv'}"]
    assert parse(words[3]).value() == {"1,5": None, 1: 1}


@pytest.mark.parametrize("quoted", [{"anchor": "10 metres"}, {"anchor": None}, {}])
def test_documents_and_anchors_of_our_own_columns_are_evidence_in_json_too(
    quoted: dict[str, Any], tmp_path: Path
) -> None:
    corpus = Corpus(["yew, old", "copy, alder"], ["", ""], [YEW, ALDER])
    record = {"id": 1, "question": HOW_TALL, "document": "copy, alder", **quoted}
    found = imported(tmp_path, [record], corpus=corpus)
    anchor = {"anchor": EVIDENCE[0]["anchor"]} if quoted.get("anchor") else {}
    assert without_audit(found) == [
        {"id": "1", "question": HOW_TALL, "evidence": [{"document": "copy, alder", **anchor}]}
    ]
    assert (found.format, found.in_notes, found.left) == ("csv", {}, {})


def test_a_table_of_our_own_columns_without_documents_has_its_evidence_in_texts(tmp_path: Path) -> None:
    row = {"id": "q1", "question": HOW_TALL, "reference": "10 metres", "contexts": ALDER, "team": "docs"}
    found = table(tmp_path, [row, row | {"contexts": YEW, "reference": ""}, row | {"id": "q2", "contexts": ""}])
    yew = {"document": "yew", "anchor": "The yew is evergreen and"}
    assert [(one.get("evidence"), one["labels"]) for one in found.entries] == [
        ([*EVIDENCE, yew], {"team": "docs"}), (None, {"team": "docs"}),
    ]  # fmt: skip
    assert (found.format, found.left) == ("csv", {})
    named = table(tmp_path, [row | {"reference_context_ids": "copy", "contexts": ""}])
    assert named.entries[0]["evidence"] == [{"document": "copy"}]
    with pytest.raises(InputError, match=r'given\.csv:2: "contexts" looks like a list or an object'):
        table(tmp_path, [row | {"contexts": "['a' 'b']"}])


@pytest.mark.parametrize("again", ["How tall?", ""])
def test_rows_of_a_question_in_named_columns_are_read_like_those_of_our_own_columns(again: str, tmp_path: Path) -> None:
    file, columns = tmp_path / "given.csv", {"id": "nr", "question": "Frage", "documents": "Seite", "passages": "Zitat"}
    lines = ["nr,Frage,Seite,Zitat,Urteil", f"1,How tall?,alder,{ALDER},gut", f"1,{again},copy,{YEW},knapp"]
    file.write_text("\n".join(lines))
    (entry,) = import_file(file, "auto", CORPUS, columns).entries
    assert [label["document"] for label in entry["evidence"]] == ["alder", "copy"]
    assert entry["notes"] == "Urteil: gut; Urteil: knapp"
    file.write_text("\n".join([*lines, f"1,How old?,yew,{YEW},gut"]))
    with pytest.raises(InputError, match=r'csv:4: question "1" has a different "Frage" in .*csv:2; rows with the same'):
        import_file(file, "auto", CORPUS, columns)


def test_passages_in_later_rows_of_an_unanswerable_question_are_no_evidence(tmp_path: Path) -> None:
    file, columns = tmp_path / "given.csv", {"id": "nr", "question": "Frage", "passages": "Zitat"}
    file.write_text(f"nr,Frage,answerable,Zitat\n1,How tall?,no,\n1,,,{ALDER}\n")
    (entry,) = import_file(file, "auto", CORPUS, columns).entries
    assert (entry["answerable"], entry.get("evidence")) == (False, None)


def test_a_column_of_another_name_may_state_which_questions_are_answerable(tmp_path: Path) -> None:
    file, columns = tmp_path / "given.csv", {"id": "nr", "question": "Frage", "answerable": "Answerable"}
    file.write_text("nr,Frage,Answerable\n1,How tall?,no\n2,How old?,yes\n3,How wide?,\n")
    found = import_file(file, "auto", CORPUS, columns)
    assert [one.get("answerable", True) for one in found.entries] == [False, True, True]
    file.write_text("nr,Frage,Answerable\n1,How tall?,maybe\n")
    with pytest.raises(InputError, match=r'given\.csv:2: "answerable" is "maybe", not true or false'):
        import_file(file, "auto", CORPUS, columns)


def test_passages_of_an_unanswerable_question_are_no_evidence(tmp_path: Path) -> None:
    record = {"id": "q1", "question": HOW_TALL, "answerable": False, "reference": "", "contexts": [ALDER]}
    for found in (imported(tmp_path, [record]), table(tmp_path, [record])):
        assert (found.format, found.left) == ("csv", {"contexts": 1})
        assert [(one["answerable"], one.get("evidence")) for one in found.entries] == [(False, None)]


@pytest.mark.parametrize("name", ["status", "source"])
def test_a_label_that_an_evaluation_hides_or_refuses_goes_to_the_notes(name: str, tmp_path: Path) -> None:
    row = {"id": "q1", "question": HOW_TALL, "reference": "10 metres", name: "open", "team": "docs", "notes": "n"}
    found = table(tmp_path, [row, {**row, "id": "q2", name: ""}])
    assert [(entry["labels"], entry["notes"]) for entry in found.entries] == [
        ({"team": "docs"}, f"n; {name}: open"), ({"team": "docs"}, "n"),
    ]  # fmt: skip
    assert found.in_notes == {name: 1}


def test_a_label_beside_a_group_without_that_field_stays_a_label(tmp_path: Path) -> None:
    record = {"query": HOW_TALL, "answer": "10 metres", "labels": {"bloom": "apply"}, "classification": {"priority": 1}}
    (entry,) = imported(tmp_path, [record]).entries
    assert entry["labels"] == {"bloom": "apply"}


@pytest.mark.parametrize(
    ("name", "value", "noted"),
    [
        ("content", "A page.", True), ("provenance", ["wiki", "web"], True), ("validation", {"by": "me"}, False),
        ("audit", "me", True), ("labels", ["tall", "old"], True), ("content", {"passage": 3}, False),
        ("content", "['a' 'b']", False),
    ],
)  # fmt: skip
def test_a_field_with_the_name_of_a_group_and_another_content_is_no_group(
    name: str, value: Any, noted: bool, tmp_path: Path
) -> None:
    found = imported(tmp_path, [{"query": HOW_TALL, "answer": "10 metres", name: value}])
    write_rows(tmp_path / "golden.jsonl", found.entries)
    ((entry, _),) = read_set(tmp_path / "golden.jsonl")
    assert (name in found.in_notes, name in found.left) == (noted, not noted)
    assert entry.get("notes", "").startswith(f"{name}: ") == noted


def test_without_a_corpus_texts_are_listed_and_documents_kept(tmp_path: Path) -> None:
    record = {"user_input": HOW_TALL, "reference_contexts": [ALDER, YEW]}
    found = imported(tmp_path, [record], corpus=None)
    assert [text for _, text in found.unfound] == [ALDER, YEW]
    (entry,) = imported(tmp_path, [{**record, "reference_context_ids": ["alder", "yew"]}], corpus=None).entries
    assert entry["evidence"] == [{"document": "alder", "anchor": ALDER}, {"document": "yew", "anchor": YEW}]


def test_blank_passages_are_no_evidence(tmp_path: Path) -> None:
    record = {"user_input": HOW_TALL, "reference_contexts": ["", ALDER, None, " "]}
    found = imported(tmp_path, [record, {"user_input": "Why?", "reference_contexts": [""]}])
    assert [one.get("evidence") for one in found.entries] == [EVIDENCE, None]
    assert (found.exact, found.unfound) == (1, [])
    whole = {"user_input": HOW_TALL, "reference_contexts": [""], "reference_context_ids": ["alder", "yew"]}
    assert imported(tmp_path, [whole]).entries[0]["evidence"] == [{"document": "alder"}, {"document": "yew"}]


def test_each_passage_has_the_document_at_its_position(tmp_path: Path) -> None:
    texts = ["Trees stand everywhere.", "It grows beside water.", "Its seeds are poisonous to most animals."]
    record = {"user_input": HOW_TALL, "reference_contexts": texts, "reference_context_ids": ["alder", "alder", "copy"]}
    pairs = [("alder", texts[0]), ("alder", texts[1]), ("copy", texts[2])]
    ids = record["reference_context_ids"]
    for given, expected in ((ids, pairs), (f"{'; '.join(ids)};", pairs), (["", "", "copy"], pairs[2:])):
        (entry,) = imported(tmp_path, [{**record, "reference_context_ids": given}], corpus=None).entries
        assert [(one["document"], one["anchor"]) for one in entry["evidence"]] == expected
    (entry,) = imported(tmp_path, [record]).entries
    assert [one["document"] for one in entry["evidence"]] == ["alder", "alder", "copy"]


@pytest.mark.parametrize(("name", "text"), [("g.csv", "id,question,reference\n"), ("g.csv", ""), ("g.json", "[]")])
def test_a_file_without_questions_is_no_unknown_layout(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=r"g\.(csv|json): contains no questions; add at least one$"):
        import_file(tmp_path / name, "auto", None)


def test_a_yaml_file_in_another_encoding_has_one_fault(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_bytes(b"- question: caf\xe9\n  answer: x\n")
    with pytest.raises(InputError, match=r"byte 16 .* with encoding$"):
        import_file(tmp_path / "g.yaml", "auto", None)


def test_an_unknown_layout_is_one_error_with_the_columns_and_the_formats(tmp_path: Path) -> None:
    said = r"given\.json: unknown format with the fields a, b; name the fields: question=.* mlflow \(inputs\);.*=squad"
    with pytest.raises(InputError, match=said):
        imported(tmp_path, [{"a": 1}, {"b": 2}])
    with pytest.raises(InputError, match=r"fields q0, q1, .* q19, \.\.\.; name the fields"):
        imported(tmp_path, {f"q{n}": {"question": "Why?", "answer": "So."} for n in range(500)})
    with pytest.raises(InputError, match=r"format=ragas needs user_input, but the file has question"):
        imported(tmp_path, [{"question": "Why?"}], "ragas")
    with pytest.raises(InputError, match='did you mean "ragas"'):
        imported(tmp_path, [], "raga")
    with pytest.raises(InputError, match=r"\$\[1\]: differs from format=mlflow \(no field 'inputs'\); name the fields"):
        imported(tmp_path, [{"inputs": {"question": "Why?"}}, {"a": 1}])


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            [{"id": "a", "question": "x", "answer": "y"}] * 2,
            r'\$\[1\]: question "a" occurs twice; first in .*\$\[0\]; remove or rename one',
        ),
        ([{"question": None, "answer": "y"}], r'\$\[0\]: has no "question"'),
        ([{"inputs": {"question": "x", "weight": "many"}}], r'"weight" is "many"'),
        ([{"question": HOW_TALL, **SAID}], '"answer" and "contexts" may be the answer and contexts of a system'),
        (
            [{"question": HOW_TALL, "ground_truth": "a", "expected_answer": "b"}],
            "both contain the reference but differ",
        ),
        ([{"inputs": {"instruction": "Translate.", "input": "Arbre"}}], "both contain the question but differ"),
    ],
)
def test_records_that_are_invalid_or_ambiguous_are_refused(tmp_path: Path, records: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        imported(tmp_path, records)


def test_lists_within_an_object_and_json_lines_are_read_alike(tmp_path: Path) -> None:
    record = {"question": "Why?", "answer": "So."}
    wrapped = imported(tmp_path, {"version": 1, "data": [record]})
    (tmp_path / "given.jsonl").write_text(f"{json.dumps(record)}\n")
    assert wrapped.entries == import_file(tmp_path / "given.jsonl", "auto", CORPUS).entries
    with pytest.raises(InputError, match=r'"data" contains "Why not\?" where an object'):
        imported(tmp_path, {"version": 1, "data": [record, "Why not?"]})


def test_hotpotqa_evidence_is_the_supporting_sentences_and_no_distractor(tmp_path: Path) -> None:
    context = [["Alder", ALDER.split(". ")], ["Yew", [YEW]]]
    record = {"question": HOW_TALL, "answer": "10 metres", "context": context, "supporting_facts": [["Alder", 1]]}
    columns = {"title": ["Alder", "Yew"], "sentences": [one for _, one in context]}
    framed = {**record, "context": columns, "supporting_facts": {"title": ["Alder"], "sent_id": [1]}}
    for given in (record, framed):
        (entry,) = imported(tmp_path, [given]).entries
        assert [one["document"] for one in entry["evidence"]] == ["alder"]
    for number, shown in ((7, "7"), ([0, 1], r"\[0, 1\]")):
        with pytest.raises(InputError, match=rf'\$\[0\]: "context" has no sentence {shown} of "Yew"'):
            imported(tmp_path, [{**record, "supporting_facts": [["Yew", number]]}])
    with pytest.raises(InputError, match=r'\$\[0\]: "context" has \["Trees'):
        imported(tmp_path, [{"question": HOW_TALL, "answer": "10 metres", "context": context}])


def test_passages_that_are_marked_as_wrong_are_no_evidence(tmp_path: Path) -> None:
    passages = {"passage_text": [YEW, ALDER], "is_selected": [0, 1]}
    (entry,) = imported(tmp_path, [{"query": HOW_TALL, "answers": ["10 metres"], "passages": passages}]).entries
    assert [one["document"] for one in entry["evidence"]] == ["alder"]


@pytest.mark.parametrize("right", ["ground_truth", "ground_truths", "reference", "golden_answers", "correction"])
def test_the_right_answer_wins_over_the_system_in_every_record_of_a_file(tmp_path: Path, right: str) -> None:
    records = [{"question": HOW_TALL, **SAID, right: ["10 metres", "10 m"]}, {"question": "Why?", **SAID, right: ""}]
    found = imported(tmp_path, records)
    first, second = found.entries
    assert (first["reference"], first["references"]) == ("10 metres", ["10 m"])
    assert not {"reference", "evidence"} & {*second}
    assert found.left == {"answer": 2, "contexts": 2}


@pytest.mark.parametrize("right", ["reference", "expected_output"])
def test_several_outputs_of_an_example_of_langsmith_keep_their_precedence(tmp_path: Path, right: str) -> None:
    outputs = {right: "10 metres", "answer": "9 metres", "contexts": [YEW]}
    found = imported(tmp_path, [{"id": "e1", "inputs": {"question": HOW_TALL}, "outputs": outputs}])
    assert without_audit(found) == [{"id": "e1", "question": HOW_TALL, "reference": "10 metres"}]
    assert found.left == {"answer": 1, "contexts": 1}


@pytest.mark.parametrize("names", [("reference", "references"), ("references", "reference")])
def test_other_right_answers_of_two_fields_are_all_kept(names: tuple[str, str], tmp_path: Path) -> None:
    given = {"reference": ["10 metres", "10 m"], "references": ["ten metres"]}
    (entry,) = imported(tmp_path, [{"query": HOW_TALL, **{name: given[name] for name in names}, "answer": "9"}]).entries
    assert (entry["reference"], {*entry["references"]}) == ("10 metres", {"10 m", "ten metres"})


@pytest.mark.parametrize("answer", ["[1, 2]", "{}"])
def test_an_answer_or_keyword_that_looks_like_a_list_is_a_text_in_a_list(answer: str, tmp_path: Path) -> None:
    """The error for such a text outside a list advises to write a list."""
    record = {"question": "What is printed?", "answer": [answer], "keywords": [answer, "b"]}
    cells = {name: value if name == "question" else json.dumps(value) for name, value in record.items()}
    found = table(tmp_path, [cells]).entries + imported(tmp_path, [record]).entries
    write_rows(tmp_path / "golden.jsonl", [one | {"id": f"q{n}"} for n, one in enumerate(found)])
    questions = [question for _, question in read_set(tmp_path / "golden.jsonl")]
    assert [(one.references, one.keywords) for one in questions] == [((answer,), (answer, "b"))] * 2
    assert [as_entry(one)["references"] for one in questions] == [[answer]] * 2


def test_assertions_of_promptfoo_are_added_to_the_texts_of_its_variables(tmp_path: Path) -> None:
    given = {"question": HOW_TALL, "reference": "10 metres", "keywords": "10; metres", "unit": "metres"}
    values = {"similar": "ten {{ unit }}", "equals": "{{reference}}", "icontains": "ten", "contains": "{{unit | up}}"}
    asserted = [{"type": name, "value": value} for name, value in values.items()]
    found = imported(tmp_path, [{"vars": given, "assert": asserted}])
    (entry,) = without_audit(found)
    assert (entry["reference"], entry["references"]) == ("10 metres", ["ten metres"])
    assert entry["keywords"] == ["10", "metres", "ten"]
    assert found.left == {"assert contains": 1}


def test_an_answer_of_triviaqa_is_its_value_and_the_aliases(tmp_path: Path) -> None:
    normalised = {"aliases": ["10 m"], "matched_wiki_entity_name": "", "value": "10 metres"}
    answer = {"value": "10 metres", "aliases": ["10 m"], "matched_wiki_entity_name": "", "type": "Numerical"}
    answer |= {f"normalized_{name}": given for name, given in normalised.items()}
    (entry,) = imported(tmp_path, [{"question": HOW_TALL, "question_id": "tc_1", "answer": answer}]).entries
    assert (entry["reference"], entry["references"]) == ("10 metres", ["10 m"])


def test_contexts_of_a_test_set_without_system_answers_are_evidence(tmp_path: Path) -> None:
    (entry,) = imported(tmp_path, [{"question": HOW_TALL, "contexts": [ALDER], "ground_truth": "10 metres"}]).entries
    assert [one["document"] for one in entry["evidence"]] == ["alder"]


def test_a_correction_by_people_wins_over_what_the_system_said(tmp_path: Path) -> None:
    fields = {"question": HOW_TALL, "context": YEW, "answer": "I think 3 metres."}
    answers = {"correction": [{"value": "10 metres", "user_id": "u"}]}
    found = imported(tmp_path, [{"fields": fields, "responses": answers}, {"fields": fields | {"question": "Why?"}}])
    assert [entry.get("reference") for entry in found.entries] == ["10 metres", None]
    assert found.left == {"answer": 2, "context": 2}


def test_the_right_answer_wins_in_a_table_of_our_own_columns(tmp_path: Path) -> None:
    row = {"id": "q1", "question": HOW_TALL, "reference": "10 metres", "answer": "3 metres", "document": "alder"}
    found = table(tmp_path, [row, row | {"answer": "4 metres", "document": "yew"}])
    (entry,) = found.entries
    assert entry["reference"] == "10 metres"
    assert "labels" not in entry
    assert found.left == {"answer": 2}
    filled_once = table(tmp_path, [row | {"contexts": ""}, row | {"id": "q2", "answer": "", "contexts": ""}])
    assert filled_once.left == {"answer": 1}
    with pytest.raises(InputError, match='question "q1" has a different "team" in'):
        table(tmp_path, [row | {"team": "docs"}, row | {"team": "ops", "document": "yew"}])


UNSPACED = {
    "Chinese": (
        "赤杨能长多高\uff1f",
        "老的赤杨在水边能长到十米高",
        "赤杨是一种树。老的赤杨在水边能长到十米高\uff0c而且生长很快。",
        "红豆杉四季常青\uff0c生长很慢。它的种子有毒。",
    ),
    "Thai": (
        "ต้นไม้สูงเท่าไร",
        "ต้นไม้ริมน้ำโตได้สูงสิบเมตร",
        "นี่คือต้นไม้ ต้นไม้ริมน้ำโตได้สูงสิบเมตร และโตเร็วมาก",
        "อีกชนิดเขียวตลอดทั้งปี แต่โตช้า เมล็ดมีพิษ",
    ),
}


@pytest.mark.parametrize("script", UNSPACED)
def test_a_script_without_spaces_is_imported_like_english(tmp_path: Path, script: str) -> None:
    """A long answer is evidence, a chunk is found nearly, and one of the other document's words is not."""
    question, answer, page, other = UNSPACED[script]
    corpus = Corpus(["alder", "yew"], ["", ""], [page, other])
    (entry,) = imported(tmp_path, [{"question": question, "answer": answer}], corpus=corpus).entries
    (label,) = entry["evidence"]
    assert label["document"] == "alder"
    assert 6 <= len(label["anchor"]) <= len(answer)  # short, as of English; not the whole answer
    nearly = page.replace(answer[:2], "", 1)
    found = imported(tmp_path, [{"query": question, "relevant_chunks": [nearly, other[::-1]]}], corpus=corpus)
    assert [one["document"] for one in found.entries[0]["evidence"]] == ["alder"]
    assert (found.near + found.exact, len(found.unfound)) == (1, 1)
