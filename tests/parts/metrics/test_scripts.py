"""Metrics of text give a right answer their best value in every script, and never a refusal or another text."""

import copy
import itertools
import unicodedata
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.types import Answer, Metric, Question
from ragsweep.core.words import without_soft_hyphens
from ragsweep.parts import metrics
from ragsweep.parts.embedders import HashingEmbedder
from ragsweep.parts.metrics.bases import AnswerMetric
from support.metrics import OPTIONS, score_one, shipped_metrics

WIDTH = 64


def pages() -> Iterator[str]:
    """Return the letters, digits and marks of each page of Unicode that has letters or digits; few of ideographs."""
    alphabets, ideographs = (range(0, 0x3400, WIDTH), range(0xF900, 0x1FC00, WIDTH)), range(0x3400, 0xD800, 16 * WIDTH)
    for start in itertools.chain(*alphabets, ideographs, [0x20000]):
        letters = [chr(code) for code in range(start, start + WIDTH) if unicodedata.category(chr(code))[0] in "LNM"]
        if any(unicodedata.category(letter)[0] != "M" for letter in letters):
            yield "".join(letters)


PAGES = list(pages())
TEXTS = st.sampled_from(PAGES).flatmap(lambda letters: st.text(st.sampled_from(f"{letters} "), min_size=1)) | st.text(
    st.characters(exclude_categories=("Cs",)), min_size=1
)
ODD = [
    *("e\u0301te\u0301", "\u00e9t\u00e9", "\u0301", "\ufb01n", "\u0130", "\u00df"),  # forms of letters
    *("\uff11\uff12\uff13", "\u0661\u0662"),  # digits: full width, Arabic
    *("\u05e9\u05dc\u05d5\u05dd", "\u200f\u05e9\u05dc\u05d5\u05dd\u200f", "\u0645\u0631\u060c \u0661"),  # right to left
    *("🎉🎉", "👩\u200d👩\u200d👧", "❤\ufe0f", "🇫🇷"),
    *("...", "\u2014", "«»", "¿?", "€", "[1]", "the", "The A"),  # without words
]
OTHERS = [
    *(("!!!", "???"), ("B", "A"), ("かき", "がき"), ("да", "нет"), ("否", "是"), ("ไม่", "ใหม่"), ("👎", "👍")),
    ("\u0308", "\u0301"),
]
FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")


def compared() -> Iterator[tuple[Metric, float]]:
    """Find the metrics of conf/metrics that compare an answer with the right one without a judge, and their best."""
    for shipped in shipped_metrics(*OPTIONS, embedder=HashingEmbedder()).values():
        if not isinstance(shipped, AnswerMetric):
            continue
        for match in ("word", "substring", "stem") if hasattr(shipped, "match") else (None,):
            metric = copy.copy(shipped)
            metric.match = match
            best = metric.bounds[1 if metric.higher_is_better else 0]
            if metric.higher_is_better is not None and value(metric, "mat", "mat") == best != value(metric, "x", "mat"):
                yield metric, best


def value(metric: Metric, said: str, right: str, *, refuses: bool = False) -> float | str:
    question = Question("", "", references=(right,), keywords=(right,))
    return score_one(metric, question, Answer(said, abstained=refuses))


def refusal_is_worse(metric: Metric, text: str) -> bool:
    """Return whether a refusal scores 0: the worst value, except that no refusal is a wrong answer."""
    return value(metric, text, text, refuses=True) == 0


COMPARED = list(compared())
COMPARED_IDS = [metric.name for metric, _ in COMPARED]


def test_every_metric_that_compares_with_the_right_answer_is_among_them() -> None:
    by_words = {"exact_match", "token_f1", "contains_answer", "token_recall", "keyword_coverage", "rouge_l", "bleu"}
    assert by_words | {"semantic_similarity", "success_rate", "correct_answer", "wrong_answer"} <= {*COMPARED_IDS}


