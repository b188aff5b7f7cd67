"""Lend ragas our calls: its metrics and prompts, our endpoint, our fence, and no second layer of retries.

The only file that knows ragas. It is imported when the first verdict is asked for, which takes seconds.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from ragsweep.core.types import Usage
from ragsweep.parts.fences import NOTICE, fence
from ragsweep.parts.judging import Judge, Said, total
from ragsweep.parts.metrics.forms import form_of

VERSION = "1"
"""Part of the address of every verdict: change it with anything here that can change one."""

LISTS = frozenset({"statements", "classifications", "claims"})
"""Fields of ragas' answers that hold what the text was taken apart into."""

TRUSTED = frozenset({"atomicity", "coverage"})
"""Fields of ragas' prompts that we fill in: words of its own, and no text under judgement."""


class NothingToJudge(Exception):
    """The judge found nothing in a text that could be right or wrong."""


def versions() -> dict[str, str]:
    """Name the versions of all that words a prompt or makes a score of answers; imports nothing."""
    from importlib.metadata import version

    return {"ragas": version("ragas"), "prompts": VERSION}


class Sitting:
    """One case before the judge, once: what was asked in it, and what that cost.

    Args:
        judge: Who is asked.
        sample: Which of the samples this is.
        strict: Whether a text without any statement ends the sitting, where ragas would go on and call it perfect.
    """

    def __init__(self, judge: Judge, sample: int, strict: bool) -> None:
        self.judge = judge
        self.sample = sample
        self.strict = strict
        self.usage = Usage()
        self._asked: Counter[str] = Counter()

    async def ask(self, prompt: str, model: Any) -> Any:
        """Answer one of ragas' prompts by its model, a pydantic class."""
        repetition = self._asked[prompt]
        self._asked[prompt] += 1
        said = self._paid(await self.judge.ask(prompt, form_of(model), self.sample, repetition))
        if self.strict and any(name in LISTS and not value for name, value in said.value):
            raise NothingToJudge
        return said.value

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts."""
        found: list[list[float]] = self._paid(await self.judge.embed(texts)).value
        return found

    def _paid(self, said: Said) -> Said:
        self.usage = total(self.usage, said.usage)
        return said


def scorer(
    name: str, sitting: Sitting, embeddings: bool, options: Mapping[str, Any]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Make ragas' metric of this name for one sitting; return its ``ascore``.

    Raises:
        ValueError: ragas refuses the options.
    """
    known = library()
    parts: dict[str, Any] = {} if name == "SemanticSimilarity" else {"llm": known.judge(sitting)}
    if embeddings:
        parts["embeddings"] = known.embeddings(sitting)
    metric = getattr(known.metrics, name)(**parts, **options)
    for prompt in vars(metric).values():
        if isinstance(prompt, known.prompt):
            prompt.output_model = _described(prompt.output_model)
            if sitting.judge.fence:
                prompt.to_string = _fenced(prompt.to_string)
    if name == "SemanticSimilarity":
        return _embedded_first(metric, parts["embeddings"])
    ascore: Callable[..., Coroutine[Any, Any, Any]] = metric.ascore
    return ascore


def _embedded_first(metric: Any, embeddings: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Embed beforehand: this one metric of ragas does not wait for its embeddings, but blocks until they are there."""

    async def ascore(**texts: str) -> Any:
        await embeddings.prepare(list(texts.values()))
        return await metric.ascore(**texts)

    return ascore


@cache
def _described(model: Any) -> SimpleNamespace:
    """Remember the schema of an answer: ragas makes it anew for every prompt, and prompts need nothing else of it."""
    schema = model.model_json_schema()
    return SimpleNamespace(model_json_schema=lambda: schema)


def _fenced(write: Callable[[Any], str]) -> Callable[[Any], str]:
    """Put every text that goes into a prompt behind a fence, and the notice before the prompt."""

    def fenced(data: Any) -> str:
        kept = {name: getattr(data, name) for name in type(data).model_fields}
        inside = {name: value if name in TRUSTED else _fence_all(value) for name, value in kept.items()}
        return NOTICE + write(data.model_copy(update=inside))

    return fenced


def _fence_all(value: Any) -> Any:
    if isinstance(value, str):
        return fence(value)
    return [_fence_all(item) for item in value] if isinstance(value, list) else value


# --- ragas -------------------------------------------------------------------------------------------------------


@cache
def library() -> SimpleNamespace:
    """Import ragas: its metrics, its class of prompts, and classes of ours that take the places of its clients."""
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")  # it would report its use over the network
    from ragas.embeddings.base import BaseRagasEmbedding
    from ragas.llms.base import InstructorBaseRagasLLM
    from ragas.metrics import collections
    from ragas.prompt.metrics.base_prompt import BasePrompt

    class Asking(InstructorBaseRagasLLM):
        """Hand ragas' prompts to the sitting."""

        def __init__(self, sitting: Sitting) -> None:
            self.sitting = sitting

        def generate(self, prompt: str, response_model: Any) -> Any:
            raise NotImplementedError("answers are waited for; ragas' collections do not call this")

        async def agenerate(self, prompt: str, response_model: Any) -> Any:
            return await self.sitting.ask(prompt, response_model)

    class Embedding(BaseRagasEmbedding):
        """Hand ragas' texts to the sitting."""

        def __init__(self, sitting: Sitting) -> None:
            super().__init__()
            self.sitting = sitting
            self.prepared: dict[str, list[float]] = {}

        async def prepare(self, texts: Sequence[str]) -> None:
            self.prepared |= dict(zip(texts, await self.sitting.embed(texts), strict=True))

        def embed_text(self, text: str, **_: Any) -> list[float]:
            return self.prepared[text]

        async def aembed_text(self, text: str, **_: Any) -> list[float]:
            return (await self.sitting.embed([text]))[0]

        async def aembed_texts(self, texts: Sequence[str], **_: Any) -> list[list[float]]:
            return await self.sitting.embed(texts)

    return SimpleNamespace(judge=Asking, embeddings=Embedding, metrics=collections, prompt=BasePrompt)
