"""Make questions from sentences by rule: the sentence contains the answer, and its span is the evidence."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from ragsweep.core.types import Corpus, Spans
from ragsweep.golden.markdown import Derived, Heading, headings, render
from ragsweep.parts.languages import content_words, detect_language
from ragsweep.parts.sentences import sentences
from ragsweep_golden.building.drafts import Candidate, Draft, Sentence
from ragsweep_golden.building.rules import RULES, ask_for_sections
from ragsweep_golden.building.standalone import is_about, stands_alone
from ragsweep_golden.building.wording import CODE, lower_start, without_lead_in, words_inside
from ragsweep_golden.evidence.passages import is_verbatim
from ragsweep_golden.sets.entries import LANGUAGES

WORDS = range(6, 41)  # number of words of a sentence that can become a question
LONGEST_QUESTION = 160
MOST_NAMED, MOST_NAMED_SHARE = 20, 0.05
"""A subject in more than MOST_NAMED sentences and more than this share of all is too common for the pattern "fact"."""

_WRAP = re.compile(r"[ \t]*\r?\n[ \t>]*")
_WORD = re.compile(r"[\w'’-]+")


_DIFFERENCE = {"en": "What is the difference between {} and {}?", "fr": "Quelle est la différence entre {} et {} ?"}


def read_sentences(corpus: Corpus, spans: Spans, documents: Sequence[int], language: str) -> list[Sentence]:
    """Return the prose sentences in ``language`` of ``documents``, each with the first chunk that contains it.

    Sentences that no single chunk contains are omitted.
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
    """Yield the start and text of each prose sentence in ``language``; no sentence spans two lines."""
    for begin, end in sentences(text, LANGUAGES[language]):
        at = begin
        for piece in text[begin:end].split("\n"):
            sentence = piece.strip()
            is_whole = not text[begin - 1 : begin].strip() and (end == len(text) or text[end - 1].isspace())
            if is_whole and _is_prose(sentence) and detect_language(sentence) in ("", language):
                yield at + len(piece) - len(piece.lstrip()), sentence
            at += len(piece) + 1


def _unwrapped(source: str, form: Derived) -> str:
    """Join the lines of each paragraph: replace the line breaks within it by spaces."""
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
        and "\n" not in text
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
"""Pattern -> its possible question types. A question gets the first one that is in the wanted mix, else the first."""
_CODED = ("code_lookup",)


def draft_by_rule(corpus: Corpus, found: Sequence[Sentence], language: str, mix: Mapping[str, float]) -> list[Draft]:
    """Draft the questions that the rules make from sentences of one language, in document order.

    A question is omitted if it depends on the text around it, if it is made more than once, or if its source does not
    contain the answer verbatim.
    """
    marks = {document: list(headings(corpus.texts[document])) for document in {one.document for one in found}}
    by_rule = ask_by_rule(found, language)
    asked = [one for one in by_rule if is_about(one.question, _page(one.sentences[0], corpus, marks), language)]
    definitions = [one for one in asked if one.pattern == "definition" and stands_alone(one, language)]
    every = [*asked, *ask_for_sections(corpus, found, language), *ask_for_differences(definitions, language)]
    quoted = (one for one in unambiguous(every, language) if is_verbatim(one.answer, _source(one, corpus)))
    usable = sorted(quoted, key=lambda one: (one.sentences[0].document, one.sentences[0].start))
    return [_draft(one, corpus, language, mix) for one in usable]


def _page(sentence: Sentence, corpus: Corpus, marks: Mapping[int, Sequence[Heading]]) -> str:
    """Return the title of a sentence's document, and the heading above the sentence."""
    above = next((one.text for one in reversed(marks[sentence.document]) if one.start <= sentence.start), "")
    return f"{corpus.titles[sentence.document]} {above}"


def _source(one: Candidate, corpus: Corpus) -> str:
    return "\n".join(corpus.texts[each.document][each.start : each.end] for each in one.sentences)


def _draft(one: Candidate, corpus: Corpus, language: str, mix: Mapping[str, float]) -> Draft:
    first = one.sentences[0]
    coded = "`" in _source(one, corpus)
    accepted = (_CODED if coded and one.pattern in ("fact", "definition", "rule") else ()) + TYPES[one.pattern]
    return Draft(
        question=one.question,
        answer=one.answer,
        language=language,
        generator="rule",
        pattern=one.pattern,
        subject=one.subject,
        document=first.document,
        chunk=first.chunk,
        evidence=tuple((each.document, each.start, each.end) for each in one.sentences),
        explanation="\n".join(each.text for each in one.sentences),
        question_type=next((kind for kind in accepted if kind in mix), TYPES[one.pattern][0]),
        bloom=one.bloom,
        reasoning_class=one.reasoning_class,
    )


def unambiguous(candidates: Sequence[Candidate], language: str) -> list[Candidate]:
    """Return the self-contained candidates with a unique question, in order."""
    asked = Counter(one.question.casefold() for one in candidates)
    return [one for one in candidates if asked[one.question.casefold()] == 1 and stands_alone(one, language)]


def ask_by_rule(found: Sequence[Sentence], language: str) -> Iterator[Candidate]:
    """Yield a question for every sentence that a rule matches.

    Questions that are too long, and facts about a too common subject, are omitted.
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
                yield Candidate(question, answer, (sentence,), rule.name, rule.bloom, rule.reasoning_class, subject)
            break


def _as_inside(text: str, began: str, inside: frozenset[str]) -> str:
    """Return a clause as it would be written inside a sentence; ``began``: its first letter in the source."""
    return f"{began}{text[1:]}" if began.islower() else lower_start(text, inside)


def ask_for_differences(definitions: Sequence[Candidate], language: str) -> Iterator[Candidate]:
    """Yield a question for each pair of subjects whose definitions share a content word.

    The definitions must be in two chunks of one document.
    """
    for one, other in combinations(definitions, 2):
        first, second = one.sentences[0], other.sentences[0]
        same = first.document == second.document and first.chunk != second.chunk
        words = content_words(one.answer, language) & content_words(other.answer, language)
        if same and words and one.subject.lower() != other.subject.lower():
            question = _DIFFERENCE[language].format(one.subject, other.subject)
            answer, subjects = f"{first.text}\n{second.text}", f"{one.subject} / {other.subject}"
            yield Candidate(question, answer, (first, second), "difference", "analyse", "reasoning", subjects)
