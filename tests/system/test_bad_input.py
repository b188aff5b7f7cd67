"""Any bad dataset is one clear error, with its place and the way out; unusual ones load."""

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.types import Dataset, DatasetReader
from ragsweep.parts.datasets import Beir, Csv, Folder, Jsonl, Squad, Trec
from ragsweep.sweep.running.session import Session
from support import nightly
from support.commands import RUN, call, prepare

NOBODY = 65534
CORPUS = '{"id": "d1", "text": "It rains."}\n{"id": "d2", "text": "It snows."}\n'
GOLDEN = '{"id": "q1", "question": "What falls?", "evidence": [{"document": "d1"}]}\n'
QUERIES = '{"_id": "q1", "text": "What falls?"}\n'
TOPICS = "<top>\n<num> q1\n<title> What falls?\n</top>\n"
SQUAD = {
    "data": [
        {
            "title": "Rain",
            "paragraphs": [
                {
                    "context": "It rains.",
                    "qas": [{"id": "q1", "question": "What?", "answers": [{"text": "rains", "answer_start": 3}]}],
                }
            ],
        }
    ]
}
GOOD: dict[str, dict[str, str | bytes]] = {
    "jsonl": {"corpus.jsonl": CORPUS, "golden.jsonl": GOLDEN},
    "beir": {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/test.tsv": "q1\td1\t1\n"},
    "trec": {"corpus.jsonl": CORPUS, "topics": TOPICS, "qrels": "q1 0 d1 1\n"},
    "squad": {"dev.json": json.dumps(SQUAD)},
    "folder": {"pages/d1.md": "It rains.", "golden.jsonl": GOLDEN.replace("d1", "d1.md")},
    "csv": {"corpus.csv": "id,text\nd1,It rains.\nd2,It snows.\n",
            "questions.csv": "id,question,document\nq1,What?,d1\n"},
}  # fmt: skip
"""A small dataset of each format: file -> content."""


def read(kind: str, folder: Path) -> DatasetReader:
    def at(*names: str) -> list[str]:
        return [str(folder / name) for name in names]

    usual: dict[str, Any] = {"unknown": "error", "limit": None, "seed": 0}
    match kind:
        case "jsonl":
            return Jsonl(*at("corpus.jsonl", "golden.jsonl"), **usual, repeated_passages=False)
        case "beir":
            return Beir(str(folder), "test", None, **usual)
        case "trec":
            return Trec(*at("corpus.jsonl", "topics", "qrels"), ["title"], None, **usual)
        case "squad":
            return Squad(*at("dev.json"), **usual)
        case "folder":
            return Folder(*at("pages", "golden.jsonl"), [], **usual, repeated_passages=False)
    return Csv(*at("corpus.csv", "questions.csv"), None, None, None, **usual)


def write(kind: str, folder: Path, **changes: Any) -> None:
    """Write a good dataset with some of its files changed: by content, or by what is done to the place."""
    for name, content in (GOOD[kind] | changes).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        elif content is not None:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


class Bad(NamedTuple):
    """What is wrong with which file of a dataset, and what must be said of it: where, what, and the way out."""

    kind: str
    file: str
    content: Any
    where: str
    what: str
    way: str


def bomb(byte: bytes, *, hidden: bool = False) -> Callable[[Path], None]:
    """Write an archive of one byte many times; its last four bytes say how often, or do not."""

    def write(path: Path) -> None:
        data = gzip.compress(byte * (32 << 20), 9)
        path.with_name(path.name + ".gz").write_bytes(data[:-4] + b"\0\0\0\0" if hidden else data)

    return write


def forbidden(path: Path) -> None:
    path.write_text(CORPUS)
    path.chmod(0)


def question(**fields: Any) -> str:
    return json.dumps({"id": "q1", "question": "What?"} | fields) + "\n"


MEND = "correct it, or define the grade of each score, e.g. dataset.grades="
BAD = {
    # files that cannot be read
    "missing file": Bad("jsonl", "corpus.jsonl", None, "corpus.jsonl", "no such file", "(current folder: "),
    "pipe": Bad("trec", "topics", os.mkfifo, "topics", "is a pipe or a device", "save its content to a file"),
    "no permission": Bad("trec", "corpus.jsonl", forbidden, "corpus.jsonl", "permission denied",
                         "make it readable with chmod u+r"),
    "link in a circle": Bad("squad", "dev.json", lambda p: p.symlink_to(p), "dev.json", "cannot be read",
                            "too many levels"),
    "zipped bomb": Bad("beir", "queries.jsonl", bomb(b"\n"), "queries.jsonl.gz",
                       "unzips to more than 200 times its size", "unzip it yourself if you trust it"),
    "zipped bomb that hides its size": Bad("beir", "queries.jsonl", bomb(b"0", hidden=True), "queries.jsonl.gz:1",
                                           "the line is longer than 8 MiB", "put one record on each line"),
    "zipped bomb of JSON": Bad("squad", "dev.json", bomb(b" ", hidden=True), "dev.json.gz",
                               "unzips to more than 200 times its size",
                               "unzip it yourself if you trust it"),
    "line of 10 MB": Bad("jsonl", "corpus.jsonl",
                         CORPUS.encode() + b'{"id": "d3", "text": "' + b"x" * 10_000_000 + b'"}',
                         "corpus.jsonl:3", "the line is longer than 8 MiB", "put one record on each line"),
    "cell of 10 MB": Bad("csv", "corpus.csv", b"id,text\nd1," + b"x" * 10_000_000, "corpus.csv:2",
                         "the line is longer than 8 MiB", "split long documents"),
    "workbook": Bad("csv", "questions.csv", b"PK\x03\x04\x14\x00\x06\x00\xff\n", "questions.csv",
                    "is an Excel workbook or another zip archive", "save the table as CSV"),
    "workbook of an old Excel": Bad("csv", "questions.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\n", "questions.csv",
                                    "is an Excel workbook or another zip archive", "save the table as CSV"),
    "gzipped without its ending": Bad("jsonl", "golden.jsonl", gzip.compress(b"{}"), "golden.jsonl", "is gzipped",
                                      "add .gz to its name"),
    "rows of SQuAD in Parquet": Bad("squad", "dev.json", b"PAR1\x15\x04\x15\xd8", "dev.json", "is a Parquet file",
                                    "convert it to JSON"),
    "not UTF-8": Bad("csv", "questions.csv", b"id,question,document\nq1,caf\xe9?,d1\n", "questions.csv:2",
                     "byte 7 (0xe9) is not valid UTF-8", "save the file as UTF-8"),
    "JSON value of 130 MiB": Bad("squad", "dev.json", b'{"data": "' + b"x" * (130 << 20) + b'"}', "dev.json",
                                 "is larger than 128 MiB", "split it into several files"),
    "JSON value of 60 MiB": Bad("squad", "dev.json", b'{"data": "' + b"x" * (60 << 20) + b'"}', "dev.json:$",
                                '"data" is "xxx', "not a list"),
    "blank lines without end": Bad("jsonl", "corpus.jsonl", b"\n" * (40 << 20), "corpus.jsonl:100001",
                                   "100,000 consecutive blank lines", "remove them"),
    "page nested without end": Bad("folder", "pages/d2.html", "<div>" * 20_000 + "x" + "</div>" * 20_000,
                                   "pages/d2.html", "more than 3,000 nested elements",
                                   "exclude it with dataset.exclude"),
    # nothing in it
    "corpus without a text": Bad("jsonl", "corpus.jsonl", '{"id": "d1", "text": ""}\n{"id": "d2", "text": " "}\n',
                                 "corpus.jsonl", "no document has a title or text", "key or column of the text"),
    "column without a text": Bad("csv", "corpus.csv", "id,title,text\nd1,,\n", "corpus.csv",
                                 "no document has a title or text", "key or column of the text"),
    "pages without a text": Bad("folder", "pages/d1.md", " \n", "pages", "no document has a title or text", ""),
    "empty table": Bad("csv", "corpus.csv", "", "corpus.csv", "contains no documents", ""),
    "header only": Bad("csv", "questions.csv", "id,question\n", "questions.csv", "no questions to evaluate",
                       "the file has none"),
    # not the format
    "not JSON, many lines": Bad("squad", "dev.json", '{"data": [\n  {"title": "x",}\n]}', "dev.json:2:17", "not JSON",
                                "expecting property name"),
    "a list": Bad("squad", "dev.json", "[1, 2]", "dev.json:$", "[1, 2] where an object", "is required"),
    "not SQuAD's": Bad("squad", "dev.json", '{"dataset": []}', "dev.json:$", "contains no paragraph",
                       'the format is {"data": '),
    "mixed schemas, the other way": Bad("beir", "corpus.jsonl", '{"_id": "d1", "text": "x"}\n' + CORPUS,
                                        "corpus.jsonl:2",
                                        'has no "_id"', ""),
    "misspelt header": Bad("csv", "corpus.csv", "id,txt\nd1,x\n", "corpus.csv:1", 'no column "text" in the header',
                           'did you mean "txt"? known: id, txt; name the column with dataset.corpus_columns='),
    "row too long": Bad("csv", "questions.csv", "id,question,document\nq1,What, then?,d1\n", "questions.csv:2",
                        "4 cells where the header has 3 columns", "quote a cell that contains a comma"),
    "topic without a number": Bad("trec", "topics", "<top>\n<title> What?\n</top>\n", "topics:1",
                                  "the topic has no <num>", "complete the topic"),
    # ids
    "null character in an id": Bad("jsonl", "corpus.jsonl", CORPUS.replace("d2", r"d\u0000"), "corpus.jsonl:2",
                                   '"id" has the control character U+0000', "an id is one line of plain text"),
    "line break in an id": Bad("csv", "corpus.csv", 'id,text\n"d\n1",x\n', "corpus.csv:2",
                               '"id" has the control character U+000A', "an id is one line of plain text"),
    # labels
    "document outside of the folder": Bad("folder", "golden.jsonl", GOLDEN.replace("d1", "../golden.jsonl"),
                                          "golden.jsonl:1",
                                          'document "../golden.jsonl" is not in the corpus', "dataset.unknown=drop"),
    "absolute document": Bad("folder", "golden.jsonl", GOLDEN.replace("d1", "/etc/passwd"), "golden.jsonl:1",
                             'document "/etc/passwd" is not in the corpus', "dataset.unknown=drop"),
    "relevance -1": Bad("beir", "qrels/test.tsv", "q1\td1\t-1\n", "qrels/test.tsv:1",
                        'score "-1" is not a whole number', MEND),
    "relevance 2.5": Bad("trec", "qrels", "q1 0 d1 2.5\n", "qrels:1", 'score "2.5" is not a whole number', MEND),
    "relevance yes": Bad("csv", "questions.csv", "id,question,document,grade\nq1,What?,d1,yes\n", "questions.csv:2",
                         'score "yes" is not a whole number from 0 to 1e+09', MEND),
    "relevance 1_0": Bad("beir", "qrels/test.tsv", "q1\td1\t1_0\n", "qrels/test.tsv:1",
                         'score "1_0" is not a whole number', MEND),
    "relevance in Arabic digits": Bad("trec", "qrels", "q1 0 d1 \u0661\n", "qrels:1",
                                      'score "\u0661" is not a whole number', MEND),
    "start in Arabic digits": Bad("csv", "questions.csv",
                                  "id,question,document,anchor,start\nq1,What?,d1,rains,\u0663\n", "questions.csv:2",
                                  '"start" is "\u0663"', "not a whole number"),
    "nested labels": Bad("jsonl", "golden.jsonl", question(labels={"team": {"name": "x"}}), "golden.jsonl:1",
                         'label "team" is {"name": "x"}', "not a string, a number, true or false"),
    "null character in a table": Bad("csv", "corpus.csv", "id,text\nd1,It\0rains.\n", "corpus.csv:2",
                                     "contains a null character", "save the table as UTF-8 text"),
    "answer that is not there": Bad("squad", "dev.json", json.dumps(SQUAD).replace('"rains"', '"rain s"'),
        "dev.json:$.data[0].paragraphs[0].qas[0]", 'anchor "rain s" does not occur in document "Rain/1"',
        "quote the passage again"),
}  # fmt: skip


@contextmanager
def powerless(folder: Path) -> Iterator[None]:
    """Be a user who may read the folder, but not everything."""
    user = os.geteuid()
    if user == 0:
        for place in (folder, *folder.parents[:2]):
            place.chmod(0o755)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("name", BAD)
def test_bad_dataset_is_refused_with_the_place_the_fact_and_the_way_out(name: str, tmp_path: Path) -> None:
    bad = BAD[name]
    write(bad.kind, tmp_path, **{bad.file: bad.content})
    reader = read(bad.kind, tmp_path)
    began = time.process_time()
    with powerless(tmp_path) if bad.content is forbidden else nullcontext(), pytest.raises(InputError) as caught:
        reader.load()
    assert time.process_time() - began < 2
    told = str(caught.value)
    lines = [line for line in told.splitlines() if line.startswith(f"{tmp_path / bad.where}: ")]
    assert any(bad.what in line for line in lines), told
    assert bad.way in told
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("kind", "key"),
    [("folder", "path"), ("folder", "golden"), ("csv", "corpus"), ("csv", "questions"), ("beir", "path"),
     ("jsonl", "corpus"), ("trec", "qrels"), ("trec", "topics"), ("squad", "path")],
)  # fmt: skip
def test_blank_path_is_refused_by_its_key_and_is_not_the_working_directory(kind: str, key: str, cwd: Path) -> None:
    write(kind, cwd)
    reader = read(kind, cwd)
    for blank in ("", " "):
        setattr(reader, key, blank)
        with pytest.raises(ConfigError, match=rf"^dataset\.{key}: requires a value"):
            reader.load()


