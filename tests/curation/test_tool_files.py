"""Files as other tools write them, imported as they are; the table of them in docs/datasets.md is made from here."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet
import pytest

from ragsweep.commands.golden import golden
from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.core.types import Corpus
from ragsweep.curation.exchange.importing import Imported, import_file
from ragsweep.curation.exchange.layouts import LAYOUTS
from ragsweep.golden.corpora import read_corpus

DOCS = Path(__file__).parents[2] / "docs" / "datasets.md"
ALDER = "The alder is a tree. The alder measures 10 metres when it is old. It grows beside water."
YEW = "The yew is evergreen and very slow. Its seeds are poisonous to most animals."
CORPUS = Corpus(["alder.md", "yew.md"], ["", ""], [ALDER, YEW])
Q = "How tall is the alder?"
A = "10 metres"
SAID = "I think 3 metres."


class ToolFile(NamedTuple):
    """A file of one record or more: its first record, the text of the file, and what the tool itself reads it with."""

    format: str
    tool: str
    reader: str
    record: dict[str, Any]
    text: str | bytes


def lines(*records: Any) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in records)


def table_of(*records: dict[str, Any]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def parquet_of(*records: dict[str, Any]) -> bytes:
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(records)), sink)
    return bytes(sink.getvalue())


LANGSMITH = {
    "id": "7f3c", "inputs": {"question": Q}, "outputs": {"answer": A}, "metadata": {"dataset_split": ["base"]},
    "dataset_id": "d0a1", "created_at": "2024-05-01T10:00:00Z", "source_run_id": None,
}  # fmt: skip
AUDIT = {"id": "q-1", "question": Q, "relevant_chunks": [{"chunk_id": "c-17", "text": ALDER[21:65]}]}
RAGAS = {
    "question": Q, "contexts": repr([ALDER]), "ground_truth": A, "evolution_type": "simple",
    "metadata": repr([{"source": "docs/alder.md"}]),
}  # fmt: skip
DEEPEVAL = {
    "input": Q, "actual_output": SAID, "expected_output": A, "context": [ALDER], "retrieval_context": [YEW],
    "source_file": "docs/alder.md", "comments": "by Ann",
}  # fmt: skip
LLAMA = {
    "query": Q, "query_by": {"model_name": "gpt-x", "type": "ai"}, "reference_contexts": [ALDER],
    "reference_answer": A, "reference_answer_by": {"model_name": "gpt-y", "type": "ai"},
}  # fmt: skip
AUTORAG = {"qid": "q-1", "query": Q, "retrieval_gt": [["alder.md"]], "generation_gt": [A, "ten metres"]}
FLASHRAG = {"id": "dev_0", "question": Q, "golden_answers": [A, "ten metres"], "metadata": {"level": "easy"}}
RAGCHECKER = {
    "query_id": "q-1", "query": Q, "gt_answer": A, "response": SAID,
    "retrieved_context": [{"doc_id": "yew.md", "text": YEW}],
}  # fmt: skip
PROMPTFOO = {
    "description": "height of trees", "vars": {"question": Q},
    "assert": [{"type": "equals", "value": A}, {"type": "contains-all", "value": ["metres"]},
               {"type": "llm-rubric", "value": "is polite"}],
}  # fmt: skip
PROMPTFOO_YAML = f"""
prompts: ["Answer: {{{{question}}}}"]
providers: [openai:gpt-x]
tests:
  - description: height of trees
    vars:
      question: {Q}
    assert:
      - type: equals
        value: {A}
      - type: contains-all
        value: [metres]
      - type: llm-rubric
        value: is polite
