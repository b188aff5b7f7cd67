"""Numbers in keywords: their digits are not found within another number, in the notation of any language."""

from typing import Any

import pytest

from ragsweep.core.types import Question
from ragsweep.parts.metrics import KeywordCoverage
from support.metrics import score_one


def coverage(match: Any, keyword: str, said: str, language: str) -> float | str:
    return score_one(KeywordCoverage(match), Question("", "", keywords=(keyword,), labels={"language": language}), said)


@pytest.mark.parametrize("match", ["word", "stem"])
@pytest.mark.parametrize(
    ("keyword", "said", "found"),
    [
        ("500", "12,500 people", 0),
        ("12500", "12,500 people", 1),
        ("12.500", "12,500 people", 1),
        ("5", "a dose of 2.5 mg", 0),
        ("2", "a dose of 2.5 mg", 0),
        ("2.5 mg", "a dose of 2,5 mg", 1),
        ("1234.50", "$1,234.50", 1),
        ("500", "12\u202f500 people", 0),
        ("500", "only 500.", 1),
        ("2", "levels 1,2,3", 1),
        ("3.8", "Python 3.8.1", 1),
        ("2024", "am 12.05.2024", 1),
        ("1234.567", "1,234.567 kg", 1),
        ("1234567", "1234.567 kg", 0),
        ("5", "it was -5 degrees", 0),
        ("-5", "it was \u22125 degrees", 1),
        ("kill -9", "use kill -9 then", 1),
        ("50 %", "about 50% more", 1),
        ("50%", "about 50\u00a0% more", 1),
        ("16 GB", "needs 16GB", 1),
        ("H2O", "It is H\u2082O.", 1),
        ("H\u2082O", "It is H2O.", 1),
        ("12 500 EUR", "for 12.500 EUR", 1),
        ("12500", "\uff11\uff12\uff0c\uff15\uff10\uff10円", 1),
    ],
)
def test_keyword_is_not_found_within_a_number_that_contains_its_digits(
    match: Any, keyword: str, said: str, found: int
) -> None:
    assert coverage(match, keyword, said, "en") == found
    assert coverage(match, keyword, said.replace("12,500", "12 500"), "fr") == found
    assert coverage("substring", "500", "12,500 people", "en") == 1
