"""Files of one or more records in the formats of other tools, all about the height of the alder."""

import csv
import io
import json
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet

from ragsweep.core.types import Corpus

ALDER = "The alder is a tree. The alder measures 10 metres when it is old. It grows beside water."
YEW = "The yew is evergreen and very slow. Its seeds are poisonous to most animals."
CORPUS = Corpus(["alder.md", "yew.md"], ["", ""], [ALDER, YEW])
Q = "How tall is the alder?"
A = "10 metres"
SAID = "I think 3 metres."


class ToolFile(NamedTuple):
    """A file of one or more records: its format, its tool, the reader of that tool, its first record, and its text."""

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
    "id": "7f3c",
    "inputs": {"question": Q},
    "outputs": {"answer": A},
    "metadata": {"dataset_split": ["base"]},
    "dataset_id": "d0a1",
    "created_at": "2024-05-01T10:00:00Z",
    "source_run_id": None,
}
AUDIT = {"id": "q-1", "question": Q, "relevant_chunks": [{"chunk_id": "c-17", "text": ALDER[21:65]}]}
RAGAS = {
    "question": Q,
    "contexts": repr([ALDER]),
    "ground_truth": A,
    "evolution_type": "simple",
    "metadata": repr([{"source": "docs/alder.md"}]),
}
DEEPEVAL = {
    "input": Q,
    "actual_output": SAID,
    "expected_output": A,
    "context": [ALDER],
    "retrieval_context": [YEW],
    "source_file": "docs/alder.md",
    "comments": "by Ann",
}
LLAMA = {
    "query": Q,
    "query_by": {"model_name": "gpt-x", "type": "ai"},
    "reference_contexts": [ALDER],
    "reference_answer": A,
    "reference_answer_by": {"model_name": "gpt-y", "type": "ai"},
}
AUTORAG = {"qid": "q-1", "query": Q, "retrieval_gt": [["alder.md"]], "generation_gt": [A, "ten metres"]}
FLASHRAG = {"id": "dev_0", "question": Q, "golden_answers": [A, "ten metres"], "metadata": {"level": "easy"}}
RAGCHECKER = {
    "query_id": "q-1",
    "query": Q,
    "gt_answer": A,
    "response": SAID,
    "retrieved_context": [{"doc_id": "yew.md", "text": YEW}],
}
PROMPTFOO = {
    "description": "height of trees",
    "vars": {"question": Q},
    "assert": [
        {"type": "equals", "value": A},
        {"type": "contains-all", "value": ["metres"]},
        {"type": "llm-rubric", "value": "is polite"},
    ],
}
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
    "id": "5a",
    "title": "Alder",
    "context": ALDER,
    "question": Q,
    "answers": {"text": [A], "answer_start": [ALDER.index(A)]},
}
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
    "user_input": Q,
    "reference": A,
    "reference_contexts": [ALDER],
    "synthesizer_name": "single_hop",
    "persona_name": "Ann",
    "response": SAID,
    "retrieved_contexts": [YEW],
}
MLFLOW = {
    "dataset_record_id": "d-1",
    "inputs": {"question": Q},
    "tags": {"team": "docs"},
    "created_time": "1714",
    "expectations": {
        "expected_response": A,
        "expected_facts": ["old"],
        "expected_retrieved_context": [{"doc_uri": "alder.md", "content": ALDER}],
    },
}
ARGILLA = {
    "id": "q-1",
    "fields": {"question": Q, "context": ALDER},
    "metadata": {"category": "height"},
    "suggestions": {"answer": {"value": SAID, "agent": "gpt-x"}},
    "responses": {"answer": [{"value": A}]},
}
MARKED = {"start": 21, "end": 65, "text": ALDER[21:65], "labels": ["evidence"]}
LABEL_STUDIO = {
    "id": "7",
    "data": {"question": Q},
    "predictions": [
        {"result": [{"type": "textarea", "from_name": "answer", "to_name": "question", "value": {"text": [SAID]}}]}
    ],
    "annotations": [
        {
            "result": [
                {"type": "textarea", "from_name": "answer", "to_name": "question", "value": {"text": [A]}},
                {"type": "labels", "from_name": "span", "to_name": "text", "value": MARKED},
            ]
        }
    ],
}
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
    "audit.json": ("chunks", "relevant chunks of questions", "none", AUDIT, json.dumps({"queries": [AUDIT]})),
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
    "counts.csv": ("counts", "question counts from a log", "none", COUNTED, table_of(COUNTED)),
}
FILES = {name: ToolFile(*kind) for name, kind in KINDS.items()}
