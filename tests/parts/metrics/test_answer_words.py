"""Whether a reply gives a right answer, in every script; agreement with labels of people on a model's replies."""

import json
import unicodedata
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.types import Answer, Metric, Question
from ragsweep.parts.metrics import (
    AnswerFate,
    ContainsAnswer,
    ExactMatch,
    KeywordCoverage,
    SuccessRate,
    TokenF1,
    TokenRecall,
)
from ragsweep.parts.metrics.answer_words import contains, normalise, recall
from ragsweep.parts.prompts import begins_with_refusal
from support.metrics import score_one


def score(metric: Metric, said: str | Answer, *references: str, **labels: str) -> float | str:
    return score_one(metric, Question("", "", references=references, labels=labels), said)


def test_short_right_answer_in_a_sentence_is_a_success() -> None:
    said = "You can change the time slot of a delivery within 15 minutes after the order, in the app [1]."
    assert score(SuccessRate(), said, "15 minutes") == 1
    assert score(AnswerFate("wrong_answer"), said, "15 minutes") == 0
    assert score(ContainsAnswer(), said, "15 minutes") == 1
    assert score(TokenF1(), said, "15 minutes") < 0.5  # type: ignore[operator]
    assert score(SuccessRate(), "Within 115 minutes.", "15 minutes") == 0


@pytest.mark.parametrize(
    ("said", "reference", "contained"),
    [
        ("It was in 1815.", "1815", True),
        ("15 of them", "1", False),
        ("1 of them", "15", False),
        ("From 1994-1998 she ruled.", "1994", True),
        ("From 1994\u20131998 she ruled.", "1998", True),
        ("It was Newton's idea", "Newton", True),
        ("So x=3.", "3", True),
        ("So x=3.", "x = 3", True),
        ("Set timeout = 30s.", "timeout=30s", True),
        ("So x=13.", "3", False),
        ("|City|State|\n|---|---|\n|Paris|France|", "Paris", True),
        ("Paris<br>Rome", "Paris", True),
        ('{"city":"Paris"}', "Paris", True),
        ("Paris,Rome;Berlin(Mitte)", "Rome", True),
        ("Paris,Rome;Berlin(Mitte)", "Berlin", True),
        ("\\boxed{15}", "15", True),
        ("at 10:30 and 1,234 of 1,5", "30", False),
        ("at 10:30 and 1,234 of 1,5", "5", False),
        ("支持Redis、Kafka和MySQL\u3002", "Redis", True),
        ("支持Redis\uff0cKafka\uff08MySQL\uff09", "Kafka", True),
        ("\uff11\uff0c\uff12\uff10\uff10円", "200", False),
        ("email", "e-mail", True),
        ("the U.S. Army", "US army", True),
        ("3,000 people", "3000", True),
        ("3.000 Leute", "3000", True),
        ("It grew by 15%.", "15 percent", True),
        ("It grew by 15 per cent.", "15 percent", True),
        ("Une hausse de 1,5\u202f%.", "1,5 pour cent", True),
        ("It grew by 15.", "15 percent", False),
        ("It costs $1,200.00.", "$1,200", True),
        ("1 200,00 EUR", "1200 EUR", True),
        ("5 €", "5,00 €", True),
        ("version 1.2.00", "1.2", False),
        ("100.005", "100", False),
        ("1.5 mg", "15 mg", False),
        ("15 mg", "1.5 mg", False),
        ("Take 1,5 mg.", "1.5 mg", True),
        ("about 1.5.", "1.5", True),
        ("It costs $1,234.50.", "1234.50", True),
        ("1.234,50 EUR", "1,234.50", True),
        ("123450", "$1,234.50", False),
        ("1,234,567", "1234567", True),
        ("version 1.2.34", "1.2", False),
        ("\uff11\uff0e\uff15 mg", "1.5 mg", True),
        ("15 mg", "\uff11\uff0e\uff15 mg", False),
        ("on 12/05/2024", "12.05.2024", True),
        ("am 12.05.2024.", "2024", True),
        ("am 12.05.2024", "12. 05.", True),
        ("am 12.05.2024", "24", False),
        ("version 12.05.20241", "2024", False),
        ("at \u22125 degrees", "-5 degrees", True),
        ("\u00bd cup", "1/2 cup", True),
        ("a red, old mat", "the red mat", False),
        ("on a red mat", "the red mat", True),
        ("sung by BEYONCÉ", "beyonce\u0301", True),
        ("in der Hauptstraße", "HAUPTSTRASSE", True),
        ("\uff11\uff15 minutes", "15 minutes", True),  # full width
        ("\u0661\u0665 دقيقة", "15 دقيقة", True),  # Arabic digits
        ("Столица: Москве 1147", "«москве»", True),  # Cyrillic, guillemets
        ("около", "\u043a\u043e\u043b", False),
        ("Στην Αθήνα;", "αθήνα", True),  # Greek
        ("他住在北京市\u3002", "北京", True),  # Chinese
        ("大约十五分钟", "五分钟", False),  # fifteen minutes, five minutes
        ("大约15分钟", "5分钟", False),
        ("送达需要15分钟\u3002", "15 分钟", True),
        ("東京タワーです", "東京タワー", True),  # Japanese
        ("トヨタ", "\uff84\uff96\uff80", True),  # half width
        ("수도는 서울입니다.", "서울", True),  # Korean, with a particle
        ("เมืองหลวงคือกรุงเทพฯ", "กรุงเทพ", True),  # Thai
        ("กี", "ก", False),  # a mark belongs to its letter
        ("๑๕ นาที", "๕ นาที", False),  # Thai digits: 15, 5
        ("सन् 1947 में", "१९४७", True),  # Devanagari digits
    ],
)  # fmt: skip
def test_right_answer_is_contained_as_whole_words_in_every_script(said: str, reference: str, contained: bool) -> None:
    assert score(ContainsAnswer(), said, reference) == float(contained)
    assert score(SuccessRate(), said, reference) == float(contained)
    assert score(ContainsAnswer(), said, "nothing like it", reference) == float(contained)


