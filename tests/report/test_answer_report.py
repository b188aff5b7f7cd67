"""What a report says of answers: quadrants, the confusion matrix and the abstention curve."""

import dataclasses
import io
import math
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from ragsweep.core.missing import NO_ANSWERS, TIMED_OUT
from ragsweep.core.question_results import QuestionResults, Repetitions
from ragsweep.core.results import DatasetFacts, Result, Run, Summaries
from ragsweep.parts.retrievers import NoRetriever
from ragsweep.report.answers import answer_lines
from ragsweep.report.artifacts import artifacts
from ragsweep.report.document import texts
from ragsweep.stats.answer_outcomes import NO_RETRIEVER, abstention_curves, against_no_context, confusion
from support.results import changed, csv_rows

NAN = math.nan
FACTS = DatasetFacts("python", "c", "g", 3, 4, 2, 2)
FATES = ("correct_answer", "wrong_answer", "false_refusal", "correct_refusal", "hallucinated_answer")
TYPES = ["", "", "", "out of scope", "false premise"]


def outcomes(fates: str, support: tuple[float, ...] = (0.9, 0.8, 0.7, 0.6, 0.5)) -> QuestionResults:
    """Make a table of three answerable and two unanswerable questions: c(orrect), w(rong), r(efused), f(ailed)."""
    told = [{"c": 0, "w": 1, "r": 2}.get(fate) if n < 3 else {"r": 3, "w": 4}.get(fate) for n, fate in enumerate(fates)]
    rows = {"question_id": list("abcde"), "answerable": [True] * 3 + [False] * 2, "unanswerable_type": TYPES,
            "abstained": [fate == "r" for fate in fates], "answer_support": list(support),
            "answer_failed": ["timed out" if fate == "f" else "" for fate in fates],
            "success_rate": [NAN if one is None else float(one in (0, 3)) for one in told],
            "token_f1": [NAN if one is None else float(one in (0, 3)) for one in told],
            "refusal": [NAN if one is None else float(one in (2, 3)) for one in told]}  # fmt: skip
    for number, name in enumerate(FATES):
        applies = [one is not None and (n < 3) == (number < 3) for n, one in enumerate(told)]
        rows[name] = [float(one == number) if has else NAN for one, has in zip(told, applies, strict=True)]
    return QuestionResults(rows)


def result(
    name: str, fates: str, target: str = "ragsweep.parts.retrievers.Bm25", llm: str = "x", **changes: Any
) -> Result:
    config = {"retriever": {"_target_": target}, "llm": {"_target_": llm}, "prompt": {"system": "s"}}
    made = Result(Run("s", name, (name,), config, {}, FACTS, {}), outcomes(fates), Summaries({}, {}))
    return changed(made, **changes)


BASE = result("retriever=none", "wwcrw", NO_RETRIEVER)
BM25 = result("retriever=bm25", "crfrr")


def test_name_of_the_part_that_retrieves_nothing() -> None:
    assert f"{NoRetriever.__module__.rpartition('.')[0]}.{NoRetriever.__name__}" == NO_RETRIEVER


def test_config_is_compared_with_the_one_without_context() -> None:
    (pair,) = against_no_context([BM25, BASE])
    assert (pair.base, pair.result) == (BASE, BM25)
    assert pair.effect.kinds == {"a": "helped", "b": "abstained", "d": "known already", "e": "helped"}
    assert pair.effect.left_out == 1
    *_, rule, effect = answer_lines([BM25, BASE])
    assert rule.data == {"metric": "success_rate", "threshold": 0.5, "higher_is_better": True}
    assert effect.data == pair.effect.counts
    assert effect.text.endswith("1 abstained of 4 questions; 1 not compared · helped against hurt: p = 0.500")


def test_effect_follows_the_config_without_context_that_it_is_measured_against() -> None:
    def named(name: str, prompt: str) -> Result:
        made = changed(BASE if "none" in name else BM25, name=name)
        return changed(made, settings={"prompt": {"system": prompt}})

    results = [named(f"{retriever} {prompt}", prompt) for retriever in ("none", "bm25") for prompt in ("p", "q")]
    said = texts(answer_lines(results))
    for prompt in ("p", "q"):
        base = next(n for n, text in enumerate(said) if f"compared with none {prompt};" in text)
        assert said[base + 1].startswith(f"bm25 {prompt}: ")


