"""Make questions from headings: how to do what a heading says, what it asks, or the main points of its section."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ragsweep.core.types import Corpus
from ragsweep.curation.drafts import Candidate, Sentence
from ragsweep.curation.wording import lower_start, words_inside
from ragsweep.golden.sections import headings
from ragsweep.parts.languages import content_words

LONGEST_NAME = 10
"""Words of a heading that is asked about."""
_CODE = re.compile(r"[{}<>=|\\$#@*^~\[\]]|https?:")
_STEP = re.compile(r"^(?:(?:Step|Part|Étape|Partie) )?\d+(?:\.\d+)*[.:)]? +(?=\w)")
_STEM = 5  # characters of a word that are compared

_ALL_VERBS = """
    add adjust allow annotate apply assign avoid await call change check choose combine compile configure connect
    convert copy create customize debug declare define delete deploy disable document edit embed enable export
    extend filter find format generate get handle hash import include inject inspect install integrate interact load
    manage merge migrate mount open order organize override parse pass pin preprocess protect raise read receive
    reduce register remove rename replace reproduce restart restrict return reuse review run save secure select send
    serve set share sort split start stop store test translate update upgrade upload use validate verify write
"""
_VERBS = frozenset(_ALL_VERBS.split())
_ALSO_NOUNS = """
    call change check copy debug document edit export filter find format handle hash import load merge open order
    parse pass pin read return reuse review run set share sort split start stop store test update upgrade upload use
"""
_NOUNS = frozenset(_ALSO_NOUNS.split())
"""Verbs that are nouns as well: the next word must show which."""
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
    "en": re.compile(
        rf"\b[Yy]ou (?:can|could|need|should|have to|must)\b|^(?:{'|'.join(sorted(_VERBS)).title()})\b"
    ),
    "fr": re.compile(r"\b(?:[Vv]ous (?:pouvez|devez|devriez)|[Ii]l (?:faut|suffit))\b|^\w+ez\b"),
}  # fmt: skip
"""A sentence that says what to do."""
_QUESTION = {
    "en": re.compile(
        r"^(?:(?:What|Which|Why|How|When|Where|Who|Is|Are|Can|Do|Does|Should) [^?]*\?|What (?:is|are) [^?]*)$"
    ),
    "fr": re.compile(
        r"^(?:Pourquoi|Comment|Quels?|Quelles?|Qui|Que|Qu['’]|Quand|Où|Est-ce|Existe|Y a-t-il|Puis-je|Peut-on)\b"
        r"[^?]*\?$"
    ),
}  # fmt: skip
_SUMMARY = {"en": 'What are the main points of "{}"?', "fr": "Quels sont les points principaux de « {} » ?"}
_TOPIC = {"en": 'What does "{}" say about {}?', "fr": "Que dit « {} » sur {} ?"}
_QUOTED = {"en": '"{}"', "fr": "« {} »"}
_UNSPECIFIC = frozenset(
    ["what happens", "in detail", "in short", "more info", "technical details", "next steps", "the problem"]
)
_LINKING = {
    "en": re.compile(
        r"^(?:This|That|These|Those|It|They|We|I|Now|But|And|So|Here|There|Note|Notice|Keep|At that|In (?:this|that)|"
        r"For (?:this|that|example)|You will see|The same|Of course|As (?:you|it|this|we)|Also|Or|Then|After that|"
        r"First|In (?:the|those|these|fact)|With (?:this|that))\b|"
        r"\b(?:[Ll]et's|previous|above|below|[Nn]ext (?:section|chapter)|as (?:before|you saw)|already)\b"
    ),
    "fr": re.compile(
        r"^(?:Ce|Cet|Cette|Ces|Cela|Il|Elle|Ils|Elles|Nous|Je|Mais|Et|Donc|Ici|Voici|Voyons|Ainsi|Puis|Ensuite)\b|"
        r"^C['’]|\b(?:précédente?s?|suivante?s?|ci-dess(?:us|ous))\b"
    ),
}
"""A sentence that leans on another one, and is no main point by itself."""


def ask_for_sections(corpus: Corpus, found: Sequence[Sentence], language: str) -> Iterator[Candidate]:
    """Yield a question for every section with two sentences, one after the other, that have words of its heading."""
    of_document: dict[int, list[Sentence]] = {}
    for sentence in (one for one in found if not _LINKING[language].search(one.text)):
        of_document.setdefault(sentence.document, []).append(sentence)
    for document, own in of_document.items():
        title, inside_text = _plain(corpus.titles[document]), words_inside(one.text for one in own)
        for heading, start, end in _sections(corpus, document, language):
            name = _STEP.sub("", _plain(heading))
            inside = [one for one in own if start <= one.start < end]
            if not 1 < len(name.split()) <= LONGEST_NAME or _CODE.search(name + title) or '"' in name + title:
                continue
            if name.lower() in _UNSPECIFIC:
                continue
            if about := _most_related(name, inside, language):
                lowered = _lower_common_words(name, inside_text)
                of = "" if title == name else title
                question, pattern, bloom = _question(lowered, of, language, _instructs(about, language))
                yield Candidate(question, "\n".join(one.text for one in about), about, pattern, bloom, "summary", name)


def _sections(corpus: Corpus, document: int, language: str) -> Iterator[tuple[str, int, int]]:
    """Yield headings with their sections' begin and end; a document without any has a title that asks, or none."""
    text, title = corpus.texts[document], corpus.titles[document]
    asks = _QUESTION[language].match(title) or _action(title, language)
    marks = [(one.text, one.start) for one in headings(text)] or ([(title, 0)] if asks else [])
    for (name, start), (_, end) in pairwise([*marks, ("", len(text))]):
        yield name, start, end


