"""Detect questions and answers that cannot be understood without the text around them."""

import re

from ragsweep.parts.languages import content_words
from ragsweep_golden.building.drafts import Draft
from ragsweep_golden.building.wording import alternatives

DANGLING = {language: re.compile(alternatives(language, "dangling"), re.IGNORECASE) for language in ("en", "fr")}
"""Language -> pattern of words that refer to another sentence, or cannot be the subject of a question."""
_LONGEST_SUBJECT = 5  # maximum number of words of a subject
_FEWEST_WORDS = 3  # minimum number of words of an answer
_FEWEST_NEW_WORDS = 2  # minimum number of content words of an answer that its question lacks
_VAGUE_ANSWER = {name: re.compile(alternatives(name, "vague_answers"), re.IGNORECASE) for name in ("en", "fr")}
_LISTED = {
    "en": re.compile(r"(?:[^,]{1,60}, ){1,2}(?:and|or|etc)\b"),
    "fr": re.compile(r"(?:[^,]{1,60}, ){1,2}(?:et|ou|etc)\b"),
}
"""Matches an answer that begins with the remaining conditions, because a rule took only the first of several."""
_NO_SUBJECT = {
    "en": re.compile(alternatives("en", "no_subjects"), re.IGNORECASE),
    "fr": re.compile(alternatives("fr", "no_subjects")),
}
_NAMED_BY_PAGE = re.compile(r"\bthe (?=[a-z])")
"""Matches the start of a definite noun phrase such as "the line", which only the topic of the page may explain."""
_NO_CLAUSE = re.compile(r" (?:if|when|once|whenever) (?:not |\w+ly )?(?:\w+(?:ed|ing)|set|given|known|used|run)\b")
"""Matches a condition without a subject, such as "when set to all"."""


_NARRATED = re.compile(
    r"\b(?:fut|furent|eut|eurent|vint|prit|mit|fit|dut|put|\w{3,}(?:èrent|irent|urent)|(?!\w*ra\b)\w{3,}[b-df-hj-np-tv-z]a|"
    r"\w{3,}(?:ait|aient))\b|^Que (?:doit|devrait) \w+ [A-ZÀÉ]|\ben \d{3,4}\b"
)
"""Matches verbs in a past tense and other signs of a narrative in French, which states events instead of rules."""
_OF_HEADINGS = ("how", "heading", "difference")  # patterns whose answers are whole sentences


def stands_alone(one: Draft, language: str) -> bool:
    """Return whether the question and answer of a draft can be understood without the text around them."""
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
    """Return whether the topic of a question is clear; ``page`` is the title and the heading of its source.

    The topic is unclear only if the question is English, has a definite noun phrase such as "the line", and shares no
    content word with ``page``.
    """
    if language != "en" or not _NAMED_BY_PAGE.search(question):
        return True
    return bool(content_words(question, language) & content_words(page, language))
