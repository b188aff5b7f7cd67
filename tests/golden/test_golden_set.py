import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.core.types import Corpus, Evidence, Question
from ragsweep.golden.golden_set import (
    RawGoldenSet,
    Selection,
    UnusableLabel,
    find_faults,
    golden_set,
    peculiarities,
    sample,
)

CORPUS = Corpus(["d1", "d2"], ["", ""], ["to be or\nnot to  be", "that is the question"])


def question(identifier: str, *evidence: Evidence, **fields: object) -> Question:
    where = f"golden:{identifier}"
    labels = tuple(replace(label, where=where) for label in evidence)
    return replace(Question(identifier, "why?", evidence=labels, where=where), **fields)


def refused(*questions: Question, selection: Selection = Selection()) -> list[str]:  # noqa: B008
    with pytest.raises(InputError) as caught:
        golden_set(RawGoldenSet("golden", questions), CORPUS, selection)
    return str(caught.value).splitlines()


GOOD = question("good", Evidence("d1", "or not"), Evidence("d1", "to be", start=13), Evidence("d2"))
UNKNOWN = question("unknown", Evidence("d3"))
GONE = question("gone", Evidence("d2", "an answer"))
TWICE = question("twice", Evidence("d1", "to be"), Evidence("d2", "the question"))
ELSEWHERE = question("elsewhere", Evidence("d1", "to be", start=5))


def test_good_labels_pass_as_they_are() -> None:
    golden = golden_set(RawGoldenSet("golden", [GOOD]), CORPUS, Selection(), repeated_passages=True)
    assert golden.questions == (GOOD,)
    assert golden.left_out == {}
    assert golden.repeated_passages


def test_all_unusable_labels_are_refused_at_once_in_the_order_of_the_file() -> None:
    assert refused(GOOD, TWICE, UNKNOWN, GONE, ELSEWHERE) == [
        "4 labels cannot be used; correct the data, or drop such labels with dataset.unknown=drop",
        'golden:twice: anchor "to be" occurs 2 times in document "d1", at 0, 13; quote more words or give "start"',
        'golden:unknown: document "d3" is not in the corpus',
        'golden:gone: anchor "an answer" does not occur in document "d2"; quote the passage again',
        'golden:elsewhere: anchor "to be" does not begin at 5 in document "d1", but at 0, 13; correct the start',
    ]


def test_missing_anchor_is_refused_with_the_nearest_passage_of_its_document() -> None:
    astray = question("astray", Evidence("d2", "it was that **is the** reply"))
    assert refused(astray)[1] == (
        'golden:astray: anchor "it was that **is the** reply" does not occur in document "d2"; '
        'the nearest passage, at 0, is "that is the question"; quote the passage again'
    )


def test_dropped_labels_are_counted_with_the_questions_that_lose_their_last_one() -> None:
    strangers = [UnusableLabel("qrels:9", "labels of an unknown question", "")]
    found = RawGoldenSet("golden", [GOOD, TWICE, UNKNOWN, GONE, question("bare")], strangers, {"not in split test": 7})
    golden = golden_set(found, CORPUS, Selection(unknown="drop"))
    assert [q.id for q in golden.questions] == ["good", "twice", "bare"]
    assert golden.questions[1].evidence == (Evidence("d2", "the question"),)
    assert golden.left_out == {
        "not in split test": 7,
        "labels of an unknown question": 1,
        "labels of an unknown document": 1,
        "labels whose anchor does not resolve": 2,
        "questions without usable labels": 2,
    }


def test_a_question_that_keeps_only_labels_that_are_not_relevant_is_dropped() -> None:
    other = Evidence("d1", grade=0.0)
    half, judged = question("half", Evidence("gone"), other), question("judged", Evidence("gone", grade=0.0), other)
    golden = golden_set(RawGoldenSet("golden", [GOOD, half, judged]), CORPUS, Selection(unknown="drop"))
    assert [(one.id, one.evidence) for one in golden.questions] == [("good", GOOD.evidence), ("judged", (other,))]
    assert golden.left_out["questions without usable labels"] == 1


