"""Make questions from sentences by rule: the sentence contains the answer and is the evidence."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from ragsweep.core.types import Corpus, Spans
from ragsweep.golden.markdown import Derived, Heading, headings, render
from ragsweep.parts.languages import content_words, detect_language
from ragsweep.parts.sentences import sentences
from ragsweep_golden.building.drafts import Draft, Sentence
from ragsweep_golden.building.rules import RULES, ask_for_sections
from ragsweep_golden.building.wording import CODE, DANGLING, alternatives, lower_start, without_lead_in, words_inside
from ragsweep_golden.evidence.passages import is_verbatim
from ragsweep_golden.sets.entries import LANGUAGES

WORDS = range(6, 41)  # accepted numbers of words in a sentence
LONGEST_QUESTION = 160
MOST_NAMED, MOST_NAMED_SHARE = 20, 0.05
"""A subject in more than MOST_NAMED sentences and in more than MOST_NAMED_SHARE of all sentences is too common."""

_WRAP = re.compile(r"[ \t]*\r?\n[ \t>]*")
_WORD = re.compile(r"[\w'’-]+")

_DIFFERENCE = {"en": "What is the difference between {} and {}?", "fr": "Quelle est la différence entre {} et {} ?"}


def read_sentences(corpus: Corpus, spans: Spans, documents: Sequence[int], language: str) -> list[Sentence]:
    """Return the documents' prose sentences in ``language``, each with the first chunk that contains it.

    ``documents`` are the indices of the documents. Sentences that no single chunk contains are omitted.
    """
    found = []
    for document in documents:
        text, form = corpus.texts[document], render(corpus.texts[document])
        rows = np.flatnonzero(spans.document == document)
        for begin, sentence in _prose(_unwrapped(text, form), language):
            start, stop = form.source(begin, begin + len(sentence))
            inside = rows[(spans.start[rows] <= start) & (spans.end[rows] >= stop)]
            if len(inside):
                found.append(Sentence(sentence, document, int(inside[0]), start, stop))
    return found


def _prose(text: str, language: str) -> Iterator[tuple[int, str]]:
    """Yield (start, sentence) for each prose sentence in ``language``; a line break also ends a sentence."""
    for begin, end in sentences(text, LANGUAGES[language]):
        at = begin
        for piece in text[begin:end].split("\n"):
            sentence = piece.strip()
            is_whole = not text[begin - 1 : begin].strip() and (end == len(text) or text[end - 1].isspace())
            if is_whole and _is_prose(sentence) and detect_language(sentence) in ("", language):
                yield at + len(piece) - len(piece.lstrip()), sentence
            at += len(piece) + 1


def _unwrapped(source: str, form: Derived) -> str:
    """Return the visible text of a document, with the line breaks inside paragraphs replaced by spaces."""
    signs = list(form.text)
    for position, sign in enumerate(signs[1:-1], 1):
        if sign == "\n":
            before, after = form.source(position - 1, position)[1], form.source(position + 1, position + 2)[0]
            line = source[source.rfind("\n", 0, before) + 1 : before]
            if _WRAP.fullmatch(source[before:after]) and not line.startswith("#"):
                signs[position] = " "
    return "".join(signs)


def _is_prose(text: str) -> bool:
    return (
        text.endswith(".")
        and not text.endswith(("..", " .", "etc."))
        and text[:1].isupper()
        and len(_WORD.findall(text)) in WORDS
        and not CODE.search(text)
        and text.count('"') % 2 == 0
    )


TYPES: Mapping[str, tuple[str, ...]] = {
    "definition": ("definition", "conceptual", "factual"),
    "causal": ("troubleshooting", "conceptual", "factual"),
    "rule": ("rule", "factual"),
    "procedure": ("procedural", "how_to"),
    "means": ("procedural", "how_to"),
    "scenario": ("scenario", "troubleshooting", "factual"),
    "fact": ("factual",),
    "how": ("procedural", "how_to"),
    "heading": ("conceptual", "factual"),
    "difference": ("comparative", "conceptual", "factual"),
}
"""Pattern -> question types. A question gets the first of its types that is in the mix, or else the first one."""
_CODED = ("code_lookup",)  # the preferred type of facts, definitions and rules with code


def draft_by_rule(corpus: Corpus, found: Sequence[Sentence], language: str, mix: Mapping[str, float]) -> list[Draft]:
    """Return drafts of the questions that the rules make from sentences of one language, in document order.

    A question is omitted if it depends on the text around it, if several drafts have the same question, or if its
    sentences do not contain the answer verbatim.
    """
    marks = {document: list(headings(corpus.texts[document])) for document in {one.document for one in found}}
    by_rule = ask_by_rule(found, language)
    asked = [one for one in by_rule if is_about(one.question, _page(one, corpus, marks), language)]
    definitions = [one for one in asked if one.pattern == "definition" and stands_alone(one, language)]
    every = [*asked, *ask_for_sections(corpus, found, language), *ask_for_differences(definitions, language)]
    quoted = (one for one in unambiguous(every, language) if is_verbatim(one.answer, _source(one, corpus)))
    usable = sorted(quoted, key=lambda one: one.evidence[0][:2])
    return [replace(one, language=language, question_type=_question_type(one, corpus, mix)) for one in usable]


def _page(one: Draft, corpus: Corpus, marks: Mapping[int, Sequence[Heading]]) -> str:
    """Return the title of a draft's document and the last heading above its sentence, as one string."""
    document, start, _ = one.evidence[0]
    above = next((mark.text for mark in reversed(marks[document]) if mark.start <= start), "")
    return f"{corpus.titles[document]} {above}"