@pytest.mark.parametrize(
    ("said", "reference"),
    [
        ("Il est venu d'Italie.", "l'Italie"),
        ("On sait qu\u2019Henri IV y mourut.", "Henri IV"),
        ("Elle s'appelle aujourd'hui « Saint-Denis ».", "Saint Denis"),
    ],
)
def test_french_words_are_found_after_an_elision(said: str, reference: str) -> None:
    assert score(ContainsAnswer(), said, reference, language="fr") == 1
    asked = Question("", "Où est-ce que le roi est mort et qui l'a vu ?", references=(reference,))
    assert score_one(ExactMatch(), asked, reference) == 1
    assert score_one(ContainsAnswer(), asked, said) == 1  # without a label, by the question's words


def test_longer_right_answer_is_compared_by_its_words() -> None:
    reference = "because the soldiers had neither food nor warm clothes for winter"
    said = "The soldiers had no warm clothes and no food for the winter"
    assert score(ContainsAnswer(), said, reference) == 0
    assert score(TokenRecall(), said, reference) == pytest.approx(7 / 10)
    assert [score(SuccessRate(threshold), said, reference) for threshold in (0.7, 0.71)] == [1, 0]
    assert score(SuccessRate(), "had neither food", reference) == 0
    phrase = "中华人民共和国"  # seven characters: less than six words
    assert score(SuccessRate(), phrase[:5], phrase) == 0


def test_words_around_the_core_of_a_right_answer_are_not_enough() -> None:
    core, longer = "the Old Mill Museum", "the Old Mill Museum beside the river in North Barley"
    said = "It stands beside the river in North Barley."
    assert score(SuccessRate(), said, longer) == 1
    assert score(SuccessRate(), said, core, longer) == score(SuccessRate(), said, longer, core) == 0
    assert score(SuccessRate(), f"It is the Old Mill Museum. {said}", longer, core) == 1
    assert score(SuccessRate(), said, "a windmill", longer) == 1


def test_recall_counts_repeated_words_once_each_and_takes_the_best_right_answer() -> None:
    assert score(TokenRecall(), "cat", "cat cat dog") == pytest.approx(1 / 3)
    assert score(TokenRecall(), "cat", "red dog", "red cat") == pytest.approx(1 / 2)
    assert score(TokenRecall(), "北京", "北京市区") == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("said", "reference"), [("It is COVID 19.", "COVID-19"), ("COVID-19", "COVID 19"), ("am 12.05.2024", "12 05 2024")]
)
def test_recall_finds_the_words_that_a_hyphen_or_a_date_joins(said: str, reference: str) -> None:
    assert score(ContainsAnswer(), said, reference) == score(TokenRecall(), said, reference) == 1
    assert score(TokenRecall(), "in 1994", "1994-1998") == 1 / 2


def test_refusal_contains_nothing_and_an_unanswerable_question_is_not_scored() -> None:
    for metric in (ContainsAnswer(), TokenRecall()):
        assert metric.bounds == (0, 1)
        for refusal in (Answer("I do not know 15 minutes.", abstained=True), Answer("  ")):
            assert score(metric, refusal, "15 minutes") == score(metric, refusal, "the") == 0
        unanswerable = Question("", "", answerable=False, references=("a trap",))
        assert score_one(metric, unanswerable, "a trap") == "unanswerable"
        assert score(metric, "a trap") == "no reference answer"


