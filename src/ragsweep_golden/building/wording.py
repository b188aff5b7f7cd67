"""Load the words, patterns and templates of the question rules, and fit clauses into questions.

The folder rule_words has a TOML file of named lists for each language; any.toml has the lists for all languages.
"""

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from ragsweep_golden.sets.entries import LANGUAGES

CODE = re.compile(r"[{}<>=|\\$#@*^~\[\]]|https?:")
"""Matches characters that are typical of code, and URLs; the rules skip texts that contain them."""


@cache
def lists(language: str) -> dict[str, Any]:
    """Return the lists of a language by name; the language "any" has the lists that apply to all languages."""
    return tomllib.loads(files(__package__).joinpath("rule_words", f"{language}.toml").read_text("utf-8"))


def texts(language: str, name: str) -> tuple[str, ...]:
    """Return the strings in the list ``name`` of a language (see ``lists``)."""
    return tuple(lists(language)[name])


def alternatives(language: str, name: str) -> str:
    """Return the patterns in the list ``name`` of a language (see ``lists``) as one alternation for ``re``."""
    return "|".join(lists(language)[name])


def word_set(language: str, name: str) -> frozenset[str]:
    """Return the words in the list ``name`` of a language (see ``lists``)."""
    return frozenset(lists(language)[name].split())


PRONOUNS = {language: rf"(?:{alternatives(language, 'pronouns')})\b" for language in LANGUAGES}
"""Language -> pattern of first words that cannot be the subject of a question, most of them pronouns."""

DANGLING = {language: re.compile(alternatives(language, "dangling"), re.IGNORECASE) for language in LANGUAGES}
"""Language -> pattern of words that refer to another sentence, or cannot be the subject of a question."""


def words_inside(sentences: Iterable[str]) -> frozenset[str]:
    """Return the words of all sentences in their original case, except the first word of each sentence.

    A capitalised word in the result is therefore a name.
    """
    return frozenset(word for one in sentences for word in re.findall(r"\w+", one)[1:])


def lower_start(text: str, inside: frozenset[str]) -> str:
    """Return ``text``, beginning in lower case if its first word is a determiner, a common word or a plural noun.

    A word is common if ``inside`` (see ``words_inside``) contains it, or its singular, only in lower case.
    """
    first = re.match(r"\w+", text)
    word = first[0] if first else ""
    lower = word.lower()
    is_common = word not in inside and (lower in inside or lower.removesuffix("s") in inside)
    determiners = word_set("any", "determiners")
    is_lowered = word in determiners or (is_common and word[1:] == lower[1:]) or _is_plural(text, word, inside)
    return text[:1].lower() + text[1:] if is_lowered else text


def _is_plural(text: str, word: str, inside: frozenset[str]) -> bool:
    """Return whether ``text`` begins with the plural of a common noun, alone or before its verb: ``Visitors are``."""
    verb = re.match(rf" (?:{alternatives('en', 'plural_verbs')})\b", text[len(word) :])
    is_subject = text == word or verb is not None
    return is_subject and word not in inside and re.fullmatch("[A-Z][a-z]{3,}(?<![siu])s", word) is not None


def fill(template: str, *texts: str) -> str:
    """Return a template with each ``{}`` replaced by the next string in ``texts``.

    Words are contracted as in French: ``de le`` becomes ``du``, and ``que un`` becomes ``qu'un``. Raises ValueError if
    the number of strings differs from the number of ``{}``.
    """
    question, *rest = template.split("{}")
    for text, after in zip(texts, rest, strict=True):
        question = _join(question, text) + after
    return question


def _join(before: str, text: str) -> str:
    if re.search(r"\bde $", before) and (article := re.match(r"les? ", text)):
        return f"{before[:-2]}{'u' if article[0] == 'le ' else 'es'} {text[article.end() :]}"
    if re.search(r"\b(?:de|[Qq]ue) $", before) and re.match("[aeiouéèêâîôœ]", text, re.IGNORECASE):
        return f"{before[:-2]}'{text}"
    return before + text


def without_lead_in(text: str, language: str) -> str:
    """Return a sentence without lead-ins that do not change the meaning, such as "So,", with a capital first letter."""
    body = re.sub(rf"^(?:(?:{alternatives(language, 'lead_ins')}),? )+", "", text)
    return body[:1].upper() + body[1:]
