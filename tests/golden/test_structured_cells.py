"""Structured cells, of any shape and notation, in every reader, importer and harvester: read, or refused."""

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragsweep.core.errors import Faults, InputError
from ragsweep.golden.golden_format import read_questions
from ragsweep.golden.qrels import Grades
from ragsweep.golden.structured_cells import decoded, plain_texts
from ragsweep.parts.datasets import Beir, Squad
from ragsweep.parts.datasets.csv import read_question_table
from ragsweep_golden.commands.harvest import _traced_question, read_log
from ragsweep_golden.exchange.importing import import_file
from ragsweep_golden.exchange.layouts import LAYOUTS

ROOT = Path(__file__).parents[2]
WORDS = st.from_regex(r"[a-z]{1,6}( [a-z]{1,6})?", fullmatch=True)
LEAVES = st.one_of(WORDS, st.integers(0, 99), st.none(), st.booleans())
SHAPES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
).filter(lambda value: isinstance(value, list | dict))
ANSWERS = WORDS.flatmap(lambda word: st.sampled_from([[word], [word, "b"], {"text": [word], "answer_start": [1]}]))
NOTATIONS: list[Callable[[Any], Any]] = [
    lambda value: value,
    json.dumps,
    repr,
    lambda value: repr(tuple(value)) if isinstance(value, list) else repr(value),
    lambda value: repr(value).replace(", ", " "),  # as numpy prints an array
    lambda value: f"{{'text': array({value!r}, dtype=object)}}",
]
QUIET = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def has_brackets(text: str) -> bool:
    return any(sign in text for sign in "[]{}'\"")


def texts_of(entry: dict[str, Any]) -> list[str]:
    return [str(entry.get("question", "")), entry.get("reference", ""), *entry.get("references", ()),
            *entry.get("keywords", ()), entry.get("category", "")]  # fmt: skip


def written(file: Path, record: dict[str, Any]) -> Path:
    if file.suffix == ".csv":
        with file.open("w", newline="") as handle:
            writer = csv.DictWriter(handle, list(record))
            writer.writeheader()
            writer.writerow(record)
    else:
        file.write_text(json.dumps(record))
    return file


def imported(path: Path, record: dict[str, Any], suffix: str) -> list[str]:
    file = written(path / f"given.{suffix}", record)
    return [text for entry in import_file(file, "auto", None).entries for text in texts_of(entry)]


def by_table(path: Path, record: dict[str, Any]) -> list[str]:
    faults = Faults()
    raw, _ = read_question_table(written(path / "set.csv", record), {}, Grades(None), faults)
    faults.raise_any()
    return [text for one in raw.questions
            for text in (one.text, *one.references, *one.keywords, one.category, *one.labels.values())]  # fmt: skip


def by_jsonl(path: Path, record: dict[str, Any]) -> list[str]:
    (path / "set.jsonl").write_text(json.dumps(record))
    faults = Faults()
    raw = read_questions(path / "set.jsonl", "", faults)
    faults.raise_any()
    return [text for one in raw.questions for text in (one.text, *one.references, one.category)]


def by_squad(path: Path, record: dict[str, Any]) -> list[str]:
    answers = [{"text": "a", "answer_start": 0}] if record.get("reference") == "a" else record["reference"]
    row = {"id": "q", "question": record["question"], "answers": answers}
    (path / "s.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "a", "qas": [row]}]}]}))
    dataset = Squad(str(path / "s.json"), "error", None, 0).load()
    return [text for one in dataset.golden.questions for text in (one.text, *one.references)]


def by_log(path: Path, record: dict[str, Any]) -> list[str]:
    (path / "log.jsonl").write_text(json.dumps({"question": record["question"]}) + '\n{"question": "x"}')
    return read_log(path / "log.jsonl")


def by_beir(path: Path, record: dict[str, Any]) -> list[str]:
    query = {"_id": "q", "text": record["question"], "metadata": {"category": record.get("category", "")}}
    (path / "qrels").mkdir(exist_ok=True)
    (path / "queries.jsonl").write_text(json.dumps(query))
    (path / "corpus.jsonl").write_text(json.dumps({"_id": "d", "text": "a"}))
    (path / "qrels" / "test.tsv").write_text("q\td\t1\n")
    dataset = Beir(str(path), "test", None, "error", None, 0).load()
    return [text for one in dataset.golden.questions for text in (one.text, one.category)]


def by_trace(path: Path, record: dict[str, Any]) -> list[str]:
    return [_traced_question({"question": record["question"]}), _traced_question({"inputs": record["question"]})]


def label_studio(record: dict[str, Any]) -> dict[str, Any]:
    answer = {"type": "textarea", "from_name": "answer", "value": {"textarea": record.get("reference")}}
    return {"data": {"question": record["question"], "category": record.get("category")},
            "annotations": [{"result": [answer]}]}  # fmt: skip


TOOLS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "faq": lambda asked, right: {"query": asked, "answer": right},
    "mlflow": lambda asked, right: {"inputs": {"question": asked}, "expectations": {"expected_response": right}},
    "argilla": lambda asked, right: {"fields": {"question": asked}, "responses": {"answer": [{"value": right}]}},
    "ragas": lambda asked, right: {"user_input": asked, "reference": right},
    "chunks": lambda asked, right: {"query": asked, "relevant_chunks": "b", "reference": right},
    "langsmith": lambda asked, right: {"inputs": {"question": asked}, "outputs": {"answer": right}},
    "promptfoo": lambda asked, right: {"vars": {"question": asked}, "assert": [{"type": "equals", "value": right}]},
    "ragas_0.1": lambda asked, right: {"question": asked, "ground_truth": right, "evolution_type": None},
    "deepeval": lambda asked, right: {"input": asked, "expected_output": right, "source_file": "a"},
    "llamaindex": lambda asked, right: {"query": asked, "reference_answer": right},
    "autorag": lambda asked, right: {"qid": "q", "query": asked, "generation_gt": right, "retrieval_gt": [["a"]]},
    "ragchecker": lambda asked, right: {"query": asked, "gt_answer": right},
    "flashrag": lambda asked, right: {"question": asked, "golden_answers": right},
    "squad_rows": lambda asked, right: {"question": asked, "answers": right, "context": "a"},
    "topics": lambda asked, right: {"question": asked, "description": right, "narrative": "a"},
    "counts": lambda asked, right: {"question": asked, "count": 2},
}


