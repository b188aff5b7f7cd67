"""Every gate from both sides of its threshold, by values computed by hand."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Corpus
from ragsweep.golden.clusters import clusters
from ragsweep_golden.building.drafts import Sources
from ragsweep_golden.building.selection import select
from ragsweep_golden.building.settings import BuildSettings, Quotas
from ragsweep_golden.commands.gates import gates_blocks, gates_facts
from ragsweep_golden.gates.judging import (
    FAILED,
    GATES,
    NOT_MEASURED,
    PASSED,
    GateRule,
    choose_profile,
    exit_status,
    find_faulty,
    judge_gates,
)
from ragsweep_golden.gates.subject import Subject
from ragsweep_golden.sets.entries import BLOOM, FIELDS, ROOT, UNANSWERABLE_TYPES, count_filled, read_set
from ragsweep_golden.sets.files import write_rows
from support.parts import Whole

TYPES = ("factual", "procedural", "definition", "scenario")
RULES = {
    "G0-1": GateRule(5, True), "G0-2": GateRule(0.8, False), "G1-1": GateRule(1, True), "G1-2": GateRule(1, True),
    "G1-3": GateRule(0.6, False), "G1-4": GateRule(1, True), "G2-1": GateRule(1, True),
    "G2-2": GateRule(0.25, False, 0.4), "G2-3": GateRule(4, False), "G3-1": GateRule(1, True),
    "G3-2": GateRule(0, True), "G4-1": GateRule(42, True),
    "G4-2": GateRule(1, False), "G5-1": GateRule(0, False), "G5-2": GateRule(0.9, True),
    "G5-3": GateRule(0.6, False), "G5-4": GateRule(0.1, True), "G5-5": GateRule(0.25, False, 0.4),
    "G5-6": GateRule(4, True), "G5-7": GateRule(4, False), "G5-8": GateRule(0.8, False),
    "G1-5": GateRule(1, True), "G1-6": GateRule(1, True), "G3-3": GateRule(1, True), "G6-1": GateRule(0.5, False),
    "G6-2": GateRule(0, True), "G6-3": GateRule(0.1, False), "G6-4": GateRule(0, False), "G6-5": GateRule(10, True),
    "G6-6": GateRule(0.3, False), "G6-7": GateRule(1, False),
}  # fmt: skip
WORDS = ["alder", "birch", "cedar", "dogwood", "elder", "fir", "gorse", "hazel", "ivy", "juniper"]


def corpus() -> Corpus:
    """Ten documents in five folders; each says what its word measures."""
    ids = [f"s{n // 2}/{word}" for n, word in enumerate(WORDS)]
    return Corpus(ids, [""] * 10, [f"The {word} measures {n + 10} metres." for n, word in enumerate(WORDS)])


def answerable(n: int) -> dict[str, Any]:
    """Return an entry of document n with every field of an answerable one."""
    document, word, answer = corpus().ids[n], WORDS[n], f"{n + 10} metres"
    filled: dict[str, Any] = {group: {} for group in {field.group for field in FIELDS} - {ROOT}}
    for field in FIELDS:
        if field.group != ROOT and field.name not in ("article", "pages", "reviews"):
            filled[field.group][field.name] = f"some {field.name}"
    filled["content"] |= {"passage": corpus().texts[n]}
    filled["multiple_choice"] |= {"choices": ["a metre", answer], "correct": 1, "answer": answer}
    filled["provenance"] |= {"document": document, "start": 0, "end": 9}
    filled["classification"] |= {
        "question_type": TYPES[n % 4], "bloom": BLOOM[n % 4], "reasoning_class": "summary" if n % 2 else "single_fact",
        "difficulty": 0.8 if n == 0 else 0.3, "stratum": document.split("/")[0], "priority": 1,
    }  # fmt: skip
    filled["validation"] |= {"status": "validated", "method": "verbatim", "score": 1.0}
    filled["processing"] |= {"by_design": True, "seed": 0, "lexical_overlap": 0.5}
    filled["audit"] |= {"status": "silver"}
    return filled | {
        "schema_version": "1", "id": f"a{n}", "question": f"How tall is the {word}?", "answerable": True,
        "category": "trees", "language": "en", "reference": answer, "keywords": [str(n + 10)],
        "evidence": [{"document": document, "anchor": answer}], "distractors": ["s0/birch"],
    }  # fmt: skip


def unanswerable(n: int) -> dict[str, Any]:
    return {
        "id": f"u{n}", "question": f"How tall is the {n}th oak?", "answerable": False,
        "unanswerable_type": UNANSWERABLE_TYPES[n], "validation": {"status": "validated", "method": "retrieval"},
        "processing": {"by_design": True}, "classification": {"reasoning_class": "summary"},
    }  # fmt: skip


def whole(kept: Sequence[Mapping[str, Any]] = ()) -> Subject:
    """Return a set that passes all: ten answerable questions and four others, unit vectors far apart."""
    entries = [*(answerable(n) for n in range(10)), *(unanswerable(n) for n in range(4))] if not kept else list(kept)
    given = corpus()
    eye = np.eye(2 * len(entries), dtype=np.float32)
    return Subject(entries, given, Whole().split(given), eye[: len(entries)], eye[: len(entries)], eye[len(entries) :])


def verdicts(subject: Subject) -> dict[str, str]:
    return {one.gate: one.verdict for one in judge_gates(subject, RULES)}


def measured(subject: Subject, gate: str) -> float:
    return judge_gates(subject, {gate: RULES[gate]})[0].value


def changed(number: int, **fields: Any) -> Subject:
    """Return the whole set with one entry changed; a dict is merged into its group."""
    entries = [dict(one) for one in whole().entries]
    for name, given in fields.items():
        merged = {**entries[number].get(name, {}), **given} if isinstance(given, dict) else given
        entries[number][name] = merged
    return whole(entries)


def with_passage(subject: Subject, row: int, cosine: float) -> Subject:
    """Return the subject with a passage of a known similarity to its question and answer."""
    passages = np.array(subject.passages)
    passages[row] = 0
    passages[row, row], passages[row, -1] = cosine, math.sqrt(1 - cosine**2)
    return replace(subject, passages=passages)


def test_a_whole_set_passes_every_gate() -> None:
    results = judge_gates(whole(), RULES)
    assert set(RULES) == set(GATES)
    assert {one.gate for one in results if one.verdict != PASSED} == set()
    assert exit_status(results) == 0
    assert min(count_filled(answerable(n)) for n in range(10)) == 42


@pytest.mark.parametrize(
    ("gate", "subject", "expected"),
    [
        ("G0-1", whole([answerable(n) for n in range(8)]), 4),
        ("G0-2", whole([answerable(n) for n in range(7)]), 0.7),
        ("G1-1", changed(3, evidence=[{"document": "s1/dogwood", "anchor": "14 metres"}]), 0.9),
        ("G1-1", changed(3, evidence=[{"document": "nowhere"}]), 0.9),
        ("G1-2", changed(3, reference="as high as a house"), 0.9),
        ("G1-3", whole([answerable(0), answerable(2), answerable(4), answerable(1)]), 0.75),
        ("G1-4", changed(3, question="How tall is the dogwood"), 13 / 14),
        ("G2-1", changed(11, unanswerable_type="no idea"), 0.75),
        ("G2-2", whole([answerable(n) for n in range(10)] + [unanswerable(n) for n in range(3)]), 3 / 13),
        ("G2-2", whole([answerable(n) for n in range(5)] + [unanswerable(n) for n in range(4)]), 4 / 9),
        ("G2-3", whole([answerable(0), *(unanswerable(n) for n in range(3))]), 3),
        ("G3-1", changed(3, validation={"status": "open"}), 13 / 14),
        ("G3-2", changed(3, validation={"method": "keywords", "score": 0.79}), 1),
        ("G3-2", changed(3, validation={"method": "similarity", "score": 0.89}), 1),
        ("G4-1", changed(3, content={"passage": ""}), 41),
        ("G4-2", changed(3, processing={"by_design": False}), 13 / 14),
        ("G5-3", whole([answerable(0), answerable(2), answerable(4), unanswerable(0)]), 0.75),
        ("G5-4", changed(0, classification={"difficulty": 0.69}), 0),
        ("G5-5", whole([answerable(0), unanswerable(0)]), 0.5),
        ("G5-6", whole([answerable(n) for n in (0, 1, 2, 4, 5, 6)]), 3),
        ("G5-7", whole([answerable(n) for n in (0, 1, 2, 4, 5, 6)]), 3),
        ("G5-8", whole([answerable(n) for n in range(7)]), 0.7),
        ("G1-5", changed(3, question="Tall?"), 13 / 14),
        ("G1-6", changed(3, reference="13 m."), 0.9),
        ("G3-3", changed(3, unanswerable_type="nonsensical"), 13 / 14),
        ("G3-3", changed(3, classification={"difficulty": 1.5}), 13 / 14),
        ("G3-3", changed(11, evidence=[{"document": "s0/alder"}]), 13 / 14),
        ("G6-1", whole([answerable(n) | {"question": f"What {WORDS[n]} measures?"} for n in range(10)]), 1),
        ("G6-2", changed(3, question="How tall is THE alder"), 1),
        ("G6-4", changed(3, question="Is the dogwood 13 metres tall?"), 1),
        ("G6-5", whole([answerable(n) for n in range(9)]), 9),
        ("G6-6", whole([answerable(0), answerable(1), answerable(0) | {"id": "b", "question": "An alder?"}]), 2 / 3),
    ],
)
def test_a_gate_has_the_value_of_the_hand_and_does_not_pass(gate: str, subject: Subject, expected: float) -> None:
    assert measured(subject, gate) == pytest.approx(expected)
    assert verdicts(subject)[gate] == (FAILED if RULES[gate].blocking else "warned")


@pytest.mark.parametrize(
    "question", ["山茱萸有多高\uff1f", "كم يبلغ طولها\u061f", "\u201cHow tall is the dogwood?\u201d"]
)
def test_a_question_mark_is_that_of_its_script(question: str) -> None:
    assert measured(changed(3, question=question), "G1-4") == 1


@pytest.mark.parametrize(
    "fields", [{"question": "And is it?"}, {"evidence": [{"document": "s1/dogwood", "anchor": "not in it"}]}]
)
def test_a_set_whose_answered_questions_cannot_be_searched_says_why(fields: dict[str, Any]) -> None:
    (result,) = judge_gates(whole([answerable(3) | fields]), {"G6-3": RULES["G6-3"]})
    assert result.verdict == NOT_MEASURED
    assert result.note == "no question with content words has an answer and evidence that is found"


def test_a_question_of_a_conversation_repeats_another_only_after_the_same_turns() -> None:
    def asked(n: int, turn: str) -> dict[str, Any]:
        return answerable(n) | {"question": "And how tall is it?", "history": [{"role": "user", "text": turn}]}

    others = [answerable(n) for n in range(2, 10)]
    for turns, repeated, independent in ((("An alder?", "The birch!"), 0, 10), (("An alder?", "an alder"), 1, 9)):
        subject = whole([*map(asked, range(2), turns), *others])
        assert (measured(subject, "G6-2"), measured(subject, "G6-5")) == (repeated, independent)


def test_questions_that_differ_in_a_symbol_are_no_repetitions() -> None:
    asked = ["What is C?", "What is C++?", "What is C\uff0b\uff0b", "what is C#", 'what is "c"']
    subject = whole([answerable(n) | {"question": text} for n, text in enumerate(asked)])
    assert measured(subject, "G6-2") == 2


def test_independent_questions_are_those_that_an_evaluation_resamples(tmp_path: Path) -> None:
    def row(n: int, *grades: int) -> dict[str, Any]:
        labels = [{"document": name, "grade": grade} for name, grade in zip((f"d{n}", "hub"), grades, strict=True)]
        return {"id": f"q{n}", "question": f"How tall is the {WORDS[n]}?", "evidence": labels}

    write_rows(tmp_path / "golden.jsonl", [row(n, 1, 2) if n < 2 else row(n, 2, 1) for n in range(10)])
    read = read_set(tmp_path / "golden.jsonl")
    found = measured(Subject([entry for entry, _ in read]), "G6-5")
    assert found == len(set(clusters([question for _, question in read]))) == 9  # the hub is the main document of two


def test_a_question_is_about_each_document_of_its_evidence() -> None:
    hub = {"document": corpus().ids[0], "anchor": "10 metres"}
    entries = [answerable(n) | {"evidence": [*answerable(n)["evidence"], hub]} for n in range(1, 5)]
    assert measured(whole([*entries, answerable(5)]), "G6-6") == pytest.approx(4 / 5)


def test_the_difference_that_a_set_shows_is_that_of_the_questions_with_evidence() -> None:
    notes = []
    for entries in ([answerable(n) for n in range(10)], whole().entries):
        (result,) = judge_gates(Subject(entries), {"G6-5": RULES["G6-5"]})
        notes.append(result.note)
    assert notes[0] == notes[1]  # context_ndcg has no value for the other questions


def test_a_set_with_which_a_sweep_shows_nothing_shows_no_difference() -> None:
    asked = enumerate(("Who planted the first one?", "When does it bloom?", "Why was another cut down?"))
    entries = [answerable(n) for n in range(10)]
    entries += [answerable(0) | {"id": f"more{n}", "question": question} for n, question in asked]
    (result,) = judge_gates(Subject(entries), {"G6-5": RULES["G6-5"]})
    assert result.value == 10  # the effective number of clusters of 4, 1, 1, ... questions is 13² / 25 = 6.8
    fact = "the questions with evidence count as fewer than 10 independent questions"
    assert result.note == f"detects no difference in context_ndcg: {fact}"


@pytest.mark.parametrize(
    ("question", "reference", "found"),
    [
        ("दीन क्या है?", "दिन", 0),  # one word, of which the question has only the consonants
        ("\u0130stanbul nerede?", "\u0130stanbul", 0),  # one word
        ("长城在北京附近的什么地方\uff1f", "在北京附近", 1),  # two and a half words
        ("长城在北京附近的什么地方\uff1f", "北京", 0),  # one word
        ("서울타워는 어디에 있나요?", "서울타워", 0),
        ("서울 타워는 어디에 있나요?", "서울 타워", 1),
    ],
)
def test_an_answer_of_two_words_is_found_in_its_question_in_any_script(
    question: str, reference: str, found: int
) -> None:
    assert measured(changed(3, question=question, reference=reference), "G6-4") == found


def test_answers_that_do_not_stand_literally_are_not_judged_without_an_embedder() -> None:
    for subject, verdict in ((whole(), PASSED), (changed(3, reference="as high as a house"), NOT_MEASURED)):
        alone = replace(subject, questions=None, answers=None, passages=None)
        assert verdicts(alone)["G1-2"] == verdict
    assert math.isnan(measured(alone, "G1-2"))


def test_an_answer_is_found_in_its_passage_by_similarity_too() -> None:
    subject = changed(3, reference="as high as a house")
    for cosine, share in ((0.96, 1.0), (0.94, 0.9)):
        assert measured(with_passage(subject, 3, cosine), "G1-2") == pytest.approx(share)


@pytest.mark.parametrize(("cosine", "pairs"), [(0.951, 1), (0.949, 0)])
def test_two_questions_of_a_known_cosine_are_duplicates_or_not(cosine: float, pairs: int) -> None:
    questions = np.array(whole().questions)
    questions[1, 1], questions[1, 0] = math.sqrt(1 - cosine**2), cosine
    assert measured(replace(whole(), questions=questions), "G5-1") == pairs


def test_equal_last_turns_of_different_conversations_are_no_duplicates() -> None:
    questions = np.array(whole().questions)
    questions[1] = questions[0]
    for turns, pairs in ((("An alder?", "The birch!"), 0), (("An alder?", "an alder"), 1)):
        entries = [dict(one) for one in whole().entries]
        for one, turn in zip(entries, turns, strict=False):
            one["history"] = [{"role": "user", "text": turn}]
        assert measured(replace(whole(entries), questions=questions), "G5-1") == pairs


@pytest.mark.parametrize(("cosine", "verdict"), [(0.89, PASSED), (0.91, FAILED)])
def test_a_question_may_not_be_its_passage(cosine: float, verdict: str) -> None:
    subject = with_passage(whole(), 2, cosine)
    assert measured(subject, "G5-2") == pytest.approx(cosine, abs=1e-6)
    assert verdicts(subject)["G5-2"] == verdict


@pytest.mark.parametrize(("gate", "thresholds"), [("G4-1", (42, 45)), ("G5-2", (0.95, 0.5))])
def test_a_gate_lists_the_questions_that_miss_its_own_threshold(gate: str, thresholds: tuple[float, float]) -> None:
    subject = with_passage(whole(), 2, 0.92)
    met, missed = (judge_gates(subject, {gate: GateRule(threshold, True)})[0] for threshold in thresholds)
    assert (met.verdict, met.faults, missed.verdict) == (PASSED, (), FAILED)
    assert missed.faults


def test_rejected_entries_are_counted_and_change_no_gate() -> None:
    bad = answerable(0) | {"id": "r", "question": "no", "validation": {"status": "rejected"}}
    subject = replace(whole(), entries=[*whole().entries, bad])
    assert subject.rejected == 1
    assert set(verdicts(subject).values()) == {PASSED}


def test_a_set_without_answers_says_so() -> None:
    (found,) = judge_gates(Subject([], whole().corpus), {"G1-2": RULES["G1-2"]})
    assert (found.verdict, found.note) == (
        NOT_MEASURED,
        'no answerable question has a right answer; add the field "reference", or use profile=hand',
    )


def test_what_was_not_measured_has_not_passed() -> None:
    bare = Subject([{"id": "q", "question": "How tall is the alder?", "evidence": [{"document": "s0/alder"}]}])
    results = judge_gates(bare, RULES)
    missing = {one.gate for one in results if one.verdict == NOT_MEASURED}
    assert missing >= {"G0-2", "G1-1", "G3-1", "G5-1", "G5-2", "G5-4", "G5-6", "G5-8"}
    assert all(math.isnan(one.value) and one.note for one in results if one.gate in missing)
    assert exit_status([one for one in results if one.verdict != FAILED]) == 3
    assert exit_status(results) == 1


def test_a_planted_set_fails_exactly_what_was_planted() -> None:
    """Few documents and chunks, nothing hard, few Bloom levels and question types, and no embedder."""
    kept = [answerable(n) for n in (0, 2, 4, 6, 8, 3, 5)] + [unanswerable(n) for n in range(4)]
    for one in kept[:7]:
        one["classification"] |= {"difficulty": 0.2, "bloom": "remember", "question_type": "factual"}
    for one in kept[:5:2]:
        one["classification"]["reasoning_class"] = "reasoning"
    given = corpus()
    found = judge_gates(Subject(kept, given, Whole().split(given)), RULES)
    assert {one.gate for one in found if one.verdict in (FAILED, "warned")} == {"G0-2", "G5-4", "G5-6", "G5-7", "G5-8"}
    assert {one.gate for one in found if one.verdict == NOT_MEASURED} == {"G5-1", "G5-2"}
    assert exit_status(found) == 1


def test_the_balance_is_that_of_the_largest_category() -> None:
    entries = [answerable(n) | {"category": "bush" if n == 3 else "tree"} for n in range(4)]
    assert measured(whole(entries), "G6-7") == 0.75
    assert math.isnan(measured(whole([answerable(n) | {"category": ""} for n in range(4)]), "G6-7"))


def test_a_question_at_fault_is_named_with_the_reason() -> None:
    evidence = [{"document": "s1/dogwood", "anchor": "14 metres"}]
    (result,) = judge_gates(changed(3, evidence=evidence), {"G1-1": RULES["G1-1"]})
    assert [(one.id, one.question) for one in result.faults] == [("a3", "How tall is the dogwood?")]
    assert result.faults[0].why == '0 of 1 labels found: s1/dogwood "14 metres"'
    assert find_faulty(changed(3, reference="as high as a house"))["a3"].startswith("G1-2 (the passage does not")
    assert find_faulty(whole()) == {}


def test_an_answer_in_another_chunk_is_named_with_its_document() -> None:
    entries = [answerable(0) | {"question": "What does the alder measures?"}, answerable(1)]
    given = corpus()
    repeated = Corpus([*given.ids, "copy"], [""] * 11, [*given.texts, given.texts[0]])
    (result,) = judge_gates(Subject(entries, repeated, Whole().split(repeated)), {"G6-3": RULES["G6-3"]})
    assert [fault.why for fault in result.faults] == ['is also answered by copy: "The alder measures 10 metres."']


def test_the_profile_is_that_of_the_entries_kind_unless_it_is_named() -> None:
    profiles = {"hand": ["G1-1"], "generated": ["G1-1", "G1-4"]}
    made, written = {"processing": {"generator": "rule"}}, {"question": "Who?"}
    assert choose_profile("auto", profiles, [made, made, written]).name == "generated"
    assert choose_profile("auto", profiles, [made, written]).name == "hand"
    assert choose_profile("auto", profiles, []).name == "hand"
    assert choose_profile("full", profiles, [written]).gates == tuple(GATES)
    with pytest.raises(ConfigError, match="profile: no profile 'hnd'; did you mean \"hand\""):
        choose_profile("hnd", profiles, [])
    with pytest.raises(ConfigError, match=r'profiles\.own: no gate "G9-9"'):
        choose_profile("own", {"own": ["G9-9"]}, [])


def test_a_short_greeting_of_a_conversation_is_no_fault() -> None:
    assert measured(changed(3, question="Hi there!", needs_retrieval=False), "G1-5") == 1


def test_a_build_leaves_out_what_would_fail_a_gate_and_names_it() -> None:
    given = corpus()
    entries = [dict(answerable(n)) for n in range(4)]
    entries[1]["reference"] = "as high as a house"
    entries[2]["question"] = "How tall"
    settings = BuildSettings(("en",), 10, 0.3, 0, 0, {}, {}, Quotas(), {}, {}, 0.9)
    rows = select(entries, settings, Sources(given, Whole().split(given), {}, {}, 0), None)
    assert [row.get("reason", "").partition(" (")[0] for row in rows] == ["", "fails G1-2", "fails G1-4", ""]


def test_without_a_corpus_no_gate_of_passages_is_measured_from_the_passages_of_entries() -> None:
    entries = [answerable(n) | {"content": {"passage": "The alder is 10 metres high."}} for n in range(4)]
    results = judge_gates(Subject(entries), {gate: RULES[gate] for gate in ("G1-2", "G6-1")})
    assert {one.note for one in results} == {"no corpus; add corpus=FOLDER or corpus=FILE"}


def test_the_document_of_gates_names_the_decisive_ones_and_the_facts_have_every_value() -> None:
    subject = Subject([answerable(n) for n in range(3)])
    results = judge_gates(subject, {gate: RULES[gate] for gate in ("G1-1", "G1-4", "G6-5", "G6-6")})
    *_, block = gates_blocks(subject, results, choose_profile("full", {}, subject.kept))
    verdict, *reasons = block.items
    assert verdict.data == {"questions": 3, "rejected": 0, "decisive": ["G1-1", "G6-5"]}
    assert [one.text.partition(" ")[0] for one in reasons] == verdict.data["decisive"]
    facts = gates_facts(subject, results)["gates"]
    assert [one["gate"] for one in facts] == ["G1-1", "G1-4", "G6-5", "G6-6"]
    names = {"gate", "title", "value", "threshold", "verdict", "blocking", "note", "questions"}
    assert {name for one in facts for name in one} == names
    assert facts[2]["value"] == 3
