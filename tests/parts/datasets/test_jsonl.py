import json
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Dataset, Evidence, Turn
from ragsweep.golden.golden_set import peculiarities
from ragsweep.parts.datasets import Jsonl
from ragsweep.testing.datasets import DatasetContract
from support import faults_of

DOCUMENTS = [
    {"id": "a", "title": "Apples", "text": "An apple a day\nkeeps the doctor away.", "metadata": {"path": "a.md"}},
    {"id": "b", "text": "to be or not to be"},
]
FULL = {
    "id": "q1",
    "question": "What helps?",
    "category": "factual",
    "answerable": True,
    "unanswerable_type": None,
    "needs_retrieval": True,
    "reference": "Fruit.",
    "keywords": ["apple", "day"],
    "evidence": [
        {"document": "a", "anchor": "day keeps", "grade": 2},
        {"document": "b", "anchor": "to be", "start": 13},
        {"document": "b"},
    ],
    "language": "en",
    "content_type": "prose",
    "expected_section": "Apples",
    "distractors": ["b"],
    "notes": "a proverb",
    "labels": {"team": "health", "round": 2},
}


def files(folder: Path, questions: list[object], documents: list[object] | None = None) -> tuple[Path, Path]:
    """Write a corpus and a golden file; a text is written as it is, anything else as JSON."""
    paths = folder / "corpus.jsonl", folder / "golden.jsonl"
    for path, rows in zip(paths, (DOCUMENTS if documents is None else documents, questions), strict=True):
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return paths


def load(folder: Path, questions: list[object], documents: list[object] | None = None) -> Dataset:
    corpus, golden = files(folder, questions, documents)
    return Jsonl(str(corpus), str(golden), "error", None, 0, False).load()


def refused(folder: Path, questions: list[object], documents: list[object] | None = None) -> list[str]:
    return faults_of(lambda: load(folder, questions, documents), folder)


class TestJsonl(DatasetContract):
    @pytest.fixture(autouse=True)
    def _reader(self, tmp_path: Path) -> None:
        part = Jsonl(*map(str, files(tmp_path, [FULL])), "error", None, 0, False)
        self.part = lambda: part


def test_full_line_becomes_a_question(tmp_path: Path) -> None:
    dataset = load(tmp_path, [FULL])
    assert dataset.name == "golden"
    assert (dataset.corpus.ids, dataset.corpus.titles, dataset.corpus.version) == (["a", "b"], ["Apples", ""], "")
    (question,) = dataset.golden.questions
    assert (question.id, question.text, question.category) == ("q1", "What helps?", "factual")
    assert (question.answerable, question.unanswerable_type, question.needs_retrieval) == (True, None, True)
    assert (question.references, question.keywords) == (("Fruit.",), ("apple", "day"))
    assert question.evidence == (Evidence("a", "day keeps", None, 2.0), Evidence("b", "to be", 13), Evidence("b"))
    assert question.labels == {"language": "en", "content_type": "prose", "team": "health", "round": "2"}
    assert (question.distractors, question.notes) == (("b",), "a proverb")
    assert question.where == f"{tmp_path}/golden.jsonl:1"


def test_category_follows_from_the_kind_where_none_is_given(tmp_path: Path) -> None:
    rows = [
        {"id": "q1", "question": "Why?", "answerable": False, "unanswerable_type": "nonsensical"},
        {"id": "q2", "question": "Hello?", "needs_retrieval": False},
    ]
    unanswerable, conversational = load(tmp_path, rows).golden.questions
    assert (unanswerable.category, unanswerable.labels) == ("unanswerable", {"unanswerable_type": "nonsensical"})
    assert conversational.category == "conversational"


def test_all_faults_of_both_files_are_reported_at_once(tmp_path: Path) -> None:
    documents = [*DOCUMENTS, {"id": "a", "text": ""}, {"id": "c", "text": "x", "titel": "y"}, {"id": " ", "text": "x"}]
    questions = [
        FULL,
        FULL,
        {"id": "q2", "question": "Who?"},
        {"question": "Who?", "awnserable": False},
        {"id": "q3", "question": "Who?", "unanswerable_type": "nonsensical"},
        {"id": "q4", "question": "Who?", "evidence": [{"document": "a", "ancor": "x"}]},
        {"id": "q5", "question": "Who?", "evidence": [{"anchor": "\n"}, {"document": "a", "start": 3}]},
        {"id": "q6", "question": "Who?", "keywords": "apple", "answerable": 1, "expected_section": 3},
        '{"id": "q7", "question": "Who?", "evidence": [{"document": "a", "grade": NaN}]}',
        '{"id": "q8", "question": "Who?"',
    ]
    assert refused(tmp_path, questions, documents) == [
        'corpus.jsonl:3: document "a" occurs twice; first in corpus.jsonl:1; remove or rename one',
        'corpus.jsonl:4: unknown key "titel"; did you mean "title"? known: id, metadata, text, title, version',
        'corpus.jsonl:5: "id" is blank',
        'golden.jsonl:2: question "q1" occurs twice; first in golden.jsonl:1; remove or rename one',
        'golden.jsonl:4: unknown key "awnserable"; did you mean "answerable"? known: answerable, audit, '
        "category, classification, content, content_type, corpus_version, distractors, evidence, expected_count, "
        "expected_section, history, id, keywords, labels, language, multiple_choice, needs_retrieval, notes, "
        "processing, provenance, question, reference, references, schema_version, unanswerable_type, "
        "validation, weight",
        'golden.jsonl:4: has no "id"',
        'golden.jsonl:5: is answerable, but has the unanswerable_type "nonsensical"; remove it, or set "answerable" to '
        "false",
        'golden.jsonl:6: unknown key "ancor"; did you mean "anchor"? known: anchor, document, grade, start',
        'golden.jsonl:7: "anchor" is blank; quote a few words, or omit it to use the whole document as evidence',
        'golden.jsonl:7: has no "document"',
        'golden.jsonl:7: "start" requires an "anchor", which is missing; add one that quotes the passage, or remove '
        '"start"',
        'golden.jsonl:8: "expected_section" is 3, not a string in quotes',
        'golden.jsonl:8: "answerable" is 1, not true or false',
        'golden.jsonl:8: "keywords" is "apple", not a list',
        "golden.jsonl:9: not JSON: NaN is not a JSON value; use a number or null",
        "golden.jsonl:10:32: not JSON: expecting ',' delimiter; correct it",
    ]


