"""Laws of the bundled golden set, held on the Python that runs the tests."""

import platform
import re
from collections import Counter

import pytest

from ragsweep.core.types import Dataset, Question
from ragsweep.golden.anchors import resolve
from ragsweep.parts.datasets import PythonReference
from ragsweep.testing.datasets import DatasetContract

SHARES = {"factual": 0.25, "conceptual": 0.25, "code_lookup": 0.25, "troubleshooting": 0.15, "how_to": 0.10}
UNANSWERABLE_TYPES = {
    "out_of_database",
    "false_presupposition",
    "underspecified",
    "nonsensical",
    "modality_limited",
    "safety_concerned",
}


class TestPythonReference(DatasetContract):
    def part(self) -> PythonReference:
        return PythonReference(limit=None, seed=0)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return PythonReference(None, 0).load()  # raises if an anchor does not resolve exactly once


@pytest.fixture(scope="module")
def answerable(dataset: Dataset) -> list[Question]:
    return [q for q in dataset.golden.questions if q.answerable and q.needs_retrieval]


def test_corpus_is_the_reference_of_this_python(dataset: Dataset) -> None:
    from pydoc_data.topics import topics

    assert dict(zip(dataset.corpus.ids, dataset.corpus.texts, strict=True)) == topics
    assert dataset.corpus.version == platform.python_version()
    assert platform.python_version() in dataset.notes[0]
    assert dataset.name == "python_reference"


def test_every_question_is_unique_and_an_answerable_one_has_anchored_evidence_reference_and_keywords(
    dataset: Dataset, answerable: list[Question]
) -> None:
    questions = dataset.golden.questions
    assert dataset.golden.left_out == {}
    assert dataset.golden.repeated_passages
    assert len({q.id for q in questions}) == len({q.text.casefold() for q in questions}) == len(questions)
    assert [q.id for q in answerable if not (q.evidence and q.references and q.keywords)] == []
    assert [label for q in answerable for label in q.evidence if not label.anchor] == []


def test_at_least_110_answerable_questions_in_the_stated_proportions(answerable: list[Question]) -> None:
    assert len(answerable) >= 110
    shares = {category: n / len(answerable) for category, n in Counter(q.category for q in answerable).items()}
    assert shares == pytest.approx(SHARES, abs=0.01)


def test_at_least_45_unanswerable_questions_of_all_six_types_and_ten_conversational(dataset: Dataset) -> None:
    unanswerable = [q for q in dataset.golden.questions if not q.answerable]
    assert len(unanswerable) >= 45
    assert 0.25 <= len(unanswerable) / len(dataset.golden.questions) <= 0.40
    assert {q.unanswerable_type for q in unanswerable} == UNANSWERABLE_TYPES
    assert {q.category for q in unanswerable} == {"unanswerable"}
    assert [q.category for q in dataset.golden.questions if not q.needs_retrieval] == ["conversational"] * 10


def test_no_question_copies_four_words_of_its_evidence(dataset: Dataset, answerable: list[Question]) -> None:
    copied = []
    for question in answerable:
        for label in question.evidence:
            text = dataset.corpus.texts[dataset.corpus.position[label.document]]
            ((begin, end),) = resolve(text, label.anchor or "", label.start)
            copied += [(question.id, run) for run in runs(question.text) & runs(text[max(begin - 200, 0) : end + 200])]
    assert copied == []


def runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[n : n + 4]) for n in range(len(words) - 3)}


def test_distractors_are_documents_that_hold_no_evidence_of_the_question(dataset: Dataset) -> None:
    for question in dataset.golden.questions:
        assert set(question.distractors) <= set(dataset.corpus.ids), question.id
        assert not set(question.distractors) & {label.document for label in question.evidence}, question.id


def test_limit_draws_a_sample_of_every_kind() -> None:
    golden = PythonReference(40, 0).load().golden
    assert len(golden.questions) == 40
    assert {q.category for q in golden.questions} == {*SHARES, "unanswerable", "conversational"}
