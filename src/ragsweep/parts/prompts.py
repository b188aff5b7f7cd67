"""Write a request as the messages that a chat model reads, and tell from what it says whether it declined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Formatter

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.identity import texts_hash
from ragsweep.core.types import Request

KNOWN = {
    "system": ("fence", "refusal"),
    "system_alone": ("refusal",),
    "question": ("fence", "passages", "question"),
    "passage": ("fence", "name", "number", "text"),
}
"""What each template may hold."""

NEEDED = {"question": ("passages", "question"), "passage": ("text",)}
FENCE = 12
"""Characters of the fence."""

APOSTROPHES = str.maketrans("\u2018\u2019\u02bc", "'''")


class Prompt:
    """Templates with placeholders in braces (``{question}``); a brace that is meant as such is written twice.

    ``system`` may hold ``{fence}`` and ``{refusal}`` (the first of ``refusals``), ``question`` ``{passages}``,
    ``{question}`` and ``{fence}``, ``passage`` ``{number}`` (from 1), ``{name}``, ``{text}`` and ``{fence}``. The fence
    is a hash of question and passages: no passage can hold it, since it would have to know its own hash, and equal
    requests are equal prompts. Without passages ``system_alone`` stands first and the question is asked as it is.
    """

    VERSION = "1"

    def __init__(
        self, system: str, system_alone: str, question: str, passage: str, refusals: list[str], citations: bool
    ) -> None:
        """Take the templates, the words that say that there is no answer, and whether citations are asked for."""
        self.system = system
        self.system_alone = system_alone
        self.question = question
        self.passage = passage
        self.refusals = refusals
        self.citations = citations

    def check(self) -> None:
        """Raise ConfigError for a placeholder that does not exist or is missing, and for refusals that are no words."""
        for key in KNOWN:
            _check_template(key, getattr(self, key))
        words = self.refusals if isinstance(self.refusals, list) else []
        if not words or not all(isinstance(one, str) and _plain(one) for one in words):
            raise ConfigError(f"refusals: must be a list of words that decline an answer, given {self.refusals!r}")
        if self.citations and "{number}" not in self.passage:
            raise ConfigError("passage: citations=true needs {number}, by which a passage is cited")

    def messages(self, request: Request) -> list[dict[str, str]]:
        """Return chat messages, each with role and content: the system's, the conversation so far, the question."""
        fence = _fence(request)
        system = self.system if request.passages else self.system_alone
        first = _filled(system, fence=fence, refusal=self.refusals[0])
        said = [{"role": turn.role, "content": turn.text} for turn in request.history]
        asked = {"role": "user", "content": self._asked(request, fence)}
        return [*([{"role": "system", "content": first}] if first else []), *said, asked]

    def refused(self, text: str) -> bool:
        """Say whether an answer begins with words that decline one; case and punctuation do not count."""
        return declined(text, self.refusals)

    def _asked(self, request: Request, fence: str) -> str:
        if not request.passages:
            return request.question
        passages = [
            _filled(self.passage, fence=fence, number=str(number), name=passage.name, text=passage.text)
            for number, passage in enumerate(request.passages, 1)
        ]
        return _filled(self.question, fence=fence, passages="\n\n".join(passages), question=request.question)


def fenced_conversation(request: Request) -> tuple[str, str]:
    """Return a fence, and all that was said between tags that hold it: a hash of it, which it cannot hold itself."""
    said = "\n".join([*(f"{turn.role}: {turn.text}" for turn in request.history), f"user: {request.question}"])
    fence = texts_hash([[said]])[:FENCE]
    return fence, f"<conversation {fence}>\n{said}\n</conversation {fence}>"


def declined(text: str, refusals: Sequence[str]) -> bool:
    """Say whether a text begins with words that decline; case and punctuation do not count."""
    said = f"{_plain(text)} "
    return any(said.startswith(f"{_plain(words)} ") for words in refusals)


def _fence(request: Request) -> str:
    return texts_hash([[request.question], *request.passages])[:FENCE]


def _filled(template: str, **values: str) -> str:
    """Fill in a template once: braces in a value are text."""
    return template.format_map(values).strip()


def _plain(text: str) -> str:
    """Reduce a text to its words, parted by single spaces."""
    return " ".join(re.findall(r"[\w']+", text.translate(APOSTROPHES).casefold()))


def _check_template(key: str, template: str) -> None:
    names = _placeholders(key, template)
    for name in names:
        if name not in KNOWN[key]:
            raise ConfigError(f"{key}: there is no placeholder {{{name}}}{nearest(name, KNOWN[key])}")
    for name in NEEDED.get(key, ()):
        if name not in names:
            raise ConfigError(f"{key}: the placeholder {{{name}}} is missing, given {template!r}")


def _placeholders(key: str, template: str) -> Sequence[str]:
    try:
        found = [part[1:] for part in Formatter().parse(template)]
    except ValueError as fault:
        raise ConfigError(f"{key}: {fault}; a brace that is no placeholder is written twice: {{{{") from None
    if any(spec or conversion for _, spec, conversion in found):
        raise ConfigError(f"{key}: a placeholder is a name in braces and nothing else, given {template!r}")
    return [name for name, _, _ in found if name is not None]
