import json
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Evidence
from ragsweep.parts.datasets import Csv
from ragsweep.testing.datasets import DatasetContract
from support import faults_of

CORPUS = 'id,title,text,size\na,Apples,"An apple a day\n\nkeeps the ""doctor"" away",3\nb,,to be or not to be,4\n'
FULL = (
    "id,question,category,answerable,unanswerable_type,needs_retrieval,reference,keywords,notes,document,anchor,start,grade,team\n"
    "q1,What helps?,factual,yes,,true,Fruit.,apple; day,,a,apple,,2,health\n"
    "q1,,,,,,,,,b,to be,13,,\n"
    "q2,Who knows?,,No,nonsensical,,,,hm,,,,,\n"
)


def csv(folder: Path, questions: str, corpus: str = CORPUS, name: str = "questions.csv", **arguments: Any) -> Csv:
    files = {"corpus": folder / "corpus.csv", "questions": folder / name}
    for path, content in zip(files.values(), (corpus, questions), strict=True):
        path.write_text(content)
    usual = {"columns": None, "corpus_columns": None, "grades": None, "unknown": "error", "limit": None, "seed": 0}
    return Csv(**{key: str(path) for key, path in files.items()}, **(usual | arguments))


def refused(folder: Path, questions: str, **arguments: Any) -> list[str]:
    return faults_of(csv(folder, questions, **arguments).load, folder)


class TestCsv(DatasetContract):
    @pytest.fixture(autouse=True)
    def _reader(self, tmp_path: Path) -> None:
        part = csv(tmp_path, FULL)
        self.part = lambda: part


def test_rows_become_questions_and_rows_of_one_id_one_question(tmp_path: Path) -> None:
    dataset = csv(tmp_path, FULL).load()
    assert (dataset.corpus.ids, dataset.corpus.titles) == (["a", "b"], ["Apples", ""])
    assert dataset.corpus.texts[0] == 'An apple a day\n\nkeeps the "doctor" away'
    first, second = dataset.golden.questions
    assert (first.id, first.text, first.category, first.answerable) == ("q1", "What helps?", "factual", True)
    assert (first.references, first.keywords, first.labels) == (("Fruit.",), ("apple", "day"), {"team": "health"})
    assert first.evidence == (Evidence("a", "apple", grade=2.0), Evidence("b", "to be", 13))
    assert (second.answerable, second.unanswerable_type, second.category) == (False, "nonsensical", "unanswerable")
    assert (second.evidence, second.notes) == ((), "hm")
    assert dataset.notes == ("columns read as labels: team",)


def test_white_space_at_the_ends_of_categories_and_labels_makes_no_other_groups(tmp_path: Path) -> None:
    rows = "q1,what?,factual,health\nq1,, factual,health \nq2,who?,factual , health\nq3,why?,\xa0, \n"
    questions = csv(tmp_path, f"id,question,category,team\n{rows}").load().golden.questions
    assert [(q.category, q.labels) for q in questions] == [("factual", {"team": "health"})] * 2 + [("", {})]


@pytest.mark.parametrize("identifier", ["[1]", "['q1']", "[q1"])
def test_an_id_in_brackets_is_kept_and_its_evidence_is_found(tmp_path: Path, identifier: str) -> None:
    (question,) = csv(tmp_path, f"id,question,document\n{identifier},what?,a\n").load().golden.questions
    assert (question.id, question.evidence) == (identifier, (Evidence("a"),))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_header_shows_the_delimiter(tmp_path: Path, delimiter: str) -> None:
    questions = 'id,question,document\nq1,"what, why; how\tcome",b\n'
    rows = questions if delimiter == "," else "id@question@document\nq1@what@b\n".replace("@", delimiter)
    (question,) = csv(tmp_path, rows).load().golden.questions
    assert question.text == ("what, why; how\tcome" if delimiter == "," else "what")


