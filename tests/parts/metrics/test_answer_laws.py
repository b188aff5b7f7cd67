"""What holds for every metric of answers, whatever was asked and answered."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.types import Answer, Answers, EvaluationView, JudgedMetric, Passage, Question, Usage
from ragsweep.parts import metrics
from ragsweep.parts.languages import STOP_WORDS, content_words, detect_language, fold, language_code
from ragsweep.parts.metrics.bases import without_citations
from ragsweep.parts.prices import Prices
from ragsweep.testing.answers import answered, judgements
from toys import Letters

OPTIONS = Path(__file__).parents[3] / "conf" / "metrics"
TEXTS = st.sampled_from([
    "", " ", "the cat", "Cat. [1]", "Le chat est là, dans l'école [2].", "A cat sat [1, 2]. It slept. [9]", "?!", "11",
    "`x[1]` is a list [1].", "Stars and planets are not moons.", "…", "été", "[1]", "I do not know",
]) | st.text(st.sampled_from("ab é.[1]`'\n"), max_size=15)  # fmt: skip


PARTS = {"${embedder}": Letters(), "${prices}": Prices("2025-08-15", "USD", "a test", {"priced*": [1.0, 2.0]})}


def shipped(option: str) -> dict[str, Any]:
    """Build every metric of a shipped option as its YAML says."""
    entries = yaml.safe_load((OPTIONS / f"{option}.yaml").read_text(encoding="utf-8"))
    made = {}
    for name, entry in entries.items():
        module, _, target = entry.pop("_target_").rpartition(".")
        assert module == "ragsweep.parts.metrics"
        made[name] = getattr(metrics, target)(**{key: PARTS.get(value, value) for key, value in entry.items()})
    return made


SHIPPED = {name: metric for option in ("answers", "overlap", "grounding") for name, metric in shipped(option).items()}


@st.composite
def questions(draw: st.DrawFn) -> Question:
    return Question(
        "q", draw(TEXTS), answerable=draw(st.booleans()), needs_retrieval=draw(st.booleans()),
        references=tuple(draw(st.lists(TEXTS, max_size=2))),
        keywords=tuple(draw(st.lists(st.sampled_from(["cat", "11", "été", "**"]), max_size=2))),
        labels=draw(st.sampled_from([{}, {"language": "fr"}, {"language": "??"}])),
    )  # fmt: skip


ANSWERS = st.builds(
    Answer, TEXTS, st.booleans(), st.sampled_from(["", "", "timed out"]),
    st.sampled_from([0.5, float("nan")]), usage=st.sampled_from([Usage(), Usage(1, 10, 2)]),
    model=st.sampled_from(["", "priced-1"]),
)  # fmt: skip


@st.composite
def looks(draw: st.DrawFn) -> EvaluationView:
    """A view of a few questions and whatever was answered."""
    size = draw(st.integers(0, 4))
    passages = st.lists(st.builds(Passage, st.just("p"), TEXTS), max_size=3).map(tuple)
    asked = tuple(draw(questions()) for _ in range(size))
    said = Answers([draw(ANSWERS) for _ in range(size)], [draw(passages) for _ in range(size)], np.zeros(size, int))
    return replace(answered([]), questions=asked, answers=said)


def judged(view: EvaluationView, metric: Any) -> EvaluationView:
    return replace(view, judgements=judgements(view, metric)) if isinstance(metric, JudgedMetric) else view


def test_shipped_metrics_are_keyed_by_their_names() -> None:
    assert {key: metric.name for key, metric in SHIPPED.items()} == {key: key for key in SHIPPED}
    assert {"keyword_coverage", "token_f1", "semantic_similarity", "success_rate"} <= shipped("answers").keys()


@settings(max_examples=12)
@given(looks())
def test_every_metric_stays_within_its_bounds_and_gives_a_reason_exactly_where_nan(view: EvaluationView) -> None:
    for metric in SHIPPED.values():
        values, reasons = metric.score(judged(view, metric))
        lowest, highest = metric.bounds
        measured = values[reasons == ""]
        assert np.isfinite(measured).all(), metric.name
        assert np.isnan(values[reasons != ""]).all(), metric.name
        assert lowest is None or (measured >= lowest).all(), metric.name
        assert highest is None or (measured <= highest).all(), metric.name


@settings(max_examples=12)
@given(looks())
def test_failed_answer_is_never_scored(view: EvaluationView) -> None:
    assert view.answers is not None
    failed = [bool(answer.failed) for answer in view.answers.answers]
    for metric in SHIPPED.values():
        assert np.isnan(metric.score(judged(view, metric)).values[failed]).all(), metric.name


@given(looks(), st.floats(0.01, 1), st.floats(0.01, 1))
def test_what_is_right_at_a_high_threshold_is_right_at_a_low_one(
    view: EvaluationView, one: float, other: float
) -> None:
    low, high = (np.nan_to_num(metrics.SuccessRate(threshold).score(view).values) for threshold in sorted((one, other)))
    assert (low >= high).all()


# --- languages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codes", [0x3000, pytest.param(sys.maxunicode + 1, marks=pytest.mark.nightly)])
def test_folding_twice_is_folding_once(codes: int) -> None:
    folded = [fold(chr(code)) for code in range(codes)]
    assert [letter for letter in folded if fold(letter) != letter] == []
    assert (fold("Œuvre ÉTÉ"), fold("㎒"), fold("Straße")) == ("oeuvre ete", "mhz", "strasse")


@given(st.text())
def test_text_without_citations_has_none(text: str) -> None:
    assert "[1]" not in without_citations(f"{text.replace('`', '')} [1]")


def test_small_words_are_folded_and_told() -> None:
    for code, words in STOP_WORDS.items():
        assert all(fold(word) == word for word in words), code
        assert detect_language(" ".join(sorted(words))) == code
        assert content_words(" ".join(words), code) == frozenset()
    assert [language_code(label) for label in ("fr", "FR-ca", "French", "français", "klingon", "")] == [
        "fr", "fr", "fr", "fr", "", "",
    ]  # fmt: skip


def test_language_of_real_questions_is_told(collections: Path) -> None:
    for folder, code in (("python_faq_fr", "fr"), ("python_faq_en", "en"), ("piaf_1_1", "fr"), ("squad2_dev", "en")):
        lines = (collections / folder / "golden.jsonl").read_text("utf-8").splitlines()[:2000]
        told = [detect_language(json.loads(line)["question"]) for line in lines]
        known = [one for one in told if one]
        assert len(known) > 0.85 * len(told)
        assert sum(one == code for one in known) >= 0.997 * len(known)
