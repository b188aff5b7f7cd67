"""Make, by rule, questions that the corpus does not answer; for some types, a search of all chunks confirms this."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice, permutations

from ragsweep.golden.golden_set import chance
from ragsweep.parts.languages import content_words, fold
from ragsweep_golden.building import wording
from ragsweep_golden.building.drafts import Draft, Sentence
from ragsweep_golden.building.wording import DANGLING, PRONOUNS, fill, lower_start, texts, without_lead_in
from ragsweep_golden.sets.entries import LANGUAGES

ANSWERING = 0.8  # a chunk that contains at least this share of a question's content words may answer the question
FEWEST_WORDS = 2  # a question with fewer content words cannot be searched for
MOST = 100  # maximum number of questions about invented names
LONGEST_DESCRIPTION = 90  # maximum number of characters of a definition that is given to another subject
LONGEST_RULE = 110  # maximum number of characters of a sentence whose number is changed, or whose rule is evaded


class Exhaustive:
    """An exhaustive search of the chunks for the words of a question."""

    def __init__(self, chunks: Sequence[str], language: str) -> None:
        import Stemmer

        self._texts, self._language = [fold(chunk) for chunk in chunks], language
        self._stemmer = Stemmer.Stemmer(LANGUAGES.get(language, "english"))
        media = re.compile(wording.alternatives("any", "media"), re.IGNORECASE)
        self.media = [bool(media.search(chunk)) for chunk in chunks]

    def _stems(self, text: str) -> frozenset[str]:
        """Return the stems of the content words of ``text``, except words such as "many" in "how many".

        Stems are compared, because a question and a chunk may inflect the same word differently.
        """
        words = content_words(text, self._language) - wording.word_set("any", "asking")
        return frozenset(self._stemmer.stemWords(sorted(words)))

    @cached_property
    def words(self) -> list[frozenset[str]]:
        """The stems of each chunk's content words."""
        return [self._stems(text) for text in self._texts]

    def coverage(self, question: str) -> float:
        """Return the largest share of a question's content words that one chunk contains; 0 if the question has none."""
        asked = self._stems(question)
        return max((len(asked & words) / len(asked) for words in self.words), default=0.0) if asked else 0.0

    def having(self, question: str) -> list[int]:
        """Return the indices of the chunks that contain at least the share ANSWERING of a question's content words.

        A question with fewer than FEWEST_WORDS content words is too short for a search, so all indices are returned.
        """
        asked = self._stems(question)
        if len(asked) < FEWEST_WORDS:
            return list(range(len(self.words)))
        return [n for n, words in enumerate(self.words) if len(asked & words) >= ANSWERING * len(asked)]

    def names(self, text: str) -> bool:
        """Return whether a chunk contains ``text``, ignoring case, accents and typographic variants of punctuation."""
        wanted = fold(text)
        return any(wanted in one for one in self._texts)

    def is_shown(self, subject: str) -> bool:
        """Return whether any chunk contains the content words of a subject and also mentions a picture or a video."""
        wanted = self._stems(subject)
        return any(shown and wanted <= words for shown, words in zip(self.media, self.words, strict=True))


def draft_unanswerable(
    drafts: Sequence[Draft], sentences: Sequence[Sentence], search: Exhaustive, language: str, seed: int
) -> list[Draft]:
    """Return drafts of questions of the six unanswerable types, made from answerable drafts, sentences and templates.

    The score of a draft is 1 minus the highest share of its content words in a single chunk. No two drafts of a type
    have the same question, ignoring case.
    """
    shuffled = sorted(drafts, key=lambda one: chance(seed, one.question))
    named = [one for one in shuffled if one.pattern in ("definition", "fact", "rule") and one.subject]
    rules: dict[str, Iterator[Draft]] = {
        "out_of_database": _outside(named, search, language),
        "false_presupposition": _false(named, sentences, search, language, seed),
        "underspecified": _vague(named, language),
        "nonsensical": _crossed(named, search, language),
        "modality_limited": _shown(named, search, language),
        "safety_concerned": _evading(sentences, language, seed),
    }
    return [
        replace(one, language=language, unanswerable_type=kind, score=round(1 - search.coverage(one.question), 6))
        for kind, questions in rules.items()
        for one in {one.question.casefold(): one for one in questions}.values()
    ]


def _draft(text: str, pattern: str, checked: str, method: str, source: Draft | Sentence | None = None) -> Draft:
    """Return the draft of a question; ``checked`` is the reason why the corpus does not answer the question.

    ``method`` is ``retrieval`` if a search of all chunks confirmed this reason, else ``rule``. ``source`` is the draft
    or the sentence from which the question was made, or None.
    """
    document, chunk = (source.document, source.chunk) if source else (None, None)
    return Draft(text, "", "rule", pattern, document=document, chunk=chunk, checked=checked, method=method)


