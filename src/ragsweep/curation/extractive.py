"""Make questions from sentences by rule: what a sentence says is the answer, and where it stands the evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ragsweep.core.types import Corpus, Spans
from ragsweep.curation.drafts import Draft
from ragsweep.curation.wording import fill, lower_start, without_lead_in, words_inside
from ragsweep.golden.rendered import Derived, render
from ragsweep.golden.sections import headings
from ragsweep.parts.languages import detect_language
from ragsweep.parts.sentences import sentences

LANGUAGES = {"en": "english", "fr": "french"}
WORDS = range(6, 41)
"""Words of a sentence that is asked about."""
LONGEST_QUESTION = 160

_CODE = re.compile(r"[{}<>=|\\$#@*^~\[\]]|https?:")
_WRAP = re.compile(r"[ \t]*\r?\n[ \t>]*")
_WORD = re.compile(r"[\w'’-]+")


class Sentence(NamedTuple):
    """A sentence of a document's visible text, where it stands in the source, and in which chunk."""

    text: str
    document: int
    chunk: int
    start: int
    end: int


class Candidate(NamedTuple):
    """A question made from one or several sentences. ``answer``: verbatim, one line a sentence."""

    question: str
    answer: str
    sentences: tuple[Sentence, ...]
    pattern: str
    bloom: str
    reasoning_class: str
    subject: str = ""


class SentenceRule(NamedTuple):
    """A pattern of sentences, and the question that it makes of a match; ``answer`` is the group that answers."""

    name: str
    pattern: re.Pattern[str]
    question: Callable[[Mapping[str, str]], str]
    bloom: str
    reasoning_class: str = "single_fact"


PRONOUNS = {
    "en": r"(?:It|This|That|These|Those|They|We|You|There|Here|He|She|I|Then|And|But|So|Or|Now|In|On|At|For|As|By|With|From|When|"
    r"If|Also|What|Which|Both|All|Each|Some|Many|One|Another|Once|Because|After|Before|Note|Remember|Not|Even|Its|Their|His|Her|"
    r"Your|Our|My)\b",
    "fr": r"(?:Il|Elle|Ils|Elles|Ce|Cet|Cette|Ces|Cela|Ceci|Ça|C['’]|On|Nous|Vous|Je|J['’]|Tu|Ici|Alors|Et|Mais|Donc|Ou|Dans|"
    r"Sur|Pour|Par|Avec|Quand|Si|S['’]|Aussi|Qui|Que|Tout|Tous|Chacun|Certains|Un autre|Son|Sa|Ses|Leur|Leurs|Votre|Vos|Notre|"
    r"Nos|Durant|Depuis|Pendant|Lors|Après|Avant|Selon|Malgré|En|À|De|Du|D['’]|Plus|Comme|Puis)\b",
}
_SUBJECT = {language: rf"(?P<s>(?!{pronouns})[^\W\d_][^,;:()!?]{{1,50}}?)" for language, pronouns in PRONOUNS.items()}
_BASES = {
    "returns": "return", "provides": "provide", "supports": "support", "uses": "use", "requires": "require",
    "contains": "contain", "includes": "include", "allows": "allow", "creates": "create", "generates": "generate",
    "gives": "give", "needs": "need", "takes": "take", "means": "mean", "defines": "define", "handles": "handle",
    "adds": "add", "sends": "send", "receives": "receive", "has": "have", "makes": "make", "offers": "offer",
    "represents": "represent", "describes": "describe", "produces": "produce",
}  # fmt: skip


def _english_rule(found: Mapping[str, str]) -> str:
    modal, negative = found["m"].split()[0], " not" if "not" in found["m"] or found["m"] == "cannot" else ""
    modal = "can" if modal == "cannot" else modal
    return f"What {modal} {found['s']}{negative} {'be' if found['a'].startswith('be ') else 'do'}?"


def _french_rule(found: Mapping[str, str]) -> str:
    verb = "être" if found["a"].startswith("être ") else "faire"
    modal = f"ne {found['m']} pas" if "n" in found else found["m"]
    return f"{'Comment' if verb == 'être' else 'Que'} {modal} {verb} {found['s']} ?"


def _english_scenario(found: Mapping[str, str]) -> str:
    condition = f"{found['w'].lower()} {found['c']}"
    advice = _ADVICE.match(found["a"])
    return f"What {advice['m'] or 'should'} you do {condition}?" if advice else f"What happens {condition}?"