"""
SQUAD = {
    "id": "5a", "title": "Alder", "context": ALDER, "question": Q,
    "answers": {"text": [A], "answer_start": [ALDER.index(A)]},
}  # fmt: skip
UNANSWERED = {**SQUAD, "id": "5b", "question": "Who planted it?", "answers": {"text": [], "answer_start": []}}
TOPIC = {"number": "51", "title": Q, "desc": "Find the height.", "narr": "Shrubs do not count."}
CLASSIC = "<top>\n<num> Number: 51\n<title> {title}\n<desc> Description:\n{desc}\n<narr> Narrative:\n{narr}\n</top>\n"
COVID = {"@number": "51", "query": Q, "question": "Find the height.", "narrative": "Shrubs & hedges do not count."}
COVID_XML = """<?xml version="1.0" encoding="UTF-8"?>
<topics task="ad hoc">
  <topic number="51">
    <query>How tall is the alder?</query>
    <question>Find the height.</question>
    <narrative>Shrubs &amp; hedges do not count.</narrative>
  </topic>
</topics>
"""

KEYWORDS = {"id": "q-1", "question": Q, "expected_keywords": "10 metres; old", "category": "height", "team": "docs"}
OWN = {
    "id": "q-1",
    "question": Q,
    "reference": A,
    "document": "alder.md",
    "anchor": "The alder measures",
    "category": "height",
}
RAGAS_NOW = {
    "user_input": Q, "reference": A, "reference_contexts": [ALDER], "synthesizer_name": "single_hop",
    "persona_name": "Ann", "response": SAID, "retrieved_contexts": [YEW],
}  # fmt: skip
MLFLOW = {
    "dataset_record_id": "d-1", "inputs": {"question": Q}, "tags": {"team": "docs"}, "created_time": "1714",
    "expectations": {"expected_response": A, "expected_facts": ["old"],
                     "expected_retrieved_context": [{"doc_uri": "alder.md", "content": ALDER}]},
}  # fmt: skip
ARGILLA = {
    "id": "q-1", "fields": {"question": Q, "context": ALDER}, "metadata": {"category": "height"},
    "suggestions": {"answer": {"value": SAID, "agent": "gpt-x"}}, "responses": {"answer": [{"value": A}]},
}  # fmt: skip
MARKED = {"start": 21, "end": 65, "text": ALDER[21:65], "labels": ["evidence"]}
LABEL_STUDIO = {
    "id": "7", "data": {"question": Q}, "predictions": [{"result": [
        {"type": "textarea", "from_name": "answer", "to_name": "question", "value": {"text": [SAID]}}]}],
    "annotations": [{"result": [
        {"type": "textarea", "from_name": "answer", "to_name": "question", "value": {"text": [A]}},
        {"type": "labels", "from_name": "span", "to_name": "text", "value": MARKED}]}],
}  # fmt: skip
PAIR, COUNTED = {"question": Q, "answer": A}, {"question": Q, "count": 7}
GOLDENS = "`EvaluationDataset.add_goldens_from_json_file`"
LABELLED = "`LabelledRagDataset.from_json`"
KINDS = {
    "examples.jsonl": ("langsmith", "LangSmith, examples", "`Client.create_examples`", LANGSMITH, lines(LANGSMITH)),
    "keywords.csv": ("keywords", "keywords of answers", "none", KEYWORDS, table_of(KEYWORDS)),
    "testset.jsonl": ("ragas", "ragas, test set", "`EvaluationDataset.from_jsonl`", RAGAS_NOW, lines(RAGAS_NOW)),
    "mlflow.json": ("mlflow", "MLflow, evaluation dataset", "`merge_records`", MLFLOW, json.dumps([MLFLOW])),
    "argilla.json": ("argilla", "Argilla, records", "`Dataset.records.from_json`", ARGILLA, json.dumps([ARGILLA])),
    "tasks.json": ("labelstudio", "Label Studio, tasks", "import", LABEL_STUDIO, json.dumps([LABEL_STUDIO])),
    "questions.csv": ("csv", "our own table", "`dataset=csv`", OWN, table_of(OWN)),
    "audit.json": ("chunks", "template of an audit", "none", AUDIT, json.dumps({"queries": [AUDIT]})),
    "qa_pairs.json": ("faq", "pairs", "none", PAIR, json.dumps({"qa_pairs": [PAIR]})),
    "testset.csv": ("ragas_0.1", "ragas 0.1, test set", "`pandas.read_csv`", RAGAS, table_of(RAGAS)),
    "goldens.json": ("deepeval", "deepeval, goldens", GOLDENS, DEEPEVAL, json.dumps([DEEPEVAL])),
    "rag_dataset.json": ("llamaindex", "LlamaIndex", LABELLED, LLAMA, json.dumps({"examples": [LLAMA]})),
    "qa.parquet": ("autorag", "AutoRAG", "`autorag evaluate`", AUTORAG, parquet_of(AUTORAG)),
    "dev.jsonl": ("flashrag", "FlashRAG", "`flashrag.utils.get_dataset`", FLASHRAG, lines(FLASHRAG)),
    "inputs.json": ("ragchecker", "RAGChecker", "`RAGResults`", RAGCHECKER, json.dumps({"results": [RAGCHECKER]})),
    "promptfooconfig.yaml": ("promptfoo", "promptfoo", "`promptfoo eval`", PROMPTFOO, PROMPTFOO_YAML),
    "squad.jsonl": ("squad_rows", "SQuAD in rows", "`datasets.load_dataset`", SQUAD, lines(SQUAD, UNANSWERED)),
    "topics.txt": ("topics", "TREC, classic topics", "`ir_datasets`", TOPIC, CLASSIC.format(**TOPIC)),
    "topics.xml": ("topics", "TREC, topics in XML", "`ir_datasets`", COVID, COVID_XML),
    "counts.csv": ("counts", "counts of a log", "none", COUNTED, table_of(COUNTED)),
}
FILES = {name: ToolFile(*kind) for name, kind in KINDS.items()}


def imported(folder: Path, name: str, corpus: Corpus | None = CORPUS, **columns: str) -> Imported:
    text = FILES[name].text
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_file(folder / name, "auto", corpus, columns)


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
    whole = {"question": [entry["question"]], "right answer": [entry.get("reference"), *entry.get("references", ())],
             "id": [entry["id"]], "keywords": [*keywords, "; ".join(keywords)], "category": [entry.get("category")],
             "weight": [f"{entry.get('weight', 0):g}"], "labels": entry.get("labels", {}).values(),
             "evidence": [*documents, *(label.get("anchor") for label in entry.get("evidence", ()))]}  # fmt: skip
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
    columns = (
        "question",
        "right answer",
        "evidence",
        "id",
        "keywords",
        "category",
        "labels",
        "weight",
        "notes",
        "left out",
    )
    for name, file in FILES.items():
        entry = imported(folder, name).entries[0]
        became: dict[str, dict[str, None]] = {}
        for path, text in leaves(file.record):
            became.setdefault(place(text, entry), {})[f"`{path.removeprefix('@')}`"] = None
        assert {*became} <= {*columns}
        first = [" ".join(became.get(column, ())) for column in columns[:3]]
        rest = [f"{column}: {' '.join(became[column])}" for column in columns[3:-1] if column in became]
        cells = [
            f"{file.tool} (`{name}`)",
            file.reader,
            f"`{file.format}`",
            needs(file.format),
            *first,
            "; ".join(rest),
        ]
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


@pytest.mark.parametrize("name", FILES)
def test_what_a_system_said_and_retrieved_is_no_part_of_an_entry(tmp_path: Path, name: str) -> None:
    (entry, *_) = imported(tmp_path, name).entries
    assert SAID not in json.dumps(entry)
    assert "yew.md" not in json.dumps(entry)


def test_every_layout_has_a_file() -> None:
    assert {file.format for file in FILES.values()} == {*LAYOUTS}


ANSWERED = ("testset.jsonl", "mlflow.json", "argilla.json", "tasks.json", "questions.csv",
            "examples.jsonl", "qa_pairs.json", "testset.csv", "goldens.json", "rag_dataset.json", "qa.parquet",
            "dev.jsonl", "inputs.json", "promptfooconfig.yaml", "squad.jsonl")  # fmt: skip


@pytest.mark.parametrize("name", ANSWERED)
def test_the_right_answer_of_the_tool_is_the_reference(tmp_path: Path, name: str) -> None:
    assert imported(tmp_path, name).entries[0]["reference"] == A


EVIDENT = (
    "testset.jsonl",
    "mlflow.json",
    "argilla.json",
    "tasks.json",
    "questions.csv",
    "audit.json",
    "testset.csv",
    "goldens.json",
    "rag_dataset.json",
    "qa.parquet",
    "squad.jsonl",
)


@pytest.mark.parametrize("name", EVIDENT)
def test_the_evidence_of_the_tool_is_found_in_the_corpus(tmp_path: Path, name: str) -> None:
    (label,) = imported(tmp_path, name).entries[0]["evidence"]
    assert label["document"] == "alder.md"


def test_an_answer_of_squad_is_evidence_where_it_begins_and_a_question_without_one_is_unanswerable(
    tmp_path: Path,
) -> None:
    first, second = imported(tmp_path, "squad.jsonl").entries
    assert A in first["evidence"][0]["anchor"]
    assert first["content"]["passage"] == "The alder measures 10 metres when it is old."
    assert second["answerable"] is False
    assert not {"evidence", "reference"} & {*second}


def test_answers_of_squad_are_matched_with_their_own_starts(tmp_path: Path) -> None:
    text = "It is red. No, it is red and blue. Green it is not."
    answers = [
        {"text": "red", "answer_start": 6},
        {"text": "red", "answer_start": 21},
        {"text": "Green", "answer_start": 35},
    ]
    record = {"id": "a", "question": "What colour has it?", "context": text, "answers": answers}
    (tmp_path / "rows.json").write_text(json.dumps([record]))
    found = import_file(tmp_path / "rows.json", "auto", Corpus(["d"], [""], [text]))
    assert (found.exact, found.near, found.unfound) == (3, 0, [])


def test_outputs_are_right_answers_of_an_example_only(tmp_path: Path) -> None:
    run = {"inputs": {"question": Q}, "outputs": {"answer": SAID}, "run_type": "chain", "trace_id": "t"}
    evaluated = {"inputs": {"question": Q}, "outputs": {"answer": SAID}, "expectations": {"expected_response": A}}
    for record, reference in ((run, None), (evaluated, A)):
        (tmp_path / "given.jsonl").write_text(lines(record))
        found = import_file(tmp_path / "given.jsonl", "auto", CORPUS)
        assert (found.format, found.entries[0].get("reference"), found.left["outputs"]) == ("mlflow", reference, 1)
    (tmp_path / "given.jsonl").write_text(lines({"inputs": {"question": Q}, "outputs": SAID}))
    with pytest.raises(InputError, match=r'given.jsonl:1: .*"outputs" of LangSmith is an object; format=mlflow leaves'):
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


def test_counts_of_a_log_are_weights(tmp_path: Path) -> None:
    assert imported(tmp_path, "counts.csv").entries[0]["weight"] == 7


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


NESTED = {"turn": {"asked": Q, "good": A}, "answer": SAID, "contexts": [YEW], "page.name": "alder.md", "team": "docs"}


def test_fields_of_any_name_are_read_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text(lines(NESTED))
    columns = {"question": "turn.asked", "reference": "turn.good", "documents": "page.name"}
    found = import_file(tmp_path / "own.jsonl", "columns", CORPUS, columns)
    (entry,) = found.entries
    assert (entry["question"], entry["reference"], entry["notes"]) == (Q, A, "team: docs")
    assert entry["evidence"] == [{"document": "alder.md"}]
    assert found.left == {"answer": 1, "contexts": 1}
    with pytest.raises(ConfigError, match="format=columns needs the field of the question"):
        import_file(tmp_path / "own.jsonl", "columns", CORPUS, {})
    with pytest.raises(InputError, match="format=columns needs ask, and there are turn, answer"):
        import_file(tmp_path / "own.jsonl", "columns", CORPUS, {"question": "ask"})


def test_columns_are_named_in_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
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
        ("a.xml", "<topics>\nstray\n</topics>", 'a.xml:2: "stray" stands outside of <top>'),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused_with_its_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        import_file(tmp_path / name, "auto", CORPUS)
