"""Files as other tools write them, imported as they are; the table of them in docs/datasets.md is made from here."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.core.types import Corpus
from ragsweep.golden.corpora import read_corpus
from ragsweep_golden.commands import golden
from ragsweep_golden.exchange.evidence import Imported
from ragsweep_golden.exchange.importing import import_file
from ragsweep_golden.exchange.layouts import LAYOUTS
from support.inputs.tool_files import (
    ALDER,
    ARGILLA,
    CORPUS,
    DEEPEVAL,
    FILES,
    SAID,
    YEW,
    A,
    Q,
    lines,
    parquet_of,
    table_of,
)

DOCS = Path(__file__).parents[2] / "docs" / "datasets.md"


def imported(folder: Path, name: str, corpus: Corpus | None = CORPUS, **columns: str) -> Imported:
    text = FILES[name].text
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_file(folder / name, "auto", corpus, columns)


def entries_of(folder: Path, *records: Any, corpus: Corpus = CORPUS) -> list[dict[str, Any]]:
    (folder / "given.json").write_text(json.dumps(records))
    return import_file(folder / "given.json", "auto", corpus).entries


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text of a record with its path; an assertion's is named by its type."""
    if isinstance(value, str) and value.startswith("["):
        value = ast.literal_eval(value)
    if isinstance(value, dict) and "type" in value and "value" in value:  # not its names of tags
        yield from leaves(value["value"], f"{path} {value['type']}")
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list):
        for one in value:
            yield from leaves(one, path)
    elif isinstance(value, str) or path == "count":
        yield path, str(value)


def place(text: str, entry: dict[str, Any]) -> str:
    """Return what became of a text of a record."""
    passage = entry.get("content", {}).get("passage", "")
    documents = [label["document"] for label in entry.get("evidence", ())]
    keywords = entry.get("keywords", [])
    whole = {
        "question": [entry["question"]],
        "right answer": [entry.get("reference"), *entry.get("references", ())],
        "id": [entry["id"]],
        "keywords": [*keywords, "; ".join(keywords)],
        "category": [entry.get("category")],
        "weight": [f"{entry.get('weight', 0):g}"],
        "labels": entry.get("labels", {}).values(),
        "evidence": [*documents, *(label.get("anchor") for label in entry.get("evidence", ()))],
    }
    for name, texts in whole.items():
        if text in texts:
            return name
    if passage and (text in passage or passage in text):
        return "evidence"
    return "notes" if text in entry.get("notes", "") else "left out"


NEEDS = {"faq": "`question` or `query`, and an answer", "topics": "`<top>` or `<topic>`", "labelstudio": "`data`"}
"""Recognised by other words than the names of fields, which would be many, or none."""


def needs(name: str) -> str:
    groups = [" or ".join(f"`{field}`" for field in group) for group in LAYOUTS[name].needs]
    return NEEDS.get(name, ", ".join(groups))


def rows(folder: Path) -> Iterator[str]:
    first = ("question", "right answer", "evidence")
    rest = ("id", "keywords", "category", "labels", "weight", "notes")
    for name, file in FILES.items():
        entry = imported(folder, name).entries[0]
        became: dict[str, dict[str, None]] = {}
        for path, text in leaves(file.record):
            became.setdefault(place(text, entry), {})[f"`{path.removeprefix('@')}`"] = None
        assert {*became} <= {*first, *rest, "left out"}
        cells = [f"{file.tool} (`{name}`)", file.reader, f"`{file.format}`", needs(file.format)]
        cells += [" ".join(became.get(column, ())) for column in first]
        cells.append("; ".join(f"{column}: {' '.join(became[column])}" for column in rest if column in became))
        cells.append(" ".join(became.get("left out", ())))
        yield f"| {' | '.join(cells)} |"


def test_the_table_in_the_docs_is_what_becomes_of_the_files(tmp_path: Path) -> None:
    shown = [line for line in DOCS.read_text().splitlines() if re.match(r"\| [^|]* \(`[\w.]+`\) \|", line)]
    expected = list(rows(tmp_path))
    assert shown == expected, "\n".join(expected)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_tool_is_recognised_and_gives_its_question(tmp_path: Path, name: str) -> None:
    found = imported(tmp_path, name)
    assert (found.format, found.entries[0]["question"], found.unfound) == (FILES[name].format, Q, [])
    assert {file.format for file in FILES.values()} == {*LAYOUTS}
    for said in (SAID, "yew.md"):  # by a system, and what it retrieved
        assert said not in json.dumps(found.entries[0])