_ADVICE = re.compile(
    r"you (?P<m>can|could|should|must)\b(?! (?:be|not)\b)|(?:use|make|add|check|compare|install|set|try|call|see|read|write|run|"
    r"create|remove|start|open|click|put|choose|select|contact|send|ask|cover)\b"
)
"""An answer that says what to do, not what happens."""


def _french_definition(found: Mapping[str, str]) -> str:
    if found["v"] == "sont":
        return f"Que sont {found['s']} ?"
    # what has a name and no article may be a person
    return fill("Que sait-on de {} ?" if found["s"][:1].isupper() else "Qu'est-ce que {} ?", found["s"])


def _compiled(language: str, pattern: str) -> re.Pattern[str]:
    return re.compile(rf"^{pattern.replace('SUBJECT', _SUBJECT[language])}$")


RULES: Mapping[str, tuple[SentenceRule, ...]] = {
    "en": (
        SentenceRule("definition", _compiled("en", r"SUBJECT (?P<v>is|are) (?P<a>(?:an?|the|one of)\b.{10,})"),
             lambda m: f"What {m['v']} {m['s']}?", "remember"),
        SentenceRule("causal", _compiled("en", rf"(?P<e>(?!{PRONOUNS['en']})[^,;:]{{10,90}}?),? because (?P<a>(?!of ).{{8,}})"),
             lambda m: f"What is the reason that {m['e']}?", "analyse", "reasoning"),
        SentenceRule("rule", _compiled("en", r"SUBJECT (?P<m>must not|must|should not|should|cannot) (?P<a>[a-z].{6,})"),
             _english_rule, "understand"),
        SentenceRule("procedure", _compiled("en", r"(?:To|In order to) (?P<g>[a-z]+ [^,]{3,80}), (?P<a>.{10,})"),
             lambda m: f"How do you {m['g']}?", "apply"),
        SentenceRule("procedure", _compiled("en", r"If you (?:want|need) to (?P<g>[a-z]+ [^,]{3,80}), (?P<a>.{10,})"),
             lambda m: f"How do you {m['g']}?", "apply"),
        SentenceRule("means", _compiled("en", r"You can (?P<a>[a-z][^,]{5,90}?) to (?P<g>(?!the |an? |it|be able|all |any |both |each |many |other |your )"
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
             lambda m: f"Pour quelle raison {m['e']} ?", "analyse", "reasoning"),
        SentenceRule("rule", _compiled("fr", r"SUBJECT (?P<n>ne )?(?P<m>doit|doivent|devrait|devraient)(?: pas| jamais)? (?P<a>[a-zéêà].{6,})"),
             _french_rule, "understand"),
        SentenceRule("procedure", _compiled("fr", r"(?:Pour|Afin de|Afin d['’]) ?(?P<g>[a-zéèêîôûç]+(?:er|ir|re)\b[^,]{0,80}), (?P<a>(?:vous |on |il (?:faut|suffit) |\w+ez\b).{9,})"),
             lambda m: f"Comment {m['g']} ?", "apply"),
        SentenceRule("means", _compiled("fr", r"SUBJECT (?P<v>permet|permettent) (?P<a>(?:de |d['’]).{6,})"),
             lambda m: f"Que {m['v']} {m['s']} ?", "understand"),
        SentenceRule("scenario", _compiled("fr", r"(?P<w>(?:Si|Lorsque|Quand)(?= )|Lorsqu['’]|S['’](?=ils? )) ?(?P<c>[^,]{8,100}), (?P<a>.{10,})"),
             lambda m: f"Que se passe-t-il {m['w'].lower()}{'' if m['w'][-1] in '’' + chr(39) else ' '}{m['c']} ?",
             "understand"),
        SentenceRule("fact", _compiled("fr", r"SUBJECT (?P<v>retourne|renvoie|contient|utilise|fournit|nécessite|crée|génère|offre|comprend|"
                                     r"désigne|reçoit|possède|compte) (?P<a>.{8,})"),
             lambda m: fill("Que {} ?", f"{m['v']} {m['s']}"), "remember"),
    ),
}  # fmt: skip
"""Language -> rules, tried in this order; the first that matches a sentence makes its question."""

_SUMMARY = {"en": 'What are the main points of "{}"?', "fr": "Quels sont les points principaux de « {} » ?"}
_DIFFERENCE = {"en": "What is the difference between {} and {}?", "fr": "Quelle est la différence entre {} et {} ?"}


_LINKING = {
    "en": re.compile(
        r"^(?:This|That|These|Those|It|They|We|I|Now|But|And|So|Here|There|Note|Notice|Keep|At that|In (?:this|that)|For (?:this|that|example)|You will see)\b|\b[Ll]et's\b"
    ),
    "fr": re.compile(r"^(?:Ce|Cet|Cette|Ces|Cela|Il|Elle|Ils|Elles|Nous|Je|Mais|Et|Donc|Ici|Voici|Voyons)\b|^C['’]"),
}
"""A sentence that leans on another one, and is no main point by itself."""


def read_sentences(corpus: Corpus, spans: Spans, documents: Sequence[int], language: str) -> list[Sentence]:
    """Return the whole sentences of documents' visible texts, with the chunk that has all of each; code aside."""
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
    """Yield the sentences of a text that are prose in a language, with their places; none goes beyond a line."""
    for begin, end in sentences(text, LANGUAGES[language]):
        at = begin
        for piece in text[begin:end].split("\n"):
            sentence = piece.strip()
            if _is_prose(sentence) and detect_language(sentence) in ("", language):
                yield at + len(piece) - len(piece.lstrip()), sentence
            at += len(piece) + 1


def _unwrapped(source: str, form: Derived) -> str:
    """Make one line of each paragraph: its line breaks are blanks in the source as well, and no block begins there."""
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
        and not _CODE.search(text)
        and text.count('"') % 2 == 0
    )


