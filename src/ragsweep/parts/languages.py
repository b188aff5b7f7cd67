"""Detect the language of a text by its stop words or its script, without a model or library."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

from ragsweep.core.words import is_syllabic, without_soft_hyphens, words

LIGATURES = str.maketrans({"œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d"})
"""Letters that Unicode does not decompose -> their ASCII replacements."""

SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc", "'"),
        **dict.fromkeys("\u201c\u201d\u201e", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    }
)
"""Apostrophes, quotation marks, hyphens and the minus sign -> their ASCII equivalents."""

_ACCENTS = frozenset({*range(10, 37), *range(200, 256)})
"""Combining classes of accents, and of vowels that Hebrew and Arabic may omit.

Marks of other classes distinguish words: voicing in kana, tones in Thai, viramas.
"""

_STOP_WORDS = {
    "en": "a about after all also although am an and any are as at be because been before being between both but by can"
    " could did do does doing done each either else for from had has have having he her here hers him his how"
    " however i if in into is it its itself just may me might more most must my no nor not of off on once one only"
    " or other our ours out over own same shall she should since so some such than that the their theirs them then"
    " there these they this those through to too under until up upon us very was we were what when where whether"
    " which while who whom whose why will with within without would yes yet you your yours",
    "fr": "ai aie ainsi alors apres as au aucun aucune aussi autre autres aux avaient avait avant avec avez avoir avons"
    " bien c ca car ce ceci cela celle celles celui ces cet cette ceux chaque chez comme comment d dans de depuis"
    " des deux doit doivent donc dont du elle elles en encore entre es est et etaient etait etant ete etes etre eu"
    " eux faire fait font furent fut ici il ils j je jusqu l la le lequel les leur leurs lors lorsque lui m ma"
    " mais me meme memes mes moi moins mon n ne ni non nos notre nous on ont ou oui par parce pas pendant peu peut"
    " peuvent plus pour pourquoi puis puisque qu quand que quel quelle quelles quelque quelques quels qui quoi s"
    " sa sans se sera seront ses si sien soit son sont sous suis sur t ta tandis te tel telle tes toi ton tous"
    " tout toute toutes tres tu un une vers voici voila vos votre vous y",
    "de": "aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da damit"
    " dann das dass dem den denn der deren des dessen die dies diese diesem diesen dieser dieses doch dort du"
    " durch ein eine einem einen einer eines er es etwas euch fur gegen gibt habe haben hat hatte hatten hier hin"
    " ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jedes jedoch kann kein"
    " keine keinem keinen keiner konnen konnte mal man mehr mein meine mit muss mussen nach nicht nichts noch nun"
    " nur ob oder ohne sehr sein seine seinem seinen seiner sich sie sind so soll sollte sondern sowie uber um und"
    " uns unser unter viel vom von vor wahrend war waren warum was weil welche welchem welchen welcher welches"
    " wenn wer werden wie wieder wird wo wurde wurden zu zum zur zwar zwischen",
    "es": "a ademas al algo algunas alguno algunos ante antes aquel aquella asi aun aunque cada casi como con contra"
    " cual cuales cuando cuanto de del desde donde dos durante e el ella ellas ellos en entre era eran eres es esa"
    " esas ese eso esos esta estaba estado estan estar estas este esto estos fue fueron ha haber habia han hasta"
    " hay he la las le les lo los mas me mi mientras mis mismo mucho muy nada ni no nos nosotros nuestra nuestro o"
    " os otra otras otro otros para pero poco por porque puede pueden pues que quien quienes se sea segun ser si"
    " sido sin sino sobre solo son su sus tambien tan tanto te tenia tiene tienen todo todos tras tu un una unas"
    " uno unos usted y ya yo",
    "it": "a ad agli ai al alla alle allo altra altre altri altro anche ancora anzi aveva avevano c che chi ci cio come"
    " con contro cosi cui d da dagli dai dal dalla dalle dallo de degli dei del dell della delle dello di dopo"
    " dove due e ed egli era erano essa essere essi esso fa fanno fino fra fu furono gli ha hanno ho i il in io l"
    " la le lei li lo loro lui ma me mentre mi mia mio molto ne negli nei nel nell nella nelle nello noi non"
    " nostra nostro o ogni oppure per perche piu poi possono prima puo quale quali quando quanto quella quelle"
    " quelli quello questa queste questi questo qui quindi sara se sei senza si sia siamo sono sopra sotto stata"
    " stato su sua sue sugli sui sul sull sulla sulle suo suoi tra tu tutte tutti tutto un una uno vi voi",
    "nl": "aan achter al alle alleen als altijd ander andere bij binnen daar dan dat de deze die dit doen door dus een"
    " eens elk elke en er ergens geen geweest haar had hadden heb hebben heeft hem het hier hij hoe hun iets ik in"
    " is ja je jij jullie kan kon kunnen maar maken meer men met mij mijn moet moeten na naar niet niets nog nu of"
    " om omdat onder ons onze ook op over reeds te tegen toch toen tot tussen u uit uw van vanaf veel voor waar"
    " waarom wanneer want waren was wat we wel welke werd werden wie wij wil worden wordt zal ze zeer zich zij"
    " zijn zo zoals zonder zou zouden",
    "pt": "a ainda alem algo algum alguma algumas alguns ante antes ao aos apenas aquela aquele aquilo as assim ate"
    " cada com como contra da das de dela dele deles depois desde do dois dos durante e ela elas ele eles em"
    " enquanto entao entre era eram essa essas esse esses esta estao estar estas estava este estes eu foi foram ha"
    " isso isto ja la lhe lhes mais mas me mesmo meu minha muito muitos na nada nao nas nem nenhum no nos nossa"
    " nosso num numa o onde os ou outra outras outro outros para pela pelas pelo pelos pode podem pois por porque"
    " pouco quais qual quando que quem se seja sem ser sera seu seus sido so sobre sua suas tambem tanto tao tem"
    " tendo ter teve tinha toda todas todo todos tu tudo um uma umas uns voce voces",
}

STOP_WORDS: Mapping[str, frozenset[str]] = {code: frozenset(words.split()) for code, words in _STOP_WORDS.items()}
"""The stop words of each known language, without accents and in lower case."""

NAMES = {
    "en": "english", "fr": "french", "de": "german", "es": "spanish", "it": "italian", "nl": "dutch",
    "pt": "portuguese", "ru": "russian", "zh": "chinese", "ja": "japanese", "ko": "korean", "th": "thai",
    "ar": "arabic",
}  # fmt: skip
"""The name of each language that stop words or a script identify."""

_CODES = {name: code for code, name in NAMES.items()} | {
    "francais": "fr",
    "deutsch": "de",
    "espanol": "es",
    "italiano": "it",
    "nederlands": "nl",
    "portugues": "pt",
}

_SCRIPTS = {
    "ja": re.compile("[\u3041-\u30ff]"),
    "ko": re.compile("[\u1100-\u11ff\uac00-\ud7a3]"),
    "th": re.compile("[\u0e01-\u0e3a]"),
    "ar": re.compile("[\u0621-\u064a]"),
    "ru": re.compile("[\u0410-\u044f\u0401\u0451]"),
    "zh": re.compile("[\u3400-\u9fff]"),
}
"""Characters of scripts -> their most frequent language; Chinese after Japanese, which shares its characters."""

_NOT_RUSSIAN = re.compile("[\u0404\u0406-\u0408\u040e\u0452-\u045f\u0490\u0491]")
"""Cyrillic letters of Ukrainian, Belarusian, Serbian and Macedonian."""

_NOT_ARABIC = re.compile("[\u067e\u0686\u06a9\u06af\u06cc]")
"""Letters of Persian and Urdu."""

_SCRIPT_SHARE = {"ja": 0.1, "ko": 0.3, "th": 0.3, "ar": 0.5, "ru": 0.5, "zh": 0.3}
"""The least share of those characters among the letters: a character of Chinese or Japanese is half a word."""

_LEAST_SCORE = 1.5
"""The least score of a detected language: one for a stop word that no other language has."""

_LEAST_RATIO = 1.3
"""The least ratio of the best language's score to the next."""

