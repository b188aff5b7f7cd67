"""What a metric that is judged and the judge it asks have to know of each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ragsweep.core.types import Usage


class Form(NamedTuple):
    """What a judge must answer: a JSON schema and its name, and what reads an answer by it.

    ``read`` raises ValueError, with the fact and nothing of the answer itself, for whatever does not conform.
    """

    name: str
    schema: Mapping[str, Any]
    read: Callable[[str], Any]


class Said(NamedTuple):
    """What a judge answered, as ``Form.read`` returned it, and what that cost: nothing where it was known already.

    ``text`` is the answer to a prompt as ``Form.read`` reads it.
    """

    value: Any
    usage: Usage = Usage()
    text: str = ""


class Judge(Protocol):
    """Answer prompts by a form, and embed texts. ``fence`` says whether what is judged is to be fenced in prompts."""

    @property
    def samples(self) -> int:
        """How often everything is judged anew; a verdict is the mean."""

    @property
    def fence(self) -> bool:
        """Whether text under judgement stands behind a fence."""

    def ready(self, metric: str, embeddings: bool) -> None:
        """Raise ConfigError where this judge cannot decide a metric; ``embeddings``: it needs these too."""

    async def ask(self, prompt: str, form: Form, sample: int, repetition: int) -> Said:
        """Answer a prompt. Raises CallFailed where no answer can be had that conforms.

        Args:
            prompt: The whole question.
            form: What to answer.
            sample: Which of the samples it is for, from 0.
            repetition: How often the same was asked before for this sample of this case.
        """

    async def embed(self, texts: Sequence[str]) -> Said:
        """Embed texts; the value is a list of vectors (lists of numbers), one a text. Raises CallFailed."""


def total(*used: Usage) -> Usage:
    """Add up what calls cost."""
    return Usage(
        sum(one.calls for one in used),
        sum(one.tokens_in for one in used),
        sum(one.tokens_out for one in used),
        any(one.estimated for one in used),
    )