@pytest.mark.parametrize(
    ("said", "reference", "language", "contained"),
    [
        *((f"12{space}500 personnes", "12500", "fr", True) for space in (" ", "\u00a0", "\u202f")),
        *((f"12{space}500 personnes", "500", "fr", False) for space in (" ", "\u00a0", "\u202f")),
        ("environ 1 234 567,5", "1.234.567,5", "fr", True),
        ("en 2020 12 500 personnes", "12 500", "fr", True),
        ("appelez le 01 234 56 78", "234", "fr", True),  # not only groups of three digits
        ("in room 12 500 people", "500", "en", True),  # no separator in English
        ("12\u202f500 people", "500", "en", False),
        ("12\u2019500 Einwohner", "500", "de", False),
        ("12'500 Einwohner", "12500", "de", True),
        ("\u0661\u066b\u0665 \u0645\u063a", "1.5", "ar", True),
        ("\u0661\u0665 \u0645\u063a", "\u0661\u066b\u0665", "ar", False),
        ("Rs 12,34,567.50", "1234567.50", "hi", True),
        ("a dose of .5 mg", "5 mg", "en", False),
        ("a dose of .5 mg", "0.5 mg", "en", True),
        ("weighs 1,234.567 kg", "1234.567 kg", "en", True),
        ("weighs 1234.567 kg", "1,234,567 kg", "en", False),
        ("il pèse -5 kg", "5", "fr", False),
        ("at \u22125 °C", "5 °C", "en", False),
        ("5 °C", "-5 °C", "en", False),
        ("minus 5 degrees", "-5 degrees", "en", True),
        ("au moins 5 ans", "5 ans", "fr", True),
        ("气温是\u22125度", "-5", "zh", True),
        ("零下5度", "-5度", "zh", True),
        ("pages 3 -5", "5", "en", True),
        ("3月-5月", "5月", "zh", True),
        ("a debt of -$1,500", "$1500", "en", False),
        ("около 12 500 ₽", "12500 ₽", "ru", True),
        ("12.500 € Gebühr", "12 500 €", "de", True),
        ("in Raum 12 am 5. Mai 2024", "2024", "de", True),
        ("needs 16GB", "16 GB", "en", True),
        ("needs 16 GB", "16GB", "en", True),
        ("needs 116GB", "16 GB", "en", False),
        ("It is H\u2082O.", "H2O", "en", True),
        ("It is H2SO4.", "H\u2082SO\u2084", "en", True),
        ("v = x\u00b2y", "x2y", "en", True),
        ("Platform 5b", "platform 5a", "en", False),
    ],
)
def test_number_is_the_same_in_the_notation_of_every_language(
    said: str, reference: str, language: str, contained: bool
) -> None:
    for metric in (ContainsAnswer(), SuccessRate()):
        assert score(metric, said, reference, language=language) == float(contained)
    assert (score(TokenRecall(), said, reference, language=language) == 1) == contained


@pytest.mark.parametrize("said", ["A", "A.", "(A)", "**A**", "A: the larger one", "The answer is A."])
def test_letter_of_a_choice_is_found_even_if_it_is_an_article(said: str) -> None:
    for metric in (ExactMatch(), TokenRecall(), ContainsAnswer(), SuccessRate()):
        for right in ("A", "A)"):
            other = score(metric, said.replace("A", "B"), right.replace("A", "B"))
            assert (score(metric, said, right), score(metric, "Bad.", right)) == (other, 0), metric.name
    assert (score(TokenF1(), "A.", "A"), score(ContainsAnswer(), "!", "?"), score(ExactMatch(), "!", "?")) == (1, 0, 0)


@pytest.mark.parametrize(
    ("said", "reference", "contained"),
    [
        ("They play in Serie B.", "Serie A", False),
        ("They play in Serie A.", "Serie A", True),
        ("It is the Serie A club.", "the Serie A", True),
        ("a vitamin C deficiency", "a Vitamin A", False),
        ("a vitamin A deficiency", "a Vitamin A", True),
        ("Vitamin A", "the vitamin A.", True),
        ("hepatitis", "hepatitis A", False),
        ("a hepatitis", "the hepatitis", True),
    ],
)
def test_letter_at_the_end_of_a_right_answer_is_not_an_article(said: str, reference: str, contained: bool) -> None:
    assert score(ContainsAnswer(), said, reference) == score(SuccessRate(), said, reference) == float(contained)
    assert (score(TokenRecall(), said, reference) == 1) == contained


@pytest.mark.parametrize(
    ("said", "reference"), [("L'\u0152uvre au noir", "Oeuvre au noir"), ("oeuvre", "l'\u0153uvre")]
)
def test_ligature_and_its_letters_are_the_same_word(said: str, reference: str) -> None:
    """As in ``keyword_coverage`` and the grounding metrics; most keyboards lack the ligature."""
    for metric in (ExactMatch(), TokenF1(), TokenRecall(), ContainsAnswer(), SuccessRate()):
        assert score(metric, said, reference, language="fr") == 1, metric.name