@pytest.mark.parametrize("start", ["\n", " \r\n\n", "sep=;\n", "sep=;\r\n\n"])
def test_header_may_follow_blank_lines_and_the_separator_for_excel(tmp_path: Path, start: str) -> None:
    (question,) = csv(tmp_path, f"{start}id;question;document\nq1;what?;b\n").load().golden.questions
    assert (question.text, question.evidence) == ("what?", (Evidence("b"),))
    assert question.where == f"{tmp_path}/questions.csv:{start.count(chr(10)) + 2}"


def test_lines_may_end_as_excel_for_the_mac_ends_them(tmp_path: Path) -> None:
    rows = 'id,question,document\rq1,"what\rthen,\nand who?",b\rq2,who?,b\rq3,why?,a\r'
    first, *others = csv(tmp_path, rows, corpus=CORPUS).load().golden.questions
    assert (first.text, first.evidence) == ("what\rthen,\nand who?", (Evidence("b"),))
    assert [(one.text, one.evidence) for one in others] == [("who?", (Evidence("b"),)), ("why?", (Evidence("a"),))]
    assert [one.where for one in others] == [f"{tmp_path}/questions.csv:{line}" for line in (5, 6)]


def test_starts_and_flags_may_be_written_as_pandas_writes_whole_numbers(tmp_path: Path) -> None:
    rows = "q1,what?,b,to be,13.0,1.0\nq1,,b,or not,,\nq2,who?,,,,0.0\n"
    first, second = csv(tmp_path, f"id,question,document,anchor,start,answerable\n{rows}").load().golden.questions
    assert first.evidence == (Evidence("b", "to be", 13), Evidence("b", "or not"))
    assert (first.answerable, second.answerable) == (True, False)


def test_columns_may_have_other_names_and_one_may_hold_two_things(tmp_path: Path) -> None:
    columns = {"id": "Query", "question": "Query", "document": "URL"}
    corpus = "URL,Body\nx/1,some text\n"
    reader = csv(
        tmp_path, "Query,URL\nwhat?,x/1\n", corpus, columns=columns, corpus_columns={"id": "URL", "text": "Body"}
    )
    (question,) = reader.load().golden.questions
    assert (question.id, question.text, question.evidence) == ("what?", "what?", (Evidence("x/1"),))
    assert question.labels == {}


@pytest.mark.parametrize("field", ["reference", "golden_answers"])
def test_a_list_in_json_lines_is_several_right_answers(tmp_path: Path, field: str) -> None:
    lists = {field: ["Paris", "Paris; the city"], "keywords": ["a", "b"], "tags": ["x", "y"]}
    row = {"id": "q1", "question": "what?"} | lists
    columns = None if field == "reference" else {"reference": field}
    (question,) = csv(tmp_path, json.dumps(row), name="questions.jsonl", columns=columns).load().golden.questions
    assert (question.references, question.keywords) == (("Paris", "Paris; the city"), ("a", "b"))
    assert question.labels == {"tags": "x;y"}


def test_a_list_of_questions_may_be_a_json_file(tmp_path: Path) -> None:
    rows = [{"id": 1, "question": "what?", "document": "a"}]
    (question,) = csv(tmp_path, json.dumps(rows, indent=1), name="questions.json").load().golden.questions
    assert (question.id, question.evidence) == ("1", (Evidence("a"),))


@pytest.mark.parametrize("name", ["corpus.jsonl", "pages"])
def test_names_of_columns_are_refused_for_documents_that_are_no_table(name: str, tmp_path: Path) -> None:
    reader = csv(tmp_path, FULL, corpus_columns={"text": "title"})
    reader.corpus = str(tmp_path / name)
    with pytest.raises(
        ConfigError, match=rf"dataset\.corpus_columns: .*/{name} is not a table \(\.csv, \.tsv\); remove"
    ):
        reader.load()


def test_grades_in_words_become_numbers_and_those_without_one_are_counted(tmp_path: Path) -> None:
    rows = "id,question,document,grade\nq1,what,a,perfect\nq1,what,b,unsure\nq2,who,a,unsure\nq3,why,,\n"
    golden = csv(tmp_path, rows, grades={"perfect": 3, "unsure": None}).load().golden
    assert [(q.id, q.evidence) for q in golden.questions] == [("q1", (Evidence("a", grade=3.0),)), ("q3", ())]
    assert golden.left_out == {"labels without a grade in dataset.grades": 2, "questions without usable labels": 1}


