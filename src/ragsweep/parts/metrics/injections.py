"""Detect text under judgement that resembles instructions to the judge.

A finding is not proof, because a manual may quote such words. Findings are counted and reported, but change no score.
"""

import re
from functools import lru_cache

from ragsweep.parts.fences import fold_homoglyphs, has_lookalike

_ORDERS = {
    "en": (
        r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:instructions?|prompts?|rules?|rubric|guidelines"
        r"|criteria|system message|everything (?:above|before))\b"
    ),
    "fr": (
        r"\b(?:ignore[rz]?|oublie[rz]?|ne tiens pas compte|ne tenez pas compte)\b.{0,40}\b(?:instructions?|consignes?"
        r"|regles?|directives?)\b"
    ),
    "de": (
        r"\b(?:ignorier\w*|vergiss|vergessen sie|missachte\w*)\b.{0,40}\b(?:anweisung\w*|instruktion\w*|regeln"
        r"|vorgaben|prompts?)\b"
    ),
    "es": r"\b(?:ignora\w*|olvida\w*|haz caso omiso|omite)\b.{0,40}\b(?:instrucciones|reglas|indicaciones|ordenes)\b",
    "it": r"\b(?:ignora\w*|dimentica\w*|trascura\w*)\b.{0,40}\b(?:istruzioni|regole|indicazioni)\b",
    "pt": r"\b(?:ignor[ea]\w*|esquec\w*|desconsider\w*)\b.{0,40}\b(?:instrucoes|regras|orientacoes)\b",
    "nl": r"\b(?:negeer|vergeet)\b.{0,40}\b(?:instructies|regels|aanwijzingen)\b",
    "pl": r"\b(?:zignoruj|ignoruj|zapomnij)\b.{0,40}\b(?:instrukcj\w*|polecen\w*|zasad\w*)\b",
    "tr": r"\b(?:talimat|kural)\w*.{0,20}\b(?:yoksay|gormezden gel|unut)\w*",
    # Patterns run on folded text, in which Cyrillic letters that resemble Latin ones have become Latin.
    "ru": (
        fold_homoglyphs("(?:игнорируй|проигнорируй|забудь)")
        + r"\w*.{0,40}"
        + fold_homoglyphs("(?:инструкц|указан|правил)")
    ),
    "zh": r"(?:忽略|无视|忘记|忽視|無視).{0,20}(?:指令|指示|说明|規則|规则|提示)",
    "ja": r"(?:指示|命令|ルール|プロンプト).{0,12}(?:無視|忘れ)",
    "ko": fold_homoglyphs("지시") + r".{0,16}" + fold_homoglyphs("무시"),
    "ar": r"(?:تجاهل|انس).{0,30}(?:التعليمات|الاوامر|القواعد)",
    "hi": fold_homoglyphs("निर्देश") + r".{0,30}" + fold_homoglyphs("अनदेखा"),
}
_BEST = (
    r"(?:\b(?:1(?:\.0+)?|10 ?(?:/|out of) ?10|100 ?%|perfect|highest|maximum|full marks|supported|faithful|correct"
    r"|maximal\w*|maximale|maximo|massimo)(?!\w))"
)
_GRADES = {
    "score": (
        r"\b(?:score|rate|grade|mark|judge|evaluate|label|classify)\b.{0,12}\b(?:this|it|that|them|everything|all"
        r"|(?:the|every|each) (?:answer|response|statement|context|claim)s?|as|with)\b.{0,24}"
        rf"{_BEST}"
    ),
    "score in another language": (
        r"\b(?:notez|attribuez|bewerte|bewerten|vergib|puntua|califica|valuta|avalie)\b.{0,40}"
        rf"{_BEST}"
    ),
    "verdict": (
        r"\b(?:verdict|urteil|veredicto|verdetto|(?:final|correct|right|your) (?:score|grade|rating))\b.{0,12}"
        r"(?:is|must be|should be|:|=|est|ist|es|e)\s*[\"']?"
        r"(?:1|true|yes|pass|correct|supported|faithful)\b"
    ),
    "output": (
        r"\b(?:output|return|respond|reply|answer|say|print|write)\b.{0,24}(?:\bonly\b|\bwith\b|\bexactly\b)?"
        r".{0,16}(?:\bverdict\b|\bscore\b|\{ ?\"|\b1\.0\b)"
    ),
}
_STRUCTURE = {
    "fake verdict": (
        r"\"(?:verdict|score|attributed|noncommittal|faithful\w*|tp|statements|classifications"
        r"|claims)\" ?:"
    ),
    "role tag": (
        r"<\|?/?(?:im_start|im_end|system|assistant|user|human|endoftext|eot_id|start_header_id|s)\|?>"
        r"|\[/?inst\]|<</?sys>>|\[(?:system|assistant)\]"
        r"|(?:^|[\n#*]) ?(?:system|assistant|human|developer) ?(?:message|prompt|note|override)? ?:"
        r"|#{2,} ?(?:system|instructions?|new task|end of (?:input|context|data))"
        r"|\b(?:end|begin)(?: of|ning of)? (?:the )?(?:untrusted|user|system|retrieved) (?:input|data|prompt"
        r"|context|message)"
    ),
    "persona": (
        r"\byou are (?:now|no longer)\b.{0,40}|\bnew (?:system )?(?:instructions?|task|rules?)\b ?(?::|are|is)"
        r"|\b(?:system override|developer mode|jailbreak|as an? (?:ai )?(?:judge|grader|evaluator))\b"
        r"|\b(?:attention|note|message|dear)\b.{0,12}\b(?:judge|grader|evaluator|llm|assistant|model)\b"
    ),
}
_PATTERNS = {
    name: re.compile(pattern, re.DOTALL)
    for group, patterns in (("order ", _ORDERS), ("grade ", _GRADES), ("", _STRUCTURE))
    for name, pattern in ((f"{group}{key}", value) for key, value in patterns.items())
}
_LINE_START = re.compile(r"(?:^|\n)[ \t#*>]*(?:system|assistant|human|developer)[ \t]*:", re.IGNORECASE)
_HIDDEN = re.compile("[\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]|(?<!^)\ufeff")
_JOINED = re.compile("[A-Za-z][\u200c\u200d\u00ad][A-Za-z]")
_MIXED = re.compile(r"\b(?=\w*[a-zA-Z])(?=\w*[\u0400-\u04ff])\w{3,}\b")


@lru_cache(maxsize=16_384)  # several metrics judge the same texts
def find_injections(text: str) -> tuple[str, ...]:
    """Return the names of the patterns of prompt injection that a text contains; empty for most texts.

    The patterns are orders to ignore instructions (in fifteen languages), demands for a grade, judgements as JSON, role
    tags, new personas, fence tags, invisible characters, and words that mix Latin and Cyrillic letters. The last three
    are searched for in the original text, all others in the folded text (``fold_homoglyphs``). Role names at the start
    of a line are searched for in both.
    """
    plain = fold_homoglyphs(text)
    names = [name for name, pattern in _PATTERNS.items() if pattern.search(plain)]
    checks = {
        "line of a role": _LINE_START.search(text) is not None,
        "fence": has_lookalike(text),
        "hidden characters": _HIDDEN.search(text) is not None or _JOINED.search(text) is not None,
        "two alphabets in a word": _MIXED.search(text) is not None,
    }
    return (*names, *(name for name, is_found in checks.items() if is_found))


def is_suspicious(*texts: str) -> bool:
    """Return whether any of the texts contains a pattern of prompt injection."""
    return any(find_injections(text) for text in texts)
