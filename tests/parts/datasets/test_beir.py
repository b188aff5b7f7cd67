import gzip
import math
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.types import Evidence
from ragsweep.parts.datasets import Beir
from ragsweep.testing.datasets import DatasetContract
from support import faults_of, json_lines, nightly

CORPUS = [{"_id": "d1", "title": "Rain", "text": "It rains."}, {"_id": "d2", "text": ""}]
QUERIES = [
    {"_id": "q1", "text": "Does it rain?", "metadata": {"category": "weather", "year": 1957, "wet": True, "more": {}}},
    {"_id": "q2", "text": "Who knows?", "metadata": {"unanswerable": True, "category": "weather"}},
    {"_id": "q3", "text": "And tomorrow?"},
]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n"


def folder(path: Path, **files: str) -> Path:
    """Write the small collection, with files replaced by name."""
    (path / "qrels").mkdir(parents=True)
    given = {"corpus": json_lines(CORPUS), "queries": json_lines(QUERIES), "test": QRELS} | files
    for name, content in given.items():
        place = path / f"{name}.jsonl" if name in ("corpus", "queries") else path / "qrels" / f"{name}.tsv"
        place.write_text(content)
    return path


def beir(path: Path, **arguments: Any) -> Beir:
    usual = {"split": "test", "grades": None, "unknown": "error", "limit": None, "seed": 0}
    return Beir(str(path), **(usual | arguments))


def refused(path: Path, **arguments: Any) -> list[str]:
    return faults_of(beir(path, **arguments).load, path)


class TestBeir(DatasetContract):
    @pytest.fixture(autouse=True)
    def _reader(self, tmp_path: Path) -> None:
        part = beir(folder(tmp_path))
        self.part = lambda: part


def test_folder_becomes_a_corpus_and_the_questions_of_the_split(tmp_path: Path) -> None:
    dataset = beir(folder(tmp_path)).load()
    assert dataset.name == tmp_path.name
    assert (dataset.corpus.ids, dataset.corpus.titles, dataset.corpus.texts) == (
        ["d1", "d2"],
        ["Rain", ""],
        ["It rains.", ""],
    )
    labelled, unanswerable = dataset.golden.questions
    assert (labelled.id, labelled.text, labelled.category) == ("q1", "Does it rain?", "weather")
    assert labelled.evidence == (Evidence("d1", grade=2.0), Evidence("d2", grade=0.0))
    assert labelled.labels == {"year": "1957", "wet": "true"}
    assert (unanswerable.id, unanswerable.category, unanswerable.answerable) == ("q2", "unanswerable", False)
    assert unanswerable.evidence == ()
    assert unanswerable.labels == {}
    assert dataset.golden.left_out == {"not in split test": 1}
    assert not dataset.golden.repeated_passages


def test_answer_of_a_query_is_its_right_answer_and_no_label(tmp_path: Path) -> None:
    metadata = {"answer": "Yes.", "supporting_facts": [["Rain", 0]]}
    path = folder(tmp_path, queries=json_lines([{"_id": "q1", "text": "Does it rain?", "metadata": metadata}]))
    (question,) = beir(path).load().golden.questions
    assert (question.references, question.labels) == (("Yes.",), {})


def test_lines_of_labels_may_end_with_tabs(tmp_path: Path) -> None:
    path = folder(tmp_path, test="query-id\tcorpus-id\tscore\t\nq1\td1\t2\t\n")
    assert beir(path).load().golden.questions[0].evidence == (Evidence("d1", grade=2.0),)
    missing = folder(tmp_path / "missing", test="q1\td1\t\n")
    assert refused(missing)[0].startswith("qrels/test.tsv:1: 2 filled columns where three are required")


def test_ids_in_four_columns_with_tabs_may_contain_spaces(tmp_path: Path) -> None:
    path = folder(
        tmp_path,
        corpus='{"_id": "my notes", "text": "z"}\n',
        queries='{"_id": "q 1", "text": "x"}\n',
        test="q 1\t0\tmy notes\t2\n",
    )
    (question,) = beir(path).load().golden.questions
    assert (question.id, question.evidence) == ("q 1", (Evidence("my notes", grade=2.0),))


def test_a_comment_in_a_fourth_column_is_not_read_as_a_score(tmp_path: Path) -> None:
    commented = folder(tmp_path, test="query-id\tcorpus-id\tscore\tmy comment\nq1\td1\t1\tgood one\n")
    (fault,) = refused(commented)
    assert fault.startswith("qrels/test.tsv:2: 4 filled columns where three are required")


