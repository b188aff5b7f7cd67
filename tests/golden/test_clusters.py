"""Dependent questions: those on one document, and those in almost the same words."""

import random
import string
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.types import Evidence, Question, Turn
from ragsweep.evaluation.question_table import tabulate
from ragsweep.golden.clusters import ALIKE, SHINGLE, clusters, near_duplicates, normalised
from ragsweep.parts.datasets import Beir, PythonReference


def question(number: int, *documents: str, text: str = "", **more: object) -> Question:
    evidence = tuple(Evidence(document) for document in documents)
    return Question(f"q{number}", text or UNLIKE[number], evidence=evidence, **more)  # type: ignore[arg-type]


_letters = random.Random(1)
UNLIKE = ["".join(_letters.choices(string.ascii_lowercase, k=30)) for _ in range(100)]
"""Texts that have nothing in common."""


def groups(questions: Sequence[Question]) -> list[set[str]]:
    members: dict[str, set[str]] = {}
    for member, name in zip(questions, clusters(questions), strict=True):
        members.setdefault(name, set()).add(member.id)
    return list(members.values())


def grouped(*questions: Question) -> list[set[str]]:
    """Return the groups of more than one question, among 40 others that belong to none."""
    others = [question(n, f"other{n}") for n in range(50, 90)]
    return [group for group in groups((*questions, *others)) if len(group) > 1]


def test_questions_on_one_document_are_one_cluster_and_chains_join() -> None:
    assert grouped(question(0, "a"), question(1, "b"), question(2, "a", "b"), question(3, "c")) == [{"q0", "q1", "q2"}]


def test_irrelevant_documents_link_nothing_and_a_question_without_evidence_has_its_first_distractor() -> None:
    irrelevant = Question("q1", UNLIKE[1], evidence=(Evidence("a", grade=0.0), Evidence("b")))
    assert grouped(question(0, "a"), irrelevant) == []
    unanswerable = question(1, answerable=False, distractors=("a", "b"))
    assert grouped(question(0, "a"), unanswerable, question(2, "b")) == [{"q0", "q1"}]


def test_near_duplicates_are_one_cluster_in_any_language() -> None:
    assert grouped(
        question(0, "a", text="How do I convert a string to a number?"),
        question(1, "b", text="how do I convert a  string to the number"),
        question(2, "c", text="パイソンでファイルを読み込む方法は何ですか"),
        question(3, "d", text="パイソンでファイルを読み込む方法は何ですか?"),
        question(4, "e", text="Where is the standard library documented?"),
    ) == [{"q0", "q1"}, {"q2", "q3"}]


def test_history_distinguishes_two_short_questions() -> None:
    def after(number: int, turn: str) -> Question:
        return question(number, text="and why?", history=(Turn("user", turn),))

    assert grouped(after(0, UNLIKE[7]), after(1, UNLIKE[8])) == []
    assert grouped(after(0, UNLIKE[7]), after(1, UNLIKE[7])) == [{"q0", "q1"}]


def ring(size: int) -> list[Question]:
    """Chain questions by documents; each has one of a better grade beside, which two of them share."""
    named = [(Evidence(f"r{n}"), Evidence(f"r{(n + 1) % size}"), Evidence(f"m{n // 2}", grade=2)) for n in range(size)]
    return [Question(f"q{n}", UNLIKE[n], evidence=evidence) for n, evidence in enumerate(named)]


def test_chain_that_joins_more_than_a_tenth_of_the_set_is_cut_at_the_main_documents() -> None:
    assert grouped(*ring(4)) == [{"q0", "q1", "q2", "q3"}]
    assert grouped(*ring(6)) == [{"q0", "q1"}, {"q2", "q3"}, {"q4", "q5"}]


def test_cluster_is_named_by_its_document_or_question_also_where_ids_are_equal() -> None:
    about = Question("a", UNLIKE[0], evidence=(Evidence("b"),))
    none = Question("b", UNLIKE[1])
    assert clusters((about, none)) == ("document b", "question b")


TEXTS = st.lists(st.text("ab ", max_size=12), max_size=8)


@given(TEXTS)
def test_near_duplicates_are_those_that_comparing_all_pairs_finds(texts: list[str]) -> None:
    def shingles(text: str) -> set[str]:
        padded = f" {text} "
        return {padded[n : n + SHINGLE] for n in range(max(len(padded) - SHINGLE + 1, 1))} if text else set()

    found = [shingles(text) for text in texts]
    expected = [
        (one, other)
        for one in range(len(texts))
        for other in range(one + 1, len(texts))
        if found[one] and found[other]
        and len(found[one] & found[other]) >= ALIKE * len(found[one] | found[other])
    ]  # fmt: skip
    assert near_duplicates(texts) == expected


@given(st.permutations(range(8)), st.lists(st.sets(st.sampled_from("abcdef"), max_size=3), min_size=8, max_size=8))
def test_order_of_the_questions_changes_no_cluster(order: list[int], named: list[set[str]]) -> None:
    questions = [question(n, *sorted(documents)) for n, documents in enumerate(named)]
    assert sorted(map(sorted, groups([questions[n] for n in order]))) == sorted(map(sorted, groups(questions)))


def test_text_is_compared_without_case_marks_and_width() -> None:
    assert normalised(Question("q", "  Was IST \uff30ython?! ")) == "was ist python"


def test_combining_marks_belong_to_their_words() -> None:
    day, poor = (normalised(Question("q", f"{word} क्या है?")) for word in ("दिन", "दीन"))
    assert (day, poor) == ("दिन क्या है", "दीन क्या है")
    assert normalised(Question("q", "\u0130stanbul?")) == "i\u0307stanbul"
    assert normalised(Question("q", "I \u2764\ufe0f it")) == "i it"
    good, look = "อาหารที่นี่ดีไหม", "อาหารที่นี่ดูไหม"
    assert near_duplicates([normalised(Question("q", text)) for text in (good, look)]) == []


def test_no_cluster_of_the_bundled_questions_holds_a_tenth_of_them() -> None:
    questions = PythonReference(None, 0).load().golden.questions
    names = tabulate(questions).columns["source"]
    assert max(map(names.count, set(names))) <= len(questions) / 10
    assert len(set(names)) >= 60


def test_collections_fall_into_many_clusters(collections: object) -> None:
    for name, split, least in (("scifact", "test", 240), ("python_faq_en", "test", 165), ("cranfield", "test", 130)):
        loaded = Beir(f"{collections}/{name}", split, None, "drop", None, 0).load()
        assert len(set(clusters(loaded.golden.questions))) >= least
