"""Run ragas' metrics with ragsweep's judge.

The prompts and the arithmetic are ragas'; the calls, the fences around judged text (`parts.fences`) and the cache are
ragsweep's. ragas' retries are not used. Only this module imports ragas' metrics, and only when they are first needed,
because the import takes seconds.
"""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from ragsweep.core.types import Usage
from ragsweep.parts.fences import NOTICE, fence
from ragsweep.parts.judging import JudgeReply, response_schema
from ragsweep.parts.metrics.judge_metric import CachedJudge
from ragsweep.services.usage import sum_usage

VERSION = "1"
"""Part of the address of stored judgements; increase it with every change to this module that can affect judgements."""

LISTS = frozenset({"statements", "classifications", "claims"})
"""Fields of a reply that list the statements in a text."""

CLASSES = frozenset({"TP", "FP", "FN"})
"""Fields of a reply that list the statements of one class; every statement belongs to a class."""

TRUSTED = frozenset({"atomicity", "coverage"})
"""Fields of ragas' prompts that contain the metric's settings, not judged text; they are not fenced."""


class NothingToJudge(Exception):
    """Raised if the judge finds no statements in a text."""


class JudgeSession:
    """The calls for one sample of one case; ``usage`` is the sum of their usage.

    Args:
        judge: The judge, with its cache.
        sample: Index of the sample, from 0.
        strict: Whether ``ask`` raises NothingToJudge for a text without statements; ragas may score it as perfect.
    """

    def __init__(self, judge: CachedJudge, sample: int, strict: bool) -> None:
        self.judge = judge
        self.sample = sample
        self.strict = strict
        self.usage = Usage()
        self.statements: list[int] = []  # number of statements of each text
        self._repetitions: Counter[str] = Counter()

    async def ask(self, prompt: str, model: Any) -> Any:
        """Return the reply as an instance of ``model``, a pydantic class.

        Raises CallFailed if the call fails, and ValueError if the reply classifies no statement: ragas would score this
        reply as 1 or 0. With ``strict``, raises NothingToJudge if a text contains no statements.
        """
        repetition = self._repetitions[prompt]
        self._repetitions[prompt] += 1
        value = self._count(await self.judge.ask(prompt, response_schema(model), self.sample, repetition))
        classes = CLASSES if self.strict else ("statements",)  # FactualCorrectness's verdicts on claims
        given = [field for name, field in value if name in classes]
        if given and not any(given):
            raise ValueError("no statement is classified")
        self.statements += [len(field) for name, field in value if name in LISTS]
        if self.strict and 0 in self.statements:
            raise NothingToJudge
        return value

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text. Raises CallFailed if the call fails."""
        vectors: list[list[float]] = self._count(await self.judge.embed(texts))
        return vectors

    def _count(self, reply: JudgeReply) -> Any:
        self.usage = sum_usage(self.usage, reply.usage)
        return reply.value


def scorer(
    name: str, session: JudgeSession, embeddings: bool, options: Mapping[str, Any]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Create an instance of ragas' metric class ``name`` whose calls go through a session; return its ``ascore``.

    ``embeddings`` is true if the metric needs embeddings. ``options`` are other arguments of the class. Raises
    ValueError if ragas rejects the options.
    """
    ragas = library()
    clients: dict[str, Any] = {} if name == "SemanticSimilarity" else {"llm": ragas.judge(session)}
    if embeddings:
        clients["embeddings"] = ragas.embeddings(session)
    metric = getattr(ragas.metrics, name)(**clients, **options)
    for prompt in vars(metric).values() if session.judge.judge.fence else ():
        if isinstance(prompt, ragas.prompt):
            prompt.to_string = _fence_inputs(prompt.to_string)
    ascore: Callable[..., Coroutine[Any, Any, Any]] = metric.ascore

    async def embed_first(**texts: str) -> Any:
        """Embed the texts, then score them: ragas' ``ascore`` would embed synchronously and block the event loop."""
        await clients["embeddings"].prepare(list(texts.values()))
        return await ascore(**texts)

    return embed_first if name == "SemanticSimilarity" else ascore


def _fence_inputs(write: Callable[[Any], str]) -> Callable[[Any], str]:
    """Wrap ``write``, which formats ragas' prompts: fence all input fields except TRUSTED, and prepend NOTICE."""

    def fenced(data: Any) -> str:
        fields = {name: getattr(data, name) for name in type(data).model_fields}
        inside = {name: value if name in TRUSTED else map_texts(fence, value) for name, value in fields.items()}
        return NOTICE + write(data.model_copy(update=inside))

    return fenced


def map_texts(change: Callable[[str], str], value: Any) -> Any:
    """Return ``value`` with ``change`` applied to its strings, even inside lists; values of other types are kept."""
    if isinstance(value, str):
        return change(value)
    return [map_texts(change, item) for item in value] if isinstance(value, list | tuple) else value


@cache
def library() -> SimpleNamespace:
    """Import ragas; return its metrics, its prompt class, and client classes whose calls go through a JudgeSession."""
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")  # read by ragas: no telemetry
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ragas.embeddings.base import BaseRagasEmbedding
        from ragas.llms.base import InstructorBaseRagasLLM
        from ragas.metrics import collections
        from ragas.prompt.metrics.base_prompt import BasePrompt

    class SessionLlm(InstructorBaseRagasLLM):
        """A client of an LLM, for ragas, that sends prompts through a session."""

        def __init__(self, session: JudgeSession) -> None:
            self.session = session

        def generate(self, prompt: str, response_model: Any) -> Any:
            raise NotImplementedError("required by ragas' base class; its metrics call only agenerate")

        async def agenerate(self, prompt: str, response_model: Any) -> Any:
            return await self.session.ask(prompt, response_model)

    class SessionEmbedding(BaseRagasEmbedding):
        """A client of an embedder, for ragas, that embeds texts through a session."""

        def __init__(self, session: JudgeSession) -> None:
            super().__init__()
            self.session = session
            self.prepared: dict[str, list[float]] = {}

        async def prepare(self, texts: Sequence[str]) -> None:
            self.prepared |= dict(zip(texts, await self.session.embed(texts), strict=True))

        def embed_text(self, text: str, **_: Any) -> list[float]:
            return self.prepared[text]

        async def aembed_text(self, text: str, **_: Any) -> list[float]:
            return (await self.session.embed([text]))[0]

        async def aembed_texts(self, texts: Sequence[str], **_: Any) -> list[list[float]]:
            return await self.session.embed(texts)

    return SimpleNamespace(judge=SessionLlm, embeddings=SessionEmbedding, metrics=collections, prompt=BasePrompt)
