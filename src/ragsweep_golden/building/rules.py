"""The rules that turn a sentence into a question, by language."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ragsweep_golden.building.wording import PRONOUNS, alternatives, base_forms, fill


class SentenceRule(NamedTuple):
    """A sentence pattern, whose group ``a`` is the answer, and a function from its groups to the question."""

    name: str
    pattern: re.Pattern[str]
    question: Callable[[Mapping[str, str]], str]
    bloom: str
    reasoning_class: str = "single_fact"


_SUBJECT = {language: rf"(?P<s>(?!{pronouns})[^\W\d_][^,;:()!?]{{1,50}}?)" for language, pronouns in PRONOUNS.items()}
_BASES = base_forms("en")


def _english_rule(found: Mapping[str, str]) -> str:
    modal, negative = found["m"].split()[0], " not" if "not" in found["m"] or found["m"] == "cannot" else ""
    modal = "can" if modal == "cannot" else modal
    return f"What {modal} {found['s']}{negative} do?"


def _why(found: Mapping[str, str]) -> str:
    """Ask for the cause of a clause, with its auxiliary verb, if any, moved before its subject."""
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
    # a name without an article may be a person
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
"""Language -> rules in order of precedence; the first match makes a sentence's question."""