def test_column_that_can_hold_nothing_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'dataset\.columns: "questoin" is not a field .* did you mean "question"\?'):
        csv(tmp_path, FULL, columns={"questoin": "Query"}).load()


def test_header_faults_are_reported_at_once(tmp_path: Path) -> None:
    assert refused(tmp_path, "id,qestion,id,note\nq1,what,x,y\n", columns={"document": "URL"}) == [
        'questions.csv:1: column "id" occurs 2 times; rename all but one',
        'questions.csv:1: no column "question" in the header; did you mean "qestion"? known: id, note, qestion; '
        "name the column with dataset.columns='{question: NAME}'",
        'questions.csv:1: no column "URL" in the header; known: id, note, qestion; '
        "name the column with dataset.columns='{document: NAME}'",
    ]


def test_faults_of_rows_are_reported_at_once_with_the_line_where_a_row_begins(tmp_path: Path) -> None:
    rows = (
        "id,question,document,anchor,start,answerable,grade\n"
        'q1,"what\nis it",a,apple,x,,1\n'
        "q1,other,a,day,,,1\n"
        "q2,who,,apple,,maybe,1\n"
        "q3,why\n"
        'q4,"a "bad" quote",,,,,\n'
        ",,,,,,\n"
        'q5,how,a,apple,,,"2\n'
    )  # fmt: skip
    table, agree = "quote the whole cell, and double each quote inside it", "rows with the same id must agree"
    assert refused(tmp_path, rows) == [
        "questions.csv:6: 2 cells where the header has 7 columns; add the missing cells",
        f"questions.csv:7: not a row of a table: ',' expected after '\"'; {table}",
        f"questions.csv:9: not a row of a table: unexpected end of data; {table}",
        f'questions.csv:4: question "q1" has a different "question" in questions.csv:2; {agree}',
        'questions.csv:5: "answerable" is "maybe", not true or false',
        'questions.csv:2: "start" is "x", not a whole number',
        'questions.csv:5: "anchor" requires a "document", which is missing; fill in both cells or neither',
        'questions.csv:5: "grade" requires a "document", which is missing; fill in both cells or neither',
    ]


def test_a_fault_that_is_found_several_times_is_reported_once(tmp_path: Path) -> None:
    assert refused(tmp_path, "id,question,document\nq1,what,a\n,who,b\n") == ['questions.csv:3: has no "id"']


def test_rows_of_one_question_agree_in_their_labels(tmp_path: Path) -> None:
    rows = "id,question,document,team,meta\nq1,what,a,{},[1]\nq1,,b,{},[2]\nq2,who,a,x,\n"
    agree = "rows with the same id must agree"
    for first, second in (("", "ops"), ("docs", "ops")):
        assert refused(tmp_path, rows.format(first, second)) == [
            f'questions.csv:3: question "q1" has a different "team" in questions.csv:2; {agree}'
        ]
    for second in ("", "docs"):
        dataset = csv(tmp_path, rows.format("docs", second)).load()
        assert [one.labels for one in dataset.golden.questions] == [{"team": "docs"}, {"team": "x"}]


def test_documents_may_be_a_folder_of_pages(tmp_path: Path) -> None:
    (tmp_path / "pages" / "in").mkdir(parents=True)
    (tmp_path / "pages" / "in" / "a.md").write_text("# Apples\n\nAn **apple** a day.\n")
    (tmp_path / "pages" / "b.png").touch()
    (tmp_path / "questions.csv").write_text("id,question,document,anchor,team\nq,what,in/a.md,An apple,x\n")
    dataset = Csv(str(tmp_path / "pages"), str(tmp_path / "questions.csv"), None, None, None, "error", None, 0).load()
    assert (dataset.corpus.ids, dataset.corpus.titles) == (["in/a.md"], ["Apples"])
    assert dataset.notes == ("files of other types skipped: 1 .png", "columns read as labels: team")