UNANSWERED = {"audit.json", "counts.csv", "keywords.csv", "topics.txt", "topics.xml"}
NO_EVIDENCE = {"dev.jsonl", "examples.jsonl", "inputs.json", "promptfooconfig.yaml", "qa_pairs.json"}


@pytest.mark.parametrize("name", sorted(FILES.keys() - UNANSWERED))
def test_the_right_answer_of_the_tool_is_the_reference(tmp_path: Path, name: str) -> None:
    assert imported(tmp_path, name).entries[0]["reference"] == A


@pytest.mark.parametrize("name", ["audit.json", *sorted(FILES.keys() - UNANSWERED - NO_EVIDENCE)])
def test_the_evidence_of_the_tool_is_found_in_the_corpus(tmp_path: Path, name: str) -> None:
    (label,) = imported(tmp_path, name).entries[0]["evidence"]
    assert label["document"] == "alder.md"


def test_an_answer_of_squad_is_evidence_and_a_question_without_one_is_unanswerable(tmp_path: Path) -> None:
    first, second = imported(tmp_path, "squad.jsonl").entries
    assert A in first["evidence"][0]["anchor"]
    assert first["content"]["passage"] == "The alder measures 10 metres when it is old."
    assert second["answerable"] is False
    assert not {"evidence", "reference"} & {*second}


def test_answers_of_squad_are_matched_with_their_own_starts(tmp_path: Path) -> None:
    text = "It is red. No, it is red and blue. Green it is not."
    answers = [{"text": text, "answer_start": at} for text, at in (("red", 6), ("red", 21), ("Green", 35))]
    record = {"id": "a", "question": "What colour has it?", "context": text, "answers": answers}
    (tmp_path / "rows.json").write_text(json.dumps([record]))
    found = import_file(tmp_path / "rows.json", "auto", Corpus(["d"], [""], [text]))
    assert (found.exact, found.near, found.unfound) == (3, 0, [])


RED = "It is red. No, it is green."


@pytest.mark.parametrize(
    ("text", "answers", "passage"),
    [
        ("दिल्ली भारत की राजधानी है। यह यमुना नदी के किनारे बसी है। दिल्ली", {"text": ["यमुना नदी"], "answer_start": [30]},
         "यह यमुना नदी के किनारे बसी है।"),
        ("القاهرة هي عاصمة مصر. أين تقع القاهرة على نهر النيل\u061f القاهرة هي عاصمة مصر.",
         {"text": ["نهر النيل"], "answer_start": [42]}, "أين تقع القاهرة على نهر النيل\u061f"),
        ("لاہور پنجاب کا دارالحکومت ہے\u06d4 لاہور دریائے راوی کے کنارے ہے\u06d4 لاہور",
         {"text": ["دریائے راوی"], "answer_start": [36]}, "لاہور دریائے راوی کے کنارے ہے\u06d4"),
        (RED, [{"text": "green"}], RED),
        (RED, [{"text": "green", "answer_start": None}], RED),
    ],
)  # fmt: skip
def test_the_passage_of_an_answer_of_squad_is_its_sentence_or_without_a_start_the_context(
    text: str, answers: Any, passage: str, tmp_path: Path
) -> None:
    record = {"id": "a", "question": "?", "context": text, "answers": answers}
    (entry,) = entries_of(tmp_path, record, corpus=Corpus(["d"], [""], [text]))
    assert entry["content"]["passage"] == passage


def test_outputs_are_right_answers_of_an_example_only(tmp_path: Path) -> None:
    run = {"inputs": {"question": Q}, "outputs": {"answer": SAID}, "run_type": "chain", "trace_id": "t"}
    evaluated = {"inputs": {"question": Q}, "outputs": {"answer": SAID}, "expectations": {"expected_response": A}}
    for record, reference in ((run, None), (evaluated, A)):
        (tmp_path / "given.jsonl").write_text(lines(record))
        found = import_file(tmp_path / "given.jsonl", "auto", CORPUS)
        assert (found.format, found.entries[0].get("reference"), found.left["outputs"]) == ("mlflow", reference, 1)
    (tmp_path / "given.jsonl").write_text(lines({"inputs": {"question": Q}, "outputs": SAID}))
    with pytest.raises(InputError, match=r'given.jsonl:1: .*"outputs" is not an object; use format=mlflow'):
        import_file(tmp_path / "given.jsonl", "auto", CORPUS)


