"""Languages are detected by their stop words, and folding removes case and accents."""

import json
import sys
from itertools import repeat
from pathlib import Path

import pytest

from ragsweep.core.types import Answer, Question
from ragsweep.parts.languages import STOP_WORDS, content_words, detect_language, fold, language_code, usual_language
from ragsweep.parts.metrics import ExactMatch


@pytest.mark.parametrize("codes", [0x3000, pytest.param(sys.maxunicode + 1, marks=pytest.mark.nightly)])
def test_folding_twice_is_folding_once(codes: int) -> None:
    folded = [fold(chr(code)) for code in range(codes)]
    assert [letter for letter in folded if fold(letter) != letter] == []
    assert (fold("Œuvre ÉTÉ"), fold("㎒"), fold("Straße")) == ("oeuvre ete", "mhz", "strasse")


def test_stop_words_are_folded_and_decide_the_language() -> None:
    for code, words in STOP_WORDS.items():
        assert all(fold(word) == word for word in words), code
        assert detect_language(" ".join(sorted(words))) == code
        assert content_words(" ".join(words), code) == frozenset()
    labels = ("fr", "FR-ca", "French", "français", "klingon", "")
    assert [language_code(label) for label in labels] == ["fr", "fr", "fr", "fr", "", ""]


def test_the_language_of_many_texts_is_that_of_their_beginning() -> None:
    assert usual_language(repeat("le chat est dans la maison et il dort")) == "fr"  # without end: the rest is not read
    assert usual_language([]) == ""


def test_label_may_be_a_code_of_three_letters() -> None:
    """As in ISO 639-2 and 639-3, and in collections such as Belebele (``fra_Latn``)."""
    labels = ("eng", "fra_Latn", "FRE", "deu", "ger", "spa_Latn", "ita", "nld", "dut", "por-BR", "pol", "fr")
    codes = ["en", "fr", "fr", "de", "de", "es", "it", "nl", "nl", "pt", "", "fr"]
    assert [language_code(label) for label in labels] == codes
    question = Question("", "", references=("chat noir",), labels={"language": "fra_Latn"})
    assert ExactMatch().score_answer(question, Answer("le chat noir"), ()) == 1


def test_language_of_real_questions_is_detected(collections: Path) -> None:
    for folder, code in (("python_faq_fr", "fr"), ("python_faq_en", "en"), ("piaf_1_1", "fr"), ("squad2_dev", "en")):
        lines = (collections / folder / "golden.jsonl").read_text("utf-8").splitlines()[:2000]
        detected = [detect_language(json.loads(line)["question"]) for line in lines]
        known = [language for language in detected if language]
        assert len(known) > 0.85 * len(detected)
        assert known.count(code) >= 0.997 * len(known)