def _plain(heading: str) -> str:
    return " ".join(re.sub("[`~*]", "", heading.split("{")[0]).split())


def _most_related(name: str, inside: Sequence[Sentence], language: str) -> tuple[Sentence, ...]:
    """Return the two sentences, one after the other, that have most words of a heading; none below half of these.

    Where the heading is something to do, those that say what to do come first.
    """
    wanted, acts = _stems(name, language), bool(_action(name, language))

    def fitness(two: tuple[Sentence, ...]) -> tuple[bool, int, int]:
        each = [wanted & _stems(one.text, language) for one in two]
        return acts and _instructs(two, language), len(frozenset.union(*each)), sum(map(len, each))

    related = [two for two in pairwise(inside) if 2 * fitness(two)[1] >= len(wanted) > 0]
    return max(related, key=fitness, default=())


def _instructs(two: Sequence[Sentence], language: str) -> bool:
    return any(_INSTRUCTION[language].search(one.text) for one in two)


def _stems(text: str, language: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in content_words(text, language))


def _lower_common_words(name: str, inside: frozenset[str]) -> str:
    """Lower the capitals of a heading's words after the first, unless these are names."""
    first, *others = name.split()
    return " ".join([first, *(lower_start(word, inside) for word in others)])


def _question(name: str, title: str, language: str, instructs: bool) -> tuple[str, str, str]:
    """Return the question about a section, its pattern and its level; ``title`` is the document's, if another."""
    if _QUESTION[language].match(name):
        mark = "?" if language == "en" else " ?"
        return f"{name.rstrip('? ')}{mark}", "heading", "understand"
    if instructs and (action := _action(name, language)):
        return (f"How do you {action}?" if language == "en" else f"Comment {action} ?"), "how", "apply"
    if not title:
        return _SUMMARY[language].format(name), "summary", "understand"
    is_task = language == "en" and (action := _action(name, language))
    topic = f"how to {action}" if is_task else _QUOTED[language].format(name)
    return _TOPIC[language].format(title, topic), "summary", "understand"


def _action(name: str, language: str) -> str:
    """Return what a heading says to do, with an infinitive; nothing where it names a thing."""
    if language == "fr":
        return name[:1].lower() + name[1:] if _INFINITIVE.match(name) else ""
    first, _, rest = name.partition(" ")
    verb = first.lower()
    if verb in _VERBS and (verb not in _NOUNS or rest.split()[0] in _DETERMINERS):
        return f"{verb} {rest}"
    return f"{_GERUNDS[verb]} {rest}" if verb in _GERUNDS else ""
