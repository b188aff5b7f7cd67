"""Detect judged text that resembles instructions to the judge (prompt injection).

A match does not prove an attack: a manual, for instance, may quote such instructions. Matches are counted and reported
but change no score.
"""

import re
from functools import lru_cache

from ragsweep.parts.fences import fold_homoglyphs, has_lookalike

_BEST = (
    r"(?:\b(?:1(?:\.0+)?|10 ?(?:/|out of) ?10|100 ?%|perfect|highest|maximum|full marks|supported|faithful|correct"
    r"|maximal\w*|maximale|maximo|massimo)(?!\w))"
)
_PATTERNS = [
    re.compile(pattern, re.DOTALL)
    for pattern in (
        # Commands to ignore instructions, in fifteen languages.
        r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:instructions?|prompts?|rules?|rubric|guidelines"
        r"|criteria|system message|everything (?:above|before))\b",
        r"\b(?:ignore[rz]?|oublie[rz]?|ne tiens pas compte|ne tenez pas compte)\b.{0,40}\b(?:instructions?|consignes?"
        r"|regles?|directives?)\b",
        r"\b(?:ignorier\w*|vergiss|vergessen sie|missachte\w*)\b.{0,40}\b(?:anweisung\w*|instruktion\w*|regeln"
        r"|vorgaben|prompts?)\b",
        r"\b(?:ignora\w*|olvida\w*|haz caso omiso|omite)\b.{0,40}\b(?:instrucciones|reglas|indicaciones|ordenes)\b",
        r"\b(?:ignora\w*|dimentica\w*|trascura\w*)\b.{0,40}\b(?:istruzioni|regole|indicazioni)\b",
        r"\b(?:ignor[ea]\w*|esquec\w*|desconsider\w*)\b.{0,40}\b(?:instrucoes|regras|orientacoes)\b",
        r"\b(?:negeer|vergeet)\b.{0,40}\b(?:instructies|regels|aanwijzingen)\b",
        r"\b(?:zignoruj|ignoruj|zapomnij)\b.{0,40}\b(?:instrukcj\w*|polecen\w*|zasad\w*)\b",
        r"\b(?:talimat|kural)\w*.{0,20}\b(?:yoksay|gormezden gel|unut)\w*",
        # Patterns are folded like the text: Latin letters replace similar Cyrillic letters, and marks are removed.
        fold_homoglyphs(r"(?:игнорируй|проигнорируй|забудь)\w*.{0,40}(?:инструкц|указан|правил)"),
        r"(?:忽略|无视|忘记|忽視|無視).{0,20}(?:指令|指示|说明|規則|规则|提示)",
        fold_homoglyphs(r"(?:指示|命令|ルール|プロンプト).{0,12}(?:無視|忘れ)"),
        fold_homoglyphs("지시.{0,16}무시"),
        r"(?:تجاهل|انس).{0,30}(?:التعليمات|الاوامر|القواعد)",
        fold_homoglyphs("निर्देश.{0,30}अनदेखा"),
        # Demands for a certain grade.
        r"\b(?:score|rate|grade|mark|judge|evaluate|label|classify)\b.{0,12}\b(?:this|it|that|them|everything|all"
        rf"|(?:the|every|each) (?:answer|response|statement|context|claim)s?|as|with)\b.{{0,24}}{_BEST}",
        rf"\b(?:notez|attribuez|bewerte|bewerten|vergib|puntua|califica|valuta|avalie)\b.{{0,40}}{_BEST}",
        r"\b(?:verdict|urteil|veredicto|verdetto|(?:final|correct|right|your) (?:score|grade|rating))\b.{0,12}"
        r"(?:is|must be|should be|:|=|est|ist|es|e)\s*[\"']?(?:1|true|yes|pass|correct|supported|faithful)\b",
        r"\b(?:output|return|respond|reply|answer|say|print|write)\b.{0,24}(?:\bonly\b|\bwith\b|\bexactly\b)?"
        r".{0,16}(?:\bverdict\b|\bscore\b|\{ ?\"|\b1\.0\b)",
        # Judgements in JSON, tags of chat roles, and new roles for the judge.
        r"\"(?:verdict|score|attributed|noncommittal|faithful\w*|tp|statements|classifications|claims)\" ?:",
        r"<\|?/?(?:im_start|im_end|system|assistant|user|human|endoftext|eot_id|start_header_id|s)\|?>"
        r"|\[/?inst\]|<</?sys>>|\[(?:system|assistant)\]"
        r"|(?:^|[\n#*]) ?(?:system|assistant|human|developer) ?(?:message|prompt|note|override)? ?:"
        r"|#{2,} ?(?:system|instructions?|new task|end of (?:input|context|data))"
        r"|\b(?:end|begin)(?: of|ning of)? (?:the )?(?:untrusted|user|system|retrieved) (?:input|data|prompt"
        r"|context|message)",
        r"\byou are (?:now|no longer)\b.{0,40}|\bnew (?:system )?(?:instructions?|task|rules?)\b ?(?::|are|is)"
        r"|\b(?:system override|developer mode|jailbreak|as an? (?:ai )?(?:judge|grader|evaluator))\b"
        r"|\b(?:attention|note|message|dear)\b.{0,12}\b(?:judge|grader|evaluator|llm|assistant|model)\b",
    )
]
"""Patterns that are searched for in the folded text (see ``fold_homoglyphs``)."""

_PATTERNS_UNFOLDED = (
    re.compile(r"(?:^|\n)[ \t#*>]*(?:system|assistant|human|developer)[ \t]*:", re.IGNORECASE),
    re.compile("[\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]|(?<!^)\ufeff"),
    re.compile("[A-Za-z][\u200c\u200d\u00ad][A-Za-z]"),
    re.compile(r"\b(?=\w*[a-zA-Z])(?=\w*[\u0400-\u04ff])\w{3,}\b"),
)
"""Patterns that are searched for in the original text.

They match chat roles at the start of a line, invisible characters, and words that mix Latin and Cyrillic letters.
"""


@lru_cache(maxsize=16_384)  # several metrics judge the same texts
def is_suspicious(text: str) -> bool:
    """Return whether a text matches a pattern of prompt injection or contains a tag like those around judged text."""
    if has_lookalike(text) or any(pattern.search(text) for pattern in _PATTERNS_UNFOLDED):
        return True
    plain = fold_homoglyphs(text)
    return any(pattern.search(plain) for pattern in _PATTERNS)