def _outside(named: Sequence[Draft], search: Exhaustive, language: str) -> Iterator[Draft]:
    """Yield at most MOST questions, each about an invented name that the corpus does not contain."""
    patterns, invented = texts(language, "outside"), texts("any", "invented")
    pairs = (f"{one} {other}" for one, other in permutations(invented, 2))
    names = islice((name for name in chain(invented, pairs) if not any(map(search.names, name.split()))), MOST)
    own = (one for one in named if one.pattern == "fact" and not _is_plural(one, language))
    for n, name in enumerate(names):
        checked = f'no chunk has "{name}"'
        source = next(own, None)
        if source is not None and (question := _replace_subject(source, name)):
            yield _draft(question, "subject replaced by an invented name", checked, "retrieval", source)
        else:
            yield _draft(fill(patterns[n % len(patterns)], name), "invented name", checked, "retrieval")


def _false(
    named: Sequence[Draft], sentences: Sequence[Sentence], search: Exhaustive, language: str, seed: int
) -> Iterator[Draft]:
    """Yield questions with a false premise: a changed number, or the definition of another subject."""
    inside = wording.words_inside(one.text for one in sentences)
    for source in sorted(sentences, key=lambda one: chance(seed, one.text)):
        sentence = without_lead_in(source.text.removesuffix("."), language)
        number = re.search(r"(?<![\d.,:\w-])\d+(?![\d\w-]|[.,]\d)", sentence)
        leans = re.match(rf"{PRONOUNS[language]}|To |Pour |\d", sentence) or DANGLING[language].search(sentence)
        if number is None or leans or len(sentence) > LONGEST_RULE:
            continue
        wrong = f"{sentence[: number.start()]}{int(number[0]) + 7}{sentence[number.end() :]}"
        if not search.names(wrong):
            question = fill(texts(language, "false_number")[0], lower_start(wrong, inside))
            why = f"no chunk contains it with {int(number[0]) + 7}"
            yield _draft(question, "number changed", why, "retrieval", source)
    defined = [one for one in named if one.pattern == "definition" and len(one.answer) <= LONGEST_DESCRIPTION]
    for one, other in zip(defined, [*defined[1:], *defined[:1]], strict=True):
        if one.subject.casefold() != other.subject.casefold():
            be = texts(language, "be")[_is_plural(one, language)]
            question = fill(texts(language, "false_fact")[0], one.subject, be, other.answer)
            why = f"the description is that of {other.subject}"
            yield _draft(question, "description exchanged", why, "rule", one)


def _vague(named: Sequence[Draft], language: str) -> Iterator[Draft]:
    """Yield questions whose pronoun has no referent: drafts' questions with a pronoun as subject, and fixed questions."""
    for one in named:
        pronoun = texts(language, "pronoun")[_is_plural(one, language)]
        if pronoun and (question := _replace_subject(one, pronoun)):
            yield _draft(question, "subject replaced by a pronoun", "names no subject", "rule", one)
    for question in texts(language, "vague"):
        yield _draft(question, "pronoun without referent", "names no subject", "rule")


def _is_plural(one: Draft, language: str) -> bool:
    return one.question.startswith(texts(language, "asks_of_many"))


def _replace_subject(one: Draft, text: str) -> str:
    """Return a draft's question with ``text`` in place of its subject; "" unless the subject occurs exactly once."""
    question, count = re.subn(rf"(?<!['’\w]){re.escape(one.subject)}(?!\w)", text, one.question)
    return question if count == 1 else ""


def _crossed(named: Sequence[Draft], search: Exhaustive, language: str) -> Iterator[Draft]:
    """Yield nonsensical questions, each of which combines subjects from two documents."""
    patterns = texts(language, "crossed")
    for n, (one, other) in enumerate(zip(named[::2], named[1::2], strict=False)):
        question = fill(patterns[n % len(patterns)], one.subject, other.subject)
        if one.document != other.document and search.coverage(question) < ANSWERING:
            why = f"no chunk has {ANSWERING:.0%} of its words"
            yield _draft(question, "topics crossed", why, "retrieval", one)


def _shown(named: Sequence[Draft], search: Exhaustive, language: str) -> Iterator[Draft]:
    """Yield requests for a picture or a video of a subject, unless a chunk with this subject mentions one."""
    patterns = texts(language, "shown")
    for n, one in enumerate(named):
        if not search.is_shown(one.subject):
            question = fill(patterns[n % len(patterns)], one.subject)
            why = "no chunk that names it mentions a picture"
            yield _draft(question, "picture of a subject", why, "retrieval", one)


def _evading(sentences: Sequence[Sentence], language: str, seed: int) -> Iterator[Draft]:
    """Yield questions about evading a rule that a sentence of the corpus states."""
    patterns, n = texts(language, "evaded"), 0
    leaning, forbidding = (re.compile(wording.alternatives(language, name)) for name in ("leaning", "forbidding"))
    for one in sorted(sentences, key=lambda one: chance(seed, one.text)):
        forbidden = without_lead_in(one.text[:-1], language).replace('"', "'")
        if len(forbidden) > LONGEST_RULE or leaning.match(forbidden) or not forbidding.search(forbidden):
            continue
        question, n = patterns[n % len(patterns)].format(forbidden), n + 1
        yield _draft(question, "rule evaded", "asks for what the corpus forbids", "rule", one)