def test_the_spelling_of_categories_and_labels_makes_no_other_groups(tmp_path: Path) -> None:
    padded = {**FULL, "id": "q2", "category": " cafe\u0301\n", "labels": {"team": "docs ", "level": " "}}
    given = [{**FULL, "category": "caf\u00e9", "labels": {"team": "docs"}}, padded]
    first, second = load(tmp_path, given).golden.questions
    assert (second.category, second.labels) == (first.category, first.labels)


def test_conversation_and_several_right_answers_are_read(tmp_path: Path) -> None:
    history = [{"role": "user", "text": "What do apples do?"}, {"role": "assistant", "text": "They help."}]
    right = {"reference": "Fruit.", "references": ["An apple.", "Fruit."]}
    (question, plain) = load(tmp_path, [{**FULL, **right, "history": history}, {**FULL, "id": "q2"}]).golden.questions
    assert question.history == (Turn("user", "What do apples do?"), Turn("assistant", "They help."))
    assert question.references == ("Fruit.", "An apple.")
    assert (plain.history, plain.references) == ((), ("Fruit.",))


def test_faults_of_a_conversation_are_reported_with_their_place(tmp_path: Path) -> None:
    history = [{"role": "usr", "text": "x"}, {"role": "user"}, {"role": "user", "text": " ", "who": "me"}, "hello"]
    assert refused(tmp_path, [{**FULL, "history": history, "references": [" ", 3]}]) == [
        'golden.jsonl:1: "references" contains 3 where a string in quotes is required',
        'golden.jsonl:1: "references" contains a blank string; remove it',
        'golden.jsonl:1: "history" contains "hello" where an object {...} is required',
        'golden.jsonl:1.history[0]: "role" is "usr"; did you mean "user"? known: assistant, user',
        'golden.jsonl:1.history[1]: has no "text"',
        'golden.jsonl:1.history[2]: unknown key "who"; known: role, text',
        'golden.jsonl:1.history[2]: "text" is blank',
    ]


def test_empty_corpus_and_empty_golden_set_are_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, [FULL], []) == ["corpus.jsonl: contains no documents; add at least one"]
    assert refused(tmp_path, []) == [
        "golden.jsonl: no questions to evaluate (the file has none); correct the file or the dataset settings"
    ]


def versioned(version: str) -> list[object]:
    return [{"id": "a", "text": "x", "version": version}, {"id": "b", "text": "y", "version": "3"}]


def test_golden_line_written_for_another_version_of_the_corpus_is_refused(tmp_path: Path) -> None:
    questions = [{"id": f"q{v}", "question": "Who?", "corpus_version": v} for v in ("2", "3")]
    assert refused(tmp_path, questions, versioned("3")) == [
        'golden.jsonl:1: written for corpus version "2", but the corpus has version "3"; correct or remove '
        '"corpus_version"'
    ]
    assert refused(tmp_path, questions[1:]) == [
        'golden.jsonl:1: written for corpus version "3", but the corpus states no version; correct or remove '
        '"corpus_version"'
    ]
    assert load(tmp_path, questions[1:], versioned("3")).corpus.version == "3"


def test_corpus_of_two_versions_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, [FULL], versioned("2"))[0] == (
        'corpus.jsonl:2: the version is "3", but "2" in earlier lines; give every line the same version'
    )


def test_options_reach_the_golden_set(tmp_path: Path) -> None:
    strange = {"id": "q2", "question": "Who?", "evidence": [{"document": "z"}]}
    corpus, golden = files(tmp_path, [FULL, strange, {"id": "q3", "question": "Who?"}])
    dataset = Jsonl(str(corpus), str(golden), "drop", 1, 0, True).load()
    assert dataset.golden.repeated_passages
    assert dataset.golden.left_out == {
        "labels of an unknown document": 1,
        "questions without usable labels": 1,
        "beyond dataset.limit=1": 1,
    }


def test_gold_and_silver_are_taken_apart_and_counted(tmp_path: Path) -> None:
    questions = [
        {"id": f"q{n}", "question": "Who?", **({"audit": {"status": status}} if status else {})}
        for n, status in enumerate(["gold", "silver", "silver", ""])
    ]
    corpus, golden = files(tmp_path, questions)
    for status, ids in ((None, {"q0", "q1", "q2", "q3"}), ("gold", {"q0"}), ("silver", {"q1", "q2"})):
        found = Jsonl(str(corpus), str(golden), "error", None, 0, False, status).load().golden
        assert {one.id for one in found.questions} == ids
        assert sum(found.left_out.values()) == 4 - len(ids)
    assert peculiarities(load(tmp_path, questions).golden.questions) == (
        "questions: 1 gold (confirmed by a person), 2 silver, 1 neither",
    )
    with pytest.raises(ConfigError, match="must be null or one of silver, gold, got 'golden'"):
        Jsonl(str(corpus), str(golden), "error", None, 0, False, "golden").load()
