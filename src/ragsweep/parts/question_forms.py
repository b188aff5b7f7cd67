"""Determine the form of a question (what, why, how many, yes or no, keywords) from its words, without a model."""

from collections.abc import Mapping

from ragsweep.core.words import has_question_mark, words
from ragsweep.parts.languages import STOP_WORDS, detect_language, fold

KEYWORDS, OTHER, YES_NO = "keywords", "other", "yes or no"
"""Forms without a question word: a few content words, another sentence (such as a request), a yes/no question."""

_LOOKED_AT = 4
"""Number of initial words searched for a question word if there is no question mark: "in which year", "et pourquoi"."""

_MOST_KEYWORDS = 4
"""A text counts as keywords if it has at most this many words, no stop words and no question mark."""

_PHRASES: Mapping[str, str] = {
    "how many": "en: how many, how much, how often, how long; fr: combien; de: wie viel, wie viele, wieviel, wie oft,"
    " wie lange; es: cuanto, cuanta, cuantos, cuantas; it: quanto, quanta, quanti, quante; nl: hoeveel; pt: quanto,"
    " quanta, quantos, quantas",
    "why": "en: why; fr: pourquoi; de: warum, wieso, weshalb; es: por que; it: perche; nl: waarom; pt: por que",
    "when": "en: when; fr: quand; de: wann; es: cuando; it: quando; nl: wanneer; pt: quando",
    "where": "en: where; fr: ou est, ou sont, ou se, ou peut, ou puis, d ou; de: wo, wohin, woher; es: donde; it: dove;"
    " nl: waar; pt: onde",
    "who": "en: who, whom, whose; fr: qui; de: wer, wen, wem, wessen; es: quien, quienes; it: chi; nl: wie; pt: quem",
    "which": "en: which; fr: quel, quelle, quels, quelles, lequel, laquelle; de: welche, welcher, welches, welchen,"
    " welchem; es: cual, cuales; it: quale, quali; nl: welke, welk; pt: qual, quais",
    "how": "en: how; fr: comment; de: wie; es: como; it: come; nl: hoe; pt: como",
    "what": "en: what; fr: que, qu, quoi; de: was; es: que; it: che, cosa, che cosa; nl: wat; pt: o que, que",
    YES_NO: "en: is, are, was, were, do, does, did, can, could, may, might, must, should, shall, will, would,"
    " has, have, had; fr: est ce que, est ce qu, est il, est elle, peut on, puis je, faut il, dois je, y a t il;"
    " de: ist, sind, war, kann, darf, muss, soll, wird, hat, haben, gibt; es: es, son, puede, pueden, puedo, hay, debo;"
    " it: posso, puo, si puo, devo, e possibile; nl: is, zijn, kan, mag, moet, heeft; pt: posso, pode, ha, devo",
}


def _phrases() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Return, for each language, pairs of a form and one of its phrases (split into words), longest phrases first."""
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for form, text in _PHRASES.items():
        for part in text.split(";"):
            language, _, phrases = part.strip().partition(": ")
            found.setdefault(language, []).extend((form, tuple(phrase.split())) for phrase in phrases.split(", "))
    return {language: sorted(some, key=lambda one: -len(one[1])) for language, some in found.items()}


_FORMS = _phrases()


def question_form(text: str) -> str:
    """Return the form of the first of _PHRASES in a text, or KEYWORDS or OTHER if there is no phrase.

    The phrases are those of the detected language, with English as fallback. In a text without a question
    mark, only phrases that begin in the first four words count. Phrases of yes/no questions count only at the beginning
    of a text.
    """
    spoken, is_asked = words(fold(text)), has_question_mark(text)
    language = detect_language(text) or "en"
    phrases = _FORMS.get(language, _FORMS["en"])
    for start in range(len(spoken) if is_asked else min(_LOOKED_AT, len(spoken))):
        for form, phrase in phrases:
            if (start == 0 or form != YES_NO) and tuple(spoken[start : start + len(phrase)]) == phrase:
                return form
    is_short = len(spoken) <= _MOST_KEYWORDS and not is_asked
    return KEYWORDS if is_short and not STOP_WORDS[language].intersection(spoken) else OTHER
