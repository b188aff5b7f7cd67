"""Exact match, token F1, ROUGE-L and BLEU against their reference implementations."""

import string
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import sentence_bleu

from ragsweep.core.types import Metric, Question
from ragsweep.parts import metrics
from ragsweep.parts.metrics import ExactMatch, TokenF1
from ragsweep.parts.metrics.answer_words import Language
from support.metrics import score_one

# --- the definition, written down a second time -------------------------------------------------------------------


def tokens(text: str) -> list[str]:
    """Lower case, without the signs of ASCII, without articles (a word is one where no letter or digit touches it)."""
    kept = [letter for letter in text.lower() if letter not in string.punctuation]
    words: list[str] = [""]
    for letter in kept:
        wordlike = letter.isalnum() or letter == "_"
        if wordlike == (words[-1][-1:].isalnum()) or not words[-1]:
            words[-1] += letter
        else:
            words.append(letter)
    return "".join(" " if word in {"a", "an", "the"} else word for word in words).split()


def official(prediction: str, golds: list[str]) -> tuple[float, float]:
    """Return exact match and F1 as the evaluation of SQuAD 2.0 defines them; no gold that says something: none."""
    wanted = [gold for gold in map(tokens, golds) if gold] or [[]]
    said = tokens(prediction)
    exact = float(any(said == gold for gold in wanted))
    best = 0.0
    for gold in wanted:
        rest, shared = list(gold), 0
        for word in said:
            if word in rest:
                rest.remove(word)
                shared += 1
        if not gold or not said:
            best = max(best, float(gold == said))
        elif shared:
            precision, recall = shared / len(said), shared / len(gold)
            best = max(best, 2 * precision * recall / (precision + recall))
    return exact, best


def both(question: Question, text: str, language: Language = "label") -> tuple[float | str, float | str]:
    return score_one(ExactMatch(language), question, text), score_one(TokenF1(language), question, text)


# --- by hand ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("references", "said", "exact", "f1"),
    [
        (["the cat"], "Cat!", 1, 1),
        (["the cat"], "A cat", 1, 1),
        (["red cat"], "the cat sat", 0, 2 * (1 / 2) * (1 / 2) / 1),
        (["cat cat dog"], "cat dog dog dog", 0, 2 * 2 / (3 + 4)),
        (["dog", "cat"], "cat", 1, 1),
        (["theatre"], "re the at", 0, 0),
        (["the"], "", 0, 0),  # a refusal is not an article
        (["A"], "A", 1, 1),  # the letter of a choice
        (["x[1]"], "x[1]", 1, 1),  # the brackets are the right answer's, not a citation
        (["cat"], "", 0, 0),
        (["e-mail"], "email", 1, 1),
        (["-5 degrees"], "\u22125 degrees", 1, 1),
        (["1/2"], "\u00bd", 1, 1),
        (["cat"], "Cat [1].", 1, 1),  # citations do not count
        (["cat"], "Cat.[^1]", 1, 1),
        (["cat"], "Cat [Passage 1].", 1, 1),
        (["cat"], "Cat [SOURCES 1, 2].", 1, 1),
        (["[^0] matches digits"], "[^0] matches digits", 1, 1),
        (["matches digits"], "[^0] matches digits", 0, 0.8),
        (["x[1]"], "`x[1]`", 1, 1),  # and code is not a citation
        (["été"], "ete", 0, 0),
    ],
)
def test_hand_computed(references: list[str], said: str, exact: float, f1: float) -> None:
    assert both(Question("", "", references=tuple(references)), said) == pytest.approx((exact, f1), abs=1e-12)


def test_right_answer_to_an_unanswerable_question_is_none() -> None:
    question = Question("", "", answerable=False, references=("a trap",))
    assert both(question, "") == (1, 1)
    assert both(question, "a trap") == (0, 0)
    assert both(question, "The!") == (1, 1)  # nothing is left of it either, and so says the definition