@pytest.mark.parametrize("label", ["question_id", "category", "context", "ndcg_at_10"])
def test_label_cannot_take_the_column_of_something_else(label: str, tmp_path: Path) -> None:
    write("jsonl", tmp_path, **{"golden.jsonl": question(labels={label: "x"}, evidence=[{"document": "d1"}])})
    given = [f"dataset.{name}={tmp_path}/{name}.jsonl" for name in ("corpus", "golden")]
    with pytest.raises(InputError, match=rf'golden\.jsonl:1: the label "{label}" has the same name as a .*; rename it'):
        prepare(Session(), "dataset=jsonl", *given, "retriever=bm25", "tracking=none")


# --- what is unusual, and right ----------------------------------------------------------------------------------

BOM = "\ufeff"
UNUSUAL: dict[str, tuple[str, dict[str, Any], Callable[[Dataset], bool]]] = {
    "byte order marks": ("csv", {name: BOM + str(text) for name, text in GOOD["csv"].items()},
                         lambda d: d.corpus.ids[0] == "d1"),
    "byte order mark in JSON": ("squad", {"dev.json": BOM + json.dumps(SQUAD)}, lambda d: d.corpus.ids == ["Rain/1"]),
    "CRLF": ("trec", {"topics": TOPICS.replace("\n", "\r\n"), "qrels": "q1 0 d1 1\r\n"},
             lambda d: d.golden.questions[0].text == "What falls?"),
    "blank rows": ("csv", {"questions.csv": "id,question,document\n\nq1,What?,d1\n,,\n"},
                   lambda d: len(d.golden.questions) == 1),
    "blank question": ("jsonl", {"golden.jsonl": GOLDEN.replace("What falls?", " ")},
                       lambda d: (d.golden.questions[0].text, d.golden.questions[0].category) == (" ", "blank")),
    "blank query": ("beir", {"queries.jsonl": '{"_id": "q1", "text": ""}'},
                    lambda d: d.golden.questions[0].category == "blank"),
    "empty cell for a question": ("csv", {"questions.csv": "id,question,document\nq1,,d1\n"},
                                  lambda d: d.golden.questions[0].category == "blank"),
    "emoji": ("csv", {"corpus.csv": "id,text\nd1,\U0001f327\ufe0f rain \U0001f468\u200d\U0001f469\u200d\U0001f467\n"},
              lambda d: "\U0001f327" in d.corpus.texts[0]),
    "right to left": ("jsonl",
                      {"golden.jsonl": GOLDEN.replace("What falls?", "\u05de\u05d4 \u05d9\u05d5\u05e8\u05d3?")},
                      lambda d: d.golden.questions[0].text.endswith("?")),
    "one row": ("jsonl", {"corpus.jsonl": CORPUS.splitlines()[0]}, lambda d: d.corpus.ids == ["d1"]),
    "line of 7 MB": ("jsonl", {"corpus.jsonl": CORPUS + json.dumps({"id": "d3", "text": "x" * 7_000_000})},
                     lambda d: len(d.corpus.texts[2]) == 7_000_000),
    "cell of 7 MB": ("csv", {"corpus.csv": f"id,text\nd1,{'x' * 7_000_000}\n"},
                     lambda d: len(d.corpus.texts[0]) == 7_000_000),
    "header with spaces": ("csv", {"questions.csv": "id ; question ; document\nq1;What, then?;d1\n"},
                           lambda d: d.golden.questions[0].text == "What, then?"),
    "ids like paths": ("jsonl", {"corpus.jsonl": CORPUS.replace("d2", "../../CON. ")},
                       lambda d: d.corpus.ids[1] == "../../CON. "),
    "link to a file": ("jsonl", {"corpus.jsonl": lambda p: (p.with_name("x").write_text(CORPUS), p.symlink_to("x"))[1]},
                       lambda d: len(d.corpus.ids) == 2),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_dataset_loads(name: str, tmp_path: Path) -> None:
    kind, files, holds = UNUSUAL[name]
    write(kind, tmp_path, **files)
    assert holds(read(kind, tmp_path).load())


# --- through the command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("relevance yes", ["dataset=csv", "dataset.corpus=corpus.csv", "dataset.questions=questions.csv"]),
        nightly("answer that is not there", ["dataset=squad", "dataset.path=dev.json"]),
        nightly("pipe", ["dataset=trec", "dataset.topics=topics", "dataset.qrels=qrels",
                         "dataset.corpus=corpus.jsonl"]),
    ],
)  # fmt: skip
def test_command_ends_with_status_2_and_the_error_alone(name: str, chosen: list[str], tmp_path: Path) -> None:
    bad = BAD[name]
    write(bad.kind, tmp_path, **{bad.file: bad.content})
    done = call(tmp_path, RUN, "-m", *chosen, "top_k=3,5", "tracking=none")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ragsweep: ")
    assert f"{bad.where}: " in done.stderr
    assert bad.what in done.stderr
    assert bad.way in done.stderr
    assert "Traceback" not in done.stderr