@pytest.mark.parametrize(("label", "explains"), [(UNKNOWN, False), (GONE, True)])
def test_notes_on_files_are_listed_only_where_they_may_explain_a_lost_anchor(label: Question, explains: bool) -> None:
    with pytest.raises(InputError) as refusal:
        golden_set(RawGoldenSet("golden", [label], notes=("read as cp1252: a.txt",)), CORPUS, Selection())
    assert ("read as cp1252" in str(refusal.value)) == explains


def test_labels_naming_unknown_questions_are_refused() -> None:
    strangers = [UnusableLabel("qrels:9", "labels of an unknown question", 'question "q" is not in the queries')]
    with pytest.raises(InputError, match=r'1 label cannot be used.*\nqrels:9: question "q" is not in the queries'):
        golden_set(RawGoldenSet("golden", [GOOD], strangers), CORPUS, Selection())


def test_labels_that_contradict_their_question_or_repeat_are_refused_even_when_dropping() -> None:
    unanswerable = question("no", Evidence("d1"), answerable=False)
    repeated = question("again", Evidence("d1"), Evidence("d2"), Evidence("d1", grade=2.0))
    assert refused(unanswerable, repeated, selection=Selection(unknown="drop")) == [
        'golden:no: question "no" is unanswerable, but has relevant evidence; remove the evidence, or make the '
        "question answerable",
        'golden:again: document "d1" occurs twice for one question; first in golden:again; remove one',
    ]


def test_relevant_evidence_of_a_question_that_is_never_searched_is_refused() -> None:
    chat = question("chat", Evidence("d1"), needs_retrieval=False)
    judged = question("judged", Evidence("d1", grade=0.0), needs_retrieval=False)
    assert refused(chat, judged) == [
        'golden:chat: question "chat" needs no retrieval, but has relevant evidence; remove the evidence, or make the '
        "question need retrieval",
    ]


def test_relevant_evidence_without_text_is_a_fault_of_its_line_but_does_not_stop_an_evaluation() -> None:
    blank = Corpus(["d1", "empty", "spaces", "title"], ["", "", "", "A title"], ["text", "", " \n", ""])
    labels = [Evidence(name) for name in blank.ids]
    questions = [question("found", labels[0], labels[3], Evidence("empty", grade=0.0)), question("lost", *labels[1:3])]
    faults = Faults()
    find_faults(questions, blank, faults)
    way = "use another document as evidence, or add the text"
    assert list(faults.found) == [f'golden:lost: document "{name}" has no text; {way}' for name in ("empty", "spaces")]
    assert len(golden_set(RawGoldenSet("golden", questions), blank, Selection()).questions) == 2  # as in Cranfield


def test_unanswerable_question_may_have_documents_judged_not_relevant() -> None:
    judged = question("no", Evidence("d1", grade=0.0), answerable=False)
    assert golden_set(RawGoldenSet("golden", [judged]), CORPUS, Selection()).questions == (judged,)


def test_golden_set_without_a_question_is_refused_with_the_reasons() -> None:
    way = "correct the file or the dataset settings"
    assert refused() == [f"golden: no questions to evaluate (the file has none); {way}"]
    assert refused(UNKNOWN, selection=Selection(unknown="drop")) == [
        "golden: no questions to evaluate (labels of an unknown document: 1; questions without usable labels: 1); "
        f"{way}"
    ]


@pytest.mark.parametrize("limit", [0, -1, "5", 2.5, True])
def test_limit_that_is_no_positive_whole_number_is_refused(limit: object) -> None:
    with pytest.raises(ConfigError, match=rf"dataset\.limit={limit} must be a whole number of at least 1"):
        Selection(limit=limit).check()  # type: ignore[arg-type]