def test_query_in_metadata_is_no_label(tmp_path: Path) -> None:
    """TREC-COVID: no label may have the name of a column of the results."""
    metadata = {"query": "rain", "narrative": "Reports of rain."}
    path = folder(tmp_path, queries=json_lines([{"_id": "q1", "text": "Does it rain?", "metadata": metadata}]))
    dataset = beir(path).load()
    assert dataset.golden.questions[0].labels == {"narrative": "Reports of rain."}
    assert dataset.notes == ('metadata "query", not read as a label: queries.jsonl',)


def test_a_first_line_whose_score_is_a_word_is_a_label_where_scores_are_words(tmp_path: Path) -> None:
    path = folder(tmp_path, test="q1\td1\trelevant\nq1\td2\tnot\n")
    first = beir(path, grades={"relevant": 1, "not": 0}).load().golden.questions[0]
    assert first.evidence == (Evidence("d1", grade=1.0), Evidence("d2", grade=0.0))


@pytest.mark.parametrize(
    "qrels",
    [
        "q1 0 d1 2\nq1 0 d2 0\n",
        "q1\t0\td1\t2\nq1\t0\td2\t0\n",
        "q1\td1\t2.0\r\nq1\td2\t0\r\n",
        "\ufeffquery-id\tcorpus-id\tscore\n\nq1\td1\t2\nq1\td2\t0",
        "qid\tdocId\trel\nq1\td1\t2\nq1\td2\t0\n",
        "qid iter docno rel\nq1 0 d1 2\nq1 0 d2 0\n",
    ],
    ids=["trec", "trec with tabs", "no header", "bom", "other header", "trec header"],
)
def test_other_forms_of_labels_read_as_the_usual_one(tmp_path: Path, qrels: str) -> None:
    first = beir(folder(tmp_path, test=qrels)).load().golden.questions[0]
    assert first.evidence == (Evidence("d1", grade=2.0), Evidence("d2", grade=0.0))


def test_gzipped_files_read_as_plain_ones(tmp_path: Path) -> None:
    plain = beir(folder(tmp_path)).load()
    for file in (tmp_path / "corpus.jsonl", tmp_path / "queries.jsonl", tmp_path / "qrels" / "test.tsv"):
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    zipped = beir(tmp_path).load()
    assert (zipped.corpus.digest, zipped.golden.digest) == (plain.corpus.digest, plain.golden.digest)


def test_missing_split_names_those_that_exist_and_is_never_made_a_path(tmp_path: Path) -> None:
    path = folder(tmp_path / "data", train=QRELS)
    (path / "qrels" / "dev.tsv.gz").write_bytes(gzip.compress(QRELS.encode()))
    (tmp_path / "secret.tsv").write_text(QRELS)
    for split, meant in (("tset", ' did you mean "test"?'), ("../../secret", "")):
        assert refused(path, split=split) == [f'qrels: no split "{split}";{meant} known: dev, test, train']


def test_missing_folder_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: no such folder; dataset.path must contain"):
        beir(tmp_path / "nowhere").load()
    path = folder(tmp_path)
    (path / "corpus.jsonl").unlink()
    (path / "queries.jsonl").unlink()
    assert [fault.split(" (")[0] for fault in refused(path)] == [
        "corpus.jsonl: no such file",
        "queries.jsonl: no such file",
    ]


def test_faults_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    path = folder(
        tmp_path,
        corpus='{"_id": "d1", "text": "x"}\n{"_id": "d1", "text": "y"}\n{"_id": "d3"}\n{"_id": true, "text": "z"}\n',
        queries='{"_id": "q1", "text": "x"}\n{"_id": "q2"\n{"_id": "q1", "text": "x"}\n',
        test="query-id\tcorpus-id\tscore\nq1\td1\nq1\td1\tyes\nq1\td1\tinf\n",
    )
    assert refused(path) == [
        'corpus.jsonl:2: document "d1" occurs twice; first in corpus.jsonl:1; remove or rename one',
        'corpus.jsonl:3: has no "text"',
        'corpus.jsonl:4: "_id" is true, not a string in quotes',
        "queries.jsonl:2:13: not JSON: expecting ',' delimiter; correct it",
        'queries.jsonl:3: question "q1" occurs twice; first in queries.jsonl:1; remove or rename one',
        "qrels/test.tsv:2: 2 filled columns where three are required: query-id, corpus-id and score, with tabs between "
        "them, or TREC's query-id 0 corpus-id score",
        'qrels/test.tsv:3: score "yes" is not a whole number from 0 to 1e+09; correct it, or define the grade of each '
        'score, e.g. dataset.grades=\'{yes: null, 1: 1}\'; scores (counts): "inf" (1), "yes" (1)',
        'qrels/test.tsv:4: score "inf" is not a whole number from 0 to 1e+09; correct it, or define the grade of each '
        'score, e.g. dataset.grades=\'{inf: null, 1: 1}\'; scores (counts): "inf" (1), "yes" (1)',
    ]


