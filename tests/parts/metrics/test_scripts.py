"""Metrics of text give a right answer their best value in every script, and never a refusal or another text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.types import Answer, Answers, Metric, Passage, Question
from ragsweep.parts import metrics
from ragsweep.parts.embedders import HashingEmbedder
from ragsweep.parts.metrics import SemanticSimilarity
from ragsweep.testing.answers import answered, judgements

BLOCKS = [
    (0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x58F), (0x590, 0x5FF), (0x600, 0x6FF),
    (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0xE80, 0xEFF), (0xF00, 0xFFF), (0x1000, 0x109F),
    (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x1780, 0x17FF), (0x1E00, 0x1FFF), (0x2000, 0x2BFF),
    (0x3000, 0x30FF), (0x4E00, 0x4EFF), (0xAC00, 0xACFF), (0xFB00, 0xFDFF), (0xFE70, 0xFFEF), (0x1F300, 0x1F6FF),
    (0x20000, 0x200FF),
]  # fmt: skip
TEXTS = st.sampled_from(BLOCKS).flatmap(
    lambda block: st.text(st.characters(min_codepoint=block[0], max_codepoint=block[1]) | st.just(" "), min_size=1)
)
COMPARED = (
    metrics.RougeL(), metrics.Bleu(), metrics.ExactMatch(), metrics.TokenF1(), metrics.TokenRecall(),
    metrics.ContainsAnswer(), metrics.SuccessRate(), metrics.KeywordCoverage(), metrics.KeywordCoverage("substring"),
    metrics.KeywordCoverage("stem"),
)  # fmt: skip


def value(metric: Metric, said: str, right: str, *, refuses: bool = False) -> float:
    question = Question("", "", references=(right,), keywords=(right,))
    given = Answers([Answer(said, abstained=refuses)], [()], np.zeros(1, dtype=np.int64))
    return float(metric.score(replace(answered([]), questions=(question,), answers=given)).values[0])


@settings(max_examples=300)
@given(TEXTS.filter(str.strip))
def test_a_text_is_the_best_answer_to_itself_and_a_refusal_is_the_worst(text: str) -> None:
    for metric in COMPARED:
        assert value(metric, text, text) == 1, metric.name
        assert value(metric, text, text, refuses=True) == 0, metric.name


@pytest.mark.parametrize("metric", COMPARED, ids=lambda metric: metric.name)
@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("!!!", "???"),
        ("B", "A"),
        ("かき", "がき"),
        ("да", "нет"),
        ("否", "是"),
        ("ไม่", "ใหม่"),
        ("👎", "👍"),
        ("\u0308", "\u0301"),
    ],
)
def test_another_text_is_never_the_best_answer(metric: Metric, said: str, right: str) -> None:
    assert value(metric, said, right) < 1


@pytest.mark.parametrize(
    ("said", "right"),
    [("Да, тридцать дней.", "да тридцать дней"), ("三十天。", "三十天"), ("نعم، ثلاثون يوما.", "نعم ثلاثون يوما")],
)
def test_rouge_ignores_signs_and_case_in_every_script(said: str, right: str) -> None:
    assert value(metrics.RougeL(), said, right) == 1


def test_rouge_shares_words_of_other_scripts() -> None:
    assert value(metrics.RougeL(), "тридцать дней", "сорок дней") == pytest.approx(0.5)
    assert value(metrics.Bleu(), "可以在三十天内报销", "可以在四十天内报销") > 0.3


def test_keyword_is_found_between_characters_of_a_script_without_spaces() -> None:
    coverage = metrics.KeywordCoverage()
    assert value(coverage, "可以在三十天内报销", "三十天") == 1
    assert value(coverage, "共30天", "30") == 1
    assert value(coverage, "कीमत", "की") == 0  # a part of a longer word


@settings(max_examples=100)
@given(TEXTS.filter(str.strip))
def test_answer_is_grounded_in_itself_or_says_nothing(text: str) -> None:
    given = Answers([Answer(text)], [(Passage("d", text),)], np.zeros(1, dtype=np.int64))
    scores = metrics.GroundingLexical().score(replace(answered([]), questions=(Question("", ""),), answers=given))
    assert scores.values[0] == 1 or scores.reasons[0]


@pytest.mark.parametrize("text", ["三十天", "?!", "да"])
def test_equal_texts_are_wholly_similar(text: str) -> None:
    question = Question("", "", references=(text,))
    given = Answers([Answer(text)], [()], np.zeros(1, dtype=np.int64))
    metric = SemanticSimilarity(HashingEmbedder())
    view = replace(answered([]), questions=(question,), answers=given)
    assert metric.score(replace(view, judgements=judgements(view, metric))).values[0] == pytest.approx(1)
