"""The base class of LLM-judged metrics, and the cache of the judge's replies.

Each reply is cached under a hash of its request, so that an interrupted judgement that needs several calls is resumed,
not repeated. The reply is stored with its usage and a hash of the metric and case to which the call is charged. A
resumed judgement therefore counts its full usage, and another judgement with the same prompt counts none. If the
replies of a sample contradict each other, they are marked as unusable, because stored replies cannot be deleted; the
next judgement requests new replies.
"""

import base64
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

import numpy as np

from ragsweep.core.identity import content_hash
from ragsweep.core.missing import ABSTAINED, CONVERSATIONAL
from ragsweep.core.types import Case, EvaluationView, Judgement, PartTraits, ReplyCache, Scores, Usage
from ragsweep.parts.judging import Judge, JudgeReply, ResponseSchema, reasons_given
from ragsweep.parts.metrics.bases import Proportion, judgements, to_scores
from ragsweep.parts.metrics.injections import is_suspicious
from ragsweep.services.session import each
from ragsweep.services.usage import sum_usage

_ATTEMPT = 50
"""Number that is added to the repetition (which determines the seed) for each earlier attempt at a sample."""


@dataclass(frozen=True)
class CachedJudge:
    """A judge whose replies are cached; ``payer`` is a hash of the metric and case to which new calls are charged.

    ``words`` collects the reasons in the replies, in order of arrival. ``counted`` contains the keys of the replies
    whose usage has been returned; each usage counts only once.
    """

    judge: Judge
    cache: ReplyCache
    payer: str
    words: list[str] = field(default_factory=list)
    counted: set[str] = field(default_factory=set)

    async def ask(self, prompt: str, schema: ResponseSchema, sample: int, repetition: int) -> JudgeReply:
        """Return the reply to a prompt, from the cache if possible. Raises CallFailed if the call fails.

        ``repetition`` (from 0) distinguishes equal prompts of one ``sample``.
        """
        attempt = self._attempt(sample)
        key = content_hash(
            [prompt, schema.name, schema.json_schema, sample, repetition, *([attempt] if attempt else ())]
        )
        if (row := self._load(key)) is not None:
            reply = JudgeReply(schema.parse(row["text"]), self._usage(key, row), row["text"])
        else:
            reply = await self.judge.ask(prompt, schema, sample, repetition + attempt * _ATTEMPT)
            self._store(key, {"text": reply.text}, reply.usage)
        self.words.extend(reasons_given(reply.value))
        return reply

    async def embed(self, texts: Sequence[str]) -> JudgeReply:
        """Return a reply with one vector per text; only uncached texts are sent. Raises CallFailed if a call fails."""
        keys = {text: content_hash(["embedding", text]) for text in dict.fromkeys(texts)}
        cached = {text: row for text, key in keys.items() if (row := self._load(key)) is not None}
        new = [text for text in keys if text not in cached]
        reply = await self.judge.embed(new) if new else JudgeReply([])
        vectors = dict(zip(new, reply.value, strict=True))
        for n, (text, vector) in enumerate(vectors.items()):  # the usage of the call is stored with the first text
            encoded = base64.b64encode(np.asarray(vector, dtype="<f8").tobytes()).decode("ascii")  # without rounding
            self._store(keys[text], {"vector": encoded}, Usage() if n else reply.usage)
        for text, row in cached.items():
            vectors[text] = np.frombuffer(base64.b64decode(row["vector"]), dtype="<f8").tolist()
        usage = sum_usage(reply.usage, *(self._usage(keys[text], row) for text, row in cached.items()))
        return JudgeReply([vectors[text] for text in texts], usage)

    def discard(self, sample: int) -> None:
        """Mark the replies of a sample as unusable, so that the next judgement of this case requests new replies."""
        self.cache[self._mark(sample, self._attempt(sample))] = ""

    def _attempt(self, sample: int) -> int:
        """Return the number of earlier attempts at a sample whose replies were discarded."""
        return next(n for n in count() if self._mark(sample, n) not in self.cache)

    def _mark(self, sample: int, attempt: int) -> str:
        return content_hash(["discarded", self.payer, sample, attempt])

    def _load(self, key: str) -> dict[str, Any] | None:
        row = self.cache.get(key)
        return None if row is None else json.loads(row)

    def _store(self, key: str, answer: dict[str, Any], usage: Usage) -> None:
        self.counted.add(key)
        self.cache[key] = json.dumps(answer | {"usage": list(usage), "payer": self.payer})

    def _usage(self, key: str, row: dict[str, Any]) -> Usage:
        if row["payer"] != self.payer or key in self.counted:
            return Usage()
        self.counted.add(key)
        return Usage(*row["usage"])