def test_grades_are_given_on_the_command_line_as_the_error_says(tmp_path: Path) -> None:
    bad = BAD["relevance -1"]
    write(bad.kind, tmp_path, **{bad.file: "q1\td1\t-1\nq1\td2\t2\n"})
    given = ["dataset=beir", f"dataset.path={tmp_path}", "dataset.grades={-1: null, 2: 1}", "retriever=bm25"]
    golden = prepare(Session(), *given, "tracking=none").dataset.golden
    assert [label.document for label in golden.questions[0].evidence] == ["d2"]
    assert golden.left_out == {"labels without a grade in dataset.grades": 1}


def test_columns_are_named_on_the_command_line_as_the_error_says(tmp_path: Path) -> None:
    write("csv", tmp_path, **{"questions.csv": "id,Query,document\nq1,What?,d1\n"})
    given = [f"dataset.{name}={tmp_path}/{name}.csv" for name in ("corpus", "questions")]
    given += ["dataset.columns={question: Query}", "retriever=bm25", "tracking=none"]
    assert prepare(Session(), "dataset=csv", *given).dataset.golden.questions[0].text == "What?"


def test_error_of_a_set_without_evidence_names_the_columns_read_as_labels(tmp_path: Path) -> None:
    write("csv", tmp_path, **{"questions.csv": "id,question,document_id\nq1,What?,d1\n"})
    given = [f"dataset.{name}={tmp_path}/{name}.csv" for name in ("corpus", "questions")]
    with pytest.raises(ConfigError, match=r"(?s)has evidence.*columns read as labels: document_id"):
        prepare(Session(), "dataset=csv", *given, "retriever=bm25", "tracking=none")