def test_ids_may_be_numbers(tmp_path: Path) -> None:
    path = folder(
        tmp_path,
        corpus='{"_id": 4, "text": "z"}\n',
        queries='{"_id": 17, "text": "x"}\n',
        test="query-id\tcorpus-id\tscore\n17\t4\t1\n",
    )
    dataset = beir(path).load()
    assert dataset.corpus.ids == ["4"]
    assert [(q.id, q.evidence) for q in dataset.golden.questions] == [("17", (Evidence("4"),))]


def test_question_whose_labels_all_have_no_grade_is_left_out_and_counted_as_such(tmp_path: Path) -> None:
    path = folder(tmp_path, test="q1\td1\t2\nq1\td2\t-1\nq3\td1\t-1\n")
    assert refused(path, grades={-1: None}) == [
        'qrels/test.tsv:1: score "2" has no grade in dataset.grades; add one, or null to omit its labels '
        'or the header; scores (counts): "-1" (2), "2" (1)'
    ]
    golden = beir(path, grades={"2": 0.5, -1: None}).load().golden
    assert [(q.id, q.evidence) for q in golden.questions] == [("q1", (Evidence("d1", grade=0.5),)), ("q2", ())]
    assert golden.left_out == {"labels without a grade in dataset.grades": 2, "questions without usable labels": 1}


@pytest.mark.parametrize("grade", ["best", True, math.nan, math.inf])
def test_grade_that_is_no_number_is_refused_before_any_file_is_read(grade: object) -> None:
    with pytest.raises(
        ConfigError, match=r'dataset\.grades: the grade of "2" must be a number from -1e\+09 to 1e\+09, or null .*'
    ):
        beir(Path("nowhere"), grades={2: grade}).load()


def test_limit_is_checked_before_any_file_is_read() -> None:
    with pytest.raises(ConfigError, match=r"dataset\.limit=0"):
        beir(Path("nowhere"), limit=0).load()


@pytest.mark.parametrize(
    ("name", "documents", "questions", "unanswerable", "labels", "left_out"),
    [
        ("scifact", 5183, 300, 0, 339, {"not in split test": 505}),
        ("cranfield", 1400, 225, 0, 1837, {}),
        nightly("python_faq_en", 748, 172, 0, 172, {}),
        nightly("python_faq_fr", 748, 171, 0, 171, {}),
        nightly("squad2_dev", 1216, 6078, 3168, 2910, {}),
        nightly("piaf_1_1", 1518, 7569, 0, 7569, {}),
    ],
)
def test_real_collection_loads_unedited(
    collections: Path,
    name: str,
    documents: int,
    questions: int,
    unanswerable: int,
    labels: int,
    left_out: dict[str, int],
) -> None:
    dataset = beir(collections / name).load()
    golden = dataset.golden.questions
    assert (dataset.name, len(dataset.corpus.ids), len(golden)) == (name, documents, questions)
    assert sum(not question.answerable for question in golden) == unanswerable
    assert sum(len(question.evidence) for question in golden) == labels
    assert dataset.golden.left_out == left_out


def test_documents_with_the_ids_of_queries_are_noted_or_excluded(tmp_path: Path) -> None:
    queries = [
        {"_id": "d1", "text": "It rains."},
        {"_id": "d2", "text": "Why?"},  # its own document is its evidence
        {"_id": "q3", "text": "And tomorrow?"},
    ]
    path = folder(tmp_path, queries=json_lines(queries), test="d1\td2\t1\nd2\td2\t1\nq3\td1\t1\n")
    (note,) = beir(path).load().notes
    assert "in the document with the same id, as in ArguAna and Quora: 1;" in note
    assert "dataset.exclude_self=true" in note
    assert beir(path, exclude_self=True).load().excluded == {"It rains.": ("d1",)}


def test_ids_that_queries_and_documents_share_by_chance_are_not_noted(tmp_path: Path) -> None:
    """Where both are numbered, the first query is no copy of the first document, and a short text is in any."""
    queries = [{"_id": f"d{n}", "text": "Rain" if n == 1 else f"Who knows {n}?"} for n in range(1, 5)]
    corpus = [{"_id": f"d{n}", "title": "Rain", "text": f"It rains {n} times."} for n in range(1, 6)]
    labels = "".join(f"d{n}\td5\t1\n" for n in range(1, 5))
    path = folder(tmp_path, corpus=json_lines(corpus), queries=json_lines(queries), test=labels)
    assert beir(path).load().notes == ()
    assert len(beir(path, exclude_self=True).load().excluded) == 4


def test_collections_whose_queries_and_documents_are_numbered_get_no_note(collections: Path) -> None:
    assert beir(collections / "cranfield").load().notes == ()