def test_misspelt_unknown_is_refused_with_the_known_values() -> None:
    with pytest.raises(ConfigError, match=r"dataset\.unknown must be one of error, drop, got 'drp'"):
        Selection(unknown="drp").check()


def test_questions_beyond_the_limit_are_counted() -> None:
    golden = golden_set(RawGoldenSet("golden", [GOOD, question("bare")]), CORPUS, Selection(limit=1))
    assert (len(golden.questions), golden.left_out) == (1, {"beyond dataset.limit=1": 1})


def mixed(sizes: dict[str, int]) -> list[Question]:
    kinds = {"evidence": {"evidence": (Evidence("d1"),)}, "unanswerable": {"answerable": False}}
    kinds |= {"conversational": {"needs_retrieval": False}, "bare": {}}
    return [question(f"{kind}{n}", **kinds[kind]) for kind, size in sizes.items() for n in range(size)]


def kind_of(drawn: Question) -> str:
    return drawn.id.rstrip("0123456789")


def test_sample_has_every_category_and_kind_in_proportion() -> None:
    questions = mixed({"evidence": 60, "unanswerable": 30, "conversational": 10})
    assert Counter(map(kind_of, sample(questions, 10, 0))) == {"evidence": 6, "unanswerable": 3, "conversational": 1}
    questions = [replace(q, category="ab"[n % 4 == 0]) for n, q in enumerate(mixed({"bare": 40}))]
    assert Counter(q.category for q in sample(questions, 8, 1)) == {"a": 6, "b": 2}


def test_seed_chooses_the_sample_which_is_the_same_in_every_process() -> None:
    questions = mixed({"evidence": 100})
    assert len({tuple(q.id for q in sample(questions, 5, seed)) for seed in range(10)}) == 10
    assert [q.id for q in sample(questions, 3, 0)] == ["evidence58", "evidence59", "evidence67"]


def test_questions_with_keywords_in_place_of_an_answer_and_blank_ones_are_counted() -> None:
    answered = question("a", references=("Rain.", "Snow."), keywords=("rain", "snow"))
    keywords, bare = question("b", keywords=("rain", "snow")), question("c")
    assert [q.expected for q in (answered, keywords, bare)] == [("Rain.", "Snow."), ("rain, snow",), ()]
    (note,) = peculiarities([answered, keywords, bare])
    assert note == "no reference answer: 1 question; keywords are used instead"
    assert peculiarities([answered, bare]) == ()


def test_questions_that_only_a_dictionary_splits_into_words_are_noted() -> None:
    (note,) = peculiarities([Question("a", "พนักงานเบิกค่าใช้จ่ายได้หรือไม่"), Question("b", "几天\uff1f")])
    assert "(Thai, Lao, Burmese or Khmer): 1;" in note
    assert peculiarities([question("a"), question("b", text=" \n")]) == ("blank questions, evaluated unchanged: 1",)


KINDS = ("evidence", "unanswerable", "conversational", "bare")
SIZES = st.fixed_dictionaries(dict.fromkeys(KINDS, st.integers(0, 12)))


@settings(deadline=None)
@given(SIZES, st.integers(1, 60), st.integers(0, 3), st.randoms(use_true_random=False))
def test_sample_is_stable_and_proportional(sizes: dict[str, int], limit: int, seed: int, chance: random.Random) -> None:
    questions = mixed(sizes)
    drawn = sample(questions, limit, seed)
    assert len(drawn) == min(limit, len(questions))
    assert list(drawn) == sorted(drawn, key=questions.index)
    shuffled = chance.sample(questions, len(questions))
    ids = {q.id for q in drawn}
    assert {q.id for q in sample(shuffled, limit, seed)} == ids
    assert ids <= {q.id for q in sample(questions, limit + 1, seed)}
    counts = Counter(map(kind_of, drawn))
    for kind, size in sizes.items():
        share = size * len(drawn) / max(len(questions), 1)
        assert abs(counts[kind] - share) < 2  # of four strata none is off by two
