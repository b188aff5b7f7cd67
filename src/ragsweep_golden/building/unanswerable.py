"""Make questions by fixed rules that the corpus does not answer, and check that it does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice, permutations
from typing import Any, NamedTuple

from ragsweep.parts.languages import content_words, fold
from ragsweep_golden.building.drafts import Draft, Sentence, chance
from ragsweep_golden.building.standalone import DANGLING
from ragsweep_golden.building.wording import (
    PRONOUNS,
    alternatives,
    fill,
    lower_start,
    texts,
    without_lead_in,
    word_set,
    words_inside,
)
from ragsweep_golden.sets.entries import LANGUAGES

ANSWERING = 0.8
"""Lowest share of a question's words in a chunk at which that chunk may answer the question."""
FEWEST_WORDS = 2
"""Fewest content words of a specific question."""
MOST = 100
"""Questions about invented names."""
LONGEST_DESCRIPTION = 90
LONGEST_RULE = 110
"""Characters."""


class Exhaustive:
    """Exhaustive search of all chunks for the words of a question."""

    def __init__(self, chunks: Sequence[str], language: str) -> None:
        self._texts, self._language = [fold(chunk) for chunk in chunks], language
        media = re.compile(alternatives("any", "media"), re.IGNORECASE)
        self.media = [bool(media.search(chunk)) for chunk in chunks]

    def _stems(self, text: str) -> frozenset[str]:
        """Return the stems of a text's content words; a question and a chunk may inflect the same word differently."""
        words = content_words(text, self._language) - word_set("any", "asking")
        return frozenset(self._stemmer.stemWords(sorted(words)))

    @cached_property
    def _stemmer(self) -> Any:
        import Stemmer

        return Stemmer.Stemmer(LANGUAGES.get(self._language, "english"))

    @cached_property
    def words(self) -> list[frozenset[str]]:
        """The stems of every chunk."""
        return [self._stems(text) for text in self._texts]

    def coverage(self, question: str) -> float:
        """Return the highest share of the question's content words in a single chunk; 0 without content words."""
        asked = self._stems(question)
        return max((len(asked & words) / len(asked) for words in self.words), default=0.0) if asked else 0.0

    def having(self, question: str) -> list[int]:
        """Return the chunks that have the question's content words, most of them; all where there are too few."""
        asked = self._stems(question)
        if len(asked) < FEWEST_WORDS:
            return list(range(len(self.words)))
        return [n for n, words in enumerate(self.words) if len(asked & words) >= ANSWERING * len(asked)]

    def names(self, text: str) -> bool:
        """Return whether any chunk contains a text verbatim, ignoring case."""
        wanted = fold(text)
        return any(wanted in one for one in self._texts)

    def is_shown(self, subject: str) -> bool:
        """Return whether a chunk that names a subject mentions a picture or a video."""
        wanted = fold(subject)
        return any(shown and wanted in text for shown, text in zip(self.media, self._texts, strict=True))


def draft_unanswerable(
    drafts: Sequence[Draft], sentences: Sequence[Sentence], search: Exhaustive, language: str, seed: int
) -> list[Draft]:
    """Make questions of each of the six types from answerable ones; drop those that a chunk may answer."""
    shuffled = sorted(drafts, key=lambda one: chance(seed, one.question))
    named = [one for one in shuffled if one.pattern in ("definition", "fact", "rule") and one.subject]
    rules: dict[str, Iterator[_Question]] = {
        "out_of_database": _outside(named, search, language),
        "false_presupposition": _false(named, sentences, search, language, seed),
        "underspecified": _vague(named, language),
        "nonsensical": _crossed(named, search, language),
        "modality_limited": _shown(named, search, language),
        "safety_concerned": _evading(sentences, language, seed),
    }
    found = []
    for kind, questions in rules.items():
        different = {one.text.casefold(): one for one in questions}
        for one in different.values():
            coverage = search.coverage(one.text)
            searched = "retrieval" if one.searched else "rule"
            found.append(
                Draft(one.text, language, "rule", one.pattern, document=one.document, chunk=one.chunk,
                      unanswerable_type=kind, checked=one.checked, method=searched, score=round(1 - coverage, 6))
            )  # fmt: skip
    return found


class _Question(NamedTuple):
    """A question without an answer; ``checked`` is the reason, ``searched`` whether the search confirms it."""

    text: str
    pattern: str
    checked: str
    searched: bool
    document: int | None = None
    chunk: int | None = None


def _invented() -> Iterator[str]:
    names = texts("any", "invented")
    yield from names
    yield from (f"{one} {other}" for one, other in permutations(names, 2))