@pytest.mark.parametrize(("metric", "best"), COMPARED, ids=COMPARED_IDS)
def test_text_of_every_block_is_the_best_answer_to_itself_and_no_other_is(metric: Metric, best: float) -> None:
    texts = [" ".join(letters[::8]) for letters in PAGES]
    for text, other in zip(texts, [*texts[len(texts) // 2 :], *texts], strict=False):
        for form in FORMS:
            assert value(metric, unicodedata.normalize(form, text), text) == pytest.approx(best), ascii(text)
        assert value(metric, other, text) != best, ascii((other, text))
        assert refusal_is_worse(metric, text)


@pytest.mark.parametrize(("metric", "best"), COMPARED, ids=COMPARED_IDS)
def test_every_form_of_a_text_is_the_best_answer_to_it(metric: Metric, best: float) -> None:
    for text in ODD:
        for form in FORMS:
            assert value(metric, unicodedata.normalize(form, text), text) == pytest.approx(best), ascii(text)
        assert value(metric, "zzz", text) != best, ascii(text)
        assert refusal_is_worse(metric, text), ascii(text)


@settings(max_examples=300)
@given(TEXTS.filter(lambda text: without_soft_hyphens(text).strip()))
def test_a_text_is_the_best_answer_to_itself_and_a_refusal_is_the_worst(text: str) -> None:
    for metric, best in COMPARED:
        assert value(metric, text, text) == pytest.approx(best), metric.name
        assert refusal_is_worse(metric, text), metric.name


@pytest.mark.parametrize(("metric", "best"), COMPARED, ids=COMPARED_IDS)
def test_another_text_is_never_the_best_answer(metric: Metric, best: float) -> None:
    for said, right in OTHERS:
        assert value(metric, said, right) != best, ascii((said, right))


@pytest.mark.parametrize(
    ("said", "right"),
    [("Да, тридцать дней.", "да тридцать дней"), ("三十天。", "三十天"), ("نعم، ثلاثون يوما.", "نعم ثلاثون يوما")],
)
def test_rouge_ignores_signs_and_case_in_every_script(said: str, right: str) -> None:
    assert value(metrics.RougeL(), said, right) == 1


SPELLINGS = [
    *[("\u0661\u0665 سنة", "15 سنة"), ("१५ दिन", "15 दिन"), ("๑๕ นาที", "15 นาที")],  # digits
    *[("\u0130stanbul", "istanbul"), ("D\u0130YARBAKIR", "Diyarbak\u0131r")],
    *[("Королёв", "Королев"), ("Москва\u0301", "Москва")],
    *[("شكر\u064b\u0627", "شكرا"), ("محم\u0640\u0640د", "محمد"), ("מ\u05b6ל\u05b6ך", "מלך")],  # vowel signs
    *[("l\u02bceau", "l'eau"), ("ភ្នំ\u200bពេញ", "ភ្នំពេញ"), ("צה\u05f4ל", 'צה"ל')],
]


@pytest.mark.parametrize(("said", "right"), SPELLINGS)
def test_two_spellings_of_a_word_are_equal(said: str, right: str) -> None:
    by_words = (metrics.ExactMatch, metrics.SuccessRate, metrics.TokenRecall, metrics.KeywordCoverage, metrics.RougeL)
    for metric in (part() for part in by_words):
        assert value(metric, said, right) == value(metric, right, said) == 1, metric.name


def test_rouge_shares_words_of_other_scripts() -> None:
    assert value(metrics.RougeL(), "тридцать дней", "сорок дней") == pytest.approx(0.5)
    assert value(metrics.Bleu(), "可以在三十天内报销", "可以在四十天内报销") > 0.3


def test_keyword_is_found_between_characters_of_a_script_without_spaces() -> None:
    coverage = metrics.KeywordCoverage()
    assert value(coverage, "可以在三十天内报销", "三十天") == 1
    assert value(coverage, "共30天", "30") == 1
    assert value(coverage, "कीमत", "की") == 0  # a part of a longer word


MARKED = [("バッグを買う", "バック"), ("バス", "ハ"), ("กี", "ก"), ("ไม่มี", "ไม"), ("설날", "서"), ("कि", "क")]


@pytest.mark.parametrize("match", ["word", "substring", "stem"])
@pytest.mark.parametrize(("said", "keyword"), MARKED)
def test_keyword_is_not_found_in_a_letter_with_another_mark(match: Any, said: str, keyword: str) -> None:
    coverage = metrics.KeywordCoverage(match)
    for form in FORMS:
        assert value(coverage, unicodedata.normalize(form, said), keyword) == 0
        assert value(coverage, unicodedata.normalize(form, f"{said} {keyword}"), keyword) == 1
    assert value(coverage, "I \u2764\ufe0f you", "\u2764") == 1


@settings(max_examples=100)
@given(TEXTS.filter(str.strip))
def test_answer_is_grounded_in_itself_or_says_nothing(text: str) -> None:
    score = score_one(metrics.GroundingLexical(), Question("", ""), text, text)
    assert score == 1 or isinstance(score, str)
