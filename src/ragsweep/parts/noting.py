"""Keep what a judge answered the moment it arrives, call by call: a verdict of several calls may never be finished.

Notes are looked up by what was asked. Beside an answer they hold what it cost and whose case paid for it, so that a
verdict that is taken up again counts all of its cost, and one that merely asks the same counts none of it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ragsweep.core.identity import content_hash
from ragsweep.core.types import Notes, Usage
from ragsweep.parts.judging import Form, Judge, Said, total
from ragsweep.services.calls import in_caller


@dataclass(frozen=True)
class Noted:
    """Ask a judge for one case what is not in the notes; ``payer`` names the case and the metric."""

    judge: Judge
    notes: Notes
    payer: str

    @property
    def samples(self) -> int:
        """How often everything is judged."""
        return self.judge.samples

    @property
    def fence(self) -> bool:
        """Whether text under judgement stands behind a fence."""
        return self.judge.fence

    def ready(self, metric: str, embeddings: bool) -> None:
        """Raise ConfigError where the judge cannot decide a metric."""
        self.judge.ready(metric, embeddings)

    async def ask(self, prompt: str, form: Form, sample: int, repetition: int) -> Said:
        """Answer a prompt, from the notes where they know it. Raises CallFailed."""
        key = content_hash([prompt, form.name, form.schema, sample, repetition])
        if (known := self._known(key)) is not None:
            return Said(form.read(known["text"]), self._paid(known), known["text"])
        said = await self.judge.ask(prompt, form, sample, repetition)
        self._note(key, {"text": said.text}, said.usage)
        return said

    async def embed(self, texts: Sequence[str]) -> Said:
        """Embed texts, those that the notes do not know. Raises CallFailed."""
        keys = {text: content_hash(["embedding", text]) for text in dict.fromkeys(texts)}
        known = {text: found for text, key in keys.items() if (found := self._known(key)) is not None}
        fresh = [text for text in keys if text not in known]
        said = await self.judge.embed(fresh) if fresh else Said([])
        vectors = dict(zip(fresh, said.value, strict=True))
        paid = said.usage
        for text, vector in vectors.items():  # what one call cost for all of them is noted beside the first
            self._note(keys[text], {"vector": _packed(vector)}, paid)
            paid = Usage()
        vectors |= {text: _unpacked(found["vector"]) for text, found in known.items()}
        usage = total(said.usage, *map(self._paid, known.values()))
        return Said([vectors[text] for text in texts], usage)

    def _known(self, key: str) -> dict[str, Any] | None:
        found = self.notes.get(key)
        return None if found is None else json.loads(found)

    def _note(self, key: str, answer: dict[str, Any], paid: Usage) -> None:
        row = answer | {"usage": list(paid), "payer": self.payer}
        in_caller(partial(self.notes.__setitem__, key, json.dumps(row)))

    def _paid(self, known: dict[str, Any]) -> Usage:
        return Usage(*known["usage"]) if known["payer"] == self.payer else Usage()


def _packed(vector: Sequence[float]) -> str:
    """Write a vector to the last bit."""
    return base64.b64encode(np.asarray(vector, dtype="<f8").tobytes()).decode("ascii")


def _unpacked(text: str) -> list[float]:
    return np.frombuffer(base64.b64decode(text), dtype="<f8").tolist()  # type: ignore[no-any-return]