DANGLING = {
    "en": re.compile(
        r"\b(?:it|they|them|those|these|this|that's|one|the same|above|below|so|such)\b|\b(?:that|which|I|just|let's)"
        r"(?: \w+)?\?$|\bwhat (?:do|does|is|are|must|should) (?:\w+ing|check|suppose|imagine|let|make sure)\b",
        re.IGNORECASE,
    ),
    "fr": re.compile(
        r"\b(?:cela|ça|celui|celle|ceux|eux|ci-dessus|ci-dessous|ainsi|ceci|le même|cette|ces|cet|ce cas|ce n)\b|(?<!-)\bce (?=\w)|"
        r"^(?:Que|Qu'est-ce que) (?:\w+ )?(?:\w+er|\w+ez)\b",
        re.IGNORECASE,
    ),
}
"""What refers to another sentence, or is no subject at all."""
_LONGEST_SUBJECT = 5
_FEWEST_WORDS = 3  # of an answer
_VAGUE_ANSWER = {
    "en": re.compile(
        r"(?:or|and|but|as|it|they|this|that|also|then|so|like|such as|here)\b|\w+ (?:it|them|this|that)$",
        re.IGNORECASE,
    ),
    "fr": re.compile(
        r"(?:ou|et|mais|comme|il|elle|ils|elles|cela|ça|ceci|aussi|alors|donc|ici|en effet|en revanche|"
        r"également|aujourd['’]hui)\b",
        re.IGNORECASE,
    ),
}
_LISTED = {
    "en": re.compile(r"(?:[^,]{1,60}, ){1,2}(?:and|or|etc)\b"),
    "fr": re.compile(r"(?:[^,]{1,60}, ){1,2}(?:et|ou|etc)\b"),
}
"""An enumeration of conditions, of which the first was taken for the condition."""
_NO_SUBJECT = {
    "en": re.compile(
        r"\b(?:that|which|who|you|we|and|or|also|always|almost|still|only|just|often|usually|inherits|common|same|other)\b",
        re.IGNORECASE,
    ),
    "fr": re.compile(
        r"\b(?:qui|que|vous|nous|et|ou|aussi|toujours|presque|même|autre|ne|ils?|elles?)\b|\bn['’]|\ben$", re.IGNORECASE
    ),
}


TYPES: Mapping[str, tuple[str, ...]] = {
    "definition": ("definition", "conceptual", "factual"),
    "causal": ("troubleshooting", "conceptual", "factual"),
    "rule": ("rule", "factual"),
    "procedure": ("procedural", "how_to"),
    "means": ("procedural", "how_to"),
    "scenario": ("scenario", "troubleshooting", "factual"),
    "fact": ("factual",),
    "summary": ("summary", "conceptual", "factual"),
    "difference": ("comparative", "conceptual", "factual"),
}
"""Pattern -> its question type: the first of these that is in the wanted mix, else the first of all."""
_CODED = ("code_lookup",)


