"""The rules that turn a sentence or a heading into a question, by language."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ragsweep.core.types import Corpus
from ragsweep.golden.markdown import headings
from ragsweep.parts.languages import content_words
from ragsweep_golden.building.drafts import Draft, Sentence
from ragsweep_golden.building.wording import (
    CODE,
    PRONOUNS,
    alternatives,
    fill,
    lists,
    lower_start,
    word_set,
    words_inside,
)


class SentenceRule(NamedTuple):
    """A rule that makes a question from a sentence.

    The group ``a`` of ``pattern`` is the answer. ``question`` returns the question for the matched groups.
    """

    name: str
    pattern: re.Pattern[str]
    question: Callable[[Mapping[str, str]], str]
    bloom: str
    reasoning_class: str = "single_fact"


_SUBJECT = {language: rf"(?P<s>(?!{pronouns})[^\W\d_][^,;:()!?]{{1,50}}?)" for language, pronouns in PRONOUNS.items()}
_BASES: Mapping[str, str] = lists("en")["bases"]
"""Third-person verb, such as ``returns``, -> its base form."""


def _english_rule(found: Mapping[str, str]) -> str:
    modal, negative = found["m"].split()[0], " not" if "not" in found["m"] or found["m"] == "cannot" else ""
    modal = "can" if modal == "cannot" else modal
    return f"What {modal} {found['s']}{negative} do?"


def _why(found: Mapping[str, str]) -> str:
    """Return a question about the cause of the clause ``e``; an auxiliary verb is moved before the subject."""
    if clause := _AUXILIARY.match(found["e"]):
        return f"Why {clause['v']} {clause['s']}{clause['r']}?"
    return f"What is the reason that {found['e']}?"


def _french_rule(found: Mapping[str, str]) -> str:
    modal = f"ne {found['m']} pas" if "n" in found else found["m"]
    return f"Que {modal} faire {found['s']} ?"


def _english_scenario(found: Mapping[str, str]) -> str:
    condition = f"{found['w'].lower()} {found['c']}"
    advice = _ADVICE.match(found["a"])
    return f"What {advice['m'] or 'should'} you do {condition}?" if advice else f"What happens {condition}?"


_ADVICE = re.compile(rf"you (?P<m>can|could|should|must)\b(?! (?:be|not)\b)|(?:{alternatives('en', 'advice')})\b")
"""Matches an answer that is an instruction."""

_AUXILIARY = re.compile(
    r"(?P<s>(?:(?!that |which |who |if |when |and |or )[\w'’.`-]+ ){1,5}?)(?P<v>is|are|was|were|can|will|should|must|would) (?P<r>.+)"
)


def _french_definition(found: Mapping[str, str]) -> str:
    if found["v"] == "sont":
        return f"Que sont {found['s']} ?"
    is_name = found["s"][:1].isupper()
    if (is_name and _PERSON.match(found["a"])) or _NAMED_PERSON.match(found["s"]):
        return f"Qui est {found['s']} ?"
    # a name without an article may be a person's name
    is_thing = not is_name or _THING.search(found["s"])
    return fill("Qu'est-ce que {} ?" if is_thing else "Que sait-on de {} ?", found["s"])


_PERSON = re.compile(rf"(?:une? |le |la |l['’])(?:\w+ )?(?:{alternatives('fr', 'persons')})\b")
_NAMED_PERSON = re.compile(rf"{_PERSON.pattern} [A-ZÀÉ]\S+ [A-ZÀÉ]")
_THING = re.compile(r"[\d_.(]|[A-Z]{2}|[a-z][A-Z]|^\w+ [a-zé]{4,}$")


def _french_scenario(found: Mapping[str, str]) -> str:
    blank = "" if found["w"][-1] in "’'" else " "
    condition = f"{found['w'].lower()}{blank}{found['c']}"
    if advice := _FRENCH_ADVICE.match(found["a"]):
        asked = f"Que {advice['m']}-vous" if advice["m"] else "Que faut-il"
        return f"{asked} faire {condition} ?"
    return f"Que se passe-t-il {condition} ?"


_FRENCH_ADVICE = re.compile(
    r"vous (?P<m>pouvez|devez|devriez|pourriez)\b|(?:nous vous (?:suggérons|conseillons)|[a-zé]+ez)\b"
)


def _compiled(language: str, pattern: str) -> re.Pattern[str]:
    return re.compile(rf"^{pattern.replace('SUBJECT', _SUBJECT[language])}$")


RULES: Mapping[str, tuple[SentenceRule, ...]] = {
    "en": (
        SentenceRule("definition", _compiled("en", r"SUBJECT (?P<v>is|are) (?P<a>(?:an?|the|one of)\b.{10,})"),
             lambda m: f"What {m['v']} {m['s']}?", "remember"),
        SentenceRule("causal", _compiled("en", rf"(?P<e>(?!{PRONOUNS['en']})[^,;:]{{10,90}}?),? because (?P<a>(?!of ).{{8,}})"),
             _why, "analyse", "reasoning"),
        SentenceRule("rule", _compiled("en", r"SUBJECT (?P<m>must not|must|should not|should|cannot) (?P<a>(?!be )[a-z].{6,})"),
             _english_rule, "understand"),
        SentenceRule("procedure", _compiled("en", r"(?:To|In order to) (?P<g>[a-z]+ [^,]{3,80}), (?P<a>.{10,})"),
             lambda m: f"How do you {m['g']}?", "apply"),
        SentenceRule("procedure", _compiled("en", r"If you (?:want|need) to (?P<g>[a-z]+ [^,]{3,80}), (?P<a>.{10,})"),
             lambda m: f"How do you {m['g']}?", "apply"),
        SentenceRule("means", _compiled("en", r"You can (?P<a>[a-z][^,]{5,90}?) to (?P<g>(?!the |an? |it|which |whom |be able|all |any |both |each |many |other |your )"
                                      r"(?!\w+(?:ing|ed|[^s]s) )[a-z]+ [^,]{4,80})"),
             lambda m: f"How can you {m['g']}?", "apply"),
        SentenceRule("scenario", _compiled("en", r"(?P<w>If|When|Once|Whenever) (?P<c>(?:(?! it | this | that | they )[^,]){8,100}), "
                                         r"(?P<a>.{10,})"),
             _english_scenario, "understand"),
        SentenceRule("fact", _compiled("en", rf"SUBJECT (?P<v>{'|'.join(_BASES)}) (?P<a>(?!to ).{{8,}})"),
             lambda m: f"What does {m['s']} {_BASES[m['v']]}?", "remember"),
        SentenceRule("fact", _compiled("en", rf"SUBJECT(?<=[a-z]s) (?P<v>{'|'.join(_BASES.values())}) (?P<a>.{{8,}})"),
             lambda m: f"What do {m['s']} {m['v']}?", "remember"),
    ),
    "fr": (
        SentenceRule("definition", _compiled("fr", r"SUBJECT (?P<v>est|sont) (?P<a>(?:une?|des|le|la|les|l['’])\b.{10,})"),
             _french_definition, "remember"),
        SentenceRule("causal", _compiled("fr", rf"(?P<e>(?!{PRONOUNS['fr']})(?:[^,;: ]+ ){{3}}[^,;:]{{1,90}}?),? (?:parce qu(?:e |['’])|car )(?P<a>.{{8,}})"),
             lambda m: fill("Pourquoi est-ce que {} ?", m["e"]), "analyse", "reasoning"),
        SentenceRule("rule", _compiled("fr", r"SUBJECT (?P<n>ne )?(?P<m>doit|doivent|devrait|devraient)(?: pas| jamais)? (?P<a>(?!être )[a-zéêà].{6,})"),
             _french_rule, "understand"),
        SentenceRule("procedure", _compiled("fr", r"(?:Pour|Afin de|Afin d['’]) ?(?P<g>[a-zéèêîôûç]+(?:er|ir|re)\b[^,]{0,80}), (?P<a>(?:vous |on |il (?:faut|suffit) |\w+ez\b).{9,})"),
             lambda m: f"Comment {m['g']} ?", "apply"),
        SentenceRule("means", _compiled("fr", r"SUBJECT (?P<v>permet|permettent) (?P<a>(?:de |d['’]).{6,})"),
             lambda m: f"Que {m['v']} {m['s']} ?", "understand"),
        SentenceRule("scenario", _compiled("fr", r"(?P<w>(?:Si|Lorsque|Quand)(?= )|Lorsqu['’]|S['’](?=ils? )) ?(?P<c>[^,]{8,100}), (?P<a>.{10,})"),
             _french_scenario, "understand"),
        SentenceRule("fact", _compiled("fr", r"SUBJECT (?P<v>VERB) (?P<a>.{8,})".replace("VERB", alternatives("fr", "facts"))),
             lambda m: fill("Que {} ?", f"{m['v']} {m['s']}"), "remember"),
    ),
}  # fmt: skip
"""Language -> rules in order of precedence: the first rule that matches a sentence makes its question."""


LONGEST_NAME = 10  # maximum number of words of a heading that can become a question
_STEP = re.compile(r"^(?:(?:Step|Part|Étape|Partie) )?\d+(?:\.\d+)*[.:)]? +(?=\w)")
_STEM = 5  # number of leading characters by which words are compared
_VERBS, _NOUNS = word_set("en", "verbs"), word_set("en", "also_nouns")
"""Verbs that may begin a heading, and the verbs among them that count as nouns unless a determiner follows."""
_DETERMINERS = frozenset(["a", "an", "all", "any", "each", "multiple", "several", "the", "to", "your"])

_GERUNDS: Mapping[str, str] = {
    form: verb for verb in sorted(_VERBS) for form in (f"{verb.removesuffix('e')}ing", f"{verb}{verb[-1]}ing")
}
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
"""Matches a sentence that depends on the sentences around it."""


def ask_for_sections(corpus: Corpus, found: Sequence[Sentence], language: str) -> Iterator[Draft]:
    """Yield a question for each heading that is a question or names an action, if its section has an answer.

    The answer is a sentence of the section (see ``_most_related``). Headings of a single word, of more than
    LONGEST_NAME words, or with code or a double quote are skipped.
    """
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
            first, *others = name.split()
            lowered = " ".join([first, *(lower_start(word, inside_text) for word in others)])  # names stay capitalised
            asks = _QUESTION[language].match(lowered)
            action = "" if asks else _action(lowered, language)
            about = _most_related(name, inside, language, action) if asks or action else None
            if about:
                pattern, bloom = ("heading", "understand") if asks else ("how", "apply")
                question = _question(lowered, action, language)
                yield about.draft(question, about.text, pattern, bloom, "summary", name)


def _sections(corpus: Corpus, document: int, language: str) -> Iterator[tuple[str, int, int]]:
    """Yield (heading, start, end) for each section of a document.

    In a document without headings, the title is the heading of the whole text, if the title is a question or names an
    action.
    """
    text, title = corpus.texts[document], corpus.titles[document]
    asks = _QUESTION[language].match(title) or _action(title, language)
    marks = [(one.text, one.start) for one in headings(text)] or ([(title, 0)] if asks else [])
    for (name, start), (_, end) in pairwise([*marks, ("", len(text))]):
        yield name, start, end


def _plain(heading: str) -> str:
    return " ".join(re.sub("[`~*]", "", heading.split("{")[0]).split())


def _most_related(name: str, inside: Sequence[Sentence], language: str, to_do: str) -> Sentence | None:
    """Return the sentence in ``inside`` with the most words of the heading ``name``; on a tie, the first one.

    ``to_do`` is the action that the heading names, or "". For an action, only instructions with the verb of the action
    are considered. Returns None if no sentence has half of the heading's words.
    """
    wanted, verb = _stems(name, language), _stems(to_do.partition(" ")[0], language)
    stems = {one: _stems(one.text, language) for one in inside}
    possible = [one for one in inside if not to_do or (_INSTRUCTION[language].search(one.text) and verb <= stems[one])]
    best = max(possible, key=lambda one: len(wanted & stems[one]), default=None)
    return best if best is not None and 2 * len(wanted & stems[best]) >= len(wanted) > 0 else None


def _stems(text: str, language: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in content_words(text, language))


def _question(name: str, action: str, language: str) -> str:
    if not action:
        return f"{name.rstrip('? ')}{'?' if language == 'en' else ' ?'}"
    return f"How do you {action}?" if language == "en" else f"Comment {action} ?"


def _action(name: str, language: str) -> str:
    """Return the action that a heading of several words names, in the infinitive; "" if the heading names none."""
    if language == "fr":
        return name[:1].lower() + name[1:] if _INFINITIVE.match(name) else ""
    first, _, rest = name.partition(" ")
    verb = first.lower()
    if rest and verb in _VERBS and (verb not in _NOUNS or rest.partition(" ")[0] in _DETERMINERS):
        return f"{verb} {rest}"
    return f"{_GERUNDS[verb]} {rest}" if rest and verb in _GERUNDS else ""