@pytest.mark.parametrize(
    "outputs",
    [{"output": A}, {"text": A}, {"answer": A, "steps": ["a"]}, {"messages": [{"role": "assistant", "content": A}]}],
)
def test_outputs_of_one_field_are_the_right_answer_by_any_name(tmp_path: Path, outputs: dict[str, Any]) -> None:
    (tmp_path / "given.csv").write_text(table_of({"inputs": json.dumps({"input": Q}), "outputs": json.dumps(outputs)}))
    (entry,) = import_file(tmp_path / "given.csv", "auto", CORPUS).entries
    assert (entry["question"], entry["reference"]) == (Q, A)


def test_texts_of_a_context_in_a_table_of_deepeval_have_bars_between_them(tmp_path: Path) -> None:
    (tmp_path / "goldens.csv").write_text(table_of({**DEEPEVAL, "context": f"{ALDER}|{YEW}", "retrieval_context": ""}))
    (entry,) = import_file(tmp_path / "goldens.csv", "auto", CORPUS).entries
    assert [one["document"] for one in entry["evidence"]] == ["alder.md", "yew.md"]


@pytest.mark.parametrize("name", ["results", "queries", "examples"])
def test_a_file_of_one_record_with_a_list_is_that_record(tmp_path: Path, name: str) -> None:
    (tmp_path / "one.jsonl").write_text(lines({"question": Q, "answer": A, name: [{"query": "Why?", "answer": "b"}]}))
    assert [one["question"] for one in import_file(tmp_path / "one.jsonl", "auto", CORPUS).entries] == [Q]


def test_dates_and_numbers_of_yaml_are_texts_and_repeated_references_cost_nothing(tmp_path: Path) -> None:
    doubled = [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 40)]
    test = {"vars": {"question": Q, "on": "DATE"}, "assert": [{"type": "equals", "value": 1984}]}
    text = "\n".join(["x0: &x0 [a]", *doubled, f"tests: {json.dumps([test])}".replace('"DATE"', "2024-01-01")])
    (tmp_path / "a.yaml").write_text(text)
    (entry,) = import_file(tmp_path / "a.yaml", "auto", CORPUS).entries
    assert (entry["reference"], entry["notes"]) == ("1984", "on: 2024-01-01")


@pytest.mark.parametrize(("mark", "is_answerable"), [(True, False), (False, True), (None, True)])
def test_a_question_of_squad_that_is_marked_impossible_is_unanswerable(
    tmp_path: Path, mark: bool | None, is_answerable: bool
) -> None:
    answers = {"text": ["10 metres"], "answer_start": [ALDER.index("10 metres")]}
    row = {"id": "5", "question": Q, "context": ALDER, "answers": answers, "is_impossible": mark}
    (tmp_path / "squad.jsonl").write_text(lines(row))
    (entry,) = import_file(tmp_path / "squad.jsonl", "squad_rows", CORPUS).entries
    assert (entry.get("answerable", True), "evidence" in entry) == (is_answerable, is_answerable)


def test_a_question_without_an_answer_in_ms_marco_is_unanswerable(tmp_path: Path) -> None:
    passages = {"is_selected": [0, 0], "passage_text": [ALDER, YEW], "url": ["u", "v"]}
    row = {"query_id": 1, "query": Q, "answers": ["No Answer Present."], "passages": passages}
    (entry,) = entries_of(tmp_path, row)
    assert entry["answerable"] is False
    assert not {"reference", "references", "evidence"} & {*entry}


