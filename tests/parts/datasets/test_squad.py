import json
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.types import Evidence
from ragsweep.parts.datasets import Squad
from ragsweep.testing.datasets import DatasetContract
from support import faults_of

CONTEXT = "The river rises in the hills, and it ends in the northern sea."


def answers(*spans: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"text": text, "answer_start": start} for text, start in spans]


def row(identifier: str, *spans: tuple[str, int], **more: object) -> dict[str, Any]:
    return {"id": identifier, "question": f"{identifier}?", "answers": answers(*spans), **more}


def article(title: str, *paragraphs: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {"title": title, "paragraphs": [{"context": context, "qas": qas} for context, qas in paragraphs]}


def squad(folder: Path, *articles: dict[str, Any], unknown: str = "error") -> Squad:
    path = folder / "dev.json"
    path.write_text(json.dumps({"version": "v2.0", "data": articles}))
    return Squad(str(path), unknown, None, 0)


def refused(folder: Path, *articles: dict[str, Any]) -> list[str]:
    return faults_of(squad(folder, *articles).load, folder)


class TestSquad(DatasetContract):
    @pytest.fixture(autouse=True)
    def _reader(self, tmp_path: Path) -> None:
        part = squad(tmp_path, article("River", (CONTEXT, [row("q1", ("sea", 58))])))
        self.part = lambda: part


def test_paragraphs_are_numbered_by_title_and_equal_ones_are_one_document(tmp_path: Path) -> None:
    first, second = (CONTEXT, [row("q1")]), ("Another one.", [row("q2")])
    again = article("River", (CONTEXT, [row("q3", ("sea", 58))]), ("A third.", []))
    dataset = squad(tmp_path, article("River", first, second), article("Hill", ("A hill.", [])), again).load()
    assert dataset.name == "dev"
    assert dataset.corpus.ids == ["River/1", "River/2", "Hill/1", "River/3"]
    assert dataset.corpus.titles == ["River", "River", "Hill", "River"]
    assert dataset.corpus.texts == [CONTEXT, "Another one.", "A hill.", "A third."]
    assert dataset.golden.questions[2].evidence == (Evidence("River/1", "sea", 58),)


def test_articles_without_a_title_and_numbers_as_ids_are_read(tmp_path: Path) -> None:
    """GermanQuAD, and the exports of annotation tools."""
    bare = {"paragraphs": [{"context": CONTEXT, "qas": [row("q1", ("sea", 58)) | {"id": 51870}]}]}
    dataset = squad(tmp_path, bare, article("", ("Another one.", []))).load()
    assert (dataset.corpus.ids, dataset.corpus.titles) == (["dev/1", "dev/2"], ["", ""])
    (question,) = dataset.golden.questions
    assert (question.id, question.evidence) == ("51870", (Evidence("dev/1", "sea", 58),))


def test_every_answer_is_kept_and_overlapping_ones_are_one_evidence(tmp_path: Path) -> None:
    spans = [("the hills", 19), ("hills", 23), ("the northern sea", 45), ("hills", 23), ("in the hills", 16)]
    (question,) = squad(tmp_path, article("River", (CONTEXT, [row("q1", *spans)]))).load().golden.questions
    assert question.references == ("the hills", "hills", "the northern sea", "in the hills")
    assert question.evidence == (Evidence("River/1", "in the hills", 16), Evidence("River/1", "the northern sea", 45))
    assert (question.answerable, question.category) == (True, "")


def test_answer_with_white_space_at_its_ends_resolves(tmp_path: Path) -> None:
    (question,) = squad(tmp_path, article("River", (CONTEXT, [row("q1", (" hills", 22))]))).load().golden.questions
    assert (question.references, question.evidence) == (("hills",), (Evidence("River/1", "hills", 23),))


def test_impossible_question_is_unanswerable_whatever_is_plausible(tmp_path: Path) -> None:
    impossible = row("q1", is_impossible=True, plausible_answers=answers(("hills", 23)))
    (question,) = squad(tmp_path, article("River", (CONTEXT, [impossible]))).load().golden.questions
    assert (question.answerable, question.category) == (False, "unanswerable")
    assert (question.evidence, question.references) == ((), ())


def test_answer_that_occurs_once_is_found_whatever_its_start_and_that_is_noted(tmp_path: Path) -> None:
    questions = [row("q1", ("hills", 24), ("hills", 23)), row("q2", ("hills", 23))]
    dataset = squad(tmp_path, article("River", (CONTEXT, questions))).load()
    assert [question.evidence for question in dataset.golden.questions] == [(Evidence("River/1", "hills", 23),)] * 2
    assert dataset.notes == ("questions with a wrong answer_start, which was corrected: 1",)


def test_answer_that_stands_elsewhere_is_refused_or_dropped(tmp_path: Path) -> None:
    wrong, right = row("q1", ("the", 3), ("the", 3)), row("q2", ("hills", 23))
    articles = [article("River", (CONTEXT, [wrong, right]))]
    assert refused(tmp_path, *articles) == [
        "1 label cannot be used; correct the data, or drop such labels with dataset.unknown=drop",
        'dev.json:$.data[0].paragraphs[0].qas[0]: anchor "the" does not begin at 3 in document "River/1", '
        "but at 19, 45, 52; correct the start",
    ]
    golden = squad(tmp_path, *articles, unknown="drop").load().golden
    assert [question.id for question in golden.questions] == ["q2"]
    assert golden.left_out == {"labels whose anchor does not resolve": 1, "questions without usable labels": 1}


def test_faults_are_reported_at_once_with_their_path_in_the_file(tmp_path: Path) -> None:
    bare = {"id": "q1", "question": "q1?", "answers": [{"text": "hills"}]}
    assert refused(tmp_path, article(" ", (CONTEXT, [bare, row("q1", ("x", -1))])), article("A", (" ", []))) == [
        'dev.json:$.data[0]: "title" is blank',
        'dev.json:$.data[0].paragraphs[0].qas[0].answers[0]: has no "answer_start"',
        'dev.json:$.data[0].paragraphs[0].qas[1].answers[0]: "answer_start" must be at least 0, got -1',
        'dev.json:$.data[0].paragraphs[0].qas[1]: question "q1" occurs twice; '
        "first in dev.json:$.data[0].paragraphs[0].qas[0]; remove or rename one",
        'dev.json:$.data[1].paragraphs[0]: "context" is blank',
    ]
