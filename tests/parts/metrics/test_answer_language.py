"""Code in an answer or a question does not decide its language: its keywords are English words."""

import pytest

from ragsweep.core.types import Answer, Question
from ragsweep.parts.metrics import AnswerLanguage, ExactMatch, KeywordCoverage

CODE = "for x in this:\n    if x is not None and x not in that or x in (1, 2):\n        with x as y: return from_the(y)"
FRENCH = "Utilisez la fonction sorted, qui renvoie une nouvelle liste."
ENGLISH = "You can use the function sorted, which returns a new list."
ASKED = "Comment puis-je trier une liste sans la modifier ?"


@pytest.mark.parametrize(
    "said", ["{}\n```python\n" + CODE + "\n```", "{}\n```\n" + CODE, "{} `for x in this and that`"]
)
@pytest.mark.parametrize("asked", [ASKED, f"{ASKED}\n```\n{CODE}\n```"])
def test_code_does_not_decide_the_language(said: str, asked: str) -> None:
    def score(text: str) -> float | str:
        return AnswerLanguage().score_answer(Question("", asked), Answer(said.format(text)), ())

    assert (score(FRENCH), score(ENGLISH), score("")) == (1, 0, "unknown language")


@pytest.mark.parametrize("code", [f"\n```python\n{CODE}\n```", " `for x in this and that if it is not`"])
def test_code_in_a_question_does_not_decide_articles_and_stems(code: str) -> None:
    asked = Question("", f"Quel est le nom de la liste ?{code}", references=("liste",), keywords=("générale",))
    assert ExactMatch().score_answer(asked, Answer("la liste"), ()) == 1
    assert KeywordCoverage("stem").score_answer(asked, Answer("les règles généraux"), ()) == 1