@pytest.mark.parametrize("response", [[], [{"value": ""}], [{"value": None}]])
def test_an_empty_response_in_argilla_leaves_the_suggestion(tmp_path: Path, response: list[dict[str, Any]]) -> None:
    record = ARGILLA | {"suggestions": {"reference": {"value": A}}, "responses": {"reference": response}}
    assert [entry["reference"] for entry in entries_of(tmp_path, record)] == [A]


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("suggestions", {"fields": {"question": Q}, "suggestions": [{"question_name": "reference", "value": A}]}),
        ("responses", {"fields": {"question": Q}, "responses": [{"values": {"reference": {"value": A}}}]}),
        ("expectations", {"inputs": {"question": Q}, "expectations": A}),
        ("metadata", {"inputs": {"question": Q}, "outputs": {"answer": A}, "metadata": "a"}),
        ("metadata", {"vars": {"question": Q}, "metadata": "a"}),
    ],
)
def test_a_field_that_should_be_an_object_is_counted_as_left_out(
    tmp_path: Path, name: str, record: dict[str, Any]
) -> None:
    (tmp_path / "given.json").write_text(json.dumps([record]))
    assert import_file(tmp_path / "given.json", "auto", CORPUS).left == {name: 1}


def test_a_text_of_several_keywords_in_promptfoo_has_commas_between_them(tmp_path: Path) -> None:
    kinds = {"contains-all": "10, metres", "icontains-all": ["a, b"], "contains": "old, 1"}
    asserted = [{"type": name, "value": value} for name, value in kinds.items()]
    (entry,) = entries_of(tmp_path, {"vars": {"question": Q}, "assert": asserted})
    assert entry["keywords"] == ["10", "metres", "a, b", "old, 1"]


def test_null_in_yaml_counts_as_missing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"question: {Q}\nanswer: 'null'\ncategory: ~\nkeywords: [null, a]\nnull: b\n")
    (entry,) = import_file(tmp_path / "a.yaml", "auto", CORPUS).entries
    assert "category" not in entry
    assert (entry["reference"], entry["keywords"], entry["notes"]) == ("null", ["a"], "null: b")


def test_a_relation_between_results_of_label_studio_is_ignored(tmp_path: Path) -> None:
    answer = {"id": "r1", "from_name": "reference", "type": "textarea", "value": {"text": [A]}}
    span = {"id": "r2", "from_name": "mark", "type": "labels", "value": {"start": 0, "text": ALDER, "labels": ["x"]}}
    relation = {"from_id": "r1", "to_id": "r2", "type": "relation", "direction": "right", "labels": ["y"]}
    task = {"id": 1, "data": {"question": Q}, "annotations": [{"result": [relation, answer, span]}]}
    (entry,) = entries_of(tmp_path, task)
    assert (entry["question"], entry["reference"], len(entry["evidence"])) == (Q, A, 1)


NESTED = {"turn": {"asked": Q, "good": A}, "answer": SAID, "contexts": [YEW], "page.name": "alder.md", "team": "docs"}


def test_fields_of_any_name_are_read_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text(lines(NESTED))
    columns = {"question": "turn.asked", "reference": "turn.good", "documents": "page.name"}
    found = import_file(tmp_path / "own.jsonl", "columns", CORPUS, columns)
    (entry,) = found.entries
    assert (entry["question"], entry["reference"], entry["notes"]) == (Q, A, "team: docs")
    assert entry["evidence"] == [{"document": "alder.md"}]
    assert found.left == {"answer": 1, "contexts": 1}
    with pytest.raises(ConfigError, match="the named fields must include the question; add question=FIELD"):
        import_file(tmp_path / "own.jsonl", "columns", CORPUS, {})
    with pytest.raises(InputError, match="format=columns needs ask, but the file has turn, answer"):
        import_file(tmp_path / "own.jsonl", "columns", CORPUS, {"question": "ask"})


def test_fields_of_our_own_format_are_kept_beside_named_fields(tmp_path: Path) -> None:
    own = {"id": 7, "category": "height", "answerable": "no", "question": "Eh?", "reference": SAID, "evidence": [1]}
    (tmp_path / "own.jsonl").write_text(lines(own | {"asked": Q, "gold": A}))
    found = import_file(tmp_path / "own.jsonl", "auto", CORPUS, {"question": "asked", "reference": "gold"})
    (entry,) = found.entries
    assert [entry[name] for name in ("id", "question", "reference", "category")] == ["7", Q, A, "height"]
    assert entry["answerable"] is False
    assert found.left == {"question": 1, "reference": 1, "evidence": 1}