def _outside(named: Sequence[Draft], search: Exhaustive, language: str) -> Iterator[_Question]:
    """Make questions about an entity that the corpus never names."""
    patterns = texts(language, "outside")
    names = islice((name for name in _invented() if not any(map(search.names, name.split()))), MOST)
    own = (one for one in named if one.pattern == "fact" and not _is_plural(one, language))
    for n, name in enumerate(names):
        checked = f'no chunk has "{name}"'
        source = next(own, None)
        if source is not None and (question := _replace_subject(source, name)):
            yield _Question(
                question, "subject replaced by an invented name", checked, True, source.document, source.chunk
            )
        else:
            yield _Question(fill(patterns[n % len(patterns)], name), "invented name", checked, searched=True)


def _false(
    named: Sequence[Draft], sentences: Sequence[Sentence], search: Exhaustive, language: str, seed: int
) -> Iterator[_Question]:
    """Make false-premise questions: change a number, or swap two descriptions."""
    inside = words_inside(one.text for one in sentences)
    for source in sorted(sentences, key=lambda one: chance(seed, one.text)):
        sentence = without_lead_in(source.text.removesuffix("."), language)
        number = re.search(r"(?<![\d.,:\w-])\d+(?![\d\w-]|[.,]\d)", sentence)
        leans = re.match(rf"{PRONOUNS[language]}|To |Pour |\d", sentence) or DANGLING[language].search(sentence)
        if number is None or leans or len(sentence) > LONGEST_RULE:
            continue
        wrong = f"{sentence[: number.start()]}{int(number[0]) + 7}{sentence[number.end() :]}"
        if not search.names(wrong):
            question = fill(texts(language, "false_number")[0], lower_start(wrong, inside))
            why = f"no chunk has it with {int(number[0]) + 7}"
            yield _Question(question, "number changed", why, True, source.document, source.chunk)
    defined = [one for one in named if one.pattern == "definition" and len(one.answer) <= LONGEST_DESCRIPTION]
    for one, other in zip(defined, [*defined[1:], *defined[:1]], strict=True):
        if one.subject.casefold() != other.subject.casefold():
            be = texts(language, "be")[_is_plural(one, language)]
            question = fill(texts(language, "false_fact")[0], one.subject, be, other.answer)
            why = f"the description is that of {other.subject}"
            yield _Question(question, "description exchanged", why, False, one.document, one.chunk)


def _vague(named: Sequence[Draft], language: str) -> Iterator[_Question]:
    """Make questions with a pronoun that has no referent, in place of a question's subject or alone."""
    for one in named:
        pronoun = texts(language, "pronoun")[_is_plural(one, language)]
        if pronoun and (question := _replace_subject(one, pronoun)):
            how = "subject replaced by a pronoun"
            yield _Question(question, how, "names no subject", False, one.document, one.chunk)
    for question in texts(language, "vague"):
        yield _Question(question, "pronoun without referent", "names no subject", searched=False)


def _is_plural(one: Draft, language: str) -> bool:
    return one.question.startswith(texts(language, "asks_of_many"))


def _replace_subject(one: Draft, text: str) -> str:
    """Return a question with another subject; empty unless it names its subject exactly once."""
    question, count = re.subn(rf"(?<!['’\w]){re.escape(one.subject)}(?!\w)", text, one.question)
    return question if count == 1 else ""


def _crossed(named: Sequence[Draft], search: Exhaustive, language: str) -> Iterator[_Question]:
    """Make nonsensical questions from the words of two topics."""
    patterns = texts(language, "crossed")
    for n, (one, other) in enumerate(zip(named[::2], named[1::2], strict=False)):
        question = fill(patterns[n % len(patterns)], one.subject, other.subject)
        if one.document != other.document and search.coverage(question) < ANSWERING:
            why = f"no chunk has {ANSWERING:.0%} of its words"
            yield _Question(question, "topics crossed", why, True, one.document, one.chunk)


def _shown(named: Sequence[Draft], search: Exhaustive, language: str) -> Iterator[_Question]:
    """Ask for a picture or a video, which a text corpus does not contain."""
    patterns = texts(language, "shown")
    for n, one in enumerate(named):
        if not search.is_shown(one.subject):
            question = fill(patterns[n % len(patterns)], one.subject)
            why = "no chunk that names it mentions a picture"
            yield _Question(question, "picture of a subject", why, True, one.document, one.chunk)


def _evading(sentences: Sequence[Sentence], language: str, seed: int) -> Iterator[_Question]:
    """Make requests that a rule of the corpus forbids."""
    patterns, n = texts(language, "evaded"), 0
    leaning, forbidding = (re.compile(alternatives(language, name)) for name in ("leaning", "forbidding"))
    for one in sorted(sentences, key=lambda one: chance(seed, one.text)):
        forbidden = without_lead_in(one.text[:-1], language).replace('"', "'")
        if len(forbidden) > LONGEST_RULE or leaning.match(forbidden) or not forbidding.search(forbidden):
            continue
        question, n = patterns[n % len(patterns)].format(forbidden), n + 1
        yield _Question(question, "rule evaded", "asks for what the corpus forbids", False, one.document, one.chunk)