@pytest.mark.parametrize(("keyword", "said"), [("15%", "15 percent"), ("15 Prozent", "15 %"), ("$1,200", "$1,200.00")])
def test_keyword_is_found_in_the_other_notation_of_an_amount(keyword: str, said: str) -> None:
    for one, other in ((keyword, said), (said, keyword)):
        assert score_one(KeywordCoverage(), Question("", "", keywords=(one,)), f"It is {other}.") == 1


@pytest.mark.parametrize(
    ("keyword", "said"),
    [
        ("15 minutes", "Within **15** minutes."),
        ("15 minutes", "Within 15 *minutes*."),
        ("15%", "By **15**%."),
        ("Paris", "**City:**Paris"),
        ("x", "x**2 + 3**x"),
        ("**kwargs", "f(*args, **kwargs)"),
        ("*.txt", "cp *.py,*.txt"),
    ],
)
def test_keyword_is_found_beside_and_across_emphasis(keyword: str, said: str) -> None:
    for match in ("word", "substring", "stem"):
        assert score_one(KeywordCoverage(match), Question("", "", keywords=(keyword,)), said) == 1


def test_brackets_of_a_keyword_are_not_a_citation_beside_a_reference_answer() -> None:
    asked = Question("", "", references=("the third item",), keywords=("x[2]",))
    assert score_one(KeywordCoverage(), asked, "It is x[2].") == 1
    assert score_one(SuccessRate(), asked, "It is x[2].") == 1
    assert score_one(AnswerFate("correct_answer"), asked, "It is x [2].") == 0


WORDS = st.lists(st.text(st.characters(categories=["L", "N", "M"]), min_size=1, max_size=6), max_size=5)


@given(WORDS, WORDS.filter(bool), WORDS)
def test_text_around_a_right_answer_never_hides_it(before: list[str], right: list[str], after: list[str]) -> None:
    answer, said = " ".join(right), " ".join([*before, *right, *after])
    assert contains(said, answer, "english") or not normalise(answer, "english")
    assert recall(said, answer, "english") == 1 or not normalise(answer, "english")


@given(WORDS, st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_forms_of_unicode_do_not_count(words: list[str], form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> None:
    text = " ".join(words)
    assert normalise(unicodedata.normalize(form, text), "english") == normalise(text, "english")


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_number_contains_no_other_number(one: int, other: int) -> None:
    assert contains(f"about {one} of them", str(other), "english") == (one == other)


LABELS = Path(__file__).parents[2] / "fixtures" / "answer_labels.jsonl"


def labelled(collections: Path) -> list[tuple[dict[str, str], Question, Answer]]:
    """Read the labels with their questions and answers."""
    golden = {
        (name, row["id"]): row
        for name in ("squad2_dev", "piaf_1_1")
        for row in map(json.loads, (collections / name / "golden.jsonl").read_text("utf-8").splitlines())
    }
    rows = [json.loads(line) for line in LABELS.read_text("utf-8").splitlines()]
    asked = [golden[row["collection"], row["id"]] for row in rows]
    questions = [
        Question(
            "", "", answerable=one["answerable"], references=tuple(one["answers"]), labels={"language": one["lang"]}
        )
        for one in asked
    ]
    refusals = ["I don't know", "I do not know", "Je ne sais pas"]
    answers = [Answer(row["answer"], begins_with_refusal(row["answer"], refusals)) for row in rows]
    return list(zip(rows, questions, answers, strict=True))


def is_welcome(row: dict[str, str], question: Question) -> bool:
    return row["label"] == "right" or (row["label"] == "refused" and not question.answerable)


def test_success_rate_agrees_with_a_reader_on_replies_of_a_model_to_answerable_questions(collections: Path) -> None:
    rows = [one for one in labelled(collections) if one[1].answerable]

    def agreement(metric: Metric) -> float:
        scores = [score_one(metric, question, answer) for _, question, answer in rows]
        right = [is_welcome(row, question) for row, question, _ in rows]
        return float(np.mean([(found >= 0.5) == label for found, label in zip(scores, right, strict=True)]))  # type: ignore[operator]

    assert agreement(SuccessRate()) > 0.93
    assert agreement(ContainsAnswer()) > 0.93
    assert agreement(TokenF1()) < 0.8


def test_success_rate_differs_from_a_reader_only_where_the_kind_of_difference_is_known(collections: Path) -> None:
    for row, question, answer in labelled(collections):
        counted = score_one(SuccessRate(), question, answer) == 1
        assert (counted != is_welcome(row, question)) == ("differs" in row), row