_LANGUAGES_OF: Mapping[str, tuple[str, ...]] = {
    word: tuple(code for code, words in STOP_WORDS.items() if word in words)
    for word in frozenset().union(*STOP_WORDS.values())
}


def fold(text: str) -> str:
    """Remove case, accents, soft hyphens and typographic signs: ``Œuvre été`` becomes ``oeuvre ete``."""
    if text.isascii():
        return text.lower()
    # Twice each: decomposition can give a capital (㎒), and case folding a letter that decomposes.
    compatible = unicodedata.normalize("NFKD", without_soft_hyphens(text))
    lower = unicodedata.normalize("NFKD", compatible.casefold()).translate(LIGATURES | SIGNS)
    return "".join(letter for letter in lower.casefold() if unicodedata.combining(letter) not in _ACCENTS)


def language_code(label: str) -> str:
    """Return the two-letter code of a known language, from ``fr``, ``fr-CA`` or ``French``; empty for others."""
    name = re.split(r"[-_ ]", fold(label.strip()))[0]
    code = _CODES.get(name, name)
    return code if code in STOP_WORDS else ""


def script_language(text: str) -> str:
    """Return the two-letter code of the language that a text's script identifies; empty if it identifies none."""
    if text.isascii() or not (letters := sum(map(str.isalpha, text))):
        return ""
    for code, pattern in _SCRIPTS.items():
        if len(pattern.findall(text)) >= _SCRIPT_SHARE[code] * letters:
            others = {"ru": _NOT_RUSSIAN, "ar": _NOT_ARABIC}.get(code)
            return "" if others and others.search(text) else code
    return ""


@lru_cache(maxsize=1 << 14)
def detect_language(text: str) -> str:
    """Detect the language of a text by its stop words; return its two-letter code, empty if they do not decide.

    A stop word counts for each of its languages, with less weight the more languages share it.
    """
    score = dict.fromkeys(STOP_WORDS, 0.0)
    for word in words(fold(text)):
        for language in (languages := _LANGUAGES_OF.get(word, ())):
            score[language] += 1 / len(languages)
    (best, most), (_, next_most) = sorted(score.items(), key=lambda item: -item[1])[:2]
    return best if most >= _LEAST_SCORE and most >= _LEAST_RATIO * next_most else ""


def content_words(text: str, language: str = "") -> frozenset[str]:
    """Return the folded words of a text that are not stop words of its language.

    Single letters do not count, unless each character of their script is a word. Without ``language`` it is detected;
    English where detection fails.
    """
    stop_words = STOP_WORDS[language or detect_language(text) or "en"]
    return frozenset(
        word
        for word in words(fold(text))
        if word not in stop_words and (len(word) > 1 or word.isdigit() or is_syllabic(word))
    )
