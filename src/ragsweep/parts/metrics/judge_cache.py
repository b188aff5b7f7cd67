"""Cache a judge's replies call by call, so that an interrupted judgement of several calls is resumed, not repeated.

Replies are keyed by what was asked. Each row also stores its usage and the case that paid for it: a resumed judgement
counts all of its cost, and another one that sends the same prompt counts none.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragsweep.core.identity import content_hash
from ragsweep.core.types import ReplyCache, Usage
from ragsweep.parts.judging import Judge, JudgeReply, ResponseSchema, sum_usage


@dataclass(frozen=True)
class CachedJudge:
    """Answer from the cache, else by the judge; ``payer`` identifies the metric and the case."""

    judge: Judge
    cache: ReplyCache
    payer: str

    @property
    def samples(self) -> int:
        """Number of times that everything is judged."""
        return self.judge.samples

    @property
    def fence(self) -> bool:
        """Whether text under judgement is fenced."""
        return self.judge.fence

    def check_metric(self, metric: str, embeddings: bool) -> None:
        """Raise ConfigError where the judge cannot decide a metric."""
        self.judge.check_metric(metric, embeddings)

    async def ask(self, prompt: str, schema: ResponseSchema, sample: int, repetition: int) -> JudgeReply:
        """Answer a prompt, from the cache where it is there. Raises CallFailed."""
        key = content_hash([prompt, schema.name, schema.json_schema, sample, repetition])
        if (known := self._load(key)) is not None:
            return JudgeReply(schema.parse(known["text"]), self._usage(known), known["text"])
        reply = await self.judge.ask(prompt, schema, sample, repetition)
        self._store(key, {"text": reply.text}, reply.usage)
        return reply

    async def embed(self, texts: Sequence[str]) -> JudgeReply:
        """Embed the texts that are not cached. Raises CallFailed."""
        keys = {text: content_hash(["embedding", text]) for text in dict.fromkeys(texts)}
        known = {text: row for text, key in keys.items() if (row := self._load(key)) is not None}
        new = [text for text in keys if text not in known]
        reply = await self.judge.embed(new) if new else JudgeReply([])
        vectors = dict(zip(new, reply.value, strict=True))
        for n, (text, vector) in enumerate(vectors.items()):  # the usage of the one call is stored with the first text
            self._store(keys[text], {"vector": _encode(vector)}, Usage() if n else reply.usage)
        vectors |= {text: _decode(row["vector"]) for text, row in known.items()}
        usage = sum_usage(reply.usage, *map(self._usage, known.values()))
        return JudgeReply([vectors[text] for text in texts], usage)

    def _load(self, key: str) -> dict[str, Any] | None:
        row = self.cache.get(key)
        return None if row is None else json.loads(row)

    def _store(self, key: str, answer: dict[str, Any], usage: Usage) -> None:
        row = answer | {"usage": list(usage), "payer": self.payer}
        self.cache[key] = json.dumps(row)

    def _usage(self, row: dict[str, Any]) -> Usage:
        return Usage(*row["usage"]) if row["payer"] == self.payer else Usage()


def _encode(vector: Sequence[float]) -> str:
    """Encode a vector without rounding."""
    return base64.b64encode(np.asarray(vector, dtype="<f8").tobytes()).decode("ascii")


def _decode(text: str) -> list[float]:
    return np.frombuffer(base64.b64decode(text), dtype="<f8").tolist()  # type: ignore[no-any-return]