@pytest.mark.parametrize("key", ["output", "metrics"])
def test_effect_of_context_is_not_that_of_another_reader_or_definition_of_the_metric(key: str) -> None:
    def named(one: Result, part: str) -> Result:
        return changed(one, name=f"{one.name} {part}", settings={key: {"success_rate": {"_target_": part}}})

    results = [named(one, part) for one in (BASE, BM25) for part in ("a", "b")]
    assert [(pair.base, pair.result) for pair in against_no_context(results)] == [
        *zip(results[:2], results[2:], strict=True)
    ]


def test_what_the_config_names_says_which_questions_context_helped() -> None:
    """Here token F1 and the objective disagree on one question; the objective decides."""
    config = {"objective": "judged", "success": {"metric": "judged", "threshold": 0.7}}
    told = {"retriever=none": [0.9, 0.1, 0.1, 0.1, 0.1], "retriever=bm25": [0.9, 0.9, 0.6, 0.1, 0.1]}
    results = [changed(one, {"judged": told[one.name]}, settings=config) for one in (BASE, BM25)]
    (pair,) = against_no_context(results)
    assert pair.effect.counts == {"helped": 1, "hurt": 0, "known already": 1, "never solved": 1, "abstained": 2}
    rule = {"metric": "judged", "threshold": 0.7, "higher_is_better": True}
    assert rule in [line.data for line in answer_lines(results)]
    (row,) = csv_rows(artifacts({}, results, [], [], None)["quadrants.csv"])
    assert (row["metric"], row["threshold"], row["helped"]) == ("judged", "0.7", "1")


def test_only_configs_with_the_same_generator_prompt_and_questions_are_compared() -> None:
    other = dataclasses.replace(FACTS, golden_digest="h")
    silent = changed(BM25, questions=QuestionResults({"question_id": ["a"]}))
    assert against_no_context([BASE, result("x", "ccccc", llm="y"), result("x", "ccccc", dataset=other)]) == []
    assert against_no_context([BASE, silent]) == []
    assert against_no_context([BM25, result("x", "ccccc")]) == []
    assert list(answer_lines([silent, silent])) == []
    assert sorted(artifacts({"name": "sweep"}, [silent], [], [])) == ["results.csv", "results.json"]


def test_note_says_where_the_generator_cannot_answer_without_context() -> None:
    mute = result("retriever=none", "rrrrr", NO_RETRIEVER)
    assert "(which always abstains, and so solves only" in next(iter(answer_lines([mute, BM25]))).text


def test_many_configs_are_cut_to_those_that_gain_most() -> None:
    many = [result(f"c{n}", "crfrr" if n == 11 else "wwwwr") for n in range(12)]
    lines = list(answer_lines([BASE, *many]))
    assert lines[1].text.startswith("c11: ")
    assert lines[1].data["helped"] == 2
    assert lines[-1].data == {"hidden": 4}


def test_confusion_counts_every_question_once_by_type() -> None:
    rows = confusion(BM25.questions)
    assert [(row.kind, sum(row.counts.values()), row.unknown) for row in rows] == [
        ("answerable", 2, 1), ("unanswerable: false premise", 1, 0), ("unanswerable: out of scope", 1, 0),
    ]  # fmt: skip
    assert rows[0].counts["correct_answer"] == rows[0].counts["false_refusal"] == 1
    assert confusion({"question_id": ["a"]}) == []
    (line,) = [one for one in answer_lines([BM25]) if one.label == "answers"]
    assert line.data == {**rows[0].counts, "unknown": 1}


def test_confusion_of_repeated_answers_counts_the_first_which_is_the_displayed_one() -> None:
    first, second = outcomes("cwrrf"), outcomes("wwcwr")
    scores = {name: np.array([first[name], second[name]]).T for name in FATES}
    means = {name: [np.nanmean(row) if (row == row).any() else NAN for row in scores[name]] for name in FATES}
    repeated = dataclasses.replace(first, repetitions=Repetitions(np.zeros((5, 2), np.int64), scores))
    assert confusion(repeated.with_columns(means)) == confusion(first)
    shown = [text for text in texts(answer_lines([result("a", "cwrrf", questions=repeated)])) if "correct" in text]
    assert shown
    assert all("first answers: " in text for text in shown)