@pytest.mark.parametrize(
    ("reference", "said", "exact", "f1"),
    [
        ("l'école", "École", 1, 1),
        ("L\u2019école des fleurs", "une école fleurs", 1, 1),
        ("la capitale d'Italie", "capitale Italie", 1, 1),
        ("« les chats »", "chats", 1, 1),
        ("aujourd'hui", "aujourdhui", 1, 1),
        ("le chat noir", "un chat", 0, 2 * 1 / 3),
        ("the cat", "cat", 0, 2 * 1 / 3),
    ],
)
def test_french_articles(reference: str, said: str, exact: float, f1: float) -> None:
    question = Question("", "", references=(reference,))
    assert both(question, said, "french") == pytest.approx((exact, f1), abs=1e-12)
    labelled = replace(question, labels={"language": "fr"})
    assert both(labelled, said) == both(question, said, "french")
    assert both(labelled, said, "english") == both(question, said)


def test_question_without_right_answer_says_so_and_keywords_stand_in() -> None:
    assert both(Question("", ""), "cat") == ("no reference answer",) * 2
    assert both(Question("", "", needs_retrieval=False), "hello") == ("conversational",) * 2
    assert both(Question("", "", keywords=("red", "cat")), "red, cat") == (1, 1)


# --- laws ---------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("abthen .,'-É1"), max_size=12) | st.sampled_from(["the cat", "a", "an the", "cat sat"])


@given(st.lists(TEXTS, max_size=4), TEXTS, st.booleans())
def test_scores_are_those_of_the_definition_and_exact_match_is_at_most_f1(
    references: list[str], said: str, answerable: bool
) -> None:
    question = Question("", "", references=(*references, "x"), answerable=answerable)
    exact, f1 = both(question, said)
    assert 0 <= exact <= f1 <= 1
    assert (exact, f1) == pytest.approx(official(said, list(question.references) if answerable else []), abs=1e-12)


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS)
def test_another_right_answer_never_costs(references: list[str], said: str) -> None:
    one, more = (
        both(Question("", "", references=("cat", *some)), said) for some in (references, [*references, "the cat sat"])
    )
    assert all(np.array(more) >= np.array(one))


# --- overlap -----------------------------------------------------------------------------------------------------


def overlap(metric: Metric, said: str, *references: str) -> float | str:
    return score_one(metric, Question("", "", references=references), said)


def test_rouge_is_the_f_measure_of_the_longest_common_subsequence() -> None:
    metric = metrics.RougeL()
    assert overlap(metric, "the cat", "the cat sat") == pytest.approx(2 * 2 / (2 + 3))
    assert overlap(metric, "sat cat", "the cat sat") == pytest.approx(2 * 1 / (2 + 3))  # one after the other only
    assert overlap(metric, "cats sitting", "cat sit") == 1  # stemmed
    assert overlap(metric, "the cat", "no", "the cat sat") == pytest.approx(0.8)  # the best right answer
    assert overlap(metric, "l'été à Orléans", "L'ÉTÉ À ORLÉANS") == 1
    assert overlap(metric, "té", "été") == 0  # accents are taken away, not letters


def test_bleu_is_that_of_the_whole_answer() -> None:
    right = "A b c d e. F x h i j. The cat lay on the red mat, one says."
    for said in ("one", "red mat", "The cat sat on the mat.", "A b c d e. F g h i j. K l.", right):
        expected = sentence_bleu(said, [right]).score / 100
        assert overlap(metrics.Bleu(), said, right) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("said", "passages", "precision"),
    [
        ("The cat sat on a mat.", ["The cat slept.", "It sat on the red mat."], 5 / 6),  # without "a"
        ("The cat sat on a mat [2].", ["The cat slept.", "It sat on the red mat."], 5 / 6),
        ("mat cat", ["The cat slept.", "It sat on the red mat."], 1 / 2),  # not in this order
        ("Cats SLEEP", ["The cat sleeps."], 1.0),
        ("a dog", ["The cat sleeps."], 0.0),
        ("Katze schläft", ["Die Katze schlaft."], 1.0),
        ("a dog", [], 0.0),
    ],
)
def test_rouge_l_of_an_answer_and_its_context_is_the_share_of_its_words_in_order(
    said: str, passages: list[str], precision: float
) -> None:
    assert score_one(metrics.GroundingRougeL(), Question("", ""), said, *passages) == pytest.approx(precision)


def test_refusals_and_answers_without_words_have_no_rouge_l() -> None:
    scores = [score_one(metrics.GroundingRougeL(), Question("", ""), said) for said in ("", "?!")]
    assert scores == ["abstained", "nothing said"]