def test_an_id_with_a_comma_is_that_of_one_document(tmp_path: Path) -> None:
    corpus = Corpus(["a copy.md", "oak, elm.md"], [""] * 2, ["Oaks grow to 30 metres here."] * 2)
    found = [("oak, elm.md", "Oaks grow to 30 metres"), ("oak, elm.md", ""), ("a copy.md, oak, elm.md", "grow to 30")]
    rows = [{"asked": f"How tall? {n}", "page": page, "quote": text} for n, (page, text) in enumerate(found)]
    (tmp_path / "own.jsonl").write_text("".join(map(lines, rows)))
    columns = {"question": "asked", "documents": "page", "passages": "quote"}
    imported = import_file(tmp_path / "own.jsonl", "columns", corpus, columns)
    documents = [[one["document"] for one in entry["evidence"]] for entry in imported.entries]
    assert documents == [["oak, elm.md"], ["oak, elm.md"], ["a copy.md"]]
    assert imported.left == {"documents": 1}  # two or three documents of one passage, which is searched for anywhere


def test_anchors_of_our_own_table_are_found_as_passages_are(tmp_path: Path) -> None:
    corpus = Corpus(["oak.md"], [""], ["It is old. Oaks grow to 30 metres here, where nobody cuts them down."])
    anchors = ["Oaks grow to 30 metres", "Oaks grow to thirty metres here, where nobody cuts them", "Yews are green."]
    rows = [{"id": n, "question": f"How tall? {n}", "document": "oak.md", "anchor": anchor, "start": ["", 3, ""][n],
             "grade": n + 1} for n, anchor in enumerate(anchors)]  # fmt: skip
    (tmp_path / "own.csv").write_text(table_of(*rows), encoding="utf-8")
    found = import_file(tmp_path / "own.csv", "auto", corpus)
    (right,), (near,), (wrong,) = (entry["evidence"] for entry in found.entries)
    assert (right["anchor"], wrong["anchor"]) == (anchors[0], anchors[2])
    assert near == {"document": "oak.md", "anchor": near["anchor"], "grade": 2}
    assert near["anchor"] in corpus.texts[0]
    assert (found.exact, found.near, found.unfound) == (1, 1, [("2", anchors[2])])


def test_two_anchors_of_our_own_table_that_mark_the_same_passage_become_one(tmp_path: Path) -> None:
    corpus = Corpus(["oak.md"], [""], ["It is old. Oaks grow to 30 metres here, where nobody cuts them down."])
    anchors = [f"Oaks grow to {count} metres here, where nobody" for count in ("thirty", "thirty-three")]
    rows = [{"id": 1, "question": "How tall?", "document": "oak.md", "anchor": anchor} for anchor in anchors]
    (tmp_path / "own.csv").write_text(table_of({**rows[0], "grade": 1}, {**rows[1], "grade": 3}))
    (entry,) = import_file(tmp_path / "own.csv", "auto", corpus).entries
    assert [label["grade"] for label in entry["evidence"]] == [3]


def test_columns_are_named_in_the_command(cwd: Path) -> None:
    Path("own.csv").write_text(table_of({"User query": Q, "Gold": A}), encoding="utf-16")
    assert golden(["import", "own.csv", "out=set.jsonl", "question=User query", "reference=Gold"]) == 0
    entry = json.loads(Path("set.jsonl").read_text())
    assert (entry["question"], entry["reference"]) == (Q, A)


@pytest.mark.parametrize(
    "record",
    [{"doc_id": "alder.md", "contents": ALDER, "metadata": {"a": 1}}, {"id": "alder.md", "contents": ALDER}],
    ids=["autorag", "flashrag"],
)
@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_the_corpus_of_the_tool_is_read(tmp_path: Path, record: dict[str, Any], ending: str) -> None:
    file = tmp_path / f"corpus.{ending}"
    file.write_bytes(parquet_of(record) if ending == "parquet" else lines(record).encode())
    faults = Faults()
    corpus = read_corpus(file, faults)
    assert (corpus.ids, corpus.texts, faults.found) == (["alder.md"], [ALDER], [])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "tests:\n  - vars: [\n", r"a.yaml:3: not YAML: "),
        ("a.yaml", "\0", "a.yaml: not YAML: unacceptable character #x0000: special characters are not allowed"),
        ("a.parquet", "no", "a.parquet: cannot be read as Parquet: "),
        ("a.xml", "<topics>\n<topic number='1'>\n<query>x\n", "a.xml:2: the topic has no end; close it with </topic>"),
        ("a.xml", "<topics>\nstray\n</topics>", 'a.xml:2: "stray" is outside a topic'),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        import_file(tmp_path / name, "auto", CORPUS)