class JudgeMetric(Proportion):
    """Base class of LLM-judged metrics; a score is the mean of a case's samples, each returned by ``_sample``.

    If one sample fails, the judgement fails. If the metric uses the answer and ``TRAITS.skips_abstained`` is true,
    abstentions are not scored.
    """

    TRAITS = PartTraits(version="1", skips_abstained=True)
    name: str
    uses: tuple[str, ...]
    embeddings: ClassVar[bool] = False
    priced: ClassVar[str] = "model"  # the judge's setting that names the model whose prices apply to the calls

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.needs = ("judge", *(name for name in ("answer", "reference") if name in self.uses))

    @property
    def model(self) -> str:
        """The name of the judge's model, for the price of the calls; "" if the judge has no model."""
        return str(getattr(self._judge, self.priced, None) or "")

    @property
    def samples(self) -> int:
        """The number of judgements per case."""
        return int(self._judge.samples)

    def check(self) -> None:
        """Raise ConfigError if the judge is unsuitable for this metric. No call is made."""
        self._judge.check_metric(self.name, self.embeddings)

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge all cases concurrently, within the judge's limits. Raises EndpointFailed if no call can succeed."""
        self.judge_cached(cases, done, {})

    def judge_cached(self, cases: Sequence[Case], done: Callable[[int, Judgement], None], cache: ReplyCache) -> None:
        """Judge as ``judge`` does, with every reply cached; see :class:`ragsweep.core.types.CachingMetric`."""
        self._prepare()  # before the calls, because an import may take seconds and would delay them

        async def judge_case(case: Case) -> Judgement:
            payer = content_hash([self.name, case._asdict()])
            return await self._judge_case(case, CachedJudge(self._judge, cache, payer))

        each(cases, judge_case, done, 2 * getattr(self._judge, "concurrency", 16))

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question.

        Conversational questions, skipped abstentions and judgements without a value get NaN and a reason.
        """
        skips_abstained = self.TRAITS.skips_abstained and "answer" in self.uses
        results: list[float | str] = []
        for n, judgement in enumerate(judgements(view, self.name)):
            if not view.questions[n].needs_retrieval:
                results.append(CONVERSATIONAL)
            elif skips_abstained and view.answers and view.answers.answers[n].abstained:
                results.append(ABSTAINED)
            else:
                results.append(judgement.reason or judgement.value)
        return to_scores(results)

    def _prepare(self) -> None:
        """Import slow libraries that the metric needs; the default is to do nothing."""

    async def _judge_case(self, case: Case, judge: CachedJudge) -> Judgement:
        suspicious = any(map(is_suspicious, (case.question, case.answer, *case.contexts)))
        samples: list[Judgement] = []
        for number in range(self._judge.samples):
            samples.append(await self._sample(case, judge, number))
            if samples[-1].reason:
                break
        usage, words = sum_usage(*(sample.usage for sample in samples)), "\n".join(judge.words)
        if reason := samples[-1].reason:
            return Judgement(reason=reason, usage=usage, suspicious=suspicious, model=self.model, words=words)
        values = [sample.value for sample in samples]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return Judgement(float(np.mean(values)), "", usage, suspicious, spread, self.model, words)

    @abstractmethod
    async def _sample(self, case: Case, judge: CachedJudge, number: int) -> Judgement:
        """Judge a case once, for sample ``number`` (from 0); return the value (or NaN and a reason) and the usage."""
