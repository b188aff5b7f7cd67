"""The real collections in the formats they are handed out in: read without editing anything, and evaluated."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragsweep.parts.datasets import Beir, Folder, Squad, Trec
from ragsweep.sweep.running.session import Session
from support.commands import evaluate


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def write_squad(collection: Path, path: Path) -> Path:
    """Put a collection back into the one file it came from: articles, their paragraphs, and the questions of each."""
    qas = defaultdict(list)
    for row in rows(collection / "golden.jsonl"):
        answers = [{"text": span["text"], "answer_start": span["start"]} for span in row["answer_spans"]]
        question = {"id": row["id"], "question": row["question"], "answers": answers}
        qas[row["context_id"]].append(question | {"is_impossible": not row["answerable"]})
    articles = defaultdict(list)
    for row in rows(collection / "corpus.jsonl"):
        articles[row["title"]].append({"context": row["text"], "qas": qas[row["_id"]]})
    data = [{"title": title, "paragraphs": paragraphs} for title, paragraphs in articles.items()]
    path.write_text(json.dumps({"version": "x", "data": data}, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "documents", "answerable", "unanswerable", "language"),
    [("squad2_dev", 1216, 2910, 3168, "english"), ("piaf_1_1", 1518, 7569, 0, "french")],
)
def test_squad_and_piaf_as_one_file(
    name: str, documents: int, answerable: int, unanswerable: int, language: str, collections: Path, tmp_path: Path
) -> None:
    path = write_squad(collections / name, tmp_path / "dev.json")
    dataset = Squad(str(path), "error", None, 0).load()
    questions = dataset.golden.questions
    assert len(dataset.corpus.ids) == documents
    assert sum(question.answerable for question in questions) == answerable
    assert sum(not question.answerable for question in questions) == unanswerable
    assert all(bool(question.references) == bool(question.evidence) == question.answerable for question in questions)
    given = ["dataset=squad", f"dataset.path={path}", "dataset.limit=200", "retriever=bm25", "chunker=none"]
    result = evaluate(Session(), *given, f"retriever.language={language}", "metrics=retrieval", "tracking=none")
    assert 0.7 < result.summaries.metrics["ndcg_at_10"].value < 0.98


def test_cranfield_as_topics_and_qrels(collections: Path, tmp_path: Path) -> None:
    folder = collections / "cranfield"
    tops = (f"<top>\n<num> Number: {row['_id']}\n<title>\n{row['text']}\n\n" for row in rows(folder / "queries.jsonl"))
    (tmp_path / "topics").write_text("</top>\n".join([*tops, ""]))
    labels = (line.split() for line in (folder / "qrels" / "test_rawcode.tsv").read_text().splitlines()[1:])
    (tmp_path / "qrels").write_text("".join(f"{query} 0 {document} {code}\n" for query, document, code in labels))
    codes = {1: 4, 2: 3, 3: 2, 4: 1, -1: None}
    files = [str(folder / "corpus.jsonl"), str(tmp_path / "topics"), str(tmp_path / "qrels")]
    read = Trec(*files, ["title"], codes, "error", None, 0).load()
    same = Beir(str(folder), "test_rawcode", codes, "error", None, 0).load()
    assert read.corpus.digest == same.corpus.digest
    assert [(q.id, q.evidence) for q in read.golden.questions] == [(q.id, q.evidence) for q in same.golden.questions]
    assert [q.text.split() for q in read.golden.questions] == [q.text.split() for q in same.golden.questions]


@pytest.mark.nightly
def test_cranfields_own_codes_from_the_command_line(collections: Path) -> None:
    def measured(split: str, *more: str) -> float:
        given = ["dataset=beir", f"dataset.path={collections}/cranfield", f"dataset.split={split}", *more]
        result = evaluate(Session(), *given, "retriever=bm25", "chunker=none", "tracking=none")
        return result.summaries.metrics["ndcg_at_10"].value

    mapped = measured("test_rawcode", "dataset.grades={1: 4, 2: 3, 3: 2, 4: 1, -1: null}")
    assert mapped == measured("test_nobase")


@pytest.mark.nightly
def test_fastapis_pages_as_a_folder(collections: Path, tmp_path: Path) -> None:
    pages = list(rows(collections / "fastapi_docs" / "corpus.jsonl"))
    for row in pages:
        path = tmp_path / "docs" / f"{row['_id']}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(row["text"], encoding="utf-8")
    question = {"id": "q1", "question": "how are extra responses documented"}
    label = {"document": "en/advanced/additional-responses.md", "anchor": "declare additional responses, with"}
    (tmp_path / "golden.jsonl").write_text(json.dumps(question | {"evidence": [label]}))
    dataset = Folder(str(tmp_path / "docs"), str(tmp_path / "golden.jsonl"), [], "error", None, 0, False).load()
    assert dataset.corpus.ids == sorted(f"{row['_id']}.md" for row in pages)
    assert dataset.notes == ()
    titled = sum(bool(title) for title in dataset.corpus.titles)
    assert titled == len(pages)
    assert all(text.strip() for text in dataset.corpus.texts)
