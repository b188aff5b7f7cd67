"""Recognise questions and answers that depend on the text around them."""

import re

from ragsweep.parts.languages import content_words
from ragsweep_golden.building.drafts import Candidate
from ragsweep_golden.building.wording import alternatives

DANGLING = {language: re.compile(alternatives(language, "dangling"), re.IGNORECASE) for language in ("en", "fr")}
"""Matches words that refer to another sentence, or cannot be a subject."""
_LONGEST_SUBJECT = 5
_FEWEST_WORDS = 3  # minimum words of an answer
_FEWEST_NEW_WORDS = 2  # minimum content words of an answer that are not in its question
_VAGUE_ANSWER = {name: re.compile(alternatives(name, "vague_answers"), re.IGNORECASE) for name in ("en", "fr")}
_LISTED = {
    "en": re.compile(r"(?:[^,]{1,60}, ){1,2}(?:and|or|etc)\b"),
    "fr": re.compile(r"(?:[^,]{1,60}, ){1,2}(?:et|ou|etc)\b"),
}
"""Matches an enumeration of conditions; the rules take only the first as the condition."""
_NO_SUBJECT = {
    "en": re.compile(alternatives("en", "no_subjects"), re.IGNORECASE),
    "fr": re.compile(alternatives("fr", "no_subjects")),
}
_NAMED_BY_PAGE = re.compile(r"\bthe (?=[a-z])")
"""Matches a definite noun phrase without a name, which only the page's topic can resolve."""
_NO_CLAUSE = re.compile(r" (?:if|when|once|whenever) (?:not |\w+ly )?(?:\w+(?:ed|ing)|set|given|known|used|run)\b")
"""Matches a condition without a subject: ``when set to all``."""


_NARRATED = re.compile(
    r"\b(?:fut|furent|eut|eurent|vint|prit|mit|fit|dut|put|\w{3,}(?:èrent|irent|urent)|(?!\w*ra\b)\w{3,}[b-df-hj-np-tv-z]a|"
    r"\w{3,}(?:ait|aient))\b|^Que (?:doit|devrait) \w+ [A-ZÀÉ]|\ben \d{3,4}\b"
)
"""Matches signs of a French narrative, such as verbs in a past tense: a past event is not a rule."""
_OF_HEADINGS = ("how", "heading", "difference")


def stands_alone(one: Candidate, language: str) -> bool:
    """Return whether a candidate's question and answer are self-contained."""
    unbalanced = any(text.count("(") != text.count(")") or text.count('"') % 2 for text in (one.question, one.answer))
    said = content_words(one.answer, language) - content_words(one.question, language)
    leans = DANGLING[language].search(one.question) or _NO_CLAUSE.search(one.question)
    if unbalanced or leans or len(said) < _FEWEST_NEW_WORDS:
        return False
    if one.pattern in _OF_HEADINGS:
        return True
    answer = one.answer.removeprefix("de ").removeprefix("d'") if one.pattern in ("means", "fact") else one.answer
    vague = len(one.answer.split()) < _FEWEST_WORDS or _VAGUE_ANSWER[language].match(answer)
    if one.pattern in ("scenario", "rule") and language == "fr" and _NARRATED.search(one.question):
        return False
    listed = one.pattern in ("scenario", "procedure") and _LISTED[language].match(one.answer)
    subject = one.subject.split()
    clear = len(subject) <= _LONGEST_SUBJECT and not _NO_SUBJECT[language].search(one.subject)
    return clear and not vague and not listed


def is_about(question: str, page: str, language: str) -> bool:
    """Return whether a question names its topic, by itself or together with ``page``, its source's title and heading.

    An English definite noun phrase without a name (``the line``) is resolved by a title or heading that shares a word
    with the question; questions in other languages are not checked.
    """
    if language != "en" or not _NAMED_BY_PAGE.search(question):
        return True
    return bool(content_words(question, language) & content_words(page, language))
