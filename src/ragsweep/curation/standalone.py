"""Recognise questions and answers that cannot be read without the text around them."""

from __future__ import annotations

import re

from ragsweep.curation.drafts import Candidate

DANGLING = {
    "en": re.compile(
        r"\b(?:it|they|them|those|these|this|that's|one|the same|above|below|so|such)\b|\b(?:that|which|I|just|let's)"
        r"(?: \w+)?\?$|^how (?:do|can) you (?:learn|know|see|find out|be|get more)\b|"
        r"\b(?:this|these|already|curious|in a hurry|confusing|starting with|just starting|came back|done|"
        r"don't know|needed to|(?:if|when|once) that)\b|\bthen\b[,?]|"
        r"\bwhat (?:do|does|is|are|must|should) (?:\w+ing|check|suppose|imagine|let|make sure)\b",
        re.IGNORECASE,
    ),
    "fr": re.compile(
        r"\b(?:cela|ça|celui|celle|ceux|eux|ci-dessus|ci-dessous|ainsi|ceci|le même|cette|ces|cet|ce cas|ce n)\b|"
        r"(?<!-)\bce (?=\w)|"
        r"^(?:Que|Qu'est-ce que) (?:\w+ )?(?:\w+er|\w+ez(?!-vous))\b|\b(?:si|quand|lorsque|lorsqu['’]|s['’]|qu['’]) ?"
        r"(?:elles?|ils|il(?! (?:y a|faut|est (?:possible|nécessaire)|existe))|c['’]|toutefois|(?:pour|dans|par|en) )|"
        r"\b(?:vous|on|nous) (?:les?|la|l['’]|lui|leur|y|en)\b",
        re.IGNORECASE,
    ),
}
"""What refers to another sentence, or is no subject at all."""
_LONGEST_SUBJECT = 5
_FEWEST_WORDS = 3  # of an answer
_VAGUE_ANSWER = {
    "en": re.compile(
        r"(?:or|and|but|nor|not|as|it|they|this|that|these|those|also|then|so|like|such as|here|you to|you the|us|them|"
        r"been|in|on|at|for|from|by|of|with|without|unless|instead|especially|because|while|including|another|"
        r"advantage of|the following|the same|go ahead|converted)\b|[\d.]+,|you can do it\b|\w+ (?:it|them|this|that)$|"
        r".*\b(?:this|these|those|previous|skip|next section|tutorial|chapter|disregard)\b",
        re.IGNORECASE,
    ),
    "fr": re.compile(
        r"(?:ou|et|ni|mais|comme|il|elle|ils|elles|cela|ça|ceci|aussi|alors|donc|ici|en|également|aujourd|notamment|c|d|qu|n|"
        r"près|par|dans|avec|pour|sur|de|à|afin|sans|qui|que|où|dont|toutefois|cependant|vers|même|puis|lors|depuis|entre|"
        r"sous|chez|ne|soit|si|une? autre)\b|"
        r".*(?:\b(?:cette|celui|celle|celles|ceux|ce derni|ci-dess)|d['’](?:elles?|eux)\b|,$)",
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
        r"\b(?:that|which|who|you|we|and|or|also|always|almost|still|only|just|often|usually|inherits|common|same|other|most|"
        r"nowhere|none|any|every|each|all|itself|actually|first|second|next|last|rest|previous|following|result|example|"
        r"examples|difference|reason|idea|point|way|problem)\b|(?-i:^[a-z]+(?<!s)$)|"
        r"(?-i:.\b(?:The|There|This|An?|In|If|When)\b)|\b(\w+) \1\b|^the (?:function|method|class|module|code|value|"
        r"object|file|program|script|user|system|page|name|argument|parameter)$",
        re.IGNORECASE,
    ),
    "fr": re.compile(
        r"(?i:\b(?:qui|que|vous|nous|et|ou|aussi|toujours|presque|même|autres?|ne|ils?|elles?|plupart|toute?s?|tous|"
        r"plusieurs|certaine?s?|principa(?:l|le|ux|les)|seule?s?|résultat|exemple|suivante?s?|précédente?s?|première?|"
        r"derni(?:er|ère)s?|raison|problème|différence)\b|\bn['’]|\b(?:en|se|s['’])$)|"
        r"^(?!(?:les?|la|un|une|des|du|chaque) |l['’])[a-zé]+ |\b(?:Les?|La|Des|Une?|Lorsqu\w*|[Qq]u['’])\b|"
        r"\b(?:les?|la|des|une?)$|^(?:les? |la )plus\b|^\w+(?:er|ir) (?:les?|la|une?|des) |"
        r"^(?:les? |la |l['’])(?:implémentation|classe|fonction|méthode|module|valeur|objet|bibliothèque|code|choix|"
        r"paramètre|argument|attribut|fichier|pays|ville|camp|film|groupe|album|livre|auteur|roi|équipe|club|jeu|série|"
        r"région|commune|"
        r"royaume|île|empire|parti|gouvernement|système|programme|projet|site|venin|genre|espèce|plante|animal)$",
    ),
}


_NARRATED = re.compile(
    r"\b(?:fut|furent|eut|eurent|vint|prit|mit|fit|dut|put|\w{3,}(?:èrent|irent|urent)|(?!\w*ra\b)\w{3,}[b-df-hj-np-tv-z]a|"
    r"\w{3,}(?:ait|aient))\b|^Que (?:doit|devrait) \w+ [A-ZÀÉ]"
)
"""A French condition or a duty of the past: what happened once is no rule."""
_OF_SEVERAL = ("summary", "how", "heading", "difference", "two cases", "two facts")


def stands_alone(one: Candidate, language: str) -> bool:
    """Return whether question and answer can be read without the sentences around them."""
    leans = one.pattern != "two facts" and DANGLING[language].search(one.question)
    if leans or any(text.count("(") != text.count(")") or text.count('"') % 2 for text in (one.question, one.answer)):
        return False
    if one.pattern in _OF_SEVERAL:
        return True
    answer = one.answer.removeprefix("de ").removeprefix("d'") if one.pattern in ("means", "fact") else one.answer
    vague = len(one.answer.split()) < _FEWEST_WORDS or _VAGUE_ANSWER[language].match(answer)
    if one.pattern in ("scenario", "rule") and language == "fr" and _NARRATED.search(one.question):
        return False
    listed = one.pattern in ("scenario", "procedure") and _LISTED[language].match(one.answer)
    subject = one.subject.split()
    clear = len(subject) <= _LONGEST_SUBJECT and not _NO_SUBJECT[language].search(one.subject)
    return clear and not vague and not listed