def test_abstention_curve_of_a_config_and_its_best_threshold() -> None:
    one = result("one", "ccwww")
    (points,) = abstention_curves([one]).values()
    assert [point.answered for point in points] == [0, 1, 2, 3, 4, 5]
    now, best = [line.data for line in answer_lines([one])][-2:]
    reached = [now[name] for name in ("coverage", "score_answered", "hallucinated", "score")]
    assert reached == pytest.approx([1, 0.4, 1, 0.4])
    assert (best["threshold"], best["coverage"], best["score_answered"]) == pytest.approx((0.8, 0.4, 1))
    silent = result("two", "ccwww", questions=outcomes("ccwww", (NAN,) * 5))
    assert abstention_curves([silent]) == {}


def test_an_llm_that_had_better_not_answer_is_said_to_in_words() -> None:
    (line,) = (text for text in texts(answer_lines([result("a", "wwwww")])) if "hindsight" in text)
    assert line.startswith("best in hindsight, without any answer: answers 0 % of all questions, ")


def test_keywords_of_searched_questions_are_averaged_with_their_weights() -> None:
    columns = {"needs_retrieval": [True] * 3 + [False] * 2, "searched": [True] * 5, "weight": [1.0, 1.0, 2.0, 1.0, 3.0]}
    found = outcomes("ccccc").with_columns({**columns, "keyword_coverage": [0.0, NAN, 1.0, 1.0, 0.0]})
    said = texts(answer_lines([changed(BM25, questions=found)]))
    assert "questions for the corpus, 3: 3 searched, keyword_coverage .67" in said
    assert "conversation, 2: 2 searched, keyword_coverage .25" in said


def test_files_say_the_same_to_programs() -> None:
    files = artifacts({"name": "sweep"}, [BASE, BM25], [], [])
    (row,) = csv_rows(files["quadrants.csv"])
    assert (row["config"], row["base"], row["helped"], row["known_already"]) == (
        "retriever=bm25", "retriever=none", "2", "1",
    )  # fmt: skip
    assert float(row["p_value"]) == 0.5
    assert [(line["question_id"], line["kind"]) for line in csv_rows(files["quadrants_by_question.csv"])] == [
        ("a", "helped"), ("b", "abstained"), ("d", "known already"), ("e", "helped"),
    ]  # fmt: skip
    assert [line["unknown"] for line in csv_rows(files["confusion.csv"])] == list("000100")
    curve = [line for line in csv_rows(files["abstention.csv"]) if line["config"] == "retriever=none"]
    assert (curve[0]["threshold"], curve[0]["score_answered"]) == ("inf", "")
    assert [float(line["coverage"]) for line in curve] == [0, 0.2, 0.4, 0.6, 0.8]
    picture = imread(io.BytesIO(files["plots/abstention.png"]))
    assert picture.shape[0] > 300
    assert picture.std() > 0.01


@pytest.mark.parametrize("name", ["=cmd()", "a,b\nc", "$x$ and $y"])
def test_odd_names_harm_neither_files_nor_pictures(name: str) -> None:
    files = artifacts({"name": "sweep"}, [BASE, changed(BM25, name=name)], [], [])
    assert csv_rows(files["quadrants.csv"])[0]["config"] == (f"'{name}" if name.startswith("=") else name)
    assert files["plots/abstention.png"].startswith(b"\x89PNG")


def test_metrics_without_a_generator_make_no_confusion_matrix() -> None:
    table = outcomes("fffff")
    known = {key: table[key] for key in table if key != "abstained"}
    silent = changed(BM25, questions=QuestionResults(known))
    assert confusion(silent.questions) == []
    assert list(answer_lines([silent])) == []


def test_a_system_that_only_searches_has_no_outcomes_of_answers() -> None:
    for why, unknown in ((NO_ANSWERS, 0), (TIMED_OUT, 5)):
        searched = changed(BM25, {**outcomes("fffff"), "answer_failed": [why] * 5})
        assert sum(row.unknown for row in confusion(searched.questions)) == unknown
        assert ("answers" in [one.label for one in answer_lines([searched])]) == (unknown > 0)
