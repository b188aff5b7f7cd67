"""Make questions from headings: how to perform a heading's action, or the question that it asks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ragsweep.core.types import Corpus
from ragsweep.golden.sections import headings
from ragsweep.parts.languages import content_words
from ragsweep_golden.building.drafts import Candidate, Sentence
from ragsweep_golden.building.wording import CODE, alternatives, lower_start, word_set, words_inside

LONGEST_NAME = 10  # maximum words of a heading that can become a question
_STEP = re.compile(r"^(?:(?:Step|Part|Étape|Partie) )?\d+(?:\.\d+)*[.:)]? +(?=\w)")
_STEM = 5  # words are compared by this number of first characters
_VERBS, _NOUNS = word_set("en", "verbs"), word_set("en", "also_nouns")
"""Verbs of headings. A verb that is also a noun is recognised by the next word."""
_DETERMINERS = frozenset(["a", "an", "all", "any", "each", "multiple", "several", "the", "to", "your"])


def _gerund(verb: str) -> Iterator[str]:
    yield f"{verb.removesuffix('e')}ing"
    yield f"{verb}{verb[-1]}ing"


_GERUNDS: Mapping[str, str] = {form: verb for verb in sorted(_VERBS) for form in _gerund(verb)}
_INFINITIVE = re.compile(
    r"^[A-ZÀÉÊ][a-zéèêîôûç]*(?:er|ir|(?:mett|prend|rend|tend|fai|écri|construi|produi|suiv|résoud)re)"
    r"(?: et [a-zéèêîôûç]+(?:er|ir|re))? (?:(?:une?|des|les?|la|à|avec|son|sa|ses|votre|vos) \w|l['’]\w)"
)
_INSTRUCTION = {
    "en": re.compile(rf"\b[Yy]ou (?:can|could|need|should|have to|must)\b|^(?:{'|'.join(sorted(_VERBS)).title()})\b"),
    "fr": re.compile(r"\b(?:[Vv]ous (?:pouvez|devez|devriez)|[Ii]l (?:faut|suffit))\b|^\w+ez\b"),
}
"""Matches a sentence that is an instruction."""
_QUESTION = {
    "en": re.compile(
        r"^(?:(?:What|Which|Why|How|When|Where|Who|Is|Are|Can|Do|Does|Should) [^?]*\?|What (?:is|are) [^?]*)$"
    ),
    "fr": re.compile(
        r"^(?:Pourquoi|Comment|Quels?|Quelles?|Qui|Que|Qu['’]|Quand|Où|Est-ce|Existe|Y a-t-il|Puis-je|Peut-on)\b"
        r"[^?]*\?$"
    ),
}
_LINKING = {language: re.compile(alternatives(language, "linking")) for language in ("en", "fr")}
"""Matches a sentence that depends on its neighbours."""


def ask_for_sections(corpus: Corpus, found: Sequence[Sentence], language: str) -> Iterator[Candidate]:
    """Yield a question for each short heading that asks one or names an action, if a sentence below answers it."""
    of_document: dict[int, list[Sentence]] = {}
    for sentence in (one for one in found if not _LINKING[language].search(one.text)):
        of_document.setdefault(sentence.document, []).append(sentence)
    for document, own in of_document.items():
        inside_text = words_inside(one.text for one in own)
        for heading, start, end in _sections(corpus, document, language):
            name = _STEP.sub("", _plain(heading))
            inside = [one for one in own if start <= one.start < end]
            if not 1 < len(name.split()) <= LONGEST_NAME or CODE.search(name) or '"' in name:
                continue
            lowered = _lower_common_words(name, inside_text)
            asks = _QUESTION[language].match(lowered)
            action = "" if asks else _action(lowered, language)
            about = _most_related(name, inside, language, action) if asks or action else None
            if about:
                pattern, bloom = ("heading", "understand") if asks else ("how", "apply")
                question = _question(lowered, action, language)
                yield Candidate(question, about.text, (about,), pattern, bloom, "summary", name)


def _sections(corpus: Corpus, document: int, language: str) -> Iterator[tuple[str, int, int]]:
    """Yield each heading of a document with the span of its section.

    In a document without headings, a title that asks a question or names an action is the heading of the whole text.
    """
    text, title = corpus.texts[document], corpus.titles[document]
    asks = _QUESTION[language].match(title) or _action(title, language)
    marks = [(one.text, one.start) for one in headings(text)] or ([(title, 0)] if asks else [])
    for (name, start), (_, end) in pairwise([*marks, ("", len(text))]):
        yield name, start, end


def _plain(heading: str) -> str:
    return " ".join(re.sub("[`~*]", "", heading.split("{")[0]).split())


def _most_related(name: str, inside: Sequence[Sentence], language: str, to_do: str) -> Sentence | None:
    """Return the first sentence with the most words of a heading; None if no sentence has half of the words.

    For an action, only instructions with its verb are considered.
    """
    wanted, verb = _stems(name, language), _stems(to_do.partition(" ")[0], language)
    stems = {one: _stems(one.text, language) for one in inside}
    possible = [one for one in inside if not to_do or (_INSTRUCTION[language].search(one.text) and verb <= stems[one])]
    best = max(possible, key=lambda one: len(wanted & stems[one]), default=None)
    return best if best is not None and 2 * len(wanted & stems[best]) >= len(wanted) > 0 else None


def _stems(text: str, language: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in content_words(text, language))


def _lower_common_words(name: str, inside: frozenset[str]) -> str:
    """Lower the case of a heading's words after the first, except names."""
    first, *others = name.split()
    return " ".join([first, *(lower_start(word, inside) for word in others)])


def _question(name: str, action: str, language: str) -> str:
    """Return a heading's question, or the question of how to perform its action."""
    if not action:
        return f"{name.rstrip('? ')}{'?' if language == 'en' else ' ?'}"
    return f"How do you {action}?" if language == "en" else f"Comment {action} ?"


def _action(name: str, language: str) -> str:
    """Return a heading's action in the infinitive; "" if the heading is a single word or does not name an action."""
    if language == "fr":
        return name[:1].lower() + name[1:] if _INFINITIVE.match(name) else ""
    first, _, rest = name.partition(" ")
    verb = first.lower()
    if rest and verb in _VERBS and (verb not in _NOUNS or rest.partition(" ")[0] in _DETERMINERS):
        return f"{verb} {rest}"
    return f"{_GERUNDS[verb]} {rest}" if rest and verb in _GERUNDS else ""