def imported_with(fields: Callable[[Any, Any], dict[str, Any]], path: Path, record: dict[str, Any]) -> list[str]:
    return imported(path, fields(record["question"], record.get("reference", "a")), "jsonl")


READERS: dict[str, Callable[[Path, dict[str, Any]], list[str]]] = {
    "import of a table": lambda path, record: imported(path, record, "csv"),
    "import of JSON lines": lambda path, record: imported(path, record, "jsonl"),
    "import of labelstudio": lambda path, record: imported(path, label_studio(record), "jsonl"),
    "import of keywords": lambda path, record: imported(
        path, {"question": record["question"], "expected_keywords": record.get("reference")}, "csv"
    ),
    **{f"import of {name}": partial(imported_with, fields) for name, fields in TOOLS.items()},
    "csv": by_table,
    "jsonl": by_jsonl,
    "squad": by_squad,
    "beir": by_beir,
    "log": by_log,
    "trace": by_trace,
}  # fmt: skip

ALIKE = {
    "folder": "its golden file is that of jsonl",
    "python_reference": "its golden file is that of jsonl, and part of the package",
    "trec": "the question is an element of a file that is not a table",
    "cases": "any field may be structure, which metrics of a task read",
}
"""Readers without cells, or whose cells another reader reads."""


NO_ANSWERS = {"squad", "log", "jsonl", "beir", "trace", "import of chunks", "import of topics", "import of counts"}


def test_every_reader_and_layout_is_covered() -> None:
    """A new option of ``dataset`` or a new layout of an import has its cells read here, too."""
    shipped = {path.stem for path in (ROOT / "conf" / "dataset").glob("*.yaml")}
    assert shipped == {*ALIKE, *READERS} & shipped
    table = {"import of a table", "import of JSON lines"}  # the layout "csv", as a file of each kind
    assert {f"import of {name}" for name in LAYOUTS if name != "csv"} <= {*READERS} - table


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("field", ["question", "reference", "category"])
@given(value=SHAPES, notation=st.sampled_from(NOTATIONS))
@QUIET
def test_structure_is_read_or_refused_and_never_a_text_with_brackets(
    tmp_path: Path, reader: str, field: str, value: Any, notation: Callable[[Any], Any]
) -> None:
    record = {"id": "q", "question": "Why?", "reference": "a", field: notation(value)}
    if reader == "squad" and field == "reference":
        record = {"id": "q", "question": "Why?", "reference": value}
    texts, refusal = list[str](), ""
    try:
        texts = READERS[reader](tmp_path, record)
    except InputError as fault:
        refusal = str(fault)
    assert not any(map(has_brackets, texts))
    assert not refusal or any(mark in refusal for mark in (":1", ":2", "$")), "the place is named"


@pytest.mark.parametrize("reader", sorted(READERS.keys() - NO_ANSWERS))
@given(value=ANSWERS, notation=st.sampled_from(NOTATIONS[:3]))
@QUIET
def test_answers_in_every_notation(tmp_path: Path, reader: str, value: Any, notation: Callable[[Any], Any]) -> None:
    wanted = list(dict.fromkeys(value["text"] if isinstance(value, dict) else value))
    texts = READERS[reader](tmp_path, {"id": "q", "question": "Why?", "reference": notation(value)})
    assert [text for text in texts if text not in ("", "Why?")] == wanted


@pytest.mark.parametrize(
    "text", ["see [page 4]", "[see page 4]", "{x} is a set", "(1, 2)", "a [b", "['a'] and ['b']?", "{", "[ :"]
)
def test_a_text_with_brackets_that_is_no_structure_stays_as_it_is(text: str) -> None:
    assert decoded(text) == text
    assert plain_texts(text) == [text]


ARRAYS = ("['a' 'b']", "['a'\n 'b']", "['a', nan]", "[0.1 0.2]", "[0 'a']", "['a', 'b")


@pytest.mark.parametrize("text", [*ARRAYS, "{'text': array(['a'], dtype=object)}"])
def test_arrays_of_numpy_are_refused_and_not_joined(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be parsed"):
        decoded(text)


def test_a_message_of_parts_is_the_text_of_its_parts(tmp_path: Path) -> None:
    first, last = ({"type": "text", "text": text} for text in ("How tall", "?"))
    parts = [first, {"type": "image_url", "image_url": {}}, last]
    said = {"role": "assistant", "content": [{"type": "output_text", "text": "So.", "annotations": []}]}
    typed = {"role": "user", "content": [{"type": "input_text", "text": "Why?"}]}  # of OpenAI's Responses API
    records: list[dict[str, Any]] = [{"messages": [{"role": "user", "content": parts}]}, {"input": [said, typed]}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert read_log(tmp_path / "log.jsonl") == ["How tall ?", "Why?"]