def draft_by_rule(corpus: Corpus, found: Sequence[Sentence], language: str, mix: Mapping[str, float]) -> list[Draft]:
    """Make a draft of every question that the rules find in sentences of one language, in the documents' order."""
    asked = list(ask_by_rule(found, language))
    definitions = [one for one in asked if one.pattern == "definition"]
    every = [*asked, *ask_for_summaries(corpus, found, language), *ask_for_differences(definitions, language)]
    usable = sorted(unambiguous(every, language), key=lambda one: (one.sentences[0].document, one.sentences[0].start))
    return [_draft(one, corpus, language, mix) for one in usable]


def _draft(one: Candidate, corpus: Corpus, language: str, mix: Mapping[str, float]) -> Draft:
    first = one.sentences[0]
    coded = any("`" in corpus.texts[each.document][each.start : each.end] for each in one.sentences)
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


def _stands_alone(one: Candidate, language: str) -> bool:
    """Return whether question and answer can be read without the sentences around them."""
    if DANGLING[language].search(one.question) or any(
        text.count("(") != text.count(")") or text.count('"') % 2 for text in (one.question, one.answer)
    ):
        return False
    if one.pattern in ("summary", "difference"):
        return True
    vague = len(one.answer.split()) < _FEWEST_WORDS or _VAGUE_ANSWER[language].match(one.answer)
    listed = one.pattern in ("scenario", "procedure") and _LISTED[language].match(one.answer)
    subject = one.subject.split()
    clear = len(subject) <= _LONGEST_SUBJECT and not _NO_SUBJECT[language].search(one.subject)
    return clear and not vague and not listed


def unambiguous(candidates: Sequence[Candidate], language: str) -> list[Candidate]:
    """Return the candidates that stand alone and whose question no other one has, in their order."""
    asked = Counter(one.question.casefold() for one in candidates)
    return [one for one in candidates if asked[one.question.casefold()] == 1 and _stands_alone(one, language)]


def ask_by_rule(found: Sequence[Sentence], language: str) -> Iterator[Candidate]:
    """Yield the question of every sentence that a rule matches."""
    inside = words_inside(one.text for one in found)
    for sentence in found:
        body = without_lead_in(sentence.text[:-1], language)
        for rule in RULES[language]:
            match = rule.pattern.match(body)
            if match is None:
                continue
            groups = {
                name: lower_start(given, inside) if name in ("s", "e") else given
                for name, given in match.groupdict().items()
                if given is not None
            }
            question = rule.question(groups)
            if len(question) <= LONGEST_QUESTION:
                yield Candidate(question, groups["a"], (sentence,), rule.name, rule.bloom, rule.reasoning_class,
                                groups.get("s", ""))  # fmt: skip
            break


def ask_for_summaries(corpus: Corpus, found: Sequence[Sentence], language: str) -> Iterator[Candidate]:
    """Yield a question for every section with two sentences or more that say something: its first two are the answer."""
    of_document: dict[int, list[Sentence]] = {}
    for sentence in (one for one in found if not _LINKING[language].search(one.text)):
        of_document.setdefault(sentence.document, []).append(sentence)
    for document, own in of_document.items():
        text = corpus.texts[document]
        marks = [*headings(text)]
        for heading, end in zip(marks, [*(later.start for later in marks[1:]), len(text)], strict=False):
            inside = [one for one in own if heading.start <= one.start < end]
            name = " ".join(re.sub("[`~*]", "", heading.text.split("{")[0]).split())
            if len(inside) < 2 or not 1 < len(name.split()) <= 8 or _CODE.search(name) or '"' in name:
                continue
            title = re.sub("[`~*]", "", corpus.titles[document])
            of = f" ({title})" if title not in ("", name) else ""
            yield Candidate(_SUMMARY[language].format(name + of), f"{inside[0].text}\n{inside[1].text}", tuple(inside[:2]),
                            "summary", "understand", "summary", name)  # fmt: skip


def ask_for_differences(definitions: Sequence[Candidate], language: str) -> Iterator[Candidate]:
    """Yield a question for every two definitions that follow each other in one document, in different chunks."""
    for one, other in pairwise(definitions):
        first, second = one.sentences[0], other.sentences[0]
        same = first.document == second.document and first.chunk != second.chunk
        if same and one.subject.lower() != other.subject.lower():
            question = _DIFFERENCE[language].format(one.subject, other.subject)
            yield Candidate(question, f"{first.text}\n{second.text}", (first, second), "difference", "analyse",
                            "reasoning", f"{one.subject} / {other.subject}")  # fmt: skip