def _source(one: Draft, corpus: Corpus) -> str:
    return "\n".join(corpus.texts[document][start:end] for document, start, end in one.evidence)


def _question_type(one: Draft, corpus: Corpus, mix: Mapping[str, float]) -> str:
    coded = one.pattern in ("fact", "definition", "rule") and "`" in _source(one, corpus)
    accepted = (_CODED if coded else ()) + TYPES[one.pattern]
    return next((kind for kind in accepted if kind in mix), TYPES[one.pattern][0])


def unambiguous(drafts: Sequence[Draft], language: str) -> list[Draft]:
    """Return the drafts that are self-contained and differ from all other drafts in their question, ignoring case."""
    asked = Counter(one.question.casefold() for one in drafts)
    return [one for one in drafts if asked[one.question.casefold()] == 1 and stands_alone(one, language)]


def ask_by_rule(found: Sequence[Sentence], language: str) -> Iterator[Draft]:
    """Yield a draft for each sentence that a rule matches; only the first matching rule is used.

    Questions of more than LONGEST_QUESTION characters are omitted, as are questions of the pattern "fact" about a
    subject that is too common (see MOST_NAMED).
    """
    inside, most = words_inside(one.text for one in found), max(MOST_NAMED, MOST_NAMED_SHARE * len(found))
    for sentence in found:
        body = without_lead_in(sentence.text[:-1], language)
        began = sentence.text[-1 - len(body)]
        for rule in RULES[language]:
            match = rule.pattern.match(body)
            if match is None:
                continue
            groups = {
                name: _as_inside(given, began, inside) if name in ("s", "e") else given
                for name, given in match.groupdict().items()
                if given is not None
            }
            question = rule.question(groups)
            is_common = rule.name == "fact" and sum(groups["s"] in one.text for one in found) > most
            if len(question) <= LONGEST_QUESTION and not is_common:
                answer, subject = groups["a"], groups.get("s", "")
                yield sentence.draft(question, answer, rule.name, rule.bloom, rule.reasoning_class, subject)
            break


def _as_inside(text: str, began: str, inside: frozenset[str]) -> str:
    """Return a clause as it is written inside a sentence; ``began`` is the clause's first letter in the source."""
    return f"{began}{text[1:]}" if began.islower() else lower_start(text, inside)


def ask_for_differences(definitions: Sequence[Draft], language: str) -> Iterator[Draft]:
    """Yield a question about the difference between the subjects of two definitions, for each suitable pair.

    The two definitions must share a content word, have different subjects, and be in different chunks of one document.
    """
    for one, other in combinations(definitions, 2):
        same = one.document == other.document and one.chunk != other.chunk
        words = content_words(one.answer, language) & content_words(other.answer, language)
        if same and words and one.subject.lower() != other.subject.lower():
            question = _DIFFERENCE[language].format(one.subject, other.subject)
            both = f"{one.explanation}\n{other.explanation}"
            yield replace(
                one,
                question=question,
                answer=both,
                explanation=both,
                evidence=(*one.evidence, *other.evidence),
                subject=f"{one.subject} / {other.subject}",
                pattern="difference",
                bloom="analyse",
                reasoning_class="reasoning",
            )


_LONGEST_SUBJECT = 5  # maximum number of words of a subject
_FEWEST_WORDS = 3  # minimum number of words of an answer
_FEWEST_NEW_WORDS = 2  # minimum number of content words of an answer that are not in its question
_VAGUE_ANSWER = {name: re.compile(alternatives(name, "vague_answers"), re.IGNORECASE) for name in LANGUAGES}
_LISTED = {
    "en": re.compile(r"(?:[^,]{1,60}, ){1,2}(?:and|or|etc)\b"),
    "fr": re.compile(r"(?:[^,]{1,60}, ){1,2}(?:et|ou|etc)\b"),
}
"""Matches an answer that begins with further conditions, because the rule matched only the first condition."""
_NO_SUBJECT = {
    "en": re.compile(alternatives("en", "no_subjects"), re.IGNORECASE),
    "fr": re.compile(alternatives("fr", "no_subjects")),
}
_NAMED_BY_PAGE = re.compile(r"\bthe (?=[a-z])")
"""Matches the start of a definite noun phrase such as "the line": its referent may be clear only from the page."""
_NO_CLAUSE = re.compile(r" (?:if|when|once|whenever) (?:not |\w+ly )?(?:\w+(?:ed|ing)|set|given|known|used|run)\b")
"""Matches a condition without a subject, such as "when set to all"."""

_NARRATED = re.compile(
    r"\b(?:fut|furent|eut|eurent|vint|prit|mit|fit|dut|put|\w{3,}(?:èrent|irent|urent)|(?!\w*ra\b)\w{3,}[b-df-hj-np-tv-z]a|"
    r"\w{3,}(?:ait|aient))\b|^Que (?:doit|devrait) \w+ [A-ZÀÉ]|\ben \d{3,4}\b"
)
"""Matches verbs in a past tense and other signs of a French narrative: a narrative states events, not rules."""
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
